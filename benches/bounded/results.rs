//! Options of a benchmark's command line, and its results as a table and as JSON.

use serde_json::Value;
use std::time::Duration;

/// `--name value` and `--flag`.
pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn of_process() -> Arguments {
        Arguments(std::env::args().skip(1).collect())
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|argument| argument == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    pub fn number(&self, name: &str, otherwise: usize) -> usize {
        self.text(name).map_or(otherwise, |text| {
            text.parse().unwrap_or_else(|_| panic!("{name} takes a whole number, not {text}"))
        })
    }

    /// Writes results to the file of `--out`, if there is one.
    pub fn write(&self, results: &Value) {
        if let Some(path) = self.text("--out") {
            let text = serde_json::to_string_pretty(results).expect("results are JSON");
            std::fs::write(path, text + "\n").unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}

pub fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
