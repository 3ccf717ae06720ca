//! Files: their rows, their shards, and the errors of files that cannot be read.

use crate::data::*;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use whimbrel_plan::nodes::{Scope, TimeSpec};
use whimbrel_plan::{Stream, column};
use whimbrel_sharded::action::{collect, to_memory};
use whimbrel_sharded::dataset::FileDataset;
use whimbrel_sharded::error::ErrorKind;
use whimbrel_temporal::{Closed, IngressOptions};

/// A folder that is removed with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("whimbrel-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn write_parquet(path: &str, rows: &RecordBatch, group: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

pub fn scan(paths: &[String], shards: usize) -> Stream {
    Stream::scan("files", Arc::new(FileDataset::open(paths, Some(shards)).unwrap())).unwrap()
}

fn error(paths: &[String]) -> String {
    let error = FileDataset::open(paths, None).unwrap_err();
    assert_eq!(ErrorKind::of(&error), ErrorKind::Data, "{error}");
    error.to_string()
}

#[test]
fn files_of_all_kinds_hold_the_same_rows() {
    let (folder, clicks) = (Folder::new(), clicks(1000));
    write_parquet(&folder.path("a.parquet"), &clicks, 100);
    let file = File::create(folder.path("a.csv")).unwrap();
    WriterBuilder::new().build(file).write(&clicks).unwrap();
    let mut writer =
        FileWriter::try_new(File::create(folder.path("a.arrow")).unwrap(), &clicks.schema()).unwrap();
    for start in (0..1000).step_by(90) {
        writer.write(&clicks.slice(start, 90.min(1000 - start))).unwrap();
    }
    writer.finish().unwrap();
    let expected = rows_in_order(&relation(&clicks, 1, 1), &library());
    for name in ["a.parquet", "a.csv", "a.arrow"] {
        for shards in [1, 2, 3, 20] {
            for options in [library(), local()] {
                assert_eq!(rows_in_order(&scan(&[folder.path(name)], shards), &options), expected, "{name}");
            }
            let picked =
                scan(&[folder.path(name)], shards).select(vec![column("cost"), column("time")]).unwrap();
            let again = relation(&clicks, shards, 1).select(vec![column("cost"), column("time")]).unwrap();
            assert_eq!(rows_in_order(&picked, &library()), rows_in_order(&again, &library()), "{name}");
        }
    }
}

#[test]
fn files_of_several_kinds_are_read_together() {
    let (folder, clicks) = (Folder::new(), clicks(1000));
    write_parquet(&folder.path("a.parquet"), &clicks.slice(0, 400), 130);
    let file = File::create(folder.path("b.csv")).unwrap();
    WriterBuilder::new().build(file).write(&clicks.slice(400, 300)).unwrap();
    write_parquet(&folder.path("c.parquet"), &clicks.slice(700, 300), 130);
    let expected = rows_in_order(&relation(&clicks, 1, 1), &library());
    for shards in [1, 2, 7] {
        assert_eq!(rows_in_order(&scan(&[folder.path("*")], shards), &local()), expected, "{shards}");
    }
}

#[test]
fn shards_of_files_are_contiguous_and_even() {
    let (folder, clicks) = (Folder::new(), clicks(1000));
    for (i, start) in [0, 100, 700].into_iter().enumerate() {
        let length = [100, 600, 300][i];
        write_parquet(&folder.path(&format!("part-{i}.parquet")), &clicks.slice(start, length), 130);
    }
    let expected = rows_in_order(&relation(&clicks, 1, 1), &library());
    for pattern in [folder.path("*.parquet"), folder.0.to_str().unwrap().to_string()] {
        for shards in [1, 2, 7] {
            let memory =
                to_memory(&scan(std::slice::from_ref(&pattern), shards), &local()).unwrap().wait().unwrap();
            let sizes: Vec<usize> =
                memory.dataset.shards().iter().map(|s| s.iter().map(RecordBatch::num_rows).sum()).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
            let rows: Vec<String> = memory.dataset.batches().flat_map(text).collect();
            assert_eq!(rows, expected);
        }
    }
}

#[test]
fn streams_are_read_from_files() {
    let (folder, clicks) = (Folder::new(), clicks(2000));
    write_parquet(&folder.path("a.parquet"), &clicks, 64);
    let query = |stream: Stream| {
        let points = stream.ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap();
        let keyed = points.rekey(vec![column("ad")]).unwrap().redistribute(Some(2), Scope::Global).unwrap();
        keyed.hopping(30, 10, 0, Closed::Left).unwrap().aggregate(count()).unwrap()
    };
    let expected = changes(&query(relation(&clicks, 1, 1)), &library());
    for shards in [1, 2, 3, 8] {
        for options in [library(), local()] {
            assert_eq!(changes(&query(scan(&[folder.path("a.parquet")], shards)), &options), expected);
        }
    }
}

#[test]
fn rows_are_counted_before_and_while_they_are_read() {
    let (folder, clicks) = (Folder::new(), clicks(500));
    write_parquet(&folder.path("a.parquet"), &clicks, 64);
    for options in [library(), local()] {
        let action = collect(&scan(&[folder.path("a.parquet")], 2), &options).unwrap();
        assert_eq!(action.job().rows_total(), Some(500));
        action.job().wait().unwrap();
        assert_eq!((action.job().rows_read(), action.job().rows_out()), (500, 500));
    }
}

#[test]
fn a_missing_file_is_named() {
    let folder = Folder::new();
    assert!(error(&[folder.path("none.parquet")]).contains("none.parquet` does not exist"));
    assert!(error(&[folder.path("none*.parquet")]).contains("none*.parquet`"));
    let unknown = folder.path("a.xyz");
    File::create(&unknown).unwrap();
    let error = FileDataset::open(&[unknown], None).unwrap_err();
    assert_eq!(ErrorKind::of(&error), ErrorKind::Invalid);
    assert!(error.to_string().contains("a.xyz"));
}

#[test]
fn a_truncated_file_is_named() {
    let (folder, clicks) = (Folder::new(), clicks(1000));
    let (whole, cut) = (folder.path("whole.parquet"), folder.path("cut.parquet"));
    write_parquet(&whole, &clicks, 100);
    let bytes = std::fs::read(&whole).unwrap();
    for length in [bytes.len() - 1, bytes.len() / 2, 10, 5] {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let message = error(&[whole.clone(), cut.clone()]);
        assert!(message.contains("truncated parquet") && message.contains("cut.parquet"), "{message}");
    }
    std::fs::write(&cut, b"").unwrap();
    assert!(error(std::slice::from_ref(&cut)).contains("cut.parquet` is empty"));
    std::fs::write(&cut, b"something else").unwrap();
    assert!(error(std::slice::from_ref(&cut)).contains("cut.parquet` is not a Parquet file"));
    let mut short = bytes[..bytes.len() / 2].to_vec();
    short.extend(&bytes[bytes.len() - 8..]);
    std::fs::write(&cut, short).unwrap();
    assert!(error(std::slice::from_ref(&cut)).contains("cut.parquet`"));
}

#[test]
fn damaged_pages_are_found_when_they_are_read() {
    let (folder, clicks) = (Folder::new(), clicks(5000));
    let path = folder.path("damaged.parquet");
    write_parquet(&path, &clicks, 500);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle..middle + 2000].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    for options in [library(), local()] {
        let error = collect(&scan(std::slice::from_ref(&path), 2), &options).unwrap().wait().unwrap_err();
        assert_eq!(ErrorKind::of(&error), ErrorKind::Data);
        assert!(error.to_string().contains("damaged.parquet"), "{error}");
    }
}

#[test]
fn files_that_do_not_fit_together_are_named() {
    let folder = Folder::new();
    let (a, b) = (folder.path("a.parquet"), folder.path("b.parquet"));
    write_parquet(&a, &table(vec![ints("x", [1]), ints("y", [2])]), 10);
    write_parquet(&b, &table(vec![ints("x", [1]), texts("y", ["2"])]), 10);
    let message = error(&[a.clone(), b.clone()]);
    assert!(message.contains("a.parquet") && message.contains("b.parquet"), "{message}");
    assert!(message.contains("column `y` is Int64 in the first and Utf8 in the second"), "{message}");
    write_parquet(&b, &table(vec![ints("x", [1])]), 10);
    assert!(error(&[a.clone(), b.clone()]).contains("column `y` is only in the first"));
    write_parquet(&b, &table(vec![ints("x", [1]), ints("z", [2])]), 10);
    assert!(error(&[a, b]).contains("`y` in the first and `z` in the second"));
}

/// Real flights, where the data is present.
#[test]
fn flights_at_any_number_of_shards() {
    let Ok(path) = Path::new("../../../shared/data/nyc_flights_2013.parquet").canonicalize() else {
        eprintln!("skipped: the flights are not there");
        return;
    };
    let paths = [path.to_str().unwrap().to_string()];
    let query = |shards| {
        let flights = scan(&paths, shards).rekey(vec![column("carrier")]).unwrap();
        let flights = flights.redistribute(None, Scope::Global).unwrap();
        flights.aggregate(count()).unwrap()
    };
    let expected = rows(&query(1), &library());
    assert_eq!(expected.len(), 16);
    for shards in [2, 3, 8] {
        assert_eq!(rows(&query(shards), &local()), expected);
    }
}
