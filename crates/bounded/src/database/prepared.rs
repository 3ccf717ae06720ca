//! Prepared statements: compiled and lowered once, called many times, from any number of threads.
//!
//! A statement is compiled again when the schema has another version.

use super::compiled::Compiled;
use super::engine::Engine;
use crate::arguments::{self, Argument};
use crate::contention::Contention;
use crate::cursor::{self, Cursor, Place};
use crate::error::{Error, Result};
use crate::execute::{self, Call, Page, Program};
use crate::mutation::{WriteKind, WriteOutcome};
use crate::number::Number;
use crate::plan::{ParameterType, Plan};
use crate::predict::{Model, Outline, Prediction, Slo};
use crate::store::Metered;
use crate::write::{self, Progress, Target};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use std::sync::{Arc, PoisonError, RwLock};

/// A prepared statement.
pub struct Prepared {
    /// The database that it runs on.
    pub(crate) database: Arc<Engine>,
    /// The statement.
    sql: String,
    /// What it was compiled to last.
    ready: RwLock<Arc<State>>,
}

/// What a statement was compiled to over one version of the schema.
struct State {
    compiled: Compiled,
    program: Program,
    /// What a write returns of its rows.
    returning: Option<Program>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("sql", &self.sql).finish_non_exhaustive()
    }
}

impl Prepared {
    /// Compiles a statement.
    pub(crate) fn new(database: Arc<Engine>, sql: &str) -> Result<Prepared> {
        let ready = RwLock::new(Arc::new(compile_state(&database, sql, &[])?));
        Ok(Prepared { database, sql: sql.to_string(), ready })
    }

    /// The plan, with its bound. For a write it is that of the query for the rows that change, and what
    /// writing them can cost at most is beside it, views included.
    pub fn plan(&self) -> Plan {
        self.state().compiled.plan.clone()
    }

    /// What its parameters take, in the order of a call.
    pub fn parameters(&self) -> Vec<ParameterType> {
        self.state().compiled.plan.parameters.clone()
    }

    /// Calls it with these values. A query with pages returns the first; a write returns how many rows it
    /// wrote.
    ///
    /// # Errors
    /// `Invalid` if the values do not fit, `Data` if a row violates a constraint, `Unavailable` if the store
    /// is away, `Conflict` if others changed the same rows for longer than
    /// [`Options::conflict_timeout`](crate::database::Options).
    pub fn call(&self, arguments: &[Argument]) -> Result<Page> {
        self.page(arguments, None)
    }

    /// The page that begins at this cursor.
    ///
    /// # Errors
    /// As [`call`](Prepared::call); `Invalid` if the cursor was changed, or is of another query, other
    /// values, or from before a change of the schema.
    ///
    /// ```
    /// # use whimbrel_bounded::{Database, MemoryStore};
    /// # let db = Database::open(MemoryStore::default())?;
    /// # db.execute("create table n (g int, i int, primary key (g, i))", &[])?;
    /// # for i in 0..25 { db.execute("insert into n values (1, ?)", &[i.into()])?; }
    /// let numbers = db.prepare("select i from n where g = ? order by i paginate 10")?;
    /// let (mut rows, mut cursor) = (0, None);
    /// loop {
    ///     let page = numbers.page(&[1.into()], cursor.as_ref())?;
    ///     rows += page.batch.num_rows();
    ///     cursor = page.cursor;
    ///     if cursor.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(rows, 25);
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn page(&self, arguments: &[Argument], cursor: Option<&Cursor>) -> Result<Page> {
        match cursor {
            Some(cursor) => self.page_after(cursor, Some(arguments)),
            None => self.run(arguments),
        }
    }

    /// The page that begins at this cursor, with the values that the cursor carries. Who has a cursor of a
    /// query that is for one user alone can so read on in that user's name: where that matters, give the
    /// values to [`page`](Prepared::page), and a cursor of somebody else is refused.
    ///
    /// # Errors
    /// As [`page`](Prepared::page); `Invalid` if the values are too long to be in a cursor (512 bytes).
    pub fn resume(&self, cursor: &Cursor) -> Result<Page> {
        self.page_after(cursor, None)
    }

    /// Whether a call returns how many rows it wrote: it is a write without `returning`.
    pub fn counts(&self) -> bool {
        let ready = self.state();
        ready.compiled.write.is_some() && ready.returning.is_none()
    }

    /// What a model says about the latency of a call: the plan at its bound, with the executor of this
    /// database. For a write it is the query for the rows that change, without the commit, and does not say
    /// that the promise holds.
    ///
    /// # Errors
    /// `Invalid` if the query has no bound.
    ///
    /// ```
    /// # use whimbrel_bounded::{Database, MemoryStore, predict::{Grid, Options}};
    /// # let db = Database::open(MemoryStore::default())?;
    /// # db.execute("create table users (name varchar(20) primary key)", &[])?;
    /// # let grid = Grid::new(&[1], &[1], &[64])?;
    /// # let model = db.measure(&Options { grid, intervals: 2, samples: 2000, ..Options::default() })?;
    /// let find = db.prepare("select * from users where name = ?")?;
    /// let prediction = find.predict(&model, "99% under 500ms".parse()?)?;
    /// println!("{prediction}");
    /// assert_eq!(prediction.rounds, 1);
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn predict(&self, model: &Model, slo: Slo) -> Result<Prediction> {
        Prediction::of(&Outline::of(&self.plan())?, self.database.options.executor, model, slo)
    }

    /// The page behind a cursor; the arguments are compared with those of the cursor if they are given.
    fn page_after(&self, cursor: &Cursor, given: Option<&[Argument]>) -> Result<Page> {
        let ready = self.current_state()?;
        let plan = &ready.compiled.plan;
        if plan.page.is_none() {
            return Err(Error::invalid("a cursor is for a query with paginate"));
        }
        let key = &self.database.cursor_key;
        let (place, arguments) = cursor::verify(cursor, &ready.compiled.owner, &plan.parameters, given, key)?;
        let metered = Metered::new(&self.database.store);
        self.read(&ready, &metered, &arguments, Some(place))
    }

    /// Runs a query, or a write until it is made or others have been in the way for too long.
    fn run(&self, arguments: &[Argument]) -> Result<Page> {
        let metered = Metered::new(&self.database.store);
        let mut contention = Contention::new(self.database.options.conflict_timeout);
        let mut progress = Progress::default();
        loop {
            let ready = self.state_for(arguments)?;
            let compiled = &ready.compiled;
            let page = self.read(&ready, &metered, arguments, None)?;
            let Some(target) = &compiled.write else { return Ok(page) };
            let schema = self.database.schema();
            if schema.version != compiled.version {
                continue;
            }
            let versions = &self.database.versions;
            let batch = &page.batch;
            let outcome =
                write::write(&metered, &schema, versions, target, batch, &mut progress, &mut contention);
            match outcome.map_err(|error| progress.explain(error))? {
                WriteOutcome::Written => {
                    let batch = match &ready.returning {
                        None => row_count(progress.rows())?,
                        Some(program) => {
                            let written = progress.written(batch)?;
                            let call = self.call_with(&ready, &metered, arguments, None)?;
                            let columns = written_columns(target, &written);
                            execute::run_local_steps(program, columns, written.num_rows(), &call)?
                        }
                    };
                    return Ok(Page { batch, cursor: None, spent: metered.operations() });
                }
                WriteOutcome::OtherSchema => self.database.refresh()?,
                WriteOutcome::Again => {}
            }
            let remedy = match progress.rows() {
                0 => "try again later",
                _ => "it is not safe to repeat the statement, which would write these rows again",
            };
            contention.pause_or(remedy, || {
                format!(
                    "{}: others wrote to the same rows of {} again and again",
                    progress.says().unwrap_or_else(|| "nothing was written".to_string()),
                    target.table.name
                )
            })?;
        }
    }

    /// Runs the query, or the query for the rows of a write.
    fn read(
        &self,
        ready: &State,
        metered: &Metered<'_>,
        arguments: &[Argument],
        place: Option<Place>,
    ) -> Result<Page> {
        let (plan, owner) = (&ready.compiled.plan, &ready.compiled.owner);
        let call = self.call_with(ready, metered, arguments, place)?;
        let mut answer = execute::run(&ready.program, &call)?;
        if let Some((at, most)) = plan.rows {
            let rows = row_count_argument(&call.values[at], most)?;
            answer.batch = answer.batch.slice(0, rows.min(answer.batch.num_rows()));
        }
        let sign =
            |place| cursor::sign(&place, owner, &plan.parameters, arguments, &self.database.cursor_key);
        Ok(Page {
            batch: answer.batch,
            cursor: answer.next.map(sign).transpose()?,
            spent: metered.operations(),
        })
    }

    /// A call of the program with these arguments.
    fn call_with<'m>(
        &self,
        ready: &State,
        metered: &'m Metered<'_>,
        arguments: &[Argument],
        place: Option<Place>,
    ) -> Result<Call<'m>> {
        let parameters = &ready.compiled.plan.parameters;
        Call::new(metered, self.database.options.executor, parameters, arguments, place)
    }

    /// The compiled statement, perhaps of an older schema.
    fn state(&self) -> Arc<State> {
        self.ready.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The compiled statement for these arguments. An argument that is compared and that no value of its
    /// column equals is not rounded: the statement is compiled with it as a literal.
    fn state_for(&self, arguments: &[Argument]) -> Result<Arc<State>> {
        let ready = self.current_state()?;
        let Compiled { plan, stored, .. } = &ready.compiled;
        let mut beyond = arguments::out_of_range(&plan.parameters, arguments);
        beyond.retain(|(at, _)| !stored.contains(at));
        match beyond.first() {
            None => Ok(ready),
            Some((at, _)) if plan.page.is_some() => Err(Error::invalid(format!(
                "parameter {} is a number that no row can have, and the query has pages: round it to {}",
                at + 1,
                plan.parameters[*at].of
            ))),
            Some(_) => Ok(Arc::new(compile_state(&self.database, &self.sql, &beyond)?)),
        }
    }

    /// The statement compiled over the current schema.
    fn current_state(&self) -> Result<Arc<State>> {
        let state = self.state();
        if state.compiled.version == self.database.schema().version {
            return Ok(state);
        }
        let ready = Arc::new(compile_state(&self.database, &self.sql, &[])?);
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = ready.clone();
        Ok(ready)
    }
}

/// Compiles a statement, with numbers in place of some parameters.
fn compile_state(database: &Engine, sql: &str, numbers: &[(usize, Number)]) -> Result<State> {
    let mut contention = Contention::new(database.options.conflict_timeout);
    loop {
        let compiled = database.compile_with(sql, numbers)?;
        if compiled.plan.new_indexes.is_empty() {
            let parameters = &compiled.plan.parameters;
            let program = Program::new(&compiled.plan.chain, parameters)?;
            let returning = compiled.returning.as_ref();
            let returning = returning.map(|chain| Program::new(chain, parameters)).transpose()?;
            return Ok(State { compiled, program, returning });
        }
        match database.make_indexes(&compiled) {
            // Another server changed the schema: it was read again, and the statement is compiled over it.
            Err(Error::Conflict(says)) if database.schema().version != compiled.version => {
                contention.pause(|| says)?;
            }
            made => made?,
        }
    }
}

/// The argument of `limit ? at most n`.
fn row_count_argument(value: &ArrayRef, most: u64) -> Result<usize> {
    let given = value.as_primitive_opt::<Int64Type>().filter(|value| value.is_valid(0));
    let given = given.and_then(|value| u64::try_from(value.value(0)).ok()).filter(|rows| *rows <= most);
    match given {
        Some(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
        None => Err(Error::invalid(format!("limit takes a whole number of rows here, 0 to {most}"))),
    }
}

/// The number of written rows as a batch.
fn row_count(rows: usize) -> Result<RecordBatch> {
    let rows: ArrayRef = Arc::new(Int64Array::from(vec![rows as i64]));
    Ok(RecordBatch::try_from_iter([("rows", rows)])?)
}

/// The new values of the written rows; for a delete, the old ones.
fn written_columns<'b>(target: &Target, batch: &'b RecordBatch) -> &'b [ArrayRef] {
    match target.kind {
        WriteKind::Update => &batch.columns()[target.table.columns.len()..],
        WriteKind::Insert | WriteKind::Upsert | WriteKind::Delete => batch.columns(),
    }
}
