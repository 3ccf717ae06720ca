//! Unclosed quotes in CSV files: such a quote makes the rest of the file one value, and the reader does not
//! complain.

use memchr::{memchr, memchr_iter};
use std::io::{Error, ErrorKind, Read, Result};

/// Passes a text on, and fails at its end if it ends within quotes.
pub(super) struct Quotes<R> {
    input: R,
    delimiter: u8,
    state: State,
    /// How many bytes have passed.
    passed: u64,
    /// How many lines have ended.
    lines: u64,
    /// The last byte that passed.
    last: u8,
}

/// Where the next byte stands; within quotes, in which line these opened.
#[derive(Clone, Copy)]
enum State {
    /// Outside of quotes.
    Outside,
    /// Within quotes.
    Inside(u64),
    /// After a quote that closes them, or that escapes the next quote.
    AfterQuote(u64),
}

impl<R: Read> Quotes<R> {
    /// A text with this delimiter.
    pub fn new(input: R, delimiter: u8) -> Quotes<R> {
        Quotes { input, delimiter, state: State::Outside, passed: 0, lines: 0, last: b'\n' }
    }

    /// Updates the state by the next bytes.
    fn pass(&mut self, bytes: &[u8]) {
        let (mut at, mut counted) = (0, 0);
        while at < bytes.len() {
            let quote = memchr(b'"', &bytes[at..]).map(|quote| at + quote);
            (self.state, at) = match (self.state, quote) {
                (State::AfterQuote(line), Some(quote)) if quote == at => (State::Inside(line), at + 1),
                (State::AfterQuote(_), _) => (State::Outside, at),
                (state, None) => (state, bytes.len()),
                (State::Inside(line), Some(quote)) => (State::AfterQuote(line), quote + 1),
                (State::Outside, Some(quote)) => {
                    let before = if quote == 0 { self.last } else { bytes[quote - 1] };
                    let opens = self.begins_value(before, self.passed + quote as u64);
                    self.lines += memchr_iter(b'\n', &bytes[counted..quote]).count() as u64;
                    counted = quote;
                    (if opens { State::Inside(self.lines + 1) } else { State::Outside }, quote + 1)
                }
            };
        }
        self.lines += memchr_iter(b'\n', &bytes[counted..]).count() as u64;
        self.passed += bytes.len() as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
    }

    /// Whether a value begins after this byte. The first value may come after a byte order mark.
    fn begins_value(&self, before: u8, at: u64) -> bool {
        before == self.delimiter || matches!(before, b'\n' | b'\r') || (before == 0xbf && at == 3)
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let read = self.input.read(into)?;
        self.pass(&into[..read]);
        match self.state {
            State::Inside(line) if read == 0 && !into.is_empty() => {
                let error = format!(
                    "the quote that opens in line {line} is never closed; close it, or write it twice"
                );
                Err(Error::new(ErrorKind::InvalidData, error))
            }
            _ => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of the quote that is not closed, read so many bytes at a time.
    fn unclosed(text: &str, step: usize) -> Option<String> {
        let mut quotes = Quotes::new(text.as_bytes(), b',');
        let mut bytes = vec![0; step];
        loop {
            match quotes.read(&mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(error.to_string().split(' ').nth(6)?.to_string()),
            }
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_found() {
        for step in [1, 2, 3, 5, 100] {
            for text in [
                "",
                "a,b\n1,\"x\ny\"\n",
                "a,\"\"\"\"\n",
                "5\" pipe,3\n",
                "\"a\"b\"c,d\n",
                "\"a\"\"\n\",\"b\"",
            ] {
                assert_eq!(unclosed(text, step), None, "{text}");
            }
            for (text, line) in [
                ("\"", "1"),
                ("\u{feff}\"a,b\n1,2\n", "1"),
                ("a,b\n1,2\n3,\"x\n4,5\n", "3"),
                ("a,b\n1,\"x\ny\"\n\"z\n", "4"),
                ("a,b\n1,\"\"\"\n", "2"),
            ] {
                assert_eq!(unclosed(text, step).as_deref(), Some(line), "{text}");
            }
        }
    }
}
