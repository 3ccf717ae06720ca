//! Counts requests to an object store where they are sent, so that those that a client repeats by itself are
//! counted too: each of them is billed. Says when all bytes of a request have been sent.

use crate::usage::Usage;
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, PutPayload};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// For so long after it has refused a request, a store is not asked for anything twice.
const THROTTLED: Duration = Duration::from_secs(2);

/// Told once all bytes of a request have been sent: an extension of its options.
#[derive(Debug, Clone, Default)]
pub struct BodySent(pub Arc<Notify>);

tokio::task_local! {
    /// The meter of the query that this task makes requests for.
    static QUERY: Arc<Meter>;
}

/// What has been asked of an object store, or by a query.
#[derive(Debug, Default)]
pub struct Meter {
    gets: AtomicU64,
    puts: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    hedged: AtomicU64,
    /// When the store last said that it is asked too much.
    throttled: Mutex<Option<Instant>>,
}

impl Meter {
    /// What has been counted.
    pub fn usage(&self) -> Usage {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Usage {
            gets: load(&self.gets),
            puts: load(&self.puts),
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            hedged: load(&self.hedged),
            ..Usage::default()
        }
    }

    /// Makes requests for a query, whose meter this is: they are counted here and by the meter of the store.
    pub async fn count_requests<F: Future>(self: &Arc<Meter>, requests: F) -> F::Output {
        QUERY.scope(Arc::clone(self), requests).await
    }

    /// Counts by the meter of the store, and by that of the query.
    fn add(&self, count: impl Fn(&Meter)) {
        count(self);
        // A request that is made for no query has no other meter.
        let _ = QUERY.try_with(|query| count(query));
    }

    /// Counts a request that reads.
    pub fn count_get(&self) {
        self.add(|meter| add(&meter.gets, 1));
    }

    /// Counts bytes that were read.
    pub fn count_read(&self, bytes: usize) {
        self.add(|meter| add(&meter.read_bytes, bytes));
    }

    /// Counts a request that writes so many bytes, or lists objects, which costs as much.
    pub fn count_put(&self, bytes: usize) {
        self.add(|meter| {
            add(&meter.puts, 1);
            add(&meter.written_bytes, bytes);
        });
    }

    /// Counts a request that was sent a second time.
    pub fn count_duplicate(&self) {
        self.add(|meter| add(&meter.hedged, 1));
    }

    /// Whether the store has refused requests lately.
    pub fn is_throttled(&self) -> bool {
        let throttled = self.throttled.lock().unwrap_or_else(PoisonError::into_inner);
        throttled.is_some_and(|at| at.elapsed() < THROTTLED)
    }

    fn set_throttled(&self) {
        *self.throttled.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Counts a request by what is billed for it. Removing is free.
    fn count(&self, request: &HttpRequest) {
        let query = request.uri().query().unwrap_or_default();
        match *request.method() {
            Method::DELETE => {}
            Method::POST if query.contains("delete") => {}
            Method::GET if query.contains("list-type") => self.count_put(0),
            Method::GET | Method::HEAD => self.count_get(),
            _ => self.count_put(request.body().content_length()),
        }
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// Connects clients whose requests are counted.
#[derive(Debug)]
pub struct MeteredConnector(pub Arc<Meter>);

impl HttpConnector for MeteredConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(MeteredService { client, meter: Arc::clone(&self.0) }))
    }
}

#[derive(Debug)]
struct MeteredService {
    client: HttpClient,
    meter: Arc<Meter>,
}

#[async_trait]
impl HttpService for MeteredService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.meter.count(&request);
        let is_get = request.method() == Method::GET;
        let request = match request.extensions().get::<BodySent>().cloned() {
            Some(sent) => with_sent_signal(request, sent).await?,
            None => request,
        };
        let response = self.client.execute(request).await?;
        if matches!(response.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            self.meter.set_throttled();
        }
        Ok(if is_get { self.with_counted_body(response) } else { response })
    }
}

impl MeteredService {
    /// The response, whose bytes are counted as they come.
    fn with_counted_body(&self, response: HttpResponse) -> HttpResponse {
        let meter = Arc::clone(&self.meter);
        let (head, body) = response.into_parts();
        let counted = body.map_frame(move |frame| {
            meter.count_read(frame.data_ref().map_or(0, bytes::Bytes::len));
            frame
        });
        HttpResponse::from_parts(head, HttpResponseBody::new(counted))
    }
}

/// The same request, whose client lets go of its last bytes when they have been sent.
async fn with_sent_signal(request: HttpRequest, sent: BodySent) -> Result<HttpRequest, HttpError> {
    let (head, mut body) = request.into_parts();
    let mut pieces: Vec<Bytes> = Vec::new();
    while let Some(frame) = body.frame().await {
        pieces.extend(frame?.into_data());
    }
    if let Some(bytes) = pieces.pop() {
        pieces.push(Bytes::from_owner(SignalledBytes { bytes, sent }));
    }
    Ok(HttpRequest::from_parts(head, HttpRequestBody::from(pieces.into_iter().collect::<PutPayload>())))
}

/// Bytes that tell when they are dropped.
struct SignalledBytes {
    bytes: Bytes,
    sent: BodySent,
}

impl AsRef<[u8]> for SignalledBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SignalledBytes {
    fn drop(&mut self) {
        self.sent.0.notify_one();
    }
}
