//! The formats of output. `--format` is one argument with two meanings: `lint` replaces the global one by its
//! own.

use crate::output::Format;
use clap::ValueEnum;

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// A format of rows.
    Rows(Format),
    /// A format of the findings of `lint`.
    Findings(FindingFormat),
}

/// The format of the findings of `lint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FindingFormat {
    /// For people: what is wrong, drawn, and what to write instead.
    Human,
    /// SARIF 2.1.0, as code hosts and editors take it.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
    /// Everything, for programs.
    Json,
}
