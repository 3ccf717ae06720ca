//! Names of variables that say what they hold.

use std::collections::HashSet;

/// Longer ones are cut between words.
const LONGEST: usize = 32;

/// What a program may not name otherwise.
const RESERVED: [&str; 7] = ["wb", "date", "datetime", "timedelta", "timezone", "Decimal", "program"];

/// Names that are in use.
#[derive(Debug, Default)]
pub(super) struct Taken(HashSet<String>);

impl Taken {
    /// This name, or the first of `name_2`, `name_3`, … that nothing else has.
    pub fn free(&mut self, name: &str) -> String {
        let mut free = name.to_string();
        let mut number = 2;
        while RESERVED.contains(&free.as_str()) || !self.0.insert(free.clone()) {
            free = format!("{name}_{number}");
            number += 1;
        }
        free
    }
}

/// A text as a name: small letters, words joined by underscores.
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
        name if is_name(name) => short(name),
        name => short(&format!("the_{name}")),
    }
}

/// The whole words that fit.
fn short(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_string();
    }
    match name[..LONGEST].rsplit_once('_') {
        Some((words, _)) => words.to_string(),
        None => name[..LONGEST].to_string(),
    }
}

/// Whether it is a name in Python.
pub(super) fn is_name(name: &str) -> bool {
    const KEYWORDS: &str = " False None True and as assert async await break class continue def del elif else except \
        finally for from global if import in is lambda nonlocal not or pass raise return try while with yield ";
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(letters)
        && !KEYWORDS.contains(&format!(" {name} "))
}
