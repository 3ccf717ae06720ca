//! Arrow IPC: files, which can be read from any batch, and streams, which cannot. The first bytes say which
//! it is.

use super::parquet::{Batches, order};
use super::{Opened, Unit};
use crate::dataset::Reader;
use crate::error::in_file;
use datafusion::arrow::ipc::reader::{FileReader, StreamReader};
use datafusion::common::Result;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
}

const MAGIC: &[u8; 6] = b"ARROW1";

pub(super) fn open(path: &Path) -> Result<Opened> {
    let mut head = [0; 6];
    let mut input = input(path)?;
    let is_file = input.read_exact(&mut head).is_ok() && &head == MAGIC;
    if !is_file {
        let reader = stream(path, None)?;
        let units = vec![Unit::IpcStream { path: Arc::new(path.to_path_buf()) }];
        return Ok(Opened { schema: reader.schema(), units, rows: None });
    }
    let reader = file(path, None)?;
    let shared = Arc::new(File { path: path.to_path_buf() });
    let units = (0..reader.num_batches()).map(|batch| Unit::Ipc { file: shared.clone(), batch }).collect();
    Ok(Opened { schema: reader.schema(), units, rows: None })
}

pub(super) fn read(unit: &File, batch: usize, projection: Option<&[usize]>) -> Result<Box<dyn Reader>> {
    let mut reader = file(&unit.path, projection)?;
    reader.set_index(batch).map_err(|e| in_file(&unit.path, e))?;
    Ok(Box::new(Batches { path: unit.path.clone(), batches: reader.take(1), order: order(projection) }))
}

pub(super) fn read_stream(path: &Path, projection: Option<&[usize]>) -> Result<Box<dyn Reader>> {
    let reader = stream(path, projection)?;
    Ok(Box::new(Batches { path: path.to_path_buf(), batches: reader, order: order(projection) }))
}

fn input(path: &Path) -> Result<BufReader<std::fs::File>> {
    Ok(BufReader::new(std::fs::File::open(path).map_err(|e| in_file(path, e))?))
}

fn file(path: &Path, projection: Option<&[usize]>) -> Result<FileReader<BufReader<std::fs::File>>> {
    FileReader::try_new(input(path)?, sorted(projection)).map_err(|e| in_file(path, e))
}

fn stream(path: &Path, projection: Option<&[usize]>) -> Result<StreamReader<BufReader<std::fs::File>>> {
    StreamReader::try_new(input(path)?, sorted(projection)).map_err(|e| in_file(path, e))
}

fn sorted(projection: Option<&[usize]>) -> Option<Vec<usize>> {
    let mut columns = projection?.to_vec();
    columns.sort_unstable();
    Some(columns)
}
