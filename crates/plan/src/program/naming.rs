//! Names of variables that say what they hold.

use super::expression::is_name;
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
