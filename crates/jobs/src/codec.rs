//! Records as bytes: a version, a digest, the record. What is damaged or of another version is refused.

use datafusion::common::{DataFusionError, Result, exec_err};
use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: &[u8; 4] = b"WBJS";
const VERSION: u16 = 3;
const HEADER: usize = 4 + 2 + 32;

/// A record as bytes.
///
/// # Errors
/// `Internal` if it cannot be encoded.
pub fn seal(record: &impl Serialize) -> Result<Vec<u8>> {
    let body = postcard::to_stdvec(record).map_err(|error| DataFusionError::Internal(error.to_string()))?;
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(blake3::hash(&body).as_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// The record of these bytes; `name` says which one it is.
///
/// # Errors
/// `Execution` if the bytes are damaged or of another version.
pub fn open<T: DeserializeOwned>(bytes: &[u8], name: &str) -> Result<T> {
    let Some((header, body)) = bytes.split_at_checked(HEADER).filter(|(header, _)| header.starts_with(MAGIC))
    else {
        return exec_err!("`{name}` is no record of a job, or was cut off");
    };
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != VERSION {
        return exec_err!(
            "`{name}` was written in version {version} of the format; this release reads version {VERSION}"
        );
    }
    if blake3::hash(body).as_bytes() != &header[6..] {
        return exec_err!("`{name}` is damaged: its digest does not match");
    }
    postcard::from_bytes(body).map_err(|error| DataFusionError::Execution(format!("`{name}`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_found_wherever_it_is() {
        let sealed = seal(&("epoch", 7_u64)).unwrap();
        assert_eq!(open::<(String, u64)>(&sealed, "x").unwrap(), ("epoch".to_string(), 7));
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(open::<(String, u64)>(&damaged, "x").is_err(), "byte {at}");
            assert!(open::<(String, u64)>(&sealed[..at], "x").is_err(), "cut at {at}");
        }
    }
}
