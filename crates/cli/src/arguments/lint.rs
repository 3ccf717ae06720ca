//! The arguments of `whimbrel lint`.

use super::format::{FindingFormat, OutputFormat};
use clap::Args;
use clap::builder::{EnumValueParser, TypedValueParser};
use std::path::PathBuf;

/// The files to check, and how.
#[derive(Debug, Args)]
pub struct Lint {
    /// The statements that make the schema.
    pub schema: PathBuf,
    /// The queries and writes of the application.
    #[arg(required = true)]
    pub queries: Vec<PathBuf>,
    /// More of the schema, such as `alter table t add cardinality limit 100 (owner)` for a schema that is
    /// dumped.
    #[arg(long, value_name = "FILE")]
    pub limits: Vec<PathBuf>,
    /// Schema and queries are those of an ordinary PostgreSQL application; an index that is missing is an
    /// error.
    #[arg(long)]
    pub plain_sql: bool,
    /// How many values an array parameter of PostgreSQL can have, as in `id = any($1)`; without it there is
    /// no bound.
    #[arg(long, value_name = "N", requires = "plain_sql")]
    pub most_values: Option<u64>,
    /// How many rows a query of PostgreSQL can ask for where a parameter says it, as in `limit $1`; without
    /// it there is no bound.
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
          value_parser = EnumValueParser::<FindingFormat>::new().map(OutputFormat::Findings))]
    pub format: Option<OutputFormat>,
}
