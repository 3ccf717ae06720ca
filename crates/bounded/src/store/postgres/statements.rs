//! What PostgreSQL is asked: one statement for each kind of request, and one for a commit.

use crate::store::{Condition, Entries, Found, Read, Write};
use std::collections::BTreeMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

/// The statements of a connection.
pub(super) struct Statements {
    pub gets: Statement,
    pub forward: Statement,
    pub backward: Statement,
    pub counts: Statement,
    pub commit: Statement,
}

/// The requests of a round, sorted by kind; each with its place.
#[derive(Default)]
pub(super) struct Round<'r> {
    pub gets: Vec<(usize, &'r [u8])>,
    pub forward: Vec<(usize, Span<'r>)>,
    pub backward: Vec<(usize, Span<'r>)>,
    pub counts: Vec<(usize, Span<'r>)>,
}

/// From here to there, so many.
pub(super) type Span<'r> = (&'r [u8], &'r [u8], i64);

impl<'r> Round<'r> {
    /// The requests by kind, and an answer for each as if nothing were there.
    pub fn of(requests: &'r [Read]) -> (Round<'r>, Vec<Found>) {
        let mut round = Round::default();
        let mut answers = Vec::with_capacity(requests.len());
        for (at, request) in requests.iter().enumerate() {
            match request {
                Read::Get(key) => {
                    round.gets.push((at, key));
                    answers.push(Found::Value(None));
                }
                Read::Range { from, to, limit, reverse } => {
                    let kind = if *reverse { &mut round.backward } else { &mut round.forward };
                    kind.push((at, (from, to, number(*limit))));
                    answers.push(Found::Entries(Entries::default()));
                }
                Read::Count { from, to, up_to } => {
                    round.counts.push((at, (from, to, number(*up_to))));
                    answers.push(Found::Count(0));
                }
            }
        }
        (round, answers)
    }
}

/// A count as a number of SQL.
fn number(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl Statements {
    pub async fn prepare(client: &Client, table: &str) -> Result<Statements, Error> {
        // The inner query is run for one request after the other, so rows come in the order of requests, and
        // within each in its own.
        let range = |direction: &str| {
            format!(
                "select q.at, r.key, r.value
                 from unnest($1::bytea[], $2::bytea[], $3::bigint[]) with ordinality as q(lower, upper, most, at)
                 cross join lateral (select key, value from {table} where key >= q.lower and key < q.upper
                     order by key {direction} limit q.most) r"
            )
        };
        let gets = format!(
            "select q.at, t.value from unnest($1::bytea[]) with ordinality as q(key, at)
             join {table} t on t.key = q.key"
        );
        let counts = format!(
            "select q.at, (select count(*) from (select 1 from {table} where key >= q.lower and key < q.upper
                 limit q.most) r)
             from unnest($1::bytea[], $2::bytea[], $3::bigint[]) with ordinality as q(lower, upper, most, at)"
        );
        Ok(Statements {
            gets: client.prepare(&gets).await?,
            forward: client.prepare(&range("asc")).await?,
            backward: client.prepare(&range("desc")).await?,
            counts: client.prepare(&counts).await?,
            commit: client.prepare(&commit(table)).await?,
        })
    }
}

/// Checks conditions of three kinds, each with its number; writes if none failed; returns the first that did.
fn commit(table: &str) -> String {
    format!(
        "with failed as materialized (
             select min(broken.at) as at from (
                 select c.at from unnest($1::int[], $2::bytea[], $3::bytea[]) as c(at, key, value)
                     left join {table} t on t.key = c.key where t.value is distinct from c.value
                 union all
                 select c.at from unnest($4::int[], $5::bytea[]) as c(at, key)
                     left join {table} t on t.key = c.key where t.key is null
                 union all
                 select c.at from unnest($6::int[], $7::bytea[], $8::bytea[], $9::bigint[]) as c(at, lower, upper, most)
                     where (select count(*) from (select 1 from {table} where key >= c.lower and key < c.upper
                         limit c.most + 1) r) > c.most
             ) broken),
         gone as (
             delete from {table} using unnest($10::bytea[]) as w(key), failed
             where {table}.key = w.key and failed.at is null),
         put as (
             insert into {table} select w.key, w.value from unnest($11::bytea[], $12::bytea[]) as w(key, value), failed
             where failed.at is null
             on conflict (key) do update set value = excluded.value)
         select at from failed"
    )
}

/// Conditions and writes as the parameters of [`commit`], a list for each.
#[derive(Default)]
pub(super) struct Proposal<'c> {
    same: Vec<i32>,
    same_keys: Vec<&'c [u8]>,
    same_values: Vec<Option<&'c [u8]>>,
    exist: Vec<i32>,
    exist_keys: Vec<&'c [u8]>,
    at_most: Vec<i32>,
    at_most_from: Vec<&'c [u8]>,
    at_most_to: Vec<&'c [u8]>,
    at_most_keys: Vec<i64>,
    deletes: Vec<&'c [u8]>,
    put_keys: Vec<&'c [u8]>,
    put_values: Vec<&'c [u8]>,
}

impl<'c> Proposal<'c> {
    /// The statements for a table.
    pub fn of(conditions: &'c [Condition], writes: &'c [Write]) -> Proposal<'c> {
        let mut proposal = Proposal::default();
        for (at, condition) in conditions.iter().enumerate() {
            proposal.demand(at as i32, condition);
        }
        // One statement writes a key once: the last write of it stays. In the order of keys, writers wait for
        // each other instead of in a circle.
        let mut last: BTreeMap<&[u8], &Write> = BTreeMap::new();
        last.extend(writes.iter().map(|write| (write.key(), write)));
        for write in last.into_values() {
            match write {
                Write::Put(key, value) => {
                    proposal.put_keys.push(key);
                    proposal.put_values.push(value);
                }
                Write::Delete(key) => proposal.deletes.push(key),
            }
        }
        proposal
    }

    /// Adds a condition to the arguments of a commit.
    fn demand(&mut self, at: i32, condition: &'c Condition) {
        match condition {
            Condition::Same { key, value } => {
                self.same.push(at);
                self.same_keys.push(key);
                self.same_values.push(value.as_deref());
            }
            Condition::Exists(key) => {
                self.exist.push(at);
                self.exist_keys.push(key);
            }
            Condition::AtMost { from, to, keys } => {
                self.at_most.push(at);
                self.at_most_from.push(from);
                self.at_most_to.push(to);
                // One more is counted.
                self.at_most_keys.push(number(*keys).min(i64::MAX - 1));
            }
        }
    }

    /// In the order in which [`commit`] counts them.
    pub fn parameters(&self) -> [&(dyn ToSql + Sync); 12] {
        [
            &self.same,
            &self.same_keys,
            &self.same_values,
            &self.exist,
            &self.exist_keys,
            &self.at_most,
            &self.at_most_from,
            &self.at_most_to,
            &self.at_most_keys,
            &self.deletes,
            &self.put_keys,
            &self.put_values,
        ]
    }
}
