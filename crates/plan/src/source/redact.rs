//! URLs in messages: they may hold passwords, keys and signatures, and messages end up in logs.

/// What stands for what is not shown.
const HIDDEN: &str = "***";

/// Where a URL ends in a text.
const ENDS: [char; 8] = ['"', '\'', '`', '<', '>', ')', ']', '}'];

/// A text whose URLs show neither the password before the host nor the values behind the question mark.
///
/// ```
/// use whimbrel_plan::source::redacted;
///
/// assert_eq!(redacted("https://ann:s3cret@host/x.csv"), "https://ann:***@host/x.csv");
/// ```
pub fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        let end = after.find(|c: char| c.is_whitespace() || ENDS.contains(&c)).unwrap_or(after.len());
        out.push_str(before);
        redact(&after[..end], &mut out);
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

/// What follows the scheme of a URL.
fn redact(url: &str, out: &mut String) {
    let host = url.find(['/', '?', '#']).unwrap_or(url.len());
    let path = match url[..host].rfind('@') {
        None => url,
        Some(at) => {
            // Without a colon it may be a token.
            if let Some((user, _)) = url[..at].split_once(':') {
                out.push_str(user);
                out.push(':');
            }
            out.push_str(HIDDEN);
            &url[at..]
        }
    };
    let Some((path, query)) = path.split_once('?') else { return out.push_str(path) };
    out.push_str(path);
    for (place, part) in query.split('&').enumerate() {
        out.push(if place == 0 { '?' } else { '&' });
        match part.split_once('=') {
            Some((name, _)) => out.extend([name, "=", HIDDEN]),
            // A question mark in a pattern of names.
            None => out.push_str(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::redacted;

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
            ("s3://bucket/part-?.parquet", "s3://bucket/part-?.parquet"),
            ("s3://bucket/a@b.parquet", "s3://bucket/a@b.parquet"),
            ("a: b // c @ d ?e=f", "a: b // c @ d ?e=f"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }
}
