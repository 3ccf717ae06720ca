//! Invokes functions: one HTTP request each, signed where the service asks for that.

use crate::http::{self, Body};
use crate::protocol::{Answer, Invocation};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use futures::future::BoxFuture;
use hyper::{HeaderMap, Request, StatusCode};
use object_store::aws::{AmazonS3Builder, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A function of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionAddress {
    /// The name of the function.
    pub name: String,
    /// The addresses of the services; none for AWS Lambda, in the region of the environment. Of several, each
    /// runs one invocation at a time.
    pub endpoints: Vec<String>,
}

/// Invokes functions: those of AWS Lambda and of our own service, or of any other.
pub trait Invoke: Send + Sync {
    /// Invokes a function, and waits for its answer. The invocation goes on if nobody waits any more.
    fn invoke(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, Result<Invoked, InvokeError>>;
}

impl Invoke for Invoker {
    fn invoke(
        self: Arc<Invoker>,
        invocation: Invocation,
    ) -> BoxFuture<'static, Result<Invoked, InvokeError>> {
        Box::pin(Invoker::invoke(self, invocation))
    }
}

/// Invokes one function.
pub struct Invoker {
    client: HttpClient,
    urls: Vec<String>,
    /// Which of several services are free.
    free: Mutex<Vec<usize>>,
    /// How many of them are; of one service, as many as there may be.
    permits: Semaphore,
    signer: Option<Signer>,
}

struct Signer {
    credentials: AwsCredentialProvider,
    region: String,
}

/// An invocation that was answered.
pub struct Invoked {
    /// The answer.
    pub answer: Answer,
    /// What the service says it bills: milliseconds, and the megabytes of memory.
    pub billed: Option<(u64, u64)>,
}

/// Why an invocation has no answer.
#[derive(Debug)]
pub enum InvokeError {
    /// The service runs as many as it may.
    Throttled,
    /// The function died, or its answer was lost.
    Lost(String),
    /// The service cannot be reached.
    Unreachable(String),
    /// It will not work at any time.
    Refused(DataFusionError),
}

impl Invoker {
    /// An invoker. A function takes at most this time.
    ///
    /// # Errors
    /// `Plan` if no region is known; `Execution` if there is no HTTP client.
    pub fn new(function: &FunctionAddress, timeout: Duration) -> Result<Invoker> {
        let region = || {
            let set = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| std::env::var(name).ok());
            set.ok_or_else(|| {
                plan_datafusion_err!("no region of AWS Lambda is known; set AWS_REGION, or give an endpoint")
            })
        };
        let endpoints = match function.endpoints.as_slice() {
            [] => vec![format!("https://lambda.{}.amazonaws.com", region()?)],
            endpoints => endpoints.to_vec(),
        };
        // A service on one's own machine knows no credentials.
        let signer = match endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
            true => Some(Signer { credentials: credentials()?, region: region()? }),
            false => None,
        };
        let url = |endpoint: &String| {
            let endpoint = endpoint.trim_end_matches('/');
            format!("{endpoint}/2015-03-31/functions/{}/invocations", function.name)
        };
        let urls: Vec<String> = endpoints.iter().map(url).collect();
        let permits = if urls.len() > 1 { urls.len() } else { Semaphore::MAX_PERMITS };
        // The connection is lost a little later than the function would be ended.
        Ok(Invoker {
            client: http::client(Some(timeout + Duration::from_secs(30)))?,
            free: Mutex::new((0..urls.len()).collect()),
            permits: Semaphore::new(permits),
            urls,
            signer,
        })
    }

    /// Invokes the function, and waits for its answer. The invocation goes on if nobody waits any more: a
    /// service that runs one at a time is not free before it has ended.
    ///
    /// # Errors
    /// As [`InvokeError`] says.
    pub async fn invoke(self: Arc<Invoker>, invocation: Invocation) -> Result<Invoked, InvokeError> {
        let invoked = tokio::spawn(async move {
            let _permit =
                self.permits.acquire().await.map_err(|error| InvokeError::Lost(error.to_string()))?;
            let service = match self.urls.len() {
                1 => None,
                _ => self.free.lock().unwrap_or_else(PoisonError::into_inner).pop(),
            };
            let invoked = self.invoke_at(&self.urls[service.unwrap_or_default()], &invocation).await;
            self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(service);
            invoked
        });
        invoked.await.unwrap_or_else(|error| Err(InvokeError::Lost(error.to_string())))
    }

    async fn invoke_at(&self, url: &str, invocation: &Invocation) -> Result<Invoked, InvokeError> {
        let refused = |error: &dyn std::fmt::Display| {
            InvokeError::Refused(plan_datafusion_err!("the function at {url} cannot be invoked: {error}"))
        };
        let payload = serde_json::to_vec(invocation).map_err(|error| refused(&error))?;
        let http = Request::post(url).header("x-amz-log-type", "Tail").body(Body::from(payload));
        let mut http = http.map_err(|error| refused(&error))?;
        if let Some(signer) = &self.signer {
            let credential = signer.credentials.get_credential().await.map_err(|error| refused(&error))?;
            AwsAuthorizer::new(&credential, "lambda", &signer.region).authorize(&mut http, None);
        }
        let response = http::send(&self.client, http).await.map_err(|error| match error.kind() {
            HttpErrorKind::Connect => {
                InvokeError::Unreachable(format!("no function service answers at {url}: {error}"))
            }
            _ => InvokeError::Lost(error.to_string()),
        })?;
        let text = || String::from_utf8_lossy(response.body());
        match response.status() {
            StatusCode::TOO_MANY_REQUESTS => return Err(InvokeError::Throttled),
            status if status.is_server_error() => {
                return Err(InvokeError::Lost(format!("the function service answers {status}: {}", text())));
            }
            status if !status.is_success() => return Err(refused(&format!("{status}: {}", text()))),
            _ => {}
        }
        match serde_json::from_slice(response.body()) {
            Ok(answer) if !response.headers().contains_key("x-amz-function-error") => {
                Ok(Invoked { answer, billed: billed(response.headers()) })
            }
            _ => Err(InvokeError::Lost(text().chars().take(500).collect())),
        }
    }
}

/// The credentials of the environment, or the role of the machine.
fn credentials() -> Result<AwsCredentialProvider> {
    let builder = AmazonS3Builder::from_env().with_bucket_name("none");
    let store = builder.build().map_err(|error| plan_datafusion_err!("no credentials of AWS: {error}"))?;
    Ok(store.credentials().clone())
}

/// The milliseconds that are billed and the memory, from the report of an invocation.
fn billed(headers: &HeaderMap) -> Option<(u64, u64)> {
    let log = STANDARD.decode(headers.get("x-amz-log-result")?.as_bytes()).ok()?;
    let log = String::from_utf8_lossy(&log);
    let report = log.lines().rev().find(|line| line.starts_with("REPORT"))?;
    let number = |name: &str| -> Option<u64> {
        let (_, rest) = report.split_once(name)?;
        rest.trim_start().split(' ').next()?.parse().ok()
    };
    Some((number("Billed Duration:")?, number("Memory Size:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_say_what_is_billed() {
        let report = "START RequestId: a\nREPORT RequestId: a\tDuration: 12.30 ms\tBilled Duration: 63 ms\t\
                      Memory Size: 3008 MB\tMax Memory Used: 88 MB\tInit Duration: 50.00 ms\t\n";
        let mut headers = HeaderMap::new();
        assert_eq!(billed(&headers), None);
        headers.insert("x-amz-log-result", STANDARD.encode(report).parse().unwrap());
        assert_eq!(billed(&headers), Some((63, 3008)));
    }
}
