//! Errors of services that do not answer: the same request may succeed later.

use datafusion::error::DataFusionError;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error;
use std::fmt;

/// A service did not answer.
#[derive(Debug)]
struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unavailable {}

/// The error of a service that does not answer, with this message.
///
/// ```
/// use whimbrel_sharded::error::{ErrorKind, unavailable};
///
/// let error = unavailable("`postgres://db`: connection refused".to_string());
/// assert_eq!(ErrorKind::of(&error), ErrorKind::Unavailable);
/// assert_eq!(error.message(), "`postgres://db`: connection refused");
/// ```
pub fn unavailable(message: String) -> DataFusionError {
    DataFusionError::External(Box::new(Unavailable(message)))
}

/// Whether an error, or what caused it, is of a service that does not answer.
pub fn is_unavailable(error: &(dyn Error + 'static)) -> bool {
    let is_cause = |error: &(dyn Error + 'static)| {
        error.is::<Unavailable>()
            || error.downcast_ref::<HttpError>().is_some_and(|error| is_of_connection(error.kind()))
            || error.downcast_ref::<object_store::Error>().is_some_and(is_of_busy_server)
    };
    let mut next = Some(error);
    while let Some(error) = next {
        if is_cause(error) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether a request got no answer.
fn is_of_connection(kind: HttpErrorKind) -> bool {
    use HttpErrorKind as K;
    matches!(kind, K::Connect | K::Request | K::Timeout | K::Interrupted)
}

/// Whether a server has refused a request because of its own state. The type of such an error is private.
fn is_of_busy_server(error: &object_store::Error) -> bool {
    let object_store::Error::Generic { source, .. } = error else { return false };
    let text = source.to_string();
    ["status code: 5", "status code: 429"].iter().any(|status| text.contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ObjectStoreExt;
    use object_store::aws::AmazonS3Builder;
    use object_store::path::Path;
    use object_store::{ClientOptions, RetryConfig};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// The error of a request to a server that gives this answer; without one, to nobody.
    fn error_of(answer: Option<&'static str>) -> DataFusionError {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        match answer {
            None => drop(listener),
            Some(answer) => {
                std::thread::spawn(move || {
                    let (mut connection, _) = listener.accept().unwrap();
                    let _ = connection.read(&mut [0; 4096]);
                    let _ = connection.write_all(answer.as_bytes());
                });
            }
        }
        let store = AmazonS3Builder::new()
            .with_endpoint(endpoint)
            .with_bucket_name("bucket")
            .with_access_key_id("key")
            .with_secret_access_key("secret")
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(store.get(&Path::from("object"))).unwrap_err().into()
    }

    #[test]
    fn servers_that_are_away_or_busy_are_unavailable() {
        for answer in [
            None,
            Some(""),
            Some("HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n"),
            Some("HTTP/1.1 500 Internal Error\r\ncontent-length: 0\r\n\r\n"),
            Some("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"),
        ] {
            let error = error_of(answer);
            assert!(is_unavailable(&error), "{answer:?}: {error}");
        }
    }

    #[test]
    fn what_does_not_pass_is_not() {
        for answer in [
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        ] {
            let error = error_of(Some(answer));
            assert!(!is_unavailable(&error), "{answer:?}: {error}");
        }
        assert!(!is_unavailable(&DataFusionError::Execution("status code: 503".to_string())));
    }
}
