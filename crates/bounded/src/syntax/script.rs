//! A file of SQL split into statements, with their comments and positions.
//!
//! Invariant: a semicolon ends a statement unless it stands in a string, a quoted name, a dollar-quoted text
//! or a comment. Commands of psql (lines that begin with `\` between statements) and the rows behind `copy …
//! from stdin` are skipped, since dumps have them.

use std::ops::Range;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name, as findings show it.
    pub file: String,
    /// What it says.
    pub text: String,
}

/// A part of a file. Lines and columns are counted from one, columns in characters; the end is behind the
/// last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: String,
    /// Where it begins.
    pub line: usize,
    /// Where it begins.
    pub column: usize,
    /// Where it ends.
    pub end_line: usize,
    /// Where it ends.
    pub end_column: usize,
}

impl Source {
    /// The place of some bytes.
    pub(crate) fn place(&self, bytes: Range<usize>) -> Place {
        let at = |byte: usize| {
            let before = &self.text[..byte.min(self.text.len())];
            let line = before.matches('\n').count() + 1;
            let start = before.rfind('\n').map_or(0, |at| at + 1);
            (line, before[start..].chars().count() + 1)
        };
        let ((line, column), (end_line, end_column)) = (at(bytes.start), at(bytes.end));
        Place { file: self.file.clone(), line, column, end_line, end_column }
    }
}

/// A statement of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement<'s> {
    /// Its text, from its first token to its last, without the semicolon.
    pub text: &'s str,
    /// Where that stands in the file, in bytes.
    pub span: Range<usize>,
    /// The comments before it, in it, and behind it at the end of its line, without what makes them comments,
    /// and where they begin.
    pub comments: Vec<(&'s str, usize)>,
}

impl Statement<'_> {
    /// What follows a word like `name:` in the last comment that begins with it.
    pub fn annotation(&self, word: &str) -> Option<&str> {
        let annotations =
            self.comments.iter().rev().filter_map(|(comment, _)| comment.trim().strip_prefix(word));
        annotations.map(str::trim).next()
    }

    /// Its first words in small letters, to tell what it is.
    pub fn first_words(&self, words: usize) -> String {
        let words: Vec<String> = self.text.split_whitespace().take(words).map(str::to_lowercase).collect();
        words.join(" ")
    }
}

/// The statements of a text.
pub(crate) fn split(text: &str) -> Vec<Statement<'_>> {
    splitter(text).found
}

/// The comments behind the last statement of a text, and where they begin.
pub(crate) fn comments_behind(text: &str) -> Vec<(&str, usize)> {
    splitter(text).comments
}

/// Splits a text.
fn splitter(text: &str) -> Splitter<'_> {
    let mut splitter = Splitter { text, at: 0, first: None, last: 0, comments: vec![], found: vec![] };
    while splitter.at < text.len() {
        splitter.step();
    }
    splitter.end();
    splitter
}

/// A position in a text, and the statements before it.
struct Splitter<'s> {
    text: &'s str,
    at: usize,
    /// Where the statement begins, if it has.
    first: Option<usize>,
    /// Behind its last token so far.
    last: usize,
    comments: Vec<(&'s str, usize)>,
    found: Vec<Statement<'s>>,
}

impl<'s> Splitter<'s> {
    /// The text from here on.
    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    /// Goes over one token, comment or white space.
    fn step(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            // A mark of the byte order, as some editors begin a file with.
            c if c.is_whitespace() || c == '\u{FEFF}' => self.at += c.len_utf8(),
            '-' if rest.starts_with("--") => self.comment(line(rest)),
            '/' if rest.starts_with("/*") => self.comment(block_comment(rest)),
            '\\' if self.first.is_none() => self.at += line(rest),
            ';' => {
                self.end();
                self.at += 1;
                self.pass_rows();
            }
            '\'' => {
                let escapes = self.text[..self.at].ends_with(['e', 'E'])
                    && !self.text[..self.at - 1].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                self.token(quoted(rest, '\'', escapes));
            }
            '"' => self.token(quoted(rest, '"', false)),
            '$' => self.token(dollar_quoted(rest).unwrap_or(1)),
            c if c.is_alphanumeric() || c == '_' => {
                // A dollar within a name is part of it.
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
                self.token(end.unwrap_or(rest.len()));
            }
            c => self.token(c.len_utf8()),
        }
    }

    /// Skips a token of the statement.
    fn token(&mut self, length: usize) {
        self.first.get_or_insert(self.at);
        self.at += length;
        self.last = self.at;
    }

    /// Skips a comment, and keeps it for its statement.
    fn comment(&mut self, length: usize) {
        // What begins it is two bytes; a block that is never closed has no end to be taken off.
        let inner = &self.rest()[2..length];
        let block = self.rest().starts_with("/*");
        let inner = if block { inner.strip_suffix("*/").unwrap_or(inner) } else { inner };
        let comment = (inner, self.at);
        self.at += length;
        match self.is_behind(comment.1) {
            Some(statement) => statement.comments.push(comment),
            None => self.comments.push(comment),
        }
    }

    /// The statement that a comment stands behind, with nothing else on the line.
    fn is_behind(&mut self, comment: usize) -> Option<&mut Statement<'s>> {
        let rest = self.rest();
        let ends = rest[..line(rest)].trim().is_empty();
        let last = self.found.last_mut().filter(|_| self.first.is_none() && self.comments.is_empty() && ends);
        last.filter(|last| !self.text[last.span.end..comment].contains('\n'))
    }

    /// Ends the statement.
    fn end(&mut self) {
        let comments = std::mem::take(&mut self.comments);
        match self.first.take() {
            Some(first) => self.found.push(Statement {
                text: &self.text[first..self.last],
                span: first..self.last,
                comments,
            }),
            None => self.comments = comments,
        }
    }

    /// The rows behind `copy … from stdin;`, to the line `\.`.
    fn pass_rows(&mut self) {
        let Some(statement) = self.found.last().filter(|statement| statement.span.end == self.last) else {
            return;
        };
        let text = statement.text.to_lowercase();
        if text.starts_with("copy ") && text.contains(" from stdin") {
            let rows = self.rest();
            self.at += rows.find("\n\\.").map_or(rows.len(), |at| at + 3);
        }
    }
}

/// The length of what is left of a line.
fn line(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// The length of a comment; PostgreSQL's nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of a string or a quoted name; a doubled quote is one within it.
fn quoted(rest: &str, quote: char, escapes: bool) -> usize {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    rest.len()
}

/// The length of `$tag$ … $tag$`; `None` if it is none, but a parameter.
fn dollar_quoted(rest: &str) -> Option<usize> {
    let tag = &rest[..rest[1..].find('$')? + 2];
    let name = &tag[1..tag.len() - 1];
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    let end = rest[tag.len()..].find(tag).map_or(rest.len(), |at| at + 2 * tag.len());
    is_name.then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        split(text).into_iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn a_semicolon_within_something_ends_nothing() {
        assert_eq!(texts("a ';' b; c \";\" d;"), ["a ';' b", "c \";\" d"]);
        assert_eq!(texts("a 'it''s; b'; c"), ["a 'it''s; b'", "c"]);
        assert_eq!(texts(r"a E'\';' b; c '\'; d"), [r"a E'\';' b", r"c '\'", "d"]);
        assert_eq!(texts("a -- ;\n b; /* ; /* ; */ ; */ c"), ["a -- ;\n b", "c"]);
        assert_eq!(
            texts("create function f() as $$ begin; end; $$ language sql; x"),
            ["create function f() as $$ begin; end; $$ language sql", "x"]
        );
        assert_eq!(
            texts("as $a$ ; $$ ; $a$; x = $1; y$1$ ; z$1$"),
            ["as $a$ ; $$ ; $a$", "x = $1", "y$1$", "z$1$"]
        );
        assert_eq!(texts(" ; -- nothing\n ;"), Vec::<&str>::new());
        assert_eq!(texts("a 'open ;"), ["a 'open ;"]);
    }

    #[test]
    fn what_psql_reads_is_passed_over() {
        let dump =
            "\\restrict abc;\nset a = 1;\ncopy t (a) from stdin;\n1;2\n\\.\n\nselect 1;\n\\unrestrict abc\n";
        assert_eq!(texts(dump), ["set a = 1", "copy t (a) from stdin", "select 1"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_somewhere(text in "([a-z$1;'\"\\\\ \n€é]|--|/\\*|\\*/|\\$a\\$|copy t from stdin;|E')*") {
            let source = Source { file: String::new(), text: text.clone() };
            let mut last = 0;
            for statement in split(&text) {
                assert!(statement.span.start >= last && statement.span.end > statement.span.start);
                assert_eq!(&text[statement.span.clone()], statement.text);
                let place = source.place(statement.span.clone());
                assert!((place.line, place.column) < (place.end_line, place.end_column));
                last = statement.span.end;
            }
        }
    }

    #[test]
    fn comments_and_places() {
        let text = "-- name: first :one\nselect 1;\n\n  -- name: zweite\n  select 'ü', -- inner\n 2;";
        let found = split(text);
        assert_eq!(found[0].annotation("name:"), Some("first :one"));
        assert_eq!(found[1].annotation("name:"), Some("zweite"));
        assert_eq!(found[1].comments.len(), 2);
        let source = Source { file: "q.sql".into(), text: text.into() };
        let place = source.place(found[1].span.clone());
        assert_eq!((place.line, place.column, place.end_line, place.end_column), (5, 3, 6, 3));
        let behind =
            "create table a (b int); -- one\n-- two\ncreate table c (d int); /* x */ e; -- three\n\n-- four";
        let annotations = split(behind)
            .into_iter()
            .map(|s| s.comments.into_iter().map(|(annotations, _)| annotations).collect());
        let annotations: Vec<Vec<&str>> = annotations.collect();
        assert_eq!(annotations, [vec![" one"], vec![" two"], vec![" x ", " three"]]);
        assert_eq!(comments_behind(behind), [(" four", behind.len() - 7)]);
        assert_eq!(comments_behind("-- five"), [(" five", 0)]);
        let within = text.find("-- inner").map(|at| source.place(at..at).column);
        assert_eq!(within, Some(15));
    }
}
