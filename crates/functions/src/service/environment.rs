//! An environment: a process, and the runtime API that it asks for invocations.

use super::process::{Liveness, Process};
use super::server::{listen, read_body};
use super::{ServiceOptions, answer, failure};
use crate::protocol::PAYLOAD_LIMIT;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::{Arc, Mutex as SharedMutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::AbortHandle;

/// For how long an environment may start.
const START: Duration = Duration::from_secs(30);

/// How an invocation ended.
pub enum Ended {
    /// With an answer.
    Answered(Bytes),
    /// With an error of the function.
    Failed(Bytes),
    /// With its process.
    Died(String),
    /// It took too long.
    TimedOut,
}

/// An invocation on its way to the process.
struct Invocation {
    id: String,
    payload: Bytes,
    deadline: SystemTime,
}

/// Where the answer of the running invocation goes.
type Reply = SharedMutex<Option<oneshot::Sender<Ended>>>;

/// A process that runs one invocation at a time; dropping it ends the process.
pub struct Environment {
    process: Process,
    invocations: mpsc::Sender<Invocation>,
    api: Arc<RuntimeApi>,
    serving: AbortHandle,
    /// How many invocations there were.
    count: u64,
    /// When it was last used.
    pub used: Instant,
}

impl Environment {
    /// Starts an environment, and waits until it asks for its first invocation.
    ///
    /// # Errors
    /// A sentence if it does not.
    pub async fn start(options: &ServiceOptions) -> Result<Environment, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let (invocations, waiting) = mpsc::channel(1);
        let (ready, is_ready) = oneshot::channel();
        let api = Arc::new(RuntimeApi {
            name: options.name.clone(),
            waiting: Mutex::new(waiting),
            ready: SharedMutex::new(Some(ready)),
            reply: Reply::default(),
        });
        let served = Arc::clone(&api);
        let serve = listen(listener, move |request| Arc::clone(&served).handle(request));
        let serving = tokio::spawn(serve).abort_handle();
        let variables = [
            ("AWS_LAMBDA_RUNTIME_API", address.to_string()),
            ("AWS_LAMBDA_FUNCTION_NAME", options.name.clone()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", options.memory.to_string()),
        ];
        let process = Process::start(&options.command, options.memory, &variables);
        let process = process.inspect_err(|_| serving.abort())?;
        let mut liveness = process.liveness.clone();
        let (count, used) = (0, Instant::now());
        let environment = Environment { process, invocations, api, serving, count, used };
        let died = liveness.ended();
        tokio::select! {
            ready = is_ready => match ready {
                Ok(Ok(())) => Ok(environment),
                Ok(Err(message)) => Err(message),
                Err(_) => Err("the runtime API has ended".to_string()),
            },
            how = died => Err(format!("the function does not start: {how}")),
            () = tokio::time::sleep(START) => Err("the function does not ask for an invocation".to_string()),
        }
    }

    /// Whether its process lives.
    pub fn is_alive(&self) -> bool {
        self.process.liveness.is_alive()
    }

    /// Tells whether its process lives.
    pub fn liveness(&self) -> Liveness {
        self.process.liveness.clone()
    }

    /// The name of the last invocation.
    pub fn last_request(&self) -> String {
        format!("{}-{}", self.process.liveness.id(), self.count)
    }

    /// Runs an invocation, for at most this time.
    pub async fn invoke(&mut self, payload: Bytes, timeout: Duration) -> Ended {
        self.count += 1;
        self.used = Instant::now();
        let (reply, replied) = oneshot::channel();
        *self.api.reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        let invocation =
            Invocation { id: self.last_request(), payload, deadline: SystemTime::now() + timeout };
        if self.invocations.send(invocation).await.is_err() {
            return Ended::Died("its runtime API has ended".to_string());
        }
        let died = self.process.liveness.ended();
        tokio::select! {
            biased;
            reply = replied => reply.unwrap_or_else(|_| Ended::Died("the answer was lost".to_string())),
            how = died => Ended::Died(how),
            () = tokio::time::sleep(timeout) => Ended::TimedOut,
        }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The runtime API of one environment.
struct RuntimeApi {
    name: String,
    waiting: Mutex<mpsc::Receiver<Invocation>>,
    /// Told once, when the process has started, or why it has not.
    ready: SharedMutex<Option<oneshot::Sender<Result<(), String>>>>,
    reply: Reply,
}

impl RuntimeApi {
    async fn handle(self: Arc<RuntimeApi>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_string();
        let Some(path) = path.strip_prefix("/2018-06-01/runtime/") else {
            return answer(StatusCode::NOT_FOUND, Bytes::new());
        };
        let parts: Vec<&str> = path.split('/').collect();
        match (request.method(), parts.as_slice()) {
            (&Method::GET, ["invocation", "next"]) => self.next().await,
            (&Method::POST, ["invocation", _, "response"]) => {
                match read_body(request, PAYLOAD_LIMIT).await {
                    Some(body) => self.end(Ended::Answered(body)),
                    None => {
                        let text = format!("an answer has at most {PAYLOAD_LIMIT} bytes");
                        self.end(Ended::Failed(failure("Function.ResponseSizeTooLarge", &text)));
                        return answer(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new());
                    }
                }
                answer(StatusCode::ACCEPTED, Bytes::new())
            }
            (&Method::POST, ["invocation", _, "error"]) => {
                let body = read_body(request, PAYLOAD_LIMIT).await.unwrap_or_default();
                self.end(Ended::Failed(body));
                answer(StatusCode::ACCEPTED, Bytes::new())
            }
            (&Method::POST, ["init", "error"]) => {
                let body = read_body(request, PAYLOAD_LIMIT).await.unwrap_or_default();
                self.tell_ready(Err(String::from_utf8_lossy(&body).into_owned()));
                answer(StatusCode::ACCEPTED, Bytes::new())
            }
            _ => answer(StatusCode::NOT_FOUND, Bytes::new()),
        }
    }

    /// Hands out the next invocation; waits for it.
    async fn next(&self) -> Response<Full<Bytes>> {
        self.tell_ready(Ok(()));
        let Some(invocation) = self.waiting.lock().await.recv().await else {
            return answer(StatusCode::GONE, Bytes::new());
        };
        let deadline = invocation.deadline.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let arn = format!("arn:aws:lambda:local:000000000000:function:{}", self.name);
        let response = Response::builder()
            .header("lambda-runtime-aws-request-id", invocation.id)
            .header("lambda-runtime-deadline-ms", deadline.to_string())
            .header("lambda-runtime-invoked-function-arn", arn)
            .header("content-type", "application/json")
            .body(Full::new(invocation.payload));
        response.unwrap_or_else(|_| answer(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()))
    }

    fn tell_ready(&self, ready: Result<(), String>) {
        if let Some(waiting) = self.ready.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Whoever waited may have given up.
            let _ = waiting.send(ready);
        }
    }

    /// Ends the running invocation. A late answer to one that was given up goes nowhere.
    fn end(&self, ended: Ended) {
        if let Some(reply) = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = reply.send(ended);
        }
    }
}
