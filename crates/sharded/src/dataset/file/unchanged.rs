//! Whether a file is still the one that a query was planned over: what is known of it from then (where its row
//! groups lie, which columns it has) would be wrong of another.
//!
//! A file is known again by its length and by when it was changed last; it is looked at before it is read, after
//! that, and when reading fails. Objects in stores are fetched as they are.

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
    /// Not every system says it.
    modified: Option<SystemTime>,
}

impl Stamp {
    /// What a file of this machine is like now.
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

    /// Fails if the file is another now. `columns` says which it has now.
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

/// The first column that is not as it was.
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
