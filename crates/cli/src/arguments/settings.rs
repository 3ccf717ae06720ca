//! The settings of all sub-commands: how queries are run and where results go.

use super::format::OutputFormat;
use crate::error::{Error, Result};
use crate::output::{Format, OutputOptions};
use clap::Args;
use clap::builder::{EnumValueParser, TypedValueParser};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use whimbrel_session::{cluster, functions};
use whimbrel_sharded::runtime::RemoteRuntime;
use whimbrel_sharded::{Memory, Options, RuntimeKind};

/// How queries are run and results are shown.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// In how many shards files are read.
    #[arg(long, global = true, value_name = "N", value_parser = positive)]
    pub shards: Option<usize>,
    /// 1 runs everything on one thread; more read files in as many shards, unless --shards says otherwise.
    #[arg(long, global = true, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,
    /// Run queries on the cluster whose Redis is there, redis://host:6379?cluster=name; or on functions:
    /// functions://name?bucket=s3://bucket/prefix, or just functions for processes of this machine.
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub on: Option<String>,
    /// How much memory the operators of a query may take together, as 512MB or 2GiB; what is more is written
    /// to disk.
    #[arg(long, global = true, value_name = "SIZE", value_parser = bytes)]
    pub memory_limit: Option<usize>,
    /// Where the rows go; the suffix says the format. `-` is standard output.
    #[arg(short, long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The form of the rows.
    #[arg(long, global = true, value_name = "FORMAT",
          value_parser = EnumValueParser::<Format>::new().map(OutputFormat::Rows))]
    pub format: Option<OutputFormat>,
    /// Show no progress bar. There is none anyway where standard error is not a terminal.
    #[arg(long, global = true)]
    pub no_progress: bool,
    /// How many rows of a table are shown, the first and the last; 0 shows all.
    #[arg(long, global = true, value_name = "N", default_value_t = 40)]
    pub max_rows: usize,
    /// How wide a table may be; by default as wide as the terminal.
    #[arg(long, global = true, value_name = "N", value_parser = positive)]
    pub max_width: Option<usize>,
    /// Say how long each statement took, on standard error.
    #[arg(long, global = true)]
    pub time: bool,
}

impl Settings {
    /// In how many shards files are read, if that was set. More than one thread reads in as many shards.
    pub fn shards(&self) -> Option<usize> {
        self.shards.or(self.threads.filter(|threads| *threads > 1))
    }

    /// The options of the runtime.
    ///
    /// # Errors
    /// `Query` if the cluster or the functions that are named cannot be reached.
    pub fn options(&self) -> Result<Options> {
        let runtime = if self.threads == Some(1) { RuntimeKind::Library } else { RuntimeKind::Local };
        let memory = self.memory_limit.map_or(Memory::Unlimited, |bytes| Memory::Query(bytes as u64));
        let connect = |address: &str| -> datafusion::common::Result<Arc<dyn RemoteRuntime>> {
            match address.starts_with(functions::SCHEME) {
                true => functions::open(address),
                false => Ok(cluster::connect(address)?),
            }
        };
        let remote = self.on.as_deref().map(connect).transpose();
        let remote = remote.map_err(|error| Error::Query(error.message().into_owned()))?;
        Ok(Options { runtime, memory, remote, ..Options::default() })
    }

    /// Whether a progress bar is shown: not if standard error is redirected.
    pub fn progress(&self) -> bool {
        !self.no_progress && std::io::stderr().is_terminal()
    }

    /// The form of results.
    pub fn output_options(&self) -> OutputOptions {
        let format = self.format.and_then(|format| match format {
            OutputFormat::Rows(format) => Some(format),
            OutputFormat::Findings(_) => None,
        });
        OutputOptions { format, max_rows: self.max_rows, max_width: self.max_width }
    }
}

/// A whole number above zero.
fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it is at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it is a whole number, at least 1".into()),
    }
}

/// A number of bytes: `512MB`, `1.5GiB`, `65536`.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || "it is a size, such as 512MB, 2GiB or 65536".to_string();
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..unit].parse().map_err(|_| wrong())?;
    let factor = match text[unit..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return Err(wrong()),
    };
    match number * factor {
        size if size >= 1.0 => Ok(size as usize),
        _ => Err("it is at least one byte".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("512MB"), Ok(512_000_000));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes("65536"), Ok(65536));
        for wrong in ["", "MB", "5XB", "-1", "0"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
