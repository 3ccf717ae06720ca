//! Whether a file has changed since a query was planned over it: offsets of row groups and columns would be
//! wrong then.
//!
//! A file is identified by its length and the time of its last change. It is checked before it is read, after
//! that, and when reading fails. Objects in stores are not checked.

use super::location::Location;
use crate::error::in_place;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use std::time::SystemTime;

/// A file as it was when it was opened.
#[derive(Debug)]
pub(super) struct Stamp {
    location: Location,
    schema: SchemaRef,
    length: u64,
    /// None where the file system does not keep it.
    modified: Option<SystemTime>,
}

impl Stamp {
    /// The stamp of a local file as it is now; none for an object.
    ///
    /// # Errors
    /// If the file cannot be looked at.
    pub fn of(location: &Location, schema: &SchemaRef) -> Result<Option<Stamp>> {
        let Location::Path(path) = location else { return Ok(None) };
        let metadata = std::fs::metadata(path).map_err(|e| in_place(location, e))?;
        Ok(Some(Stamp {
            location: location.clone(),
            schema: schema.clone(),
            length: metadata.len(),
            modified: metadata.modified().ok(),
        }))
    }

    /// Checks that the file has not changed; `columns` reads the columns that it has now.
    ///
    /// # Errors
    /// `Execution` if it has changed, with what.
    pub fn check(&self, columns: impl FnOnce(&Location) -> Result<SchemaRef>) -> Result<()> {
        let Some(now) = Stamp::of(&self.location, &self.schema)? else { return Ok(()) };
        if (now.length, now.modified) == (self.length, self.modified) {
            return Ok(());
        }
        let what = match columns(&self.location) {
            Ok(now) => difference(&self.schema, &now),
            Err(error) => Some(error.strip_backtrace()),
        };
        let what = what.unwrap_or_else(|| format!("it had {} bytes, and has {}", self.length, now.length));
        exec_err!("`{}` has changed since the query was planned: {what}; plan it again", self.location)
    }
}

/// The first column that is missing or has another type.
fn difference(before: &Schema, now: &Schema) -> Option<String> {
    for field in before.fields() {
        match now.field_with_name(field.name()) {
            Err(_) => return Some(format!("column `{}` is not there any more", field.name())),
            Ok(found) if found.data_type() != field.data_type() => {
                return Some(format!(
                    "column `{}` was {}, and is {}",
                    field.name(),
                    field.data_type(),
                    found.data_type()
                ));
            }
            Ok(_) => {}
        }
    }
    None
}
