//! PostgreSQL as a store: one table, a key and a value, bytes both.
//!
//! Keys of type `bytea` are ordered byte by byte whatever the database's collation, so ranges are ranges of
//! the primary key's B-tree, over all keys. A round of requests is one round trip: one statement for each
//! kind of request in it, which looks all of them up in a loop over the index, sent one behind the other
//! without waiting.
//!
//! A commit is one serializable transaction, sent as a whole: begin, one statement that checks the conditions
//! and writes only if all are true, commit. PostgreSQL aborts one of two that could not have run one after
//! the other; it is tried again. `synchronous_commit` is switched on, so what is done is on the server's
//! disk.
//!
//! Invariant: a commit is sent again only if the server said that it was rolled back; with a connection that
//! broke nobody knows, and the caller is told so.
//!
//! Not here: TLS. Put the server where the network is trusted, or a proxy that speaks TLS before it.

mod statements;

use super::interface::{Atomicity, Capabilities, Condition, Found, Order, Outcome, Read, Store, Write};
use super::pool::Pool;
use super::url::Settings;
use crate::error::{Error, Result};
use statements::{Proposal, Round, Span, Statements};
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error as Failure, NoTls, Row, Statement};

/// Who makes a table holds this lock, an arbitrary number, so that two do not make it at once.
const MAKING: i64 = 7_766_554_433;

/// What every connection is set to. Plans by the index whatever the statistics say: a table that has just
/// been filled or emptied has wrong ones, and what a request costs must not depend on how many rows there
/// are.
const SETTINGS: &str = "set synchronous_commit = on; set plan_cache_mode = force_generic_plan; \
    set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set enable_bitmapscan = off; \
    set jit = off; set max_parallel_workers_per_gather = 0";

/// A store in a table of PostgreSQL.
///
/// ```no_run
/// use whimbrel_bounded::{Database, PostgresStore};
///
/// let store = PostgresStore::open("postgres://app@localhost/app?table=bounded&connections=8")?;
/// let db = Database::open(store)?;
/// # Ok::<(), whimbrel_bounded::Error>(())
/// ```
pub struct PostgresStore {
    pool: Pool<Session>,
    server: Server,
}

/// Where a table is, and how long a call may take.
struct Server {
    config: Config,
    table: String,
    timeout: Duration,
}

/// A connection and its statements. Its runtime runs only while a call waits for it.
struct Session {
    runtime: Option<Runtime>,
    client: Client,
    statements: Statements,
    timeout: Duration,
}

impl PostgresStore {
    /// Opens a table, or makes it.
    ///
    /// `postgres://user:password@host:port/database`, or `postgres:///database?host=FOLDER` with the folder
    /// of a socket. Settings: `table` (`whimbrel` if it is not given; `schema.table` is one too),
    /// `connections` (at most, 16), `timeout` (seconds that a call may take, 5); every other is the client's,
    /// as in `application_name=…`.
    ///
    /// # Errors
    /// `Invalid` if the address is none, `Unavailable` if the server does not let us in.
    pub fn open(url: &str) -> Result<PostgresStore> {
        let mut settings = Settings::of(url);
        let table = settings.name("table", '.')?.unwrap_or("whimbrel");
        let connections = settings.connections()?;
        let timeout = settings.timeout()?;
        let config = settings.rest().parse::<Config>();
        let mut config = config
            .map_err(|error| Error::invalid(format!("`{}`: {error}", super::url::shown(settings.address))))?;
        config.connect_timeout(timeout).keepalives_idle(Duration::from_secs(60));
        let table = table.split('.').map(|part| format!("\"{part}\"")).collect::<Vec<_>>().join(".");
        let server = Server { config, table, timeout };
        outside(|| server.prepare_table())?;
        Ok(PostgresStore { pool: Pool::new(connections, timeout), server })
    }
}

impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { order: Order::Global, atomicity: Atomicity::Batch, batched_ranges: true, counts: true }
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        outside(|| self.pool.with_again(|| self.server.session(), |session| session.read(requests)))
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        outside(|| self.pool.with(|| self.server.session(), |session| session.commit(conditions, writes)))
    }
}

/// A thread of an asynchronous runtime must not wait inside another one: for it, another thread does.
fn outside<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if Handle::try_current().is_err() {
        return work();
    }
    let panicked = |_| Err(Error::Internal("a call of the store panicked".to_string()));
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(panicked))
}

/// The error for a failed statement or connection.
fn away(error: Failure) -> Error {
    Error::Unavailable(format!("PostgreSQL: {error}"))
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait, so it may happen on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

/// The runtime that all connections share.
fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::Unavailable(format!("no connection to PostgreSQL can be made: {error}")))
}

/// Waits for a server, but not for ever.
fn wait<T>(runtime: &Runtime, timeout: Duration, work: impl Future<Output = T>) -> Result<T> {
    let done = runtime.block_on(async { tokio::time::timeout(timeout, work).await });
    done.map_err(|_| {
        Error::Unavailable(format!("PostgreSQL did not answer within {} s (`?timeout=`)", timeout.as_secs()))
    })
}

impl Server {
    async fn connect(&self) -> std::result::Result<Client, Failure> {
        let (client, connection) = self.config.connect(NoTls).await?;
        // What goes wrong with it, the client says too.
        tokio::spawn(async move { drop(connection.await) });
        let timeout = self.timeout.as_millis();
        client.batch_execute(&format!("{SETTINGS}; set statement_timeout = {timeout}")).await?;
        Ok(client)
    }

    /// Creates the table if it does not exist.
    fn prepare_table(&self) -> Result<()> {
        let table = &self.table;
        // `if not exists` alone fails where two make it at the same time.
        let make = format!(
            "begin; select pg_advisory_xact_lock({MAKING});
             create table if not exists {table} (key bytea primary key, value bytea not null); commit"
        );
        let made = async {
            let client = self.connect().await?;
            let there = client.query_one("select to_regclass($1) is not null", &[table]).await?;
            match there.get(0) {
                true => Ok(()),
                false => client.batch_execute(&make).await,
            }
        };
        wait(&runtime()?, self.timeout, made)?.map_err(away)
    }

    /// Opens a connection.
    fn session(&self) -> Result<Session> {
        let opened = async {
            let client = self.connect().await?;
            let statements = Statements::prepare(&client, &self.table).await?;
            Ok((client, statements))
        };
        let runtime = runtime()?;
        let (client, statements) = wait(&runtime, self.timeout, opened)?.map_err(away)?;
        Ok(Session { runtime: Some(runtime), client, statements, timeout: self.timeout })
    }
}

impl Session {
    /// Waits for a future, at most as long as a call may take.
    fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let runtime = self.runtime.as_ref();
        let runtime = runtime.ok_or_else(|| Error::Internal("a closed connection was used".to_string()))?;
        wait(runtime, self.timeout, work)
    }

    /// Sends the statements of a round, and waits for all of them.
    fn read(&mut self, requests: &[Read]) -> Result<Vec<Found>> {
        let (round, mut answers) = Round::of(requests);
        let Statements { gets, forward, backward, counts, .. } = &self.statements;
        let all = async {
            tokio::try_join!(
                self.gets(gets, &round.gets),
                self.spans(forward, &round.forward),
                self.spans(backward, &round.backward),
                self.spans(counts, &round.counts),
            )
        };
        let (gets, forward, backward, counts) = self.wait(all)?.map_err(away)?;
        for row in gets {
            answers[place(&round.gets, &row)?] = Found::Value(Some(row.get(1)));
        }
        for (rows, requests) in [(forward, &round.forward), (backward, &round.backward)] {
            for row in rows {
                if let Found::Entries(entries) = &mut answers[place(requests, &row)?] {
                    entries.push(row.get(1), row.get(2));
                }
            }
        }
        for row in counts {
            answers[place(&round.counts, &row)?] = Found::Count(row.get::<_, i64>(1) as usize);
        }
        Ok(answers)
    }

    async fn gets(
        &self,
        statement: &Statement,
        gets: &[(usize, &[u8])],
    ) -> std::result::Result<Vec<Row>, Failure> {
        if gets.is_empty() {
            return Ok(vec![]);
        }
        let keys: Vec<&[u8]> = gets.iter().map(|(_, key)| *key).collect();
        self.client.query(statement, &[&keys]).await
    }

    async fn spans(
        &self,
        statement: &Statement,
        spans: &[(usize, Span<'_>)],
    ) -> std::result::Result<Vec<Row>, Failure> {
        if spans.is_empty() {
            return Ok(vec![]);
        }
        let from: Vec<&[u8]> = spans.iter().map(|(_, span)| span.0).collect();
        let to: Vec<&[u8]> = spans.iter().map(|(_, span)| span.1).collect();
        let limits: Vec<i64> = spans.iter().map(|(_, span)| span.2).collect();
        self.client.query(statement, &[&from, &to, &limits]).await
    }

    /// Sends one transaction.
    fn commit(&mut self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        let proposal = Proposal::of(conditions, writes);
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            match self.wait(self.propose(&proposal))? {
                Ok(None) => return Ok(Outcome::Done),
                Ok(Some(failed)) => return Ok(Outcome::Failed(failed as usize)),
                Err(error) if !rolled_back(&error) => return Err(away(error)),
                Err(error) if started.elapsed() > self.timeout => {
                    return Err(Error::Conflict(format!(
                        "PostgreSQL: other writers were always first, for {} s: {error}",
                        self.timeout.as_secs()
                    )));
                }
                // Two that were in each other's way must not meet again.
                Err(_) => std::thread::sleep(pause.mul_f64(random())),
            }
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// One try, in one round trip; which condition was not true.
    async fn propose(&self, proposal: &Proposal<'_>) -> std::result::Result<Option<i32>, Failure> {
        let parameters = proposal.parameters();
        let (begun, answered, ended) = tokio::join!(
            biased;
            self.client.batch_execute("begin isolation level serializable"),
            self.client.query_one(&self.statements.commit, &parameters),
            self.client.batch_execute("commit"),
        );
        begun?;
        let failed = answered?.get(0);
        ended?;
        Ok(failed)
    }
}

/// Whether the server says that nothing was written, and that another try may do better.
fn rolled_back(error: &Failure) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
    })
}

/// A number from a half to one and a half; if there are no random numbers, one.
fn random() -> f64 {
    getrandom::u32().map_or(1.0, |bits| 0.5 + f64::from(bits) / f64::from(u32::MAX))
}

/// The request that a row answers: its first column counts them from one.
fn place<T>(requests: &[(usize, T)], row: &Row) -> Result<usize> {
    let at = row.get::<_, i64>(0) as usize;
    requests
        .get(at.wrapping_sub(1))
        .map(|(place, _)| *place)
        .ok_or_else(|| Error::Internal("PostgreSQL answered a request that was not made".to_string()))
}
