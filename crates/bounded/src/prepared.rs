//! A statement that is ready: compiled and lowered once, called many times, from any number of threads.

use crate::contention::Contention;
use crate::cursor::{self, Cursor, Place};
use crate::database::{Compiled, Inner};
use crate::error::{Error, Result};
use crate::execute::{self, Argument, Call, Page, Program};
use crate::numbers::Number;
use crate::plan::{ParameterType, Plan};
use crate::store::Metered;
use crate::target::Target;
use crate::write::{self, Kind, Written};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use std::sync::{Arc, PoisonError, RwLock};

/// A statement that is ready to be called.
pub struct Prepared {
    pub(crate) database: Arc<Inner>,
    sql: String,
    ready: RwLock<Arc<Ready>>,
}

struct Ready {
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
    pub(crate) fn new(database: Arc<Inner>, sql: &str) -> Result<Prepared> {
        let ready = RwLock::new(Arc::new(make_ready(&database, sql, &[])?));
        Ok(Prepared { database, sql: sql.to_string(), ready })
    }

    /// The plan, with its bound. For a write it is that of the query for the rows that change, and what writing them
    /// can cost at most is beside it, views included.
    pub fn plan(&self) -> Plan {
        self.held().compiled.plan.clone()
    }

    /// What its parameters take, in the order of a call.
    pub fn parameters(&self) -> Vec<ParameterType> {
        self.held().compiled.plan.parameters.clone()
    }

    /// Calls it with these values. A query with pages returns the first; a write returns how many rows it wrote.
    ///
    /// # Errors
    /// `Invalid` if the values do not fit, `Data` if a row violates a constraint, `Unavailable` if the store is away,
    /// `Conflict` if others changed the same rows for longer than
    /// [`Options::conflict_timeout`](crate::database::Options).
    pub fn call(&self, arguments: &[Argument]) -> Result<Page> {
        self.page(arguments, None)
    }

    /// The page that begins at this cursor.
    ///
    /// # Errors
    /// As [`call`](Prepared::call); `Invalid` if the cursor was changed, or is of another query, other values, or from
    /// before a change of the schema.
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
            Some(cursor) => self.behind(cursor, Some(arguments)),
            None => self.run(arguments),
        }
    }

    /// The page that begins at this cursor, with the values that the cursor carries. Who has a cursor of a query that
    /// is for one user alone can so read on in that user's name: where that matters, give the values to
    /// [`page`](Prepared::page), and a cursor of somebody else is refused.
    ///
    /// # Errors
    /// As [`page`](Prepared::page); `Invalid` if the values are too long to be in a cursor (512 bytes).
    pub fn resume(&self, cursor: &Cursor) -> Result<Page> {
        self.behind(cursor, None)
    }

    /// Whether a call returns how many rows it wrote: it is a write without `returning`.
    pub fn counts(&self) -> bool {
        let ready = self.held();
        ready.compiled.write.is_some() && ready.returning.is_none()
    }

    fn behind(&self, cursor: &Cursor, given: Option<&[Argument]>) -> Result<Page> {
        let ready = self.current()?;
        let plan = &ready.compiled.plan;
        if plan.page.is_none() {
            return Err(Error::invalid("a cursor is for a query with paginate"));
        }
        let key = &self.database.cursor_key;
        let (place, arguments) = cursor::verify(cursor, &ready.compiled.owner, &plan.parameters, given, key)?;
        let metered = Metered::new(&self.database.store);
        self.read(&ready, &metered, &arguments, Some(place))
    }

    fn run(&self, arguments: &[Argument]) -> Result<Page> {
        let metered = Metered::new(&self.database.store);
        let mut contention = Contention::new(self.database.options.conflict_timeout);
        loop {
            let ready = self.ready_for(arguments)?;
            let compiled = &ready.compiled;
            let page = self.read(&ready, &metered, arguments, None)?;
            let Some(target) = &compiled.write else { return Ok(page) };
            let schema = self.database.schema();
            if schema.version != compiled.version {
                continue;
            }
            let versions = &self.database.versions;
            match write::write(&metered, &schema, versions, target, &page.batch, &mut contention)? {
                Written::Rows(rows) => {
                    let batch = match &ready.returning {
                        None => counted(rows)?,
                        Some(program) => {
                            let columns = written(target, &page.batch);
                            let call = self.called(&ready, &metered, arguments, None)?;
                            execute::over(program, columns, page.batch.num_rows(), &call)?
                        }
                    };
                    return Ok(Page { batch, cursor: None, spent: metered.operations() });
                }
                Written::OtherSchema => self.database.refresh()?,
                Written::Again => {}
            }
            contention.pause(|| {
                format!(
                    "nothing was written: others wrote to the same rows of {} again and again",
                    target.table.name
                )
            })?;
        }
    }

    /// The rows of the query, or of the query for the rows that a write changes.
    fn read(
        &self,
        ready: &Ready,
        metered: &Metered<'_>,
        arguments: &[Argument],
        place: Option<Place>,
    ) -> Result<Page> {
        let (plan, owner) = (&ready.compiled.plan, &ready.compiled.owner);
        let call = self.called(ready, metered, arguments, place)?;
        let mut answer = execute::run(&ready.program, &call)?;
        if let Some((at, most)) = plan.rows {
            let rows = rows_given(&call.values[at], most)?;
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

    fn called<'m>(
        &self,
        ready: &Ready,
        metered: &'m Metered<'_>,
        arguments: &[Argument],
        place: Option<Place>,
    ) -> Result<Call<'m>> {
        let parameters = &ready.compiled.plan.parameters;
        Call::new(metered, self.database.options.executor, parameters, arguments, place)
    }

    fn held(&self) -> Arc<Ready> {
        self.ready.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ready for these values. A number that no row can have is not rounded where it is compared: the statement is
    /// compiled with it, as if it had been written there.
    fn ready_for(&self, arguments: &[Argument]) -> Result<Arc<Ready>> {
        let ready = self.current()?;
        let Compiled { plan, stored, .. } = &ready.compiled;
        let mut beyond = execute::beyond(&plan.parameters, arguments);
        beyond.retain(|(at, _)| !stored.contains(at));
        match beyond.first() {
            None => Ok(ready),
            Some((at, _)) if plan.page.is_some() => Err(Error::invalid(format!(
                "parameter {} is a number that no row can have, and the query has pages: round it to {}",
                at + 1,
                plan.parameters[*at].of
            ))),
            Some(_) => Ok(Arc::new(make_ready(&self.database, &self.sql, &beyond)?)),
        }
    }

    /// As it is over the schema of now.
    fn current(&self) -> Result<Arc<Ready>> {
        let held = self.held();
        if held.compiled.version == self.database.schema().version {
            return Ok(held);
        }
        let ready = Arc::new(make_ready(&self.database, &self.sql, &[])?);
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = ready.clone();
        Ok(ready)
    }
}

/// Compiles a statement, with numbers in place of some parameters.
fn make_ready(database: &Inner, sql: &str, numbers: &[(usize, Number)]) -> Result<Ready> {
    let mut contention = Contention::new(database.options.conflict_timeout);
    loop {
        let compiled = database.compile_with(sql, numbers)?;
        if compiled.plan.new_indexes.is_empty() {
            let parameters = &compiled.plan.parameters;
            let program = Program::new(&compiled.plan.chain, parameters)?;
            let returning = compiled.returning.as_ref();
            let returning = returning.map(|chain| Program::new(chain, parameters)).transpose()?;
            return Ok(Ready { compiled, program, returning });
        }
        match database.make_indexes(&compiled) {
            // Somebody else changed the schema: it was read again, and the plan is looked for in it.
            Err(Error::Conflict(says)) if database.schema().version != compiled.version => {
                contention.pause(|| says)?;
            }
            made => made?,
        }
    }
}

/// How many rows are wanted, as it was given.
fn rows_given(value: &ArrayRef, most: u64) -> Result<usize> {
    let given = value.as_primitive_opt::<Int64Type>().filter(|value| value.is_valid(0));
    let given = given.and_then(|value| u64::try_from(value.value(0)).ok()).filter(|rows| *rows <= most);
    match given {
        Some(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
        None => Err(Error::invalid(format!("limit takes a whole number of rows here, 0 to {most}"))),
    }
}

/// How many rows were written, as a table.
fn counted(rows: u64) -> Result<RecordBatch> {
    let rows: ArrayRef = Arc::new(Int64Array::from(vec![rows as i64]));
    Ok(RecordBatch::try_from_iter([("rows", rows)])?)
}

/// The rows as they are after a write; those that are gone, as they were.
fn written<'b>(target: &Target, batch: &'b RecordBatch) -> &'b [ArrayRef] {
    match target.kind {
        Kind::Update => &batch.columns()[target.table.columns.len()..],
        Kind::Insert | Kind::Upsert | Kind::Delete => batch.columns(),
    }
}
