//! The remote operator: keys from rows, requests from keys, rows from answers.
//!
//! An entry of an index can be older or newer than its record. A record is a result if it has the version
//! that the entry was written for, or if the record as it is now makes the same entry. Every other entry is
//! skipped, and as many more entries are read as were skipped, so that a limit is filled. These requests are
//! beyond the bound. Only a crash or a race causes them, and `repair` removes the cause.

use super::aggregate::Grouping;
use super::call::Call;
use super::hit::{Hit, RequestedRange, next_key};
use super::interval::{EndValues, Ends};
use super::local::{self, Local, Scope};
use super::merging::Merging;
use super::rows::Rows;
use crate::datum::Datum;
use crate::error::{Error, Result};
use crate::expression::Columns;
use crate::functions;
use crate::keys::{self, Decoded, KeyOrder};
use crate::plan::{Access, Fetch, Keep, ParameterType};
use crate::record::{self, RowReader};
use crate::schema::{Index, IndexKind, KeyPart, Part, Table, read_entry};
use crate::store::{Found, Read};
use datafusion::arrow::array::{ArrayRef, BinaryArray, UInt32Array};
use datafusion::logical_expr::Expr;
use std::sync::Arc;

/// A lowered fetch.
#[derive(Debug)]
pub(crate) struct Fetcher {
    /// The table.
    table: Arc<Table>,
    /// How rows are found.
    kind: Kind,
    /// The number of the index, and the parts of its keys that have values.
    prefix: Vec<u8>,
    /// The parts of the key.
    keys: Vec<KeyValue>,
    /// The columns of the rows that a later step needs.
    kept: Vec<usize>,
    /// The columns of the table that are read.
    columns: Vec<usize>,
    /// Rows for each key, at most.
    most: usize,
    /// A row without a match stays, with nulls.
    outer: bool,
    keep: Kept,
    /// The condition of a left join that no key implies.
    on: Vec<Local>,
    /// The rows have their positions, for a cursor.
    resumable: bool,
    /// The most rows over all keys, if only the first are needed.
    first: Option<usize>,
}

/// Which matches are kept for each row.
#[derive(Debug)]
enum Kept {
    All,
    First,
    Fold(Grouping),
}

/// How a fetch finds its rows.
#[derive(Debug)]
enum Kind {
    /// By the primary key.
    Record,
    /// By a unique index, and then the record.
    Unique(Index),
    /// As a range of an index.
    Range {
        index: Index,
        parts: Vec<KeyPart>,
        interval: Option<Ends>,
        reverse: bool,
        dereference: bool,
        primary: bool,
    },
}

/// A part of a key, and where its value comes from.
#[derive(Debug)]
struct KeyValue {
    from: From,
    order: KeyOrder,
    word: bool,
}

/// Where the value of a part of a key comes from.
#[derive(Debug)]
enum From {
    Column(usize),
    /// The same for all rows.
    Constant(Local),
    /// The part has to be null.
    Null,
}

/// A fetch that waits for answers.
#[derive(Debug)]
pub(crate) struct Waiting {
    rows: Rows,
    /// The requests that were sent.
    ranges: Vec<RequestedRange>,
    /// The entries whose records are requested now; `None` before the first answers.
    entries: Option<Entries>,
    /// Records that were found so far.
    records: Vec<Hit>,
    /// The merge, if only the first rows over all keys are needed.
    merging: Option<Merging>,
}

/// Entries of an index, grouped by request.
#[derive(Debug)]
struct Entries {
    /// The requests that found them.
    requests: Vec<Read>,
    entries: Vec<Entry>,
}

/// An entry of an index, and the request that found it.
#[derive(Debug)]
struct Entry {
    key: Vec<u8>,
    version: u64,
    /// The position of the request that found it.
    range: usize,
}

/// A hit by reference; without a record if nothing was found.
struct Seen<'a> {
    row: usize,
    prefix: usize,
    key: &'a [u8],
    record: Option<&'a [u8]>,
}

impl Entries {
    /// Decodes the entries in the answers, and requests their records.
    fn of(ranges: &[RequestedRange], answers: Vec<(Read, Found)>, reads: &mut Vec<Read>) -> Result<Entries> {
        let mut entries = Vec::with_capacity(ranges.len());
        let mut requests = Vec::with_capacity(ranges.len());
        for (at, (request, found)) in answers.into_iter().enumerate() {
            let mut entry = |key: &[u8], value: &[u8]| {
                let (version, record) = read_entry(value)?;
                reads.push(Read::Get(record.to_vec()));
                entries.push(Entry { key: key.to_vec(), version, range: at });
                Ok::<_, Error>(())
            };
            match (&request, &found) {
                (Read::Get(key), Found::Value(Some(value))) => entry(key, value)?,
                (_, Found::Entries(found)) => found.iter().try_for_each(|(key, value)| entry(key, value))?,
                _ => {}
            }
            requests.push(request);
        }
        Ok(Entries { requests, entries })
    }
}

impl Fetcher {
    /// The fetch with its columns as positions and its expressions as physical ones.
    ///
    /// # Errors
    /// `Internal` if an expression cannot be lowered.
    pub fn new(
        fetch: &Fetch,
        scope: &Arc<Scope>,
        columns: &Columns,
        kept: Vec<usize>,
        parameters: &[ParameterType],
    ) -> Result<Fetcher> {
        let constants = Arc::new(Scope::new(&Columns::default(), parameters)?);
        let primary = fetch.table.primary();
        let (index, kind) = match &fetch.access {
            Access::Record => (primary, Kind::Record),
            Access::Unique(index) => (index.as_ref(), Kind::Unique(Index::clone(index))),
            Access::Range { index, interval, reverse, dereference, .. } => {
                let parts = fetch.table.entry_parts(index);
                let ends = match (interval, parts.get(fetch.keys.len())) {
                    (Some(interval), Some(part)) => Some(Ends::new(interval, part.order, &constants)?),
                    _ => None,
                };
                let kind = Kind::Range {
                    parts,
                    interval: ends,
                    reverse: *reverse,
                    dereference: *dereference,
                    primary: index.kind == IndexKind::Primary,
                    index: Index::clone(index),
                };
                (index.as_ref(), kind)
            }
        };
        let parts = fetch.table.entry_parts(index);
        let keys = fetch.keys.iter().zip(&parts).map(|(expr, part)| {
            let from = match expr {
                Expr::Column(column) => From::Column(scope.place(column)?),
                Expr::IsNull(_) => From::Null,
                other => From::Constant(Local::new(other, &constants)?),
            };
            Ok(KeyValue { from, order: part.order, word: part.column().is_none() })
        });
        let found = Arc::new(Scope::new(&columns.select(&kept).with_found(fetch), parameters)?);
        let keep = match &fetch.keep {
            Keep::All => Kept::All,
            Keep::First => Kept::First,
            Keep::Fold(folds) => {
                let aggregates: Vec<Expr> = folds.iter().map(|(expr, _)| expr.clone()).collect();
                Kept::Fold(Grouping::new(&[], &aggregates, &found)?)
            }
        };
        Ok(Fetcher {
            table: fetch.table.clone(),
            prefix: index.prefix(),
            keys: keys.collect::<Result<_>>()?,
            kind,
            kept,
            columns: fetch.columns.clone(),
            most: usize::try_from(fetch.most).unwrap_or(usize::MAX),
            outer: fetch.outer,
            keep,
            on: fetch.on.iter().map(|expr| Local::new(expr, &found)).collect::<Result<_>>()?,
            resumable: fetch.resumable,
            first: fetch.first.map(|first| usize::try_from(first).unwrap_or(usize::MAX)),
        })
    }

    /// The rows of a page, if pages end in this fetch.
    pub fn page(&self) -> Option<usize> {
        self.resumable.then_some(self.most)
    }

    /// Whether it needs all rows at once.
    pub fn merges(&self) -> bool {
        self.first.is_some()
    }

    /// The requests for these rows.
    ///
    /// # Errors
    /// `Data` if a key cannot be computed.
    pub fn ask(&self, rows: Rows, call: &Call<'_>, reads: &mut Vec<Read>) -> Result<Waiting> {
        let constants = self.constants(call)?;
        let ends = match &self.kind {
            Kind::Range { interval: Some(ends), .. } => Some(ends.values(call)?),
            _ => None,
        };
        let mut ranges = Vec::with_capacity(rows.len);
        for row in 0..rows.len {
            let Some(key) = self.key(&rows, row, &constants)? else { continue };
            let prefix = key.len();
            let Some(request) = self.request(key, ends.as_ref(), call) else { continue };
            reads.push(request);
            ranges.push(RequestedRange { row, prefix });
        }
        let reverse = matches!(self.kind, Kind::Range { reverse: true, .. });
        let merging = self.first.map(|first| Merging::new(&ranges, reverse, first));
        Ok(Waiting { rows, ranges, entries: None, records: vec![], merging })
    }

    /// The parts of the key that are the same for all rows.
    fn constants(&self, call: &Call<'_>) -> Result<Vec<Option<ArrayRef>>> {
        let unit = Rows::unit();
        let constants = self.keys.iter().map(|key| match &key.from {
            From::Constant(expr) => Ok(Some(expr.value(&unit, call)?)),
            From::Column(_) | From::Null => Ok(None),
        });
        constants.collect()
    }

    /// The key for a row; `None` if a part is null, since null equals nothing.
    fn key(&self, rows: &Rows, row: usize, constants: &[Option<ArrayRef>]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::with_capacity(48);
        out.extend_from_slice(&self.prefix);
        for (key, constant) in self.keys.iter().zip(constants) {
            let value = match (&key.from, constant) {
                (From::Null, _) => {
                    keys::encode(Datum::Null, key.order, &mut out);
                    continue;
                }
                (From::Column(at), _) => Datum::of(&rows.columns[*at], row)?,
                (From::Constant(_), Some(constant)) => Datum::of(constant, 0)?,
                (From::Constant(_), None) => Datum::Null,
            };
            match value {
                Datum::Null => return Ok(None),
                Datum::Text(text) if key.word => {
                    let Some(word) = functions::searched(text) else { return Ok(None) };
                    keys::encode(Datum::Text(&word), key.order, &mut out);
                }
                value => keys::encode(value, key.order, &mut out),
            }
        }
        Ok(Some(out))
    }

    /// The request for one row; `None` if nothing can be found for it, as for a null.
    fn request(&self, key: Vec<u8>, ends: Option<&Option<EndValues>>, call: &Call<'_>) -> Option<Read> {
        let Kind::Range { reverse, .. } = &self.kind else { return Some(Read::Get(key)) };
        // Two keys can have the same position; the smaller prefix comes first.
        let place = call.place.as_ref().filter(|_| self.resumable);
        let resumed = place.map(|place| (key > place.prefix, [&key, place.position.as_slice()].concat()));
        let (mut from, mut to) = match ends {
            // A null end makes the interval empty.
            Some(None) => return None,
            Some(Some(ends)) => ends.range(&key),
            None => {
                let to = keys::prefix_end(&key);
                (key, to)
            }
        };
        if let Some((with, at)) = resumed {
            match reverse {
                false => from = from.max(if with { at } else { next_key(at) }),
                true => to = to.min(if with { next_key(at) } else { at }),
            }
        }
        Some(Read::Range { from, to, limit: self.most, reverse: *reverse })
    }

    /// Accepts answers. Returns the rows, or what is still missing.
    ///
    /// # Errors
    /// `Internal` if a record or an entry is damaged, `Data` if an expression fails.
    pub fn accept(
        &self,
        mut waiting: Waiting,
        answers: Vec<(Read, Found)>,
        call: &Call<'_>,
        reads: &mut Vec<Read>,
    ) -> Result<Given> {
        if let Some(merging) = &mut waiting.merging {
            let belongs = |key: &[u8], version, record: &[u8]| self.belongs(key, version, record);
            let Some(records) = merging.accept(answers, belongs, reads)? else {
                return Ok(Given::Waiting(Box::new(waiting)));
            };
            waiting.records = records;
            return Ok(Given::Rows(self.records_of(waiting, call)?));
        }
        if let Some(entries) = waiting.entries.take() {
            self.take_records(&mut waiting, entries, answers, reads)?;
            return match waiting.ranges.is_empty() {
                true => Ok(Given::Rows(self.records_of(waiting, call)?)),
                false => Ok(Given::Waiting(Box::new(waiting))),
            };
        }
        if self.dereferences() {
            waiting.entries = Some(Entries::of(&waiting.ranges, answers, reads)?);
            return Ok(Given::Waiting(Box::new(waiting)));
        }
        let mut seen = Vec::with_capacity(answers.len());
        for (range, answer) in waiting.ranges.iter().zip(&answers) {
            let hit = |key, record| Seen { row: range.row, prefix: range.prefix, key, record: Some(record) };
            match answer {
                (Read::Get(key), Found::Value(Some(record))) => seen.push(hit(key, record)),
                (_, Found::Entries(entries)) => {
                    seen.extend(entries.iter().map(|(key, record)| hit(key, record)))
                }
                _ => {}
            }
        }
        Ok(Given::Rows(self.assemble(&waiting.rows, seen, call)?))
    }

    /// Whether entries are read first, and then their records.
    fn dereferences(&self) -> bool {
        matches!(self.kind, Kind::Unique(_) | Kind::Range { dereference: true, .. })
    }

    /// Keeps the records that belong to their entries, and requests as many more entries as were skipped.
    fn take_records(
        &self,
        waiting: &mut Waiting,
        Entries { requests, entries }: Entries,
        answers: Vec<(Read, Found)>,
        reads: &mut Vec<Read>,
    ) -> Result<()> {
        let records = entries.iter().zip(answers).map(|(entry, (_, found))| match found {
            Found::Value(Some(record)) if self.belongs(&entry.key, entry.version, &record)? => {
                Ok(Some(record))
            }
            _ => Ok(None),
        });
        let records = records.collect::<Result<Vec<Option<Vec<u8>>>>>()?;
        let ranges = std::mem::take(&mut waiting.ranges);
        let mut rest = records.iter();
        for found in entries.chunk_by(|one, other| one.range == other.range) {
            let passed = rest.by_ref().take(found.len()).filter(|record| record.is_none()).count();
            let Some(last) = found.last().filter(|_| passed > 0) else { continue };
            if let Read::Range { from, to, limit, reverse } = &requests[last.range]
                && found.len() == *limit
            {
                let (from, to) = match reverse {
                    true => (from.clone(), last.key.clone()),
                    false => (next_key(last.key.clone()), to.clone()),
                };
                reads.push(Read::Range { from, to, limit: passed, reverse: *reverse });
                waiting.ranges.push(ranges[last.range]);
            }
        }
        let hits = entries.into_iter().zip(records).filter_map(|(entry, record)| {
            let RequestedRange { row, prefix } = ranges[entry.range];
            Some(Hit { row, prefix, key: entry.key, record: record? })
        });
        waiting.records.extend(hits);
        Ok(())
    }

    /// Whether a record makes an entry that was written for a version of it.
    fn belongs(&self, key: &[u8], version: u64, record: &[u8]) -> Result<bool> {
        if record::version(record)? == version {
            return Ok(true);
        }
        let (Kind::Unique(index) | Kind::Range { index, .. }) = &self.kind else { return Ok(true) };
        let row = record::batch(&self.table, std::iter::once(record))?;
        Ok(index.keys(&self.table, row.columns(), 0)?.iter().any(|entry| entry == key))
    }

    /// The records that belong to their entries; for the others, more entries are requested.
    fn records_of(&self, mut waiting: Waiting, call: &Call<'_>) -> Result<Rows> {
        // Records of later requests come behind the earlier ones of their row.
        waiting.records.sort_by_key(|hit| hit.row);
        let seen = waiting.records.iter().map(|hit| Seen {
            row: hit.row,
            prefix: hit.prefix,
            key: &hit.key,
            record: Some(&hit.record),
        });
        self.assemble(&waiting.rows, seen.collect(), call)
    }

    /// Rows joined with their matches.
    fn assemble(&self, rows: &Rows, seen: Vec<Seen<'_>>, call: &Call<'_>) -> Result<Rows> {
        if !self.outer {
            return self.build(rows, &seen);
        }
        let mut seen = seen;
        if !self.on.is_empty() {
            let keep = local::all_true(&self.on, &self.build(rows, &seen)?, call)?;
            let mut at = 0;
            seen.retain(|_| {
                at += 1;
                keep.value(at - 1)
            });
        }
        if let Kept::Fold(grouping) = &self.keep {
            let mut groups = vec![vec![]; rows.len];
            seen.iter().enumerate().for_each(|(at, hit)| groups[hit.row].push(at as u32));
            let mut columns = self.kept_of(rows).columns;
            columns.extend(grouping.fold(&self.build(rows, &seen)?, &groups, call)?);
            return Ok(Rows { columns, len: rows.len });
        }
        let first = matches!(self.keep, Kept::First);
        let mut all = Vec::with_capacity(seen.len());
        let mut seen = seen.into_iter().peekable();
        for row in 0..rows.len {
            let before = all.len();
            while let Some(hit) = seen.next_if(|hit| hit.row == row) {
                if !first || all.len() == before {
                    all.push(hit);
                }
            }
            if all.len() == before {
                all.push(Seen { row, prefix: 0, key: &[], record: None });
            }
        }
        self.build(rows, &all)
    }

    /// The columns of the rows that later steps need.
    fn kept_of(&self, rows: &Rows) -> Rows {
        Rows { columns: self.kept.iter().map(|at| rows.columns[*at].clone()).collect(), len: rows.len }
    }

    /// The rows of a join: columns of the rows before, then columns of what was found.
    fn build(&self, rows: &Rows, seen: &[Seen<'_>]) -> Result<Rows> {
        let bytes = seen.iter().filter_map(|hit| hit.record).map(<[u8]>::len).sum();
        let mut reader = RowReader::new(&self.table, &self.columns, seen.len(), bytes)?;
        let covered = match &self.kind {
            Kind::Range { parts, dereference: false, primary: false, .. } => Some(parts.as_slice()),
            _ => None,
        };
        for hit in seen {
            match (hit.record, covered) {
                (None, _) => reader.read_nothing()?,
                (Some(record), None) => reader.read(record)?,
                (Some(_), Some(parts)) => {
                    let values = self.values_of(parts, hit.key)?;
                    reader.read_values(values.iter().map(Decoded::datum))?;
                }
            }
        }
        let kept = self.kept_of(rows);
        let same = rows.len == seen.len() && seen.iter().enumerate().all(|(at, hit)| hit.row == at);
        let mut columns = match same || kept.columns.is_empty() {
            true => kept.columns,
            false => {
                let places: UInt32Array = seen.iter().map(|hit| hit.row as u32).collect();
                kept.take(&places)?.columns
            }
        };
        columns.extend(reader.finish());
        if self.resumable {
            let positions: BinaryArray = seen.iter().map(|hit| Some(&hit.key[hit.prefix..])).collect();
            let prefixes: BinaryArray = seen.iter().map(|hit| Some(&hit.key[..hit.prefix])).collect();
            columns.push(Arc::new(positions));
            columns.push(Arc::new(prefixes));
        }
        Ok(Rows { columns, len: seen.len() })
    }

    /// The required columns, decoded from the key of an entry.
    fn values_of(&self, parts: &[KeyPart], key: &[u8]) -> Result<Vec<Decoded>> {
        let mut rest = key.get(self.prefix.len()..).unwrap_or_default();
        let mut values = Vec::with_capacity(parts.len());
        for part in parts {
            let of = match &part.part {
                Part::Column(at) => self.table.columns[*at].of,
                Part::Words(_) => crate::datum::Type::Text(None),
            };
            if rest.is_empty() {
                break;
            }
            values.push(keys::decode(of, part.order, &mut rest)?);
        }
        let wanted = self.columns.iter().map(|column| {
            let at = parts.iter().position(|part| part.column() == Some(*column));
            at.and_then(|at| values.get(at).cloned())
                .ok_or_else(|| Error::Internal("an entry of an index is damaged: run repair".to_string()))
        });
        wanted.collect()
    }
}

/// The state after answers were accepted.
#[derive(Debug)]
pub(crate) enum Given {
    Rows(Rows),
    Waiting(Box<Waiting>),
}
