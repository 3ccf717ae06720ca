//! The metrics of a worker over HTTP, for Prometheus to fetch.

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

/// The text format of Prometheus.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Serves a text under `/metrics` until the network ends; the address that it listens on.
///
/// # Errors
/// `Execution` if the address cannot be listened on.
pub fn serve_metrics(
    network: &Handle,
    address: SocketAddr,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let failed =
        |error| DataFusionError::Execution(format!("metrics cannot be served on {address}: {error}"));
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let _guard = network.enter();
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    network.spawn(listen(listener, Arc::new(text)));
    Ok(bound)
}

/// Answers all connections.
async fn listen(listener: TcpListener, text: Arc<impl Fn() -> String + Send + Sync + 'static>) {
    loop {
        // A connection that was lost before it was accepted is no loss to others.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let text = Arc::clone(&text);
        let service = service_fn(move |request| {
            let answered = answer(&request, text.as_ref());
            async move { Ok::<_, Infallible>(answered) }
        });
        let mut connection = http1::Builder::new();
        connection.timer(TokioTimer::new());
        let connection = connection.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move { _ = connection.await });
    }
}

/// The answer to a request.
fn answer<B>(request: &Request<B>, text: &impl Fn() -> String) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, text()),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_string()),
        _ => (StatusCode::NOT_FOUND, "the metrics are under /metrics\n".to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
