//! HTTP as a server: connections, and the bodies of requests.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Answers the requests that come to a listener, until it is dropped.
pub async fn listen<A>(listener: TcpListener, answer: impl Fn(Request<Incoming>) -> A + Send + Sync + 'static)
where
    A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let answer = Arc::new(answer);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that was lost before it was accepted is no loss to others.
                let Ok((stream, _)) = accepted else { continue };
                // Answers are small and waited for.
                let _ = stream.set_nodelay(true);
                let answer = Arc::clone(&answer);
                let service = service_fn(move |request| {
                    let answered = answer(request);
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                let serve = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move { _ = serve.await });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// The body of a request, if it is whole and no larger than this.
pub async fn read_body(request: Request<Incoming>, limit: usize) -> Option<Bytes> {
    let body = Limited::new(request.into_body(), limit).collect().await.ok()?;
    Some(body.to_bytes())
}
