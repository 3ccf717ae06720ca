//! Records: the values that a store keeps under primary keys.
//!
//! The format is `format (1 byte) | version (8) | columns (varint) | nulls (1 bit a column) | values in
//! order`. The *version* is a number that no other write of the record has. Entries of indexes hold it too,
//! so that a stale entry is recognized. Columns that were added to a table after a record was written are
//! null in that record.

use crate::codec::{put, skip_value, take, take_value, take_varint, varint};
use crate::datum::{ColumnBuilder, Datum, Type};
use crate::error::{Error, Result};
use crate::schema::Table;
use datafusion::arrow::array::{ArrayRef, RecordBatch};

/// The version of the format.
const FORMAT: u8 = 1;
/// The length of format and version.
const HEAD: usize = 9;

/// Writes a row of the table as a record of this version.
///
/// # Errors
/// `Data` if a value is longer than its column or null where it may not be.
pub fn encode(table: &Table, columns: &[ArrayRef], row: usize, version: u64) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    out.push(FORMAT);
    out.extend(version.to_le_bytes());
    varint(table.columns.len() as u64, &mut out);
    let nulls = out.len();
    out.resize(nulls + table.columns.len().div_ceil(8), 0);
    for (at, (column, values)) in table.columns.iter().zip(columns).enumerate() {
        let value = Datum::of(values, row)?;
        if value == Datum::Null {
            if !column.accepts_nulls() {
                return Err(Error::Data(format!(
                    "{}.{} is not null: give it a value",
                    table.name, column.name
                )));
            }
            out[nulls + at / 8] |= 1 << (at % 8);
            continue;
        }
        fits(table, at, value)?;
        put(column.of, value, &mut out);
    }
    Ok(out)
}

/// Whether a text or bytes are no longer than their column allows.
fn fits(table: &Table, at: usize, value: Datum<'_>) -> Result<()> {
    let column = &table.columns[at];
    let (length, limit) = match (column.of, value) {
        (Type::Text(Some(limit)), Datum::Text(text)) if text.len() > limit as usize => {
            (text.chars().count(), limit)
        }
        (Type::Bytes(Some(limit)), Datum::Bytes(bytes)) => (bytes.len(), limit),
        _ => return Ok(()),
    };
    if length <= limit as usize {
        return Ok(());
    }
    Err(Error::Data(format!("{}.{} takes {limit}, and this value has {length}", table.name, column.name)))
}

/// The version of a record.
///
/// # Errors
/// `Internal` if it is damaged.
pub fn version(record: &[u8]) -> Result<u64> {
    match record {
        [FORMAT, rest @ ..] if rest.len() >= 8 => {
            Ok(u64::from_le_bytes(rest[..8].try_into().map_err(|_| damaged())?))
        }
        _ => Err(damaged()),
    }
}

/// Reads columns of records, one after the other.
pub(crate) struct RowReader<'a> {
    /// The table of the records.
    table: &'a Table,
    /// For each column of the table up to the last one wanted: where its values go.
    targets: Vec<Option<usize>>,
    /// The columns so far.
    builders: Vec<ColumnBuilder>,
}

impl<'a> RowReader<'a> {
    /// Reads these columns of the table, in this order, of so many records with so many bytes.
    ///
    /// # Errors
    /// `Internal` if a decimal type is out of range.
    pub fn new(table: &'a Table, wanted: &[usize], rows: usize, bytes: usize) -> Result<RowReader<'a>> {
        let mut targets = vec![None; wanted.iter().max().map_or(0, |last| last + 1)];
        wanted.iter().enumerate().for_each(|(at, column)| targets[*column] = Some(at));
        let of = |column: &usize| table.columns[*column].of;
        let texts = wanted.iter().map(of).filter(|of| matches!(of, Type::Text(_) | Type::Bytes(_))).count();
        let builders = wanted.iter().map(|column| ColumnBuilder::new(of(column), rows, bytes / texts.max(1)));
        Ok(RowReader { table, targets, builders: builders.collect::<Result<_>>()? })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// `Internal` if the record is damaged.
    pub fn read(&mut self, record: &[u8]) -> Result<()> {
        version(record)?;
        let mut rest = record.get(HEAD..).ok_or_else(damaged)?;
        let count = take_varint(&mut rest)? as usize;
        let nulls = take(&mut rest, count.div_ceil(8))?;
        for (at, target) in self.targets.iter().enumerate() {
            let null = at >= count || nulls[at / 8] & (1 << (at % 8)) != 0;
            let of = self.table.columns[at].of;
            match (target, null) {
                (None, true) => {}
                (None, false) => skip_value(of, &mut rest)?,
                (Some(target), true) => self.builders[*target].append(Datum::Null)?,
                (Some(target), false) => self.builders[*target].append(take_value(of, &mut rest)?)?,
            }
        }
        Ok(())
    }

    /// Appends a row of nulls.
    ///
    /// # Errors
    /// `Internal` if a column cannot have nulls.
    pub fn read_nothing(&mut self) -> Result<()> {
        self.builders.iter_mut().try_for_each(|builder| builder.append(Datum::Null))
    }

    /// Appends values that come from somewhere else, in the order of the columns wanted.
    ///
    /// # Errors
    /// `Internal` if a value does not have the type of its column.
    pub fn read_values<'v>(&mut self, values: impl Iterator<Item = Datum<'v>>) -> Result<()> {
        self.builders.iter_mut().zip(values).try_for_each(|(builder, value)| builder.append(value))
    }

    /// The columns.
    pub fn finish(self) -> Vec<ArrayRef> {
        self.builders.into_iter().map(ColumnBuilder::finish).collect()
    }
}

/// All columns of some records.
pub(crate) fn batch<'r>(
    table: &Table,
    records: impl ExactSizeIterator<Item = &'r [u8]> + Clone,
) -> Result<RecordBatch> {
    let all: Vec<usize> = (0..table.columns.len()).collect();
    let bytes = records.clone().map(<[u8]>::len).sum();
    let mut reader = RowReader::new(table, &all, records.len(), bytes)?;
    for record in records {
        reader.read(record)?;
    }
    Ok(RecordBatch::try_new(table.arrow_schema(), reader.finish())?)
}

/// The error for bytes that are no record.
fn damaged() -> Error {
    Error::Internal("a record of the store is damaged: restore it from a copy".to_string())
}
