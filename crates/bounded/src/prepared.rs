//! A statement that is ready: compiled and lowered once, called many times, from any number of threads.

use crate::cursor::{self, Cursor};
use crate::database::{Compiled, Inner};
use crate::error::{Error, Result};
use crate::execute::{self, Argument, Call, Page, Program};
use crate::plan::Plan;
use crate::write::{self, Written};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use std::sync::{Arc, PoisonError, RwLock};

/// A statement that is ready to be called.
pub struct Prepared {
    database: Arc<Inner>,
    sql: String,
    ready: RwLock<Arc<Ready>>,
}

struct Ready {
    compiled: Compiled,
    program: Program,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("sql", &self.sql).finish_non_exhaustive()
    }
}

impl Prepared {
    pub(crate) fn new(database: Arc<Inner>, sql: &str) -> Result<Prepared> {
        let ready = RwLock::new(Arc::new(make_ready(&database, sql)?));
        Ok(Prepared { database, sql: sql.to_string(), ready })
    }

    /// The plan, with its bound. For a write it is that of the query for the rows that change.
    pub fn plan(&self) -> Plan {
        self.held().compiled.plan.clone()
    }

    /// Calls it with these values. A query with pages returns the first; a write returns how many rows it wrote.
    ///
    /// # Errors
    /// `Invalid` if the values do not fit, `Data` if a row violates a constraint, `Unavailable` if the store is away or
    /// the same row was changed again and again by others.
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
        for _ in 0..self.database.options.tries {
            let ready = self.current()?;
            let compiled = &ready.compiled;
            let key = &self.database.cursor_key;
            let place = match cursor {
                Some(_) if compiled.plan.page.is_none() => {
                    return Err(Error::invalid("a cursor is for a query with paginate"));
                }
                Some(cursor) => Some(cursor::verify(cursor, &compiled.owner, arguments, key)?),
                None => None,
            };
            let store = self.database.store.as_ref();
            let executor = self.database.options.executor;
            let call = Call::new(store, executor, &compiled.plan.parameters, arguments, place)?;
            let answer = execute::run(&ready.program, &call)?;
            let Some((kind, table)) = &compiled.write else {
                let cursor = answer.next.map(|place| cursor::sign(&place, &compiled.owner, arguments, key));
                return Ok(Page { batch: answer.batch, cursor });
            };
            let schema = self.database.schema();
            if schema.version != compiled.version {
                continue;
            }
            match write::write(store, &schema, &self.database.versions, table, *kind, &answer.batch)? {
                Written::Rows(rows) => return counted(rows),
                Written::OtherSchema => self.database.refresh()?,
                Written::Again => {}
            }
        }
        Err(Error::Unavailable("others changed the same row again and again: try again later".to_string()))
    }

    fn held(&self) -> Arc<Ready> {
        self.ready.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As it is over the schema of now.
    fn current(&self) -> Result<Arc<Ready>> {
        let held = self.held();
        if held.compiled.version == self.database.schema().version {
            return Ok(held);
        }
        let ready = Arc::new(make_ready(&self.database, &self.sql)?);
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = ready.clone();
        Ok(ready)
    }
}

fn make_ready(database: &Inner, sql: &str) -> Result<Ready> {
    for _ in 0..database.options.tries {
        let compiled = database.compile(sql)?;
        if compiled.plan.new_indexes.is_empty() {
            let program = Program::new(&compiled.plan.chain, &compiled.plan.parameters)?;
            return Ok(Ready { compiled, program });
        }
        match database.make_indexes(&compiled) {
            // Somebody else changed the schema: it was read again, and the plan is looked for in it.
            Err(Error::Unavailable(_)) if database.schema().version != compiled.version => {}
            made => made?,
        }
    }
    Err(Error::Unavailable("others change the schema all the time: try again later".to_string()))
}

/// How many rows were written, as a table.
fn counted(rows: u64) -> Result<Page> {
    let rows: ArrayRef = Arc::new(Int64Array::from(vec![rows as i64]));
    Ok(Page { batch: RecordBatch::try_from_iter([("rows", rows)])?, cursor: None })
}
