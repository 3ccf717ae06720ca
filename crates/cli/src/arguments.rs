//! The arguments of the command.

use crate::command::bounded::Bounded;
use crate::lint;
use crate::output::{Format, Look};
use clap::builder::{EnumValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use whimbrel_sharded::{Options, RuntimeKind};

const EXIT_CODES: &str = "\
Exit codes:
  0    all went well
  1    a query failed
  2    the command was called in a wrong way
  130  interrupted";

const LINT_EXIT_CODES: &str = "\
Exit codes:
  0    every query has a bound, and none is above the lock file
  1    something was found that has to be mended
  2    the command was called in a wrong way, or a file could not be read";

/// One query engine for every clock speed and every size of machine.
///
/// Without a sub-command: the shell, or, if the input is not a terminal, the statements that are read there.
#[derive(Debug, Parser)]
#[command(name = "whimbrel", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Where the statements are, if not in a terminal or standard input.
    #[command(flatten)]
    pub script: Script,
    /// How.
    #[command(flatten)]
    pub settings: Settings,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL: a query, a file of statements, standard input, or the shell.
    ///
    /// Files are named in quotes: select * from 'flights.parquet'.
    #[command(after_help = EXIT_CODES)]
    Sql {
        /// Where the statements are.
        #[command(flatten)]
        text: Text,
        /// Print each query as a Python program that builds its plan, and do not run it.
        #[arg(long)]
        as_python: bool,
        /// Read standard input, JSON lines or CSV, as the table `stdin`, which grows while the query runs: tail -f
        /// x.jsonl | whimbrel sql --live "select … from stdin group by … emit changes".
        #[arg(long, conflicts_with = "as_python")]
        live: bool,
    },
    /// Show the plan of a query.
    #[command(after_help = EXIT_CODES)]
    Explain {
        /// Where the statements are.
        #[command(flatten)]
        text: Text,
        /// Run it, and show what was counted.
        #[arg(long)]
        analyze: bool,
        /// List the ways to run it in shards, with their estimated costs.
        #[arg(long, conflicts_with = "analyze")]
        candidates: bool,
    },
    /// Run a plan file: statements (.sql), or a program (.py) that uses the package whimbrel.
    #[command(after_help = EXIT_CODES)]
    Run {
        /// The file.
        file: PathBuf,
        /// Arguments for the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Measure how long queries take, planning included.
    ///
    /// Statements that give no rows, such as create view, are run once, to prepare the others.
    #[command(after_help = EXIT_CODES)]
    Bench {
        /// Where the statements are.
        #[command(flatten)]
        text: Text,
        /// How often each query is run and measured.
        #[arg(short = 'n', long, value_name = "N", default_value_t = 5,
              value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// How often each query is run before that.
        #[arg(long, value_name = "N", default_value_t = 1)]
        warmup: u32,
    },
    /// Check that the cost of every query of an application has a bound, from files alone.
    ///
    /// A query is called by the comment before it, `-- name: thought_stream`, or else by file and line. Its parameters
    /// are `?`, `$1` or `:name`.
    #[command(after_help = LINT_EXIT_CODES)]
    Lint(Lint),
    /// Measure a store of bounded queries, and predict latencies on it.
    #[command(subcommand, after_help = EXIT_CODES)]
    Bounded(Bounded),
    /// Print what makes a shell complete the arguments of this command.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// What is checked, and how.
#[derive(Debug, Args)]
pub struct Lint {
    /// The statements that make the schema.
    pub schema: PathBuf,
    /// The queries and writes of the application.
    #[arg(required = true)]
    pub queries: Vec<PathBuf>,
    /// More of the schema, such as `alter table t add cardinality limit 100 (owner)` for a schema that is dumped.
    #[arg(long, value_name = "FILE")]
    pub limits: Vec<PathBuf>,
    /// Schema and queries are those of an ordinary PostgreSQL application; an index that is missing is an error.
    #[arg(long)]
    pub plain_sql: bool,
    /// How many values an array parameter of PostgreSQL can have, as in `id = any($1)`; without it there is no bound.
    #[arg(long, value_name = "N", requires = "plain_sql")]
    pub most_values: Option<u64>,
    /// How many rows a query of PostgreSQL can ask for where a parameter says it, as in `limit $1`; without it there
    /// is no bound.
    #[arg(long, value_name = "N", requires = "plain_sql")]
    pub most_rows: Option<u64>,
    /// The store will be one that writes key by key: Redis Cluster, with its 64 partitions.
    #[arg(long, conflicts_with = "plain_sql")]
    pub key_by_key: bool,
    /// The bounds that were agreed to: fail if one is above them.
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Write the bounds of now into the lock file.
    #[arg(long, requires = "lock")]
    pub update: bool,
    /// The form of what is found.
    #[arg(long, id = "format", value_name = "FORMAT",
          value_parser = EnumValueParser::<lint::Format>::new().map(Form::Findings))]
    pub format: Option<Form>,
}

/// The form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Of rows.
    Rows(Format),
    /// Of what `lint` finds.
    Findings(lint::Format),
}

/// Where statements are.
#[derive(Debug, Args)]
pub struct Text {
    /// One or more statements, separated by semicolons.
    #[arg(conflicts_with_all = ["query", "file"], value_name = "QUERY")]
    pub statements: Option<String>,
    /// Or there.
    #[command(flatten)]
    pub script: Script,
}

/// Where statements are, by options.
#[derive(Debug, Args)]
pub struct Script {
    /// One or more statements, as other programs take them.
    #[arg(short = 'c', long = "command", value_name = "QUERY", conflicts_with = "file")]
    pub query: Option<String>,
    /// A file of statements; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl Text {
    /// The statements, if they were given as an argument.
    pub fn given(&self) -> Option<&str> {
        self.statements.as_deref().or(self.script.query.as_deref())
    }
}

/// How queries are run and results are shown.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// In how many shards files are read.
    #[arg(long, global = true, value_name = "N", value_parser = at_least_one)]
    pub shards: Option<usize>,
    /// 1 runs everything on one thread; more read files in as many shards, unless --shards says otherwise.
    #[arg(long, global = true, value_name = "N", value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// How much memory the operators of a query may take together, as 512MB or 2GiB; what is more is written
    /// to disk.
    #[arg(long, global = true, value_name = "SIZE", value_parser = bytes)]
    pub memory_limit: Option<usize>,
    /// Where the rows go; the suffix says the format. `-` is standard output.
    #[arg(short, long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The form of the rows.
    #[arg(long, global = true, value_name = "FORMAT",
          value_parser = EnumValueParser::<Format>::new().map(Form::Rows))]
    pub format: Option<Form>,
    /// Show no progress bar. There is none anyway where standard error is not a terminal.
    #[arg(long, global = true)]
    pub no_progress: bool,
    /// How many rows of a table are shown, the first and the last; 0 shows all.
    #[arg(long, global = true, value_name = "N", default_value_t = 40)]
    pub max_rows: usize,
    /// How wide a table may be; by default as wide as the terminal.
    #[arg(long, global = true, value_name = "N", value_parser = at_least_one)]
    pub max_width: Option<usize>,
    /// Say how long each statement took, on standard error.
    #[arg(long, global = true)]
    pub time: bool,
}

impl Settings {
    /// In how many shards files are read, if that was said.
    pub fn shards(&self) -> Option<usize> {
        self.shards.or(self.threads.filter(|threads| *threads > 1))
    }

    /// How plans are run.
    pub fn options(&self) -> Options {
        let runtime = if self.threads == Some(1) { RuntimeKind::Library } else { RuntimeKind::Local };
        Options { runtime, memory_limit: self.memory_limit, ..Options::default() }
    }

    /// Whether to show how far queries have come.
    pub fn progress(&self) -> bool {
        !self.no_progress && std::io::stderr().is_terminal()
    }

    /// How results look.
    pub fn look(&self) -> Look {
        let format = self.format.and_then(|form| match form {
            Form::Rows(format) => Some(format),
            Form::Findings(_) => None,
        });
        Look { format, max_rows: self.max_rows, max_width: self.max_width }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it is at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it is a whole number, at least 1".into()),
    }
}

/// A number of bytes: `512MB`, `1.5GiB`, `65536`.
fn bytes(text: &str) -> Result<usize, String> {
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
    use super::{Arguments, bytes};
    use clap::CommandFactory;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("512MB"), Ok(512_000_000));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes("65536"), Ok(65536));
        for wrong in ["", "MB", "5XB", "-1", "0"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
