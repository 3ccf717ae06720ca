//! From the parser's line and column to bytes of the text.

use datafusion::sql::sqlparser::tokenizer::Location;

/// The bytes at which the lines of a text begin.
pub(crate) struct Lines<'a> {
    /// The text.
    text: &'a str,
    /// The byte at which each line begins.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// The lines of a text.
    pub fn of(text: &'a str) -> Lines<'a> {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The byte at which a place begins; the end of the text for a place behind it.
    pub fn offset(&self, at: Location) -> usize {
        self.byte(at.line, at.column)
    }

    /// The same for a line and a column, both counted from one, columns in characters.
    pub fn byte(&self, line: u64, column: u64) -> usize {
        let Some(start) = self.starts.get((line.max(1) - 1) as usize) else { return self.text.len() };
        let rest = &self.text[*start..];
        let within = rest.char_indices().nth((column.max(1) - 1) as usize).map_or(rest.len(), |(at, _)| at);
        start + within
    }
}
