//! Arrow IPC: files, which can be read from any batch, and streams, which cannot. The first bytes say which
//! it is.

use super::location::{Input, Location};
use super::parquet::{Batches, order};
use super::{Opened, Unit};
use crate::dataset::Reader;
use crate::error::in_place;
use datafusion::arrow::ipc::reader::{FileReader, StreamReader};
use datafusion::common::Result;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// A file.
#[derive(Debug)]
pub(super) struct File {
    location: Location,
}

const MAGIC: &[u8; 6] = b"ARROW1";

pub(super) fn open(location: &Location) -> Result<Opened> {
    let mut head = [0; 6];
    let mut input = input(location)?;
    let is_file = input.read_exact(&mut head).is_ok() && &head == MAGIC;
    if !is_file {
        let reader = stream(location, None)?;
        let units = vec![Unit::IpcStream { location: Arc::new(location.clone()) }];
        return Ok(Opened { schema: reader.schema(), units, rows: None });
    }
    let reader = file(location, None)?;
    let shared = Arc::new(File { location: location.clone() });
    let units = (0..reader.num_batches()).map(|batch| Unit::Ipc { file: shared.clone(), batch }).collect();
    Ok(Opened { schema: reader.schema(), units, rows: None })
}

pub(super) fn read(unit: &File, batch: usize, projection: Option<&[usize]>) -> Result<Box<dyn Reader>> {
    let mut reader = file(&unit.location, projection)?;
    reader.set_index(batch).map_err(|e| in_place(&unit.location, e))?;
    let order = order(projection);
    Ok(Box::new(Batches { location: unit.location.clone(), batches: reader.take(1), order }))
}

pub(super) fn read_stream(location: &Location, projection: Option<&[usize]>) -> Result<Box<dyn Reader>> {
    let reader = stream(location, projection)?;
    Ok(Box::new(Batches { location: location.clone(), batches: reader, order: order(projection) }))
}

fn input(location: &Location) -> Result<BufReader<Input>> {
    Ok(BufReader::new(location.open()?))
}

fn file(location: &Location, projection: Option<&[usize]>) -> Result<FileReader<BufReader<Input>>> {
    FileReader::try_new(input(location)?, sorted(projection)).map_err(|e| in_place(location, e))
}

fn stream(location: &Location, projection: Option<&[usize]>) -> Result<StreamReader<BufReader<Input>>> {
    StreamReader::try_new(input(location)?, sorted(projection)).map_err(|e| in_place(location, e))
}

fn sorted(projection: Option<&[usize]>) -> Option<Vec<usize>> {
    let mut columns = projection?.to_vec();
    columns.sort_unstable();
    Some(columns)
}
