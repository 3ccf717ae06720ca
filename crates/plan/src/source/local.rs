//! Places that are written to: a path of this machine, and not a URL, which would become a folder of its
//! name.

use super::redacted;
use datafusion::common::{Result, plan_err};
use std::path::Path;

/// The path at which files are written here; `file://` before it is left out.
///
/// ```
/// use whimbrel_plan::source::local_path;
///
/// assert_eq!(local_path("file:///tmp/x")?, std::path::Path::new("/tmp/x"));
/// assert!(local_path("s3://bucket/x").is_err());
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
///
/// # Errors
/// `Plan` if it is a URL.
pub fn local_path(place: &str) -> Result<&Path> {
    let path = place.strip_prefix("file://").unwrap_or(place);
    if has_scheme(path) {
        return plan_err!(
            "`{}` is a URL, and results are written to files and folders of this machine here; write to a \
             path and upload the files, or let a job write to the object store (`run(to=…)`)",
            redacted(path)
        );
    }
    Ok(Path::new(path))
}

/// Whether a text begins as a URL does. One letter is a drive of Windows; one slash is a slip.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(":/") else { return false };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.len() > 1 && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_no_place_to_write() {
        for url in ["s3://bucket/x", "s3:/bucket/x", "http://ann:s3cret@h/x", "S3://b", "file://s3://b"] {
            let error = local_path(url).unwrap_err().to_string();
            assert!(error.contains("is a URL") && !error.contains("s3cret"), "{error}");
        }
        for path in ["x", "./s3:/x", "/tmp/a:/b", "C:/x", "a:b", "out/ a:/b", ""] {
            assert_eq!(local_path(path).unwrap(), Path::new(path));
        }
        assert_eq!(local_path("file:///tmp/x").unwrap(), Path::new("/tmp/x"));
    }
}
