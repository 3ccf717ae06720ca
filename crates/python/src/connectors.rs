//! Sources and sinks that are written in Python (`whimbrel.connectors`).
//!
//! An object of Python is called on threads of the engine, one thread at a time. Its exceptions end the
//! query: those of Whimbrel's classes as they are, others as the cause of a `DataError`.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator};
use std::collections::VecDeque;
use std::sync::Arc;
use whimbrel_jobs::sink::{Run, Sink};
use whimbrel_plan::{Source, SourceInfo, Stream};
use whimbrel_sharded::dataset::{
    Cut, Dataset, OpenSource, Part, ReplayableShard, Shard, ShardLog, SliceReader,
};
use whimbrel_sharded::relation::always;

use crate::arguments::Count;
use crate::error::{OrRaise, PythonError};
use crate::plan::NativePlan;
use crate::shutdown::attach;
use crate::table::{NativeSchema, NativeTable, conform};

/// A plan over a source of Python. `open` makes the shard of a number, as one thread sees it: an object with
/// `cut`, `position`, `seek`, `skip` and `read`.
///
/// # Errors
/// `InvalidError` if two columns have one name.
#[pyfunction]
pub fn replayable_source(
    name: String,
    schema: &NativeSchema,
    shards: Count,
    open: Py<PyAny>,
) -> PyResult<NativePlan> {
    let source = PythonSource { name, schema: Arc::clone(&schema.0), shards: shards.0, open };
    let stream = Stream::scan("source", Arc::new(OpenSource(Arc::new(source)))).or_raise()?;
    Ok(NativePlan { stream })
}

/// A source of Python that can be read again.
#[derive(Debug)]
struct PythonSource {
    name: String,
    schema: SchemaRef,
    shards: usize,
    open: Py<PyAny>,
}

impl PythonSource {
    /// The error of an exception that the source raised.
    fn failed(name: &str, error: PyErr) -> DataFusionError {
        failed(format!("the source {name} failed"), error)
    }

    /// A shard as one thread sees it.
    fn open_shard(&self, shard: usize) -> Result<PythonShard> {
        let opened = attach(|py| self.open.call1(py, (shard,)))?;
        let shard = opened.map_err(|error| PythonSource::failed(&self.name, error))?;
        Ok(PythonShard { name: self.name.clone(), shard })
    }
}

/// The error of an exception: one of Whimbrel's classes is raised as it is.
fn failed(context: String, error: PyErr) -> DataFusionError {
    let is_ours = |py: Python<'_>| -> PyResult<bool> {
        Ok(error.matches(py, py.import("whimbrel.errors")?.getattr("WhimbrelError")?).unwrap_or(false))
    };
    match Python::attach(|py| is_ours(py).unwrap_or(false)) {
        true => PythonError::pass(error),
        false => PythonError::wrap(context, error),
    }
}

impl Source for PythonSource {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: Arc::clone(&self.schema), bounded: false, shards: self.shards, groups: 1 }
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl Dataset for PythonSource {
    fn rows(&self) -> Option<u64> {
        None
    }

    fn identity(&self) -> Option<Vec<u8>> {
        Some(format!("{} {} {:?}", self.name, self.shards, self.schema).into_bytes())
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        Ok(Shard::Log(self.replayable(shard, projection, batch_rows)?))
    }

    fn replayable(
        &self,
        shard: usize,
        projection: Option<&[usize]>,
        batch_rows: usize,
    ) -> Result<ReplayableShard> {
        let reader = PythonReader {
            shard: self.open_shard(shard)?,
            schema: Arc::clone(&self.schema),
            projection: projection.map(<[usize]>::to_vec),
            batch_rows,
            slice: Slice::Read,
            parts: VecDeque::new(),
        };
        Ok(ReplayableShard { log: Box::new(self.open_shard(shard)?), reader: Box::new(reader) })
    }
}

/// A shard of a source of Python, for one thread.
struct PythonShard {
    name: String,
    shard: Py<PyAny>,
}

impl PythonShard {
    /// Calls a method of the shard, and converts what it returns.
    fn call<R>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> Result<R> {
        attach(|py| call(self.shard.bind(py)))?.map_err(|error| PythonSource::failed(&self.name, error))
    }
}

impl ShardLog for PythonShard {
    fn cut(&mut self) -> Result<Cut> {
        self.call(|shard| {
            let cut = shard.call_method0("cut")?;
            Ok(match cut.cast::<PyBytes>() {
                Ok(slice) => Cut::Slice(slice.as_bytes().to_vec()),
                Err(_) if cut.is_truthy()? => Cut::End,
                Err(_) => Cut::Nothing,
            })
        })
    }

    fn position(&self) -> Result<Vec<u8>> {
        self.call(|shard| shard.call_method0("position")?.extract())
    }

    fn seek(&mut self, position: Option<&[u8]>) -> Result<()> {
        self.call(|shard| shard.call_method1("seek", (position,)).map(|_| ()))
    }

    fn skip(&mut self, slice: &[u8]) -> Result<()> {
        self.call(|shard| shard.call_method1("skip", (slice,)).map(|_| ()))
    }
}

/// What is read of a slice.
enum Slice {
    /// All of it.
    Read,
    /// It says that the shard has ended.
    End,
    /// This iterator gives the rest of its tables.
    Tables(Py<PyIterator>),
}

/// Reads slices of a shard of Python.
struct PythonReader {
    shard: PythonShard,
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
    slice: Slice,
    /// The batches of the last table.
    parts: VecDeque<RecordBatch>,
}

impl PythonReader {
    /// The next table of the slice, in batches; none at its end.
    fn next_table(&self, tables: &Py<PyIterator>) -> Result<Option<VecDeque<RecordBatch>>> {
        self.shard.call(|shard| {
            let Some(table) = tables.bind(shard.py()).clone().next() else { return Ok(None) };
            let table: PyRef<'_, NativeTable> = table?.extract()?;
            let mut parts = VecDeque::new();
            for batch in &table.batches {
                let mut batch = conform(batch, &self.schema)?;
                if let Some(columns) = &self.projection {
                    batch = batch.project(columns).or_raise()?;
                }
                let starts = (0..batch.num_rows()).step_by(self.batch_rows);
                parts.extend(starts.map(|at| batch.slice(at, self.batch_rows.min(batch.num_rows() - at))));
            }
            Ok(Some(parts))
        })
    }
}

impl SliceReader for PythonReader {
    fn begin(&mut self, slice: &[u8]) -> Result<()> {
        self.slice = self.shard.call(|shard| {
            let tables = shard.call_method1("read", (slice,))?;
            Ok(match tables.is_none() {
                true => Slice::End,
                false => Slice::Tables(tables.try_iter()?.unbind()),
            })
        })?;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Part>> {
        loop {
            if let Some(rows) = self.parts.pop_front() {
                return Ok(Some(Part::Message(always(rows))));
            }
            match &self.slice {
                Slice::Read => return Ok(None),
                Slice::End => {
                    self.slice = Slice::Read;
                    return Ok(Some(Part::End));
                }
                Slice::Tables(tables) => match self.next_table(tables)? {
                    Some(parts) => self.parts = parts,
                    None => self.slice = Slice::Read,
                },
            }
        }
    }
}

/// A sink of Python: an object with `open`, `write` and `commit`.
pub struct PythonSink(pub Py<PyAny>);

impl PythonSink {
    /// Calls a method of the sink, and converts what it returns.
    fn call<R>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> Result<R> {
        let called = attach(|py| call(self.0.bind(py)))?;
        called.map_err(|error| failed("the sink failed".into(), error))
    }
}

impl Sink for PythonSink {
    fn open(&mut self, run: &Run) -> Result<Option<u64>> {
        let schema = NativeSchema(Arc::clone(&run.schema));
        self.call(|sink| sink.call_method1("open", (&run.job, run.generation, schema))?.extract())
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let table = NativeTable { schema: rows.schema(), batches: vec![rows.clone()] };
        self.call(|sink| sink.call_method1("write", (table,)).map(|_| ()))
    }

    fn commit(&mut self, epoch: u64) -> Result<()> {
        self.call(|sink| sink.call_method1("commit", (epoch,)).map(|_| ()))
    }
}
