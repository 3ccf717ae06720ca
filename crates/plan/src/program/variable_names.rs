//! Names of variables in a program: valid in Python, short and unique.

use std::collections::HashSet;

/// Longer names are cut between words.
const MAX_LENGTH: usize = 32;

/// Names that the program imports or defines.
const RESERVED: [&str; 7] = ["wb", "date", "datetime", "timedelta", "timezone", "Decimal", "program"];

/// The names of a program that are in use.
#[derive(Debug, Default)]
pub(super) struct UsedNames(HashSet<String>);

impl UsedNames {
    /// This name, or the first of `name_2`, `name_3`, … that is not in use; it is in use from then on.
    pub fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_string();
        let mut number = 2;
        while RESERVED.contains(&unique.as_str()) || !self.0.insert(unique.clone()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        unique
    }
}

/// A text as a snake-case name.
pub(super) fn name_of(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c.is_ascii_alphanumeric() {
            true => name.push(c.to_ascii_lowercase()),
            false if name.ends_with('_') || name.is_empty() => {}
            false => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_');
    match name {
        "" => "rows".to_string(),
        name if is_name(name) => shortened(name),
        name => shortened(&format!("the_{name}")),
    }
}

/// The longest prefix of complete words that fits into [`MAX_LENGTH`].
fn shortened(name: &str) -> String {
    if name.len() <= MAX_LENGTH {
        return name.to_string();
    }
    match name[..MAX_LENGTH].rsplit_once('_') {
        Some((words, _)) => words.to_string(),
        None => name[..MAX_LENGTH].to_string(),
    }
}

/// Whether a name is an identifier in Python and no keyword.
pub(super) fn is_name(name: &str) -> bool {
    const KEYWORDS: &str = " False None True and as assert async await break class continue def del elif else except \
        finally for from global if import in is lambda nonlocal not or pass raise return try while with yield ";
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(letters)
        && !KEYWORDS.contains(&format!(" {name} "))
}
