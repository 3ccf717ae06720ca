//! The arguments of the command. Their comments are the help that it prints.
//!
//! Layers, lowest first: `format`, which two settings share; `settings`, `statements`, `bounded`, `worker`
//! and `lint`, the arguments of several or of one sub-command; [`Arguments`], all of them.

mod bounded;
mod cluster;
mod format;
mod job;
mod lint;
mod settings;
mod statements;
mod worker;

pub use bounded::{Bounded, Predict};
pub use cluster::Cluster;
pub use format::{FindingFormat, OutputFormat};
pub use job::{Job, JobSettings};
pub use lint::Lint;
pub use settings::Settings;
pub use statements::{Script, Statements};
pub use worker::Worker;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

/// The end of the help of most sub-commands.
const EXIT_CODES: &str = "\
Exit codes:
  0    all went well
  1    a query failed
  2    the command was called in a wrong way
  130  interrupted";

/// The end of the help of `lint`.
const LINT_EXIT_CODES: &str = "\
Exit codes:
  0    every query has a bound, and none is above the lock file
  1    something was found that has to be mended
  2    the command was called in a wrong way, or a file could not be read";

/// One query engine for every clock speed and every size of machine.
///
/// Without a sub-command: the shell, or, if the input is not a terminal, the statements that are read
/// there.
#[derive(Debug, Parser)]
#[command(name = "whimbrel", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// The sub-command.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Statements to run without a sub-command.
    #[command(flatten)]
    pub script: Script,
    /// How queries are run and where results go.
    #[command(flatten)]
    pub settings: Settings,
}

/// A sub-command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL: a query, a file of statements, standard input, or the shell.
    ///
    /// Files are named in quotes: select * from 'flights.parquet'.
    #[command(after_help = EXIT_CODES)]
    Sql {
        /// Where the statements are.
        #[command(flatten)]
        statements: Statements,
        /// Print each query as a Python program that builds its plan, and do not run it.
        #[arg(long)]
        as_python: bool,
        /// Read standard input, JSON lines or CSV, as the table `stdin`, which grows while the query
        /// runs: tail -f x.jsonl | whimbrel sql --live "select … from stdin group by … emit changes".
        #[arg(long, conflicts_with = "as_python")]
        live: bool,
    },
    /// Show the plan of a query.
    #[command(after_help = EXIT_CODES)]
    Explain {
        /// Where the statements are.
        #[command(flatten)]
        statements: Statements,
        /// Run it, and show what was counted.
        #[arg(long)]
        analyze: bool,
        /// List the ways to run it in shards, with their estimated costs.
        #[arg(long, conflicts_with = "analyze")]
        candidates: bool,
    },
    /// Run a plan file: statements (.sql), a program (.py) that uses the package whimbrel, or a plan in
    /// bytes (.plan).
    ///
    /// With --checkpoint, its query is a job that survives crashes: the same command goes on where it
    /// was.
    #[command(after_help = EXIT_CODES)]
    Run {
        /// The job that its query becomes, if it is to survive crashes.
        #[command(flatten)]
        job: Job,
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
        statements: Statements,
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
    /// A query is called by the comment before it, `-- name: thought_stream`, or else by file and line.
    /// Its parameters are `?`, `$1` or `:name`.
    #[command(after_help = LINT_EXIT_CODES)]
    Lint(Lint),
    /// Measure a store of bounded queries, and predict latencies on it.
    #[command(subcommand, after_help = EXIT_CODES)]
    Bounded(Bounded),
    /// Run a worker of a cluster, until Ctrl-C.
    ///
    /// It runs parts of the queries of all clients, and takes over those of workers that are lost.
    #[command(after_help = EXIT_CODES)]
    Worker(Worker),
    /// Be a function: run the invocations of the function service that has started this process.
    #[command(hide = true)]
    Function,
    /// Look at a cluster, or change it.
    #[command(subcommand, after_help = EXIT_CODES)]
    Cluster(Cluster),
    /// Print what makes a shell complete the arguments of this command.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
