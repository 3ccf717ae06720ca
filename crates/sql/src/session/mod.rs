//! The front door: a session plans statements one by one. [`Planned`] is what its caller has to do.

mod defaults;
mod natural_join;
pub(crate) mod planned;
mod qualifiers;
mod star_expansion;
mod state;
mod statement;
mod store;
mod time_zone;

pub use planned::{Planned, Store, StoreMode, Stored};
pub use state::Session;

use crate::columns::restart_fresh_names;
use crate::planner::Candidate;
use crate::syntax::parameters::Parameters;
use crate::syntax::script::{self, Statement};
use crate::syntax::{self, Parsed, Spelling};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use whimbrel_plan::with_room;

impl Session {
    /// Splits a script at its semicolons.
    ///
    /// ```
    /// let statements = whimbrel_sql::Session::split("select ';'; -- done;\nshow tables").unwrap();
    /// let texts: Vec<&str> = statements.iter().map(|statement| statement.text).collect();
    /// assert_eq!(texts, ["select ';'", "show tables"]);
    /// ```
    ///
    /// # Errors
    /// `SQL` if a string or a comment does not end.
    pub fn split(script: &str) -> Result<Vec<Statement<'_>>> {
        script::split(script)
    }

    /// Plans one statement.
    ///
    /// # Errors
    /// `SQL` and `Plan` if the statement is wrong; [`render`](crate::render) shows where. Those of
    /// [`Files::open`](crate::Files::open).
    pub fn plan(&mut self, sql: &str) -> Result<Planned> {
        self.with_spelling(sql, statement::plan)
    }

    /// Plans one statement with parameters: `$1`, `?`, `$name`, `:name`.
    ///
    /// # Errors
    /// As `plan`; `Plan` if a parameter has no value.
    pub fn plan_with(&mut self, sql: &str, parameters: &mut Parameters) -> Result<Planned> {
        self.with_parameters(sql, parameters, statement::plan)
    }

    /// All ways to run a query in shards, with their expected costs; the first is the one that
    /// [`plan`](Session::plan) returns.
    ///
    /// # Errors
    /// As `plan`; `Plan` if the statement is no query.
    pub fn candidates(&mut self, sql: &str) -> Result<Vec<Candidate>> {
        self.with_spelling(sql, |session, parsed| {
            statement::candidates(session, parsed.statement, parsed.emit)
        })
    }

    /// All ways to run a query with parameters.
    ///
    /// # Errors
    /// As `candidates`, and as `plan_with`.
    pub fn candidates_with(&mut self, sql: &str, parameters: &mut Parameters) -> Result<Vec<Candidate>> {
        self.with_parameters(sql, parameters, |session, parsed| {
            statement::candidates(session, parsed.statement, parsed.emit)
        })
    }

    /// Writes the rows of a [`Planned::Store`] into its table.
    ///
    /// # Errors
    /// `Plan` if the table was dropped or the rows do not fit; `Execution` if a row breaks a constraint.
    pub fn store(&mut self, store: &Store, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Stored> {
        store::write(self, store, schema, rows)
    }

    /// Plans a statement with the values of its parameters.
    fn with_parameters<T>(
        &mut self,
        sql: &str,
        parameters: &mut Parameters,
        make: impl Fn(&mut Session, Parsed) -> Result<T>,
    ) -> Result<T> {
        let before = parameters.clone();
        self.with_spelling(sql, |session, mut parsed| {
            // A statement may be planned several times until its names are known.
            *parameters = before.clone();
            parameters.bind(&mut parsed.statement)?;
            make(session, parsed)
        })
    }

    /// Plans a statement again and again until the spelling of its names is known.
    fn with_spelling<T>(
        &mut self,
        sql: &str,
        mut make: impl FnMut(&mut Session, Parsed) -> Result<T>,
    ) -> Result<T> {
        self.state.mark_start_execution();
        let mut spelling = Spelling::default();
        with_room(|| {
            loop {
                restart_fresh_names();
                let mut parsed = syntax::parse(sql, &spelling)?;
                let made = natural_join::expand_stars_and_natural_joins(self, &mut parsed.statement)
                    .and_then(|()| make(self, parsed));
                let Err(error) = &made else { return made };
                // Each round learns the spelling of one more name, so there are not more rounds than names.
                if !spelling.record_misspelling(error) {
                    return made;
                }
            }
        })
    }
}
