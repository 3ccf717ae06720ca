//! How deep messages are nested, before anything recurses over them.
//!
//! A message of protocol buffers does not say which of its fields are messages, so every field of bytes that
//! could be one counts. That is at least the true depth. Fields of text that look like messages count too,
//! and do so for a few levels only.

use datafusion::common::{Result, plan_err};

/// The deepest nesting that is read: an expression of [`MOST_LEVELS`](crate::depth::MOST_LEVELS) has up to
/// four messages a level.
const DEEPEST: usize = 4 * crate::depth::MOST_LEVELS;

/// Checks that no message in these bytes is nested too deeply.
///
/// # Errors
/// `Plan` if one is.
pub(super) fn check_nesting(bytes: &[u8]) -> Result<()> {
    // What is left to look at: a field and how deep it is.
    let mut left = vec![(bytes, 0)];
    while let Some((message, depth)) = left.pop() {
        if depth > DEEPEST {
            return plan_err!("the bytes of this plan are nested more than {DEEPEST} levels deep");
        }
        let fields = Fields(message);
        let inner: Vec<&[u8]> =
            fields.collect::<Option<Vec<_>>>().unwrap_or_default().into_iter().flatten().collect();
        left.extend(inner.into_iter().map(|field| (field, depth + 1)));
    }
    Ok(())
}

/// The fields of a message: the bytes of one that has any; `Some(None)` for a number; the iterator ends with
/// `None` inside where the bytes are no message.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Option<&'a [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    /// The next field; none if there is none of that form.
    fn field(&mut self) -> Option<Option<&'a [u8]>> {
        let tag = self.varint()?;
        match tag & 7 {
            0 => self.varint().map(|_| None),
            1 => self.take(8).map(|_| None),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.take(length).map(Some)
            }
            5 => self.take(4).map(|_| None),
            _ => None,
        }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes in a message.
    fn wrap(inner: &[u8]) -> Vec<u8> {
        let mut message = vec![0x0a];
        let mut length = inner.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(inner);
        message
    }

    #[test]
    fn deep_messages_are_refused() {
        let nested = |levels: usize| (0..levels).fold(vec![], |inner, _| wrap(&inner));
        assert!(check_nesting(&nested(DEEPEST)).is_ok());
        assert!(check_nesting(&nested(DEEPEST + 1)).is_err());
    }

    #[test]
    fn what_is_no_message_has_no_depth() {
        for bytes in [&b""[..], b"some text", &[0xff; 30], &[0x0a, 0x80]] {
            assert!(check_nesting(bytes).is_ok());
        }
    }
}
