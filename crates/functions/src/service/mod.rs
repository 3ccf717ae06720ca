//! Our own function service: functions on one's own machines, as AWS Lambda runs them.
//!
//! It speaks the same two protocols: a client invokes (the Invoke API), a function asks for its next
//! invocation (the Runtime API). Each environment is a process that runs one invocation at a time and stays
//! for the next one; a process that dies takes its invocation along. Limits are those of Lambda: how many run
//! at the same time, for how long, with how much memory, and how large payloads are.

mod environment;
mod process;
mod server;

use crate::protocol::PAYLOAD_LIMIT;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use environment::{Ended, Environment};
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode};
use process::Liveness;
use server::{listen, read_body};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use whimbrel_sharded::runtime::Network;

/// How long an environment without work is kept.
const IDLE: Duration = Duration::from_secs(300);

/// What a service runs, and its limits.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The program of a function, and its arguments.
    pub command: Vec<String>,
    /// The name of the function.
    pub name: String,
    /// How many invocations run at the same time.
    pub concurrency: usize,
    /// How many megabytes of memory a function has.
    pub memory: u32,
    /// For how long it may run.
    pub timeout: Duration,
    /// Where clients find the service; port 0 is any.
    pub listen: SocketAddr,
}

/// A function service; dropping it ends its functions.
pub struct FunctionService {
    address: SocketAddr,
    pool: Arc<Pool>,
    serving: AbortHandle,
    /// The thread that all of it runs on; the last to go.
    _network: Network,
}

impl FunctionService {
    /// Starts a service.
    ///
    /// # Errors
    /// `Plan` if an option is zero or missing; `Execution` if it cannot listen there.
    pub fn start(options: ServiceOptions) -> Result<FunctionService> {
        if options.command.is_empty() || options.concurrency == 0 || options.memory == 0 {
            return plan_err!(
                "a function service needs a command, memory, and room for one invocation at least"
            );
        }
        let network = Network::start()?;
        let wanted = options.listen;
        let (listener, address) = network.wait(async move {
            let bound = TcpListener::bind(wanted).await.and_then(|listener| {
                let address = listener.local_addr()?;
                Ok((listener, address))
            });
            bound.map_err(|error| exec_datafusion_err!("functions cannot listen on {wanted}: {error}"))
        })?;
        let pool = Arc::new(Pool { options, state: Mutex::default() });
        let invoked = Arc::clone(&pool);
        let serve = listen(listener, move |request| invoke(Arc::clone(&invoked), request));
        let serving = network.handle().spawn(serve).abort_handle();
        Ok(FunctionService { address, pool, serving, _network: network })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The processes of its environments that live.
    pub fn processes(&self) -> Vec<u32> {
        self.pool.lock().processes.iter().filter(|process| process.is_alive()).map(Liveness::id).collect()
    }
}

impl Drop for FunctionService {
    fn drop(&mut self) {
        self.serving.abort();
        let mut state = self.pool.lock();
        state.is_closed = true;
        state.idle.clear();
    }
}

/// The environments of a service.
struct Pool {
    options: ServiceOptions,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// Those that wait for an invocation, the last one that ran last.
    idle: Vec<Environment>,
    /// How many run an invocation.
    busy: usize,
    /// The processes that were started.
    processes: Vec<Liveness>,
    is_closed: bool,
}

impl Pool {
    fn lock(&self) -> std::sync::MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An environment that is free, or room for a new one; `None` if as many run as may.
    fn enter(&self) -> Option<Option<Environment>> {
        let mut state = self.lock();
        if state.busy >= self.options.concurrency || state.is_closed {
            return None;
        }
        state.busy += 1;
        // Those that have ended meanwhile are of no use.
        state.idle.retain(Environment::is_alive);
        Some(state.idle.pop())
    }

    /// Ends an invocation; its environment stays for others if it can.
    fn leave(self: &Arc<Pool>, environment: Option<Environment>) {
        let mut state = self.lock();
        state.busy -= 1;
        match environment {
            Some(environment) if !state.is_closed => {
                let since = environment.used;
                state.idle.push(environment);
                let pool = Arc::clone(self);
                tokio::spawn(async move {
                    tokio::time::sleep(IDLE).await;
                    pool.lock().idle.retain(|idle| idle.used != since);
                });
            }
            _ => {}
        }
    }
}

/// What comes of an invocation.
struct Outcome {
    /// Whether the function failed.
    failed: bool,
    payload: Bytes,
    /// The last lines of the log.
    report: String,
}

/// Answers one request of the Invoke API.
async fn invoke(pool: Arc<Pool>, request: Request<hyper::body::Incoming>) -> Response<Full<Bytes>> {
    let path = format!("/2015-03-31/functions/{}/invocations", pool.options.name);
    if request.method() != Method::POST || request.uri().path() != path {
        let text = format!("this service has the function {} only", pool.options.name);
        return error(StatusCode::NOT_FOUND, "ResourceNotFoundException", &text);
    }
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_string);
    let (kind, wants_log) =
        (header("x-amz-invocation-type"), header("x-amz-log-type").as_deref() == Some("Tail"));
    let Some(payload) = read_body(request, PAYLOAD_LIMIT).await else {
        let text = format!("a payload has at most {PAYLOAD_LIMIT} bytes");
        return error(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", &text);
    };
    if serde_json::from_slice::<serde::de::IgnoredAny>(&payload).is_err() {
        return error(StatusCode::BAD_REQUEST, "InvalidRequestContentException", "the payload is no JSON");
    }
    if kind.as_deref() == Some("DryRun") {
        return answer(StatusCode::NO_CONTENT, Bytes::new());
    }
    let Some(environment) = pool.enter() else {
        return error(StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsException", "Rate Exceeded.");
    };
    // An invocation goes on when its client is gone.
    let running = tokio::spawn(run(Arc::clone(&pool), environment, payload));
    if kind.as_deref() == Some("Event") {
        return answer(StatusCode::ACCEPTED, Bytes::new());
    }
    let Ok(outcome) = running.await else {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "ServiceException", "the service has failed");
    };
    let mut response = answer(StatusCode::OK, outcome.payload);
    if outcome.failed {
        response.headers_mut().insert("x-amz-function-error", "Unhandled".parse().expect("a header"));
    }
    if wants_log && let Ok(log) = STANDARD.encode(outcome.report).parse() {
        response.headers_mut().insert("x-amz-log-result", log);
    }
    response
}

/// Runs an invocation in an environment, a new one if there is none.
async fn run(pool: Arc<Pool>, environment: Option<Environment>, payload: Bytes) -> Outcome {
    let began = Instant::now();
    let (environment, init) = match environment {
        Some(environment) => (Ok(environment), None),
        None => {
            let started = Environment::start(&pool.options).await;
            if let Ok(environment) = &started {
                let mut state = pool.lock();
                state.processes.retain(Liveness::is_alive);
                state.processes.push(environment.liveness());
            }
            (started, Some(began.elapsed()))
        }
    };
    let mut environment = match environment {
        Ok(environment) => environment,
        Err(message) => {
            pool.leave(None);
            return Outcome {
                failed: true,
                payload: failure("Runtime.InitError", &message),
                report: String::new(),
            };
        }
    };
    let began = Instant::now();
    let ended = environment.invoke(payload, pool.options.timeout).await;
    let report = report(&environment.last_request(), began.elapsed(), init, pool.options.memory);
    let (failed, payload, is_alive) = match ended {
        Ended::Answered(payload) => (false, payload, true),
        Ended::Failed(payload) => (true, payload, true),
        Ended::Died(message) => (true, failure("Runtime.ExitError", &message), false),
        Ended::TimedOut => {
            let message = format!("Task timed out after {:.2} seconds", pool.options.timeout.as_secs_f64());
            (true, failure("Sandbox.Timedout", &message), false)
        }
    };
    pool.leave(is_alive.then_some(environment));
    Outcome { failed, payload, report }
}

/// The line of the log that says what is billed: the start of an environment, too.
fn report(id: &str, took: Duration, init: Option<Duration>, memory: u32) -> String {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let billed = milliseconds(took + init.unwrap_or_default()).ceil();
    let init = init.map(|init| format!("\tInit Duration: {:.2} ms", milliseconds(init))).unwrap_or_default();
    format!(
        "REPORT RequestId: {id}\tDuration: {:.2} ms\tBilled Duration: {billed} ms\tMemory Size: {memory} MB{init}\t\n",
        milliseconds(took)
    )
}

fn failure(kind: &str, message: &str) -> Bytes {
    serde_json::json!({"errorType": kind, "errorMessage": message}).to_string().into()
}

fn answer(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

fn error(status: StatusCode, kind: &'static str, message: &str) -> Response<Full<Bytes>> {
    let body = serde_json::json!({"Type": "User", "Message": message}).to_string();
    let mut response = answer(status, body.into());
    response.headers_mut().insert("x-amzn-errortype", kind.parse().expect("a header"));
    response
}
