//! Patterns of texts with more than one literal part, as `'%special%requests%'`.
//!
//! Arrow's kernel makes a regular expression of such a pattern. Here its parts are searched one after the
//! other, and most texts do not have the first.

use datafusion::arrow::array::{Array, ArrayAccessor, AsArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::DataType;
use memchr::memmem::Finder;

/// A pattern whose literal parts have any text between them.
#[derive(Debug)]
pub(super) struct Pattern {
    /// How a text begins.
    start: Vec<u8>,
    /// What follows somewhere, in this order.
    middle: Vec<Finder<'static>>,
    /// How it ends.
    end: Vec<u8>,
}

impl Pattern {
    /// The pattern of a `like`; none if it has `_` or `\\`, or a single part, which Arrow's kernels find as
    /// fast.
    pub fn of(pattern: &str) -> Option<Pattern> {
        if pattern.contains(['_', '\\']) {
            return None;
        }
        let (start, rest) = pattern.split_once('%')?;
        let (middle, end) = rest.rsplit_once('%').unwrap_or(("", rest));
        let middle: Vec<&str> = middle.split('%').filter(|part| !part.is_empty()).collect();
        let parts = middle.len() + usize::from(!start.is_empty()) + usize::from(!end.is_empty());
        (parts > 1).then(|| Pattern {
            start: start.as_bytes().to_vec(),
            middle: middle.into_iter().map(|part| Finder::new(part).into_owned()).collect(),
            end: end.as_bytes().to_vec(),
        })
    }

    /// Which values it matches; none if they are no texts.
    pub fn matches(&self, values: &dyn Array) -> Option<BooleanBuffer> {
        match values.data_type() {
            DataType::Utf8 => Some(self.matches_of(values.as_string::<i32>())),
            DataType::LargeUtf8 => Some(self.matches_of(values.as_string::<i64>())),
            DataType::Utf8View => Some(self.matches_of(values.as_string_view())),
            _ => None,
        }
    }

    fn matches_of<'a>(&self, texts: impl ArrayAccessor<Item = &'a str>) -> BooleanBuffer {
        BooleanBuffer::collect_bool(texts.len(), |row| self.is_match(texts.value(row).as_bytes()))
    }

    /// Whether it matches a text. Each part is taken where it is found first: that leaves most for others.
    fn is_match(&self, text: &[u8]) -> bool {
        let Some(mut rest) = self.between(text) else { return false };
        self.middle.iter().all(|part| match part.find(rest) {
            Some(at) => {
                rest = &rest[at + part.needle().len()..];
                true
            }
            None => false,
        })
    }

    /// What is between the beginning and the end, if a text has both.
    fn between<'a>(&self, mut text: &'a [u8]) -> Option<&'a [u8]> {
        // Nothing is compared where there is nothing: an empty vector has no address that can be read, and
        // the masked load of `memcmp` is slow there.
        if !self.start.is_empty() {
            text = text.strip_prefix(&self.start[..])?;
        }
        if !self.end.is_empty() {
            text = text.strip_suffix(&self.end[..])?;
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_their_order() {
        let matches = |pattern: &str, text: &str| Pattern::of(pattern).unwrap().is_match(text.as_bytes());
        for (pattern, yes, no) in [
            ("a%b", vec!["ab", "axb", "abb", "a\nb"], vec!["a", "b", "ba", "abc", "xab"]),
            ("aa%aa", vec!["aaaa", "aaxaa", "aaaaa"], vec!["aa", "aaa"]),
            ("%a%b%", vec!["ab", "xaxbx", "aab"], vec!["ba", "a", ""]),
            ("%ab%ab%", vec!["abab", "ab ab"], vec!["ab", "aab"]),
            ("x%a%b", vec!["xab", "x a b"], vec!["xb", "xba", "ab"]),
            ("%%ä%%ö%", vec!["äö"], vec!["öä"]),
        ] {
            yes.iter().for_each(|text| assert!(matches(pattern, text), "{pattern} {text}"));
            no.iter().for_each(|text| assert!(!matches(pattern, text), "{pattern} {text}"));
        }
    }

    #[test]
    fn other_patterns_are_left_to_arrow() {
        for pattern in ["", "a", "%", "%%", "a%", "%a", "%a%", "%a%%", "a_b%c", "a\\%b%c"] {
            assert!(Pattern::of(pattern).is_none(), "{pattern}");
        }
    }
}
