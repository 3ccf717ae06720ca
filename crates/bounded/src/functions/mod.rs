//! SQL functions that only bounded queries have: a search for words, and where the texts with a prefix end.

mod prefix;
mod words;

pub(crate) use prefix::after_prefix;
pub(crate) use words::{HAS_TOKEN, LONGEST, has_token, searched, words};
