//! The lock file: the bound of every query, as it was last accepted.
//!
//! It is made for review: one stanza for each query, sorted by name, one number a line, and nothing that
//! changes without a bound. A measure that is not listed has no bound.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// The measures of a query, in the order in which they are written.
const MEASURES: [&str; 7] = ["requests", "rounds", "tuples", "bytes", "rows", "conditions", "writes"];

/// What lines of a merge that nobody has finished begin with.
const CONFLICT: [&str; 4] = ["<<<<<<<", "|||||||", "=======", ">>>>>>>"];

/// The comment at the beginning of a lock file.
const HEAD: &str = "\
# What each query costs at most, written by `whimbrel lint --lock FILE --update`.
# A number that rises is seen here, in review; `whimbrel lint --lock FILE` fails until it was.
";

/// What a query costs at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locked {
    /// Measures that are known, by their names.
    Bounded(BTreeMap<&'static str, u64>),
    /// It may run without a bound, for this reason.
    Unbounded(String),
}

/// What every query costs at most, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lock {
    /// By names.
    pub queries: BTreeMap<String, Locked>,
}

/// What became of a query since the lock file was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    /// It was not there.
    New,
    /// It costs more, and maybe less in another measure: from what to what.
    Raised(String),
    /// It costs less: from what to what.
    Lowered(String),
}

impl Lock {
    /// Reads a lock file.
    ///
    /// # Errors
    /// `Invalid` with the line that is none of a lock file.
    pub fn parse(text: &str) -> Result<Lock> {
        let mut lock = Lock::default();
        let mut query: Option<String> = None;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let wrong = || Error::invalid(format!("line {}: {line:?} is no line of a lock file", number + 1));
            if line.trim().is_empty() {
                continue;
            }
            let Some(measure) = line.strip_prefix("  ") else {
                let name = line.trim().to_string();
                if CONFLICT.iter().any(|mark| name.starts_with(mark)) {
                    return Err(wrong());
                }
                if lock.queries.insert(name.clone(), Locked::Bounded(BTreeMap::new())).is_some() {
                    return Err(Error::invalid(format!(
                        "line {}: {name} is there twice: keep one, or write the file anew with --update",
                        number + 1
                    )));
                }
                query = Some(name);
                continue;
            };
            let locked = query.as_ref().and_then(|query| lock.queries.get_mut(query)).ok_or_else(wrong)?;
            let (name, value) = measure.split_once(' ').ok_or_else(wrong)?;
            if name == "unbounded" {
                if *locked != Locked::Bounded(BTreeMap::new()) {
                    return Err(wrong());
                }
                *locked = Locked::Unbounded(value.trim().to_string());
                continue;
            }
            let name = MEASURES.iter().find(|measured| **measured == name).ok_or_else(wrong)?;
            let value = value.trim().parse().map_err(|_| wrong())?;
            let twice = match locked {
                Locked::Bounded(measures) => measures.insert(name, value).is_some(),
                Locked::Unbounded(_) => true,
            };
            if twice {
                return Err(wrong());
            }
        }
        Ok(lock)
    }

    /// What became of a query.
    pub(super) fn difference(&self, name: &str, now: &Locked) -> Option<Difference> {
        let Some(before) = self.queries.get(name) else { return Some(Difference::New) };
        match (before, now) {
            (before, now) if before == now => None,
            (Locked::Bounded(before), Locked::Bounded(now)) => Some(changed(before, now)),
            (Locked::Unbounded(_), Locked::Bounded(_)) => {
                Some(Difference::Lowered("unbounded → bounded".into()))
            }
            (Locked::Bounded(_), Locked::Unbounded(why)) => {
                Some(Difference::Raised(format!("bounded → unbounded '{why}'")))
            }
            (Locked::Unbounded(before), Locked::Unbounded(now)) => {
                Some(Difference::Raised(format!("unbounded '{before}' → unbounded '{now}'")))
            }
        }
    }
}

/// The difference between two bounds, measure by measure.
fn changed(before: &BTreeMap<&'static str, u64>, now: &BTreeMap<&'static str, u64>) -> Difference {
    let mut raised = false;
    let mut lines = Vec::new();
    let shown = |value: Option<&u64>| value.map_or_else(|| "not known".to_string(), u64::to_string);
    for name in MEASURES {
        let (from, to) = (before.get(name), now.get(name));
        if from != to {
            raised |= match (from, to) {
                (Some(from), Some(to)) => to > from,
                // It was known, and is not any more.
                (Some(_), None) => true,
                // A write always has conditions: what had none was a query.
                (None, Some(_)) => name == "conditions",
                (None, None) => false,
            };
            lines.push(format!("{name} {} → {}", shown(from), shown(to)));
        }
    }
    match raised {
        true => Difference::Raised(lines.join(", ")),
        false => Difference::Lowered(lines.join(", ")),
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for (name, locked) in &self.queries {
            write!(f, "\n{name}\n")?;
            match locked {
                Locked::Unbounded(reason) => writeln!(f, "  unbounded {reason}")?,
                Locked::Bounded(measures) => {
                    let measured = MEASURES.iter().filter_map(|name| Some((name, measures.get(name)?)));
                    for (name, value) in measured {
                        writeln!(f, "  {name} {value}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(measures: &[(&'static str, u64)]) -> Locked {
        Locked::Bounded(measures.iter().copied().collect())
    }

    #[test]
    fn a_lock_file_comes_back() {
        let queries = [
            ("b", bounded(&[("requests", 101), ("rounds", 2), ("tuples", 1100)])),
            ("a", Locked::Unbounded("nightly report".into())),
            ("q.sql:7", bounded(&[("requests", 1), ("bytes", 20)])),
        ];
        let lock =
            Lock { queries: queries.into_iter().map(|(name, locked)| (name.into(), locked)).collect() };
        let text = lock.to_string();
        assert!(
            text.contains("\na\n  unbounded nightly report\n\nb\n  requests 101\n  rounds 2\n"),
            "{text}"
        );
        assert!(Lock::parse(&text).is_ok_and(|parsed| parsed == lock), "{text}");
        assert!(Lock::parse("a\n  reqests 1").unwrap_err().to_string().contains("line 2"));
        assert!(Lock::parse("  requests 1").is_err());
        for (text, line) in [
            ("a\n  requests 1\n<<<<<<< HEAD\nb\n", "line 3"),
            ("a\n  requests 1\n=======\n", "line 3"),
            ("a\n  requests 1\n\na\n  requests 2\n", "line 4"),
            ("a\n  requests 1\n  requests 2\n", "line 3"),
            ("a\n  requests 1\n  unbounded why\n", "line 3"),
        ] {
            assert!(Lock::parse(text).is_err_and(|error| error.to_string().contains(line)), "{text}");
        }
    }

    #[test]
    fn what_rises_is_told_from_what_falls() -> Result<()> {
        let lock = Lock::parse("a\n  requests 11\n  tuples 20\n")?;
        let now = |measures| lock.difference("a", &bounded(measures));
        assert_eq!(now(&[("requests", 11), ("tuples", 20)]), None);
        let raised = Difference::Raised("requests 11 → 101, tuples 20 → 10".into());
        assert_eq!(now(&[("requests", 101), ("tuples", 10)]), Some(raised));
        assert_eq!(
            now(&[("requests", 11), ("tuples", 10)]),
            Some(Difference::Lowered("tuples 20 → 10".into()))
        );
        assert!(matches!(now(&[("requests", 11)]), Some(Difference::Raised(_))));
        assert_eq!(lock.difference("b", &bounded(&[])), Some(Difference::New));
        assert!(matches!(lock.difference("a", &Locked::Unbounded("x".into())), Some(Difference::Raised(_))));
        Ok(())
    }
}
