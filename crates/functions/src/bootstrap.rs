//! What a function is: a loop over the invocations that the runtime API of AWS Lambda hands out.
//!
//! One process runs one invocation at a time. It ends when the service is gone, or ends it.

use crate::http::{self, Body};
use crate::protocol::Invocation;
use crate::tables::Tables;
use crate::task::TaskRunner;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_datafusion_err};
use hyper::{Method, Request, StatusCode};
use object_store::client::HttpClient;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use whimbrel_plan::References;
use whimbrel_sharded::runtime::Network;

/// The environment variable that names the address of the runtime API.
const API: &str = "AWS_LAMBDA_RUNTIME_API";

/// The header with the name of an invocation.
const REQUEST_ID: &str = "lambda-runtime-aws-request-id";

/// An error as a function service expects it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionError {
    error_type: &'static str,
    error_message: String,
}

/// Runs invocations until the service is gone.
///
/// # Errors
/// `Plan` if this process was not started by a function service; `Execution` once that is gone.
pub fn serve(references: Arc<dyn References>) -> Result<Infallible> {
    let Ok(address) = std::env::var(API) else {
        return Err(plan_datafusion_err!(
            "a function is started by a function service, which sets {API}: AWS Lambda, its emulator, or \
             wb.functions.start()"
        ));
    };
    let runtime = RuntimeApi {
        base: format!("http://{address}/2018-06-01/runtime"),
        client: http::client(None)?,
        network: Network::start()?,
    };
    let runner = match TaskRunner::new(references, Tables::of_process()) {
        Ok(runner) => runner,
        Err(error) => {
            runtime.post("init/error", &FunctionError::of("Runtime.InitError", &error))?;
            return Err(error);
        }
    };
    loop {
        let (id, payload) = runtime.next()?;
        match serde_json::from_slice::<Invocation>(&payload) {
            Ok(invocation) => {
                let answer = runner.run(&invocation);
                runtime.post(&format!("invocation/{id}/response"), &answer)?;
            }
            Err(error) => {
                let error = plan_datafusion_err!("no invocation of this release: {error}");
                runtime.post(&format!("invocation/{id}/error"), &FunctionError::of("Invalid", &error))?;
            }
        }
    }
}

impl FunctionError {
    fn of(kind: &'static str, error: &DataFusionError) -> FunctionError {
        FunctionError { error_type: kind, error_message: error.to_string() }
    }
}

/// The runtime API of a function service.
struct RuntimeApi {
    base: String,
    client: HttpClient,
    network: Network,
}

impl RuntimeApi {
    /// The next invocation: its name and its payload.
    fn next(&self) -> Result<(String, Vec<u8>)> {
        let request = Request::get(format!("{}/invocation/next", self.base)).body(Body::empty());
        let request = request.map_err(|error| plan_datafusion_err!("{error}"))?;
        let client = self.client.clone();
        self.network.wait(async move {
            let response = http::send(&client, request).await.map_err(gone)?;
            let id = response.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
            let id = id.ok_or_else(|| gone("it gives an invocation without a name"))?.to_string();
            Ok((id, response.into_body()))
        })
    }

    fn post(&self, path: &str, message: &impl Serialize) -> Result<()> {
        let body =
            serde_json::to_vec(message).map_err(|error| DataFusionError::Internal(error.to_string()))?;
        let request = Request::builder().method(Method::POST).uri(format!("{}/{path}", self.base));
        let request = request.body(Body::from(body)).map_err(|error| plan_datafusion_err!("{error}"))?;
        let client = self.client.clone();
        self.network.wait(async move {
            match http::send(&client, request).await.map_err(gone)?.status() {
                // The service has told the coordinator that the answer is too large.
                status if status.is_success() || status == StatusCode::PAYLOAD_TOO_LARGE => Ok(()),
                status => exec_err!("the function service refuses an answer: {status}"),
            }
        })
    }
}

fn gone(error: impl std::fmt::Display) -> DataFusionError {
    exec_datafusion_err!("the function service is gone: {error}")
}
