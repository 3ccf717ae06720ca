//! Sinks: what was committed is there once, whatever happened before.

use crate::crashes::Folder;
use crate::faults::{click_schema, clicks};
use datafusion::arrow::array::{ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use std::path::Path;
use std::sync::Arc;
use whimbrel_jobs::sink::{FolderFormat, FolderSink, PostgresSink, Run, Sink};
use whimbrel_plan::{Source, Stream};
use whimbrel_sharded::Options;
use whimbrel_sharded::action::collect;
use whimbrel_sharded::dataset::FileDataset;

fn run(generation: u64) -> Run {
    Run { job: "a job".into(), generation, schema: click_schema(), is_stopped: Arc::default() }
}

fn rows_in(folder: &Path) -> u64 {
    let files = FileDataset::open(&[folder.display().to_string()], None).unwrap();
    assert_eq!(files.info().schema.fields(), click_schema().fields());
    let files = Stream::scan("files", Arc::new(files)).unwrap();
    collect(&files, &Options::default()).unwrap().wait().unwrap().num_rows() as u64
}

#[test]
fn a_folder_has_what_was_committed() {
    for format in [FolderFormat::Parquet, FolderFormat::Arrow] {
        let folder = Folder::new("folder-sink");
        let location = folder.0.display().to_string();
        let mut sink = FolderSink::new(&location, format);
        assert_eq!(sink.open(&run(1)).unwrap(), None);
        sink.write(&clicks(0..10)).unwrap();
        sink.commit(3).unwrap();
        sink.commit(4).unwrap();
        sink.write(&clicks(10..20)).unwrap();
        drop(sink);
        assert_eq!(rows_in(&folder.0), 10);
        let mut sink = FolderSink::new(&location, format);
        assert_eq!(sink.open(&run(2)).unwrap(), Some(4));
        sink.write(&clicks(10..15)).unwrap();
        sink.commit(5).unwrap();
        drop(sink);
        assert_eq!(rows_in(&folder.0), 15);
        // A crash between the commit and the name of the file.
        let suffix = if format == FolderFormat::Parquet { "parquet" } else { "arrow" };
        let name = format!("part-000000000005.{suffix}");
        std::fs::rename(folder.0.join(&name), folder.0.join(format!("_job/staging/2-{name}"))).unwrap();
        let mut sink = FolderSink::new(&location, format);
        assert_eq!(sink.open(&run(3)).unwrap(), Some(5));
        assert_eq!(rows_in(&folder.0), 15);
        drop(sink);
        let mut other = FolderSink::new(&location, format);
        let error = other.open(&Run { job: "another".into(), ..run(1) }).unwrap_err().to_string();
        assert!(error.contains("another job"), "{error}");
        std::fs::remove_file(folder.0.join(&name)).unwrap();
        let error = FolderSink::new(&location, format).open(&run(4)).unwrap_err().to_string();
        assert!(error.contains("is gone"), "{error}");
    }
}

/// All kinds of values that text has to carry.
fn values() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7)]))),
        ("s", Arc::new(StringArray::from(vec![Some("tab\t, \\N, line\nend\r"), Some(""), None]))),
        ("x", Arc::new(Float64Array::from(vec![Some(f64::INFINITY), Some(f64::NAN), Some(-0.1)]))),
        ("b", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x00\xff".as_slice()), None, Some(b"")]))),
        ("t", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn a_table_of_postgres_has_what_was_committed() {
    let Ok(server) = std::env::var("WHIMBREL_POSTGRES") else {
        println!("skipped: WHIMBREL_POSTGRES names no server");
        return;
    };
    let url = format!("{server}&table=results_{}", std::process::id());
    let job = format!("job {}", std::process::id());
    let run = |generation| Run {
        job: job.clone(),
        generation,
        schema: values().schema(),
        is_stopped: Arc::default(),
    };
    let mut first = PostgresSink::new(&url).unwrap();
    assert_eq!(first.open(&run(1)).unwrap(), None);
    first.write(&values()).unwrap();
    first.commit(2).unwrap();
    let mut second = PostgresSink::new(&url).unwrap();
    assert_eq!(second.open(&run(2)).unwrap(), Some(2));
    first.write(&values()).unwrap();
    let error = first.commit(3).unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    second.write(&values().slice(0, 2)).unwrap();
    second.commit(5).unwrap();
    // It was committed, as a run finds out whose connection broke.
    second.write(&values()).unwrap();
    second.commit(5).unwrap();
    let sum =
        "select count(*), count(n), min(n), max(length(s)), count(s), max(x)::text, max(length(b)), count(t)";
    let row = query(&server, &format!("{sum} from results_{}", std::process::id()));
    assert_eq!(row, ["5", "3", "-9223372036854775808", "19", "4", "NaN", "2", "4"]);
    let error = PostgresSink::new("postgres://localhost/x").err().unwrap().to_string();
    assert!(error.contains("?table="), "{error}");
}

/// The one row of a query, as text.
fn query(server: &str, sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        for message in client.simple_query(sql).await.unwrap() {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                return (0..row.len()).map(|at| row.get(at).unwrap_or("null").to_string()).collect();
            }
        }
        vec![]
    })
}
