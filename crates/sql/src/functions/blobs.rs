//! Blobs as texts: a byte that is no plain letter is written as `\x` and two hexadecimal digits, as in
//! DuckDB.
//!
//! ```sql
//! select '\xAB\x00c'::blob;         -- three bytes
//! select unhex('ab0063')::varchar;  -- \xAB\x00c
//! ```
//!
//! Invariant: what is written is read back as it was. A letter beyond ASCII is read as its bytes in UTF-8.

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

/// The function that reads blobs from texts.
pub(crate) fn blob_of_text() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| of_text("blob_of_text", blobs));
    Arc::clone(&FUNCTION)
}

/// The function that reads blobs from texts; what is not written as one is null.
pub(crate) fn blob_of_text_or_null() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_text("blob_of_text_or_null", blobs_or_null));
    Arc::clone(&FUNCTION)
}

/// A function from texts to blobs.
fn of_text(name: &'static str, compute: fn(&[ArrayRef]) -> Result<ArrayRef>) -> Arc<ScalarUDF> {
    let any = Signature::any(1, Volatility::Immutable);
    Mapped::function(name, any, |_| Ok(DataType::Binary), compute)
}

/// The blobs of texts.
fn blobs(texts: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = cast(&texts[0], &DataType::Utf8)?;
    let blobs = texts.as_string::<i32>().iter().map(|text| text.map(read).transpose());
    Ok(Arc::new(blobs.collect::<Result<BinaryArray>>()?))
}

/// The blobs of texts, null where a text is none.
fn blobs_or_null(texts: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = cast(&texts[0], &DataType::Utf8)?;
    let blobs = texts.as_string::<i32>().iter().map(|text| text.and_then(|text| read(text).ok()));
    Ok(Arc::new(blobs.collect::<BinaryArray>()))
}

/// The bytes that a text stands for.
///
/// # Errors
/// `Execution` if two hexadecimal digits do not follow `\x`, or a backslash stands alone.
fn read(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('\\');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let digits = part.strip_prefix('x').and_then(|part| part.split_at_checked(2));
        let byte = digits.filter(|(digits, _)| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some((digits, rest)) = byte else {
            return exec_err!(
                "{text:?} is no blob: a backslash begins a byte, as \\xAB; a backslash itself is \\x5C"
            );
        };
        bytes.extend(u8::from_str_radix(digits, 16));
        bytes.extend_from_slice(rest.as_bytes());
    }
    Ok(bytes)
}

/// The text of a blob.
pub(super) fn written(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' | b'\'' | b'"' | ..b' ' | 0x7F.. => {
                // Writing to a string does not fail.
                let _ = write!(text, "\\x{byte:02X}");
            }
            letter => text.push(char::from(*letter)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(read(&written(&all)).unwrap(), all);
        assert_eq!(written(b"a b\xAB\0'\"\\~\x7f"), r"a b\xAB\x00\x27\x22\x5C~\x7F");
        assert_eq!(read("ä\\x41").unwrap(), "äA".as_bytes());
    }

    #[test]
    fn other_backslashes_are_refused() {
        for text in ["\\", "a\\b", "\\x", "\\x4", "\\xZZ", "\\X41", "\\xä", "\\x4ä", "\\\\"] {
            assert!(read(text).unwrap_err().to_string().contains("is no blob"), "{text}");
        }
    }
}
