//! Frames over Arrow Flight: a server for the backup of a worker, and streams of frames for its consumers.

use crate::activity::{Activities, JobActivity};
use crate::backup::{Backup, QueueName, next_frame};
use crate::identity::Identity;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use datafusion::common::{DataFusionError, Result};
use futures::stream::{self, BoxStream, StreamExt};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use whimbrel_sharded::runtime::Frame;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a connection is tried that is silent, and how long the answer may take: the other machine may be
/// gone without a word.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// How many bytes of a stream are on their way before the consumer has taken them.
const WINDOW_BYTES: u32 = 1 << 20;

/// The same of all streams of a connection. A consumer may need one stream while it leaves others for later,
/// so no stream may take the room of another.
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// The action that says what a job does on a worker: its body is the name of the job.
const ACTIVITY: &str = "activity";

/// How long a worker has to say what a job does.
const ACTIVITY_TIMEOUT: Duration = Duration::from_secs(5);

/// What a consumer asks for: a queue, from a frame on.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    job: String,
    queue: u64,
    from: u64,
}

/// Serves the frames of a backup, and what jobs do here, until the network ends; the address that it listens
/// on.
///
/// # Errors
/// `Execution` if the address cannot be listened on.
pub fn serve(
    network: &Handle,
    (backup, activities): (Arc<Backup>, Arc<Activities>),
    address: SocketAddr,
    identity: &Identity,
) -> Result<SocketAddr> {
    let failed = |error| DataFusionError::Execution(format!("a worker cannot listen on {address}: {error}"));
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let _guard = network.enter();
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    let service =
        FlightServiceServer::new(FrameServer { backup, activities }).max_encoding_message_size(usize::MAX);
    let builder = Server::builder().tls_config(identity.server());
    let server = builder
        .map_err(|error| DataFusionError::Execution(format!("the identity of the cluster: {error}")))?
        // A stream lasts as long as a query, and one that had to wait for others could wait for itself.
        .max_concurrent_streams(u32::MAX)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .add_service(service);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    network.spawn(server.serve_with_incoming(incoming));
    Ok(bound)
}

/// Why there are no frames of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The worker cannot be reached.
    Worker,
    /// The worker does not have the queue, or not yet.
    Queue,
    /// The worker has given up frames that were read once.
    Frames,
}

/// Connections to other workers, by their addresses.
pub struct Connections {
    identity: Identity,
    channels: Mutex<HashMap<String, Channel>>,
}

impl Connections {
    /// Connections of a process of the cluster with this identity.
    pub fn new(identity: Identity) -> Connections {
        Connections { identity, channels: Mutex::default() }
    }

    /// The frames of a queue of another worker, from a number on. It ends if the connection does.
    ///
    /// # Errors
    /// What is missing.
    pub async fn frames(
        &self,
        address: &str,
        name: &QueueName,
        from: u64,
    ) -> Result<BoxStream<'static, Result<Frame>>, Missing> {
        let wanted = Wanted { job: name.job.clone(), queue: name.queue as u64, from };
        let ticket = postcard::to_stdvec(&wanted).map_err(|_| Missing::Queue)?;
        let channel = self.channel(address).map_err(|_| Missing::Worker)?;
        let mut client = FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let answer =
            client.do_get(Ticket { ticket: ticket.into() }).await.map_err(|status| match status.code() {
                Code::DataLoss => Missing::Frames,
                Code::NotFound | Code::Aborted | Code::InvalidArgument => Missing::Queue,
                _ => Missing::Worker,
            })?;
        let address = address.to_string();
        Ok(answer.into_inner().map(move |data| frame(&address, data)).boxed())
    }

    /// What a job does on another worker.
    ///
    /// # Errors
    /// What is missing.
    pub async fn activity(&self, address: &str, job: &str) -> Result<JobActivity, Missing> {
        let channel = self.channel(address).map_err(|_| Missing::Worker)?;
        let mut client = FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let action = Action::new(ACTIVITY, job.as_bytes().to_vec());
        let ask = async {
            let mut answers = client.do_action(action).await.ok()?.into_inner();
            let answer = answers.next().await?.ok()?;
            postcard::from_bytes(&answer.body).ok()
        };
        timeout(ACTIVITY_TIMEOUT, ask).await.ok().flatten().ok_or(Missing::Worker)
    }

    /// A connection, which is made when it is used, and again when it was lost.
    fn channel(&self, address: &str) -> Result<Channel> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("https://{address}"))
            .and_then(|endpoint| endpoint.tls_config(self.identity.client()));
        let endpoint = endpoint.map_err(|error| DataFusionError::Execution(format!("{address}: {error}")))?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(WINDOW_BYTES)
            .tcp_nodelay(true)
            .connect_lazy();
        channels.insert(address.to_string(), channel.clone());
        Ok(channel)
    }
}

/// The frame of what came over the network.
fn frame(address: &str, data: std::result::Result<FlightData, Status>) -> Result<Frame> {
    let data = data.map_err(|status| failed(address, &status))?;
    Frame::from_bytes(&data.app_metadata, data.data_body)
}

fn failed(address: &str, status: &Status) -> DataFusionError {
    DataFusionError::Execution(format!("the worker at {address}: {}", status.message()))
}

/// Serves the frames of a backup, and what jobs do.
struct FrameServer {
    backup: Arc<Backup>,
    activities: Arc<Activities>,
}

/// A stream of answers.
type Answers<T> = BoxStream<'static, std::result::Result<T, Status>>;

type Answer<T> = std::result::Result<Response<T>, Status>;

fn not_offered<T>() -> Answer<T> {
    Err(Status::unimplemented("a worker gives frames of queues and the activity of jobs, and nothing else"))
}

#[tonic::async_trait]
impl FlightService for FrameServer {
    type DoGetStream = Answers<FlightData>;
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let wanted: Wanted = postcard::from_bytes(&request.into_inner().ticket)
            .map_err(|error| Status::invalid_argument(format!("no ticket: {error}")))?;
        let queue = usize::try_from(wanted.queue).map_err(|_| Status::invalid_argument("no queue"))?;
        let name = QueueName { job: wanted.job, queue };
        let Some(queue) = self.backup.wait_for_queue(&name).await else {
            return Err(Status::not_found(format!("queue {} of job {} is not here", name.queue, name.job)));
        };
        if !queue.keeps_from(wanted.from) {
            return Err(Status::data_loss(format!("the frames from {} on were read before", wanted.from)));
        }
        let length = queue.length();
        let frames =
            stream::unfold((queue, length, wanted.from), |(queue, mut length, sequence)| async move {
                let frame = next_frame(&queue, &mut length, sequence).await;
                let data = frame
                    .and_then(Frame::into_bytes)
                    .map(|(header, body)| FlightData::new().with_app_metadata(header).with_data_body(body));
                let data = data.map_err(|error| Status::aborted(error.message().into_owned()));
                Some((data, (queue, length, sequence + 1)))
            });
        Ok(Response::new(frames.boxed()))
    }

    async fn handshake(&self, _: Request<Streaming<HandshakeRequest>>) -> Answer<Self::HandshakeStream> {
        not_offered()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        not_offered()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        not_offered()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        not_offered()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        not_offered()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        not_offered()
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        not_offered()
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        let action = request.into_inner();
        if action.r#type != ACTIVITY {
            return not_offered();
        }
        let job = String::from_utf8(action.body.into()).map_err(|_| Status::invalid_argument("no job"))?;
        let activities = Arc::clone(&self.activities);
        // Operators at work are waited for.
        let activity = tokio::task::spawn_blocking(move || activities.of_job(&job)).await;
        let activity = activity.map_err(|error| Status::internal(error.to_string()))?;
        let body = postcard::to_stdvec(&activity).map_err(|error| Status::internal(error.to_string()))?;
        let answer = arrow_flight::Result { body: body.into() };
        Ok(Response::new(stream::once(async { Ok(answer) }).boxed()))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
        not_offered()
    }
}
