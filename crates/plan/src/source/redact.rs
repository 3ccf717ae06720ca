//! URLs in messages: they may hold passwords, keys and signatures, and messages end up in logs.
//!
//! What is no proper URL is hidden as well: the one with a mistake in it is the one that an error shows. When
//! in doubt, too much is hidden rather than too little.

use std::ops::Range;

/// What stands for what is not shown.
const HIDDEN: &str = "***";

/// Where a URL ends in a text, if no quote before it says that.
const ENDS: [char; 8] = ['"', '\'', '`', '<', '>', ')', ']', '}'];

/// Schemes that are recognized without the two slashes behind them, too.
const KNOWN: [&str; 14] = [
    "http",
    "https",
    "s3",
    "s3a",
    "gs",
    "az",
    "abfs",
    "abfss",
    "hf",
    "kafka",
    "redis",
    "rediss",
    "postgres",
    "postgresql",
];

/// Schemes of object stores: a question mark in their keys is a pattern of names, or a part of them.
const STORES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "hf", "file"];

/// What stands before a password in the settings of a connection.
const SETTINGS: [&str; 3] = ["password=", "passwd=", "pwd="];

/// A text whose URLs show neither the password before the host nor the values behind the question mark.
///
/// ```
/// use whimbrel_plan::source::redacted;
///
/// assert_eq!(redacted("https://ann:s3cret@host/x.csv"), "https://ann:***@host/x.csv");
/// ```
pub fn redacted(text: &str) -> String {
    without(text, 0..text.len(), &secrets(text))
}

/// The text before a place, in it, and after it, each as [`redacted`] shows it: a URL may be in two of them.
///
/// ```
/// use whimbrel_plan::source::redacted_around;
///
/// let parts = redacted_around("to 'https://h/?k=s3cret'", 12..17);
/// assert_eq!(parts, ["to 'https://", "h/?k=", "***'"]);
/// ```
pub fn redacted_around(text: &str, place: Range<usize>) -> [String; 3] {
    let secrets = secrets(text);
    [0..place.start, place.clone(), place.end..text.len()].map(|part| without(text, part, &secrets))
}

/// A part of a text without the secrets in it.
fn without(text: &str, part: Range<usize>, secrets: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(part.len());
    let mut at = part.start;
    for secret in secrets.iter().filter(|secret| secret.start < part.end && secret.end > part.start) {
        out.push_str(&text[at..secret.start.max(at)]);
        out.push_str(HIDDEN);
        at = secret.end.clamp(at, part.end);
    }
    out.push_str(&text[at..part.end]);
    out
}

/// The places that are not to be shown, in order.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(url) = Url::next(text, at) {
        url.secrets(text, &mut found);
        at = url.end;
    }
    settings(text, &mut found);
    found.sort_by_key(|secret| (secret.start, secret.end));
    found.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        last.end = if overlaps { last.end.max(next.end) } else { last.end };
        overlaps
    });
    found
}

/// The passwords in settings such as `host=h password=p`.
fn settings(text: &str, found: &mut Vec<Range<usize>>) {
    let lower = text.to_ascii_lowercase();
    for setting in SETTINGS {
        for (at, _) in lower.match_indices(setting) {
            let start = at + setting.len();
            let value = &text[start..];
            let length = match value.strip_prefix('\'').and_then(|quoted| quoted.find('\'')) {
                Some(quote) => quote + 2,
                None => naive_end(value, |c| c == '&' || c == ';'),
            };
            if length > 0 {
                found.push(start..start + length);
            }
        }
    }
}

/// Where what stands at the beginning of a text ends at the latest, if nothing else says that.
fn naive_end(text: &str, ends: impl Fn(char) -> bool) -> usize {
    text.find(|c: char| c.is_whitespace() || ENDS.contains(&c) || ends(c)).unwrap_or(text.len())
}

/// Where a URL is in a text.
struct Url<'a> {
    scheme: &'a str,
    /// Where its host is, or the user before that.
    start: usize,
    end: usize,
    /// Where it may end: a quote that fits that before it, else the end of the line.
    limit: usize,
}

impl<'a> Url<'a> {
    /// The first URL behind a place.
    fn next(text: &'a str, from: usize) -> Option<Url<'a>> {
        let colons = text[from..].match_indices(':').map(|(at, _)| from + at);
        colons.filter_map(|colon| Url::at(text, from, colon)).next()
    }

    /// The URL whose scheme ends at a colon.
    fn at(text: &'a str, from: usize, colon: usize) -> Option<Url<'a>> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let scheme = &text[from..colon];
        let scheme = &scheme[scheme.trim_end_matches(is_part).len()..];
        let behind = &text[colon + 1..];
        let slashes = behind.len() - behind.trim_start_matches('/').len();
        let known = KNOWN.iter().any(|name| name.eq_ignore_ascii_case(scheme));
        let is_url = slashes >= 2 || known && !behind.starts_with(|c: char| c.is_whitespace());
        if scheme.is_empty() || !is_url {
            return None;
        }
        let slashes = if scheme.eq_ignore_ascii_case("file") { 2 } else { slashes };
        let start = colon + 1 + slashes;
        let quote = text[..colon - scheme.len()].chars().next_back();
        let line = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let close = match quote {
            Some(quote @ ('`' | '"')) => text[start..].find(quote),
            Some('\'') => closing_quote(&text[start..]),
            Some('<') => text[start..].find('>'),
            _ => None,
        };
        let limit = close.map_or(line, |at| start + at);
        // Names of several files stand in one text.
        let others = text[start..limit].find(", ").filter(|at| text[start + at..limit].contains("://"));
        let limit = others.map_or(limit, |at| start + at);
        let quoted = close.is_some() || others.is_some();
        let mut url = Url { scheme, start, end: limit, limit };
        if !quoted {
            url.end = start + naive_end(&text[start..limit], |_| false);
        }
        url.end = url.end.max(url.host(text));
        if !quoted {
            url.end += naive_end(&text[url.end..limit], |_| false);
        }
        Some(url)
    }

    /// Where the host begins: behind the last `@` that may be that of a password. A password may hold any
    /// sign if nobody has escaped it.
    fn host(&self, text: &str) -> usize {
        let file = self.scheme.eq_ignore_ascii_case("file");
        let plain = text[self.start..self.end].find(['/', '?', '#']).map_or(self.end, |at| self.start + at);
        let within = text[self.start..plain].rfind('@').map(|at| self.start + at + 1);
        let authority = &text[within.unwrap_or(self.start)..plain];
        let is_host = match authority.rsplit_once(':') {
            None => true,
            Some((_, "")) => false,
            Some((host, port)) => {
                let digits = port.bytes().all(|digit| digit.is_ascii_digit());
                // The rest of a password of digits: no path follows a port that a quote does not end.
                digits
                    && (!host.contains(':') || host.starts_with('['))
                    && !text[plain..self.limit].starts_with(['?', '#'])
            }
        };
        if file || is_host || authority.starts_with('[') {
            return within.unwrap_or(self.start);
        }
        let last = text[self.start..self.limit].rfind('@').map(|at| self.start + at + 1);
        last.or(within).unwrap_or(self.start)
    }

    fn secrets(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let host = self.host(text);
        if host > self.start {
            // Without a colon it may be a token.
            let user = text[self.start..host - 1].find(':').map_or(self.start, |at| self.start + at + 1);
            found.push(user..host - 1);
        }
        let rest = &text[host..self.end];
        let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        // No port: a password whose host is missing.
        if let Some((name, port)) = rest[..authority].rsplit_once(':')
            && !port.bytes().all(|digit| digit.is_ascii_digit() || digit == b',' || digit == b']')
            && !name.starts_with('[')
            && !port.contains(']')
        {
            let name = name.find(':').unwrap_or(name.len());
            found.push(host + name + 1..host + authority);
        }
        let fragment = rest.find('#').map_or(self.end, |at| host + at);
        if fragment + 1 < self.end {
            found.push(fragment + 1..self.end);
        }
        let Some(query) = text[host..fragment].find('?').map(|at| host + at + 1) else { return };
        let mut at = query;
        for part in text[query..fragment].split('&') {
            let store = STORES.iter().any(|name| name.eq_ignore_ascii_case(self.scheme));
            match part.find('=') {
                Some(equal) => found.push(at + equal + 1..at + part.len()),
                // A question mark in a pattern of names.
                None if store => {}
                None if !part.is_empty() => found.push(at..at + part.len()),
                None => {}
            }
            at += part.len() + 1;
        }
    }
}

/// Where the text in a literal of SQL ends, in which a quote is written twice.
fn closing_quote(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let quote = at + text[at..].find('\'')?;
        match text[quote + 1..].starts_with('\'') {
            true => at = quote + 2,
            false => return Some(quote),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{redacted, redacted_around};

    #[test]
    fn what_is_secret_is_not_shown() {
        for (text, expected) in [
            ("`https://ann:s3cret@host/x.csv`: not found", "`https://ann:***@host/x.csv`: not found"),
            ("redis://:p@ss:w@host:6379/0 and redis://host", "redis://:***@host:6379/0 and redis://host"),
            ("https://token@host", "https://***@host"),
            (
                "(https://b.s3.aws.com/a.parquet?X-Amz-Signature=12ab&X-Amz-Date=3) failed",
                "(https://b.s3.aws.com/a.parquet?X-Amz-Signature=***&X-Amz-Date=***) failed",
            ),
            ("`http://h/x.csv?s3cret`: no", "`http://h/x.csv?***`: no"),
            ("`http://h/x.csv?a=1&b#token=s3cret`", "`http://h/x.csv?a=***&***#***`"),
            ("postgres:me:s3cret@h and a", "postgres:me:***@h and a"),
            ("http:/ann:s3cret@h/x.csv", "http:/ann:***@h/x.csv"),
            ("http://ann:s3cret/x", "http://ann:***/x"),
            ("`host=h user=me password=s3cret`: no", "`host=h user=me password=***`: no"),
            ("host=h password='s3 cret' user=me", "host=h password=*** user=me"),
            ("to 'http://ann:it''s3cret@h/x' (a)", "to 'http://ann:***@h/x' (a)"),
            ("http://a:b@h/x, s3://c/d", "http://a:***@h/x, s3://c/d"),
            ("`http://a:b@h/x, http://a:b@h/y`", "`http://a:***@h/x, http://a:***@h/y`"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn a_password_may_hold_any_sign() {
        for sign in ["/", "#", "?", ")", "'", " ", "\"", ":", "@", "//", "12#", "=", "&", "]", ">", ""] {
            for (before, after) in [("`", "`: wrong"), ("", " is wrong"), ("<", ">")] {
                if sign == ">" && before == "<" {
                    continue;
                }
                let url = |password: &str| format!("{before}http://ann:{password}@127.0.0.1:1/x.csv{after}");
                assert_eq!(redacted(&url(&format!("s3{sign}cret"))), url("***"), "{sign:?}");
                assert_eq!(redacted(&url(&format!("{sign}s3cret"))), url("***"), "{sign:?}");
            }
        }
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for text in [
            "s3://bucket/part-?.parquet",
            "s3://bucket/a@b.parquet",
            "a: b // c @ d ?e=f",
            "http://localhost:9000/bucket/a@b.csv and c",
            "`http://[::1]:80/x`: connection refused",
            "redis://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/x",
            "file:///home/ann/a:b@c.csv",
            "redis: ann@host is away",
            "expected http: found end",
            "(http://h:80) failed",
            "error: a::b at c:d, e@f",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn a_place_in_a_url_shows_no_more_of_it() {
        let text = "copy 'http://ann:s3cret@h/x?k=v'";
        for at in 0..text.len() {
            let parts = redacted_around(text, at..at + 1);
            assert!(!parts.concat().contains("3cr") && !parts.concat().contains("k=v"), "{parts:?}");
        }
        assert_eq!(redacted_around("a b c", 2..3), ["a ", "b", " c"]);
    }
}
