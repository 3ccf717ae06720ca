//! Reads slices of files that grow.

use super::FollowDataset;
use super::identity::find;
use super::log::Extent;
use crate::dataset::file::discover::discover_now;
use crate::dataset::file::location::{Location, is_url, objects_at};
use crate::dataset::file::position::Position;
use crate::dataset::file::text::Text;
use crate::dataset::file::{FileDataset, FileFormat, csv, json, same_columns};
use crate::dataset::log::decode;
use crate::dataset::{Part, Reader, SliceReader, conform, project};
use crate::error::{in_file, untrusted};
use crate::relation::always;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads slices, part after part.
pub(super) struct FollowReader {
    files: FollowDataset,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
    extents: VecDeque<Extent>,
    /// The reader of the current part, and its file.
    reader: Option<(String, Box<dyn Reader>)>,
}

impl FollowReader {
    /// A reader of these columns.
    pub fn new(files: &FollowDataset, projection: Option<Vec<usize>>, batch_rows: usize) -> FollowReader {
        let (files, extents) = (files.clone(), VecDeque::new());
        FollowReader { files, projection, batch_rows, extents, reader: None }
    }

    fn open(&self, extent: Extent) -> Result<(String, Box<dyn Reader>)> {
        match extent {
            Extent::Whole { place, identity } => {
                let location = match is_url(&place) {
                    true => match objects_at(&place)?.pop() {
                        Some(object) => object,
                        None => return exec_err!("`{place}` is gone, and has to be read"),
                    },
                    false => Location::Path(PathBuf::from(&place)),
                };
                identity.check(&location)?;
                Ok((place, untrusted(&location, || self.open_whole(&location))?))
            }
            Extent::Lines { path, identity, start, end } => {
                let others = || discover_now(&self.files.names);
                let (path, mut file) = find(&identity, &path, others, start..end)?;
                file.seek(SeekFrom::Start(start)).map_err(|e| in_file(&path, e))?;
                let lines = file.take(end - start);
                Ok((path.display().to_string(), self.open_lines(&path, Box::new(lines), start == 0)?))
            }
        }
    }

    /// Opens a file that is read as a whole.
    fn open_whole(&self, location: &Location) -> Result<Box<dyn Reader>> {
        let dataset = FileDataset::open_at(vec![], vec![location.clone()], &self.files.options)?;
        let first = Location::Path(PathBuf::from(self.files.names.join(", ")));
        same_columns(&first, &self.files.schema, location, dataset.schema())?;
        Ok(Box::new(dataset.reader(0, self.projection.as_deref(), self.batch_rows)?))
    }

    /// Opens lines of a text file, the first ones or later ones.
    fn open_lines(&self, path: &Path, lines: Text, are_first: bool) -> Result<Box<dyn Reader>> {
        let location = Location::Path(path.to_path_buf());
        let (schema, projection) = (Arc::clone(&self.files.schema), self.projection.as_deref());
        if super::growing(&location, &self.files.options) == Some(FileFormat::Json) {
            let file = json::File { location, schema };
            return json::read_text(&file, (lines, Position::Unknown), projection, self.batch_rows);
        }
        let file = csv::File::new(&location, schema, &self.files.options);
        if !(file.header && are_first) {
            return csv::read_text(&file, (lines, Position::Unknown), false, projection, self.batch_rows);
        }
        let mut lines = BufReader::new(lines);
        let mut header = Vec::new();
        lines.read_until(b'\n', &mut header).map_err(|e| in_file(path, e))?;
        csv::check_header(&file, &header)?;
        csv::read_text(&file, (Box::new(lines), Position::Unknown), false, projection, self.batch_rows)
    }

    fn columns(&self) -> Result<SchemaRef> {
        project(&self.files.schema, self.projection.as_deref())
    }
}

impl SliceReader for FollowReader {
    fn begin(&mut self, slice: &[u8]) -> Result<()> {
        self.extents = decode::<Vec<Extent>>(slice)?.into();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Part>> {
        loop {
            let (place, mut reader) = match self.reader.take() {
                Some(open) => open,
                None => match self.extents.pop_front() {
                    Some(extent) => self.open(extent)?,
                    None => return Ok(None),
                },
            };
            if let Some(rows) = untrusted(&place, || reader.next())? {
                self.reader = Some((place, reader));
                return Ok(Some(Part::Message(always(conform(rows, &self.columns()?)?))));
            }
        }
    }
}
