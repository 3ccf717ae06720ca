//! HTTP as a client: requests whose whole answer is taken.

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use hyper::Response;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use std::time::Duration;

/// The body of a request.
pub type Body = HttpRequestBody;

/// A client; without a timeout it waits as long as it takes.
///
/// # Errors
/// `Execution` if there is no TLS.
pub fn client(timeout: Option<Duration>) -> Result<HttpClient> {
    let options = ClientOptions::new().with_allow_http(true);
    let options = match timeout {
        Some(timeout) => options.with_timeout(timeout),
        None => options.with_timeout_disabled(),
    };
    let failed =
        |error: object_store::Error| -> DataFusionError { exec_datafusion_err!("no HTTP client: {error}") };
    ReqwestConnector::default().connect(&options).map_err(failed)
}

/// Sends a request, and takes the whole answer.
///
/// # Errors
/// If there is none, or it is cut off.
pub async fn send(client: &HttpClient, request: HttpRequest) -> Result<Response<Vec<u8>>, HttpError> {
    let (head, body) = client.execute(request).await?.into_parts();
    Ok(Response::from_parts(head, body.bytes().await?.into()))
}
