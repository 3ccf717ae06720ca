//! Damaged files: whatever bytes are wrong, either rows come out or an error that names the file.

use crate::data::*;
use crate::files::Folder;
use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::datatypes::{Int32Type, Int64Type};
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::error::DataFusionError;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use std::sync::Arc;
use whimbrel_plan::{Stream, column};
use whimbrel_sharded::action::collect;
use whimbrel_sharded::dataset::FileDataset;
use whimbrel_sharded::error::ErrorKind;

/// How many times each file is damaged.
const ROUNDS: usize = 300;

fn rows() -> RecordBatch {
    let lists = (0..200).map(|i| (i % 7 != 0).then(|| (0..i % 4).map(Some).collect::<Vec<_>>()));
    let dictionary: DictionaryArray<Int32Type> =
        (0..200).map(|i| (i % 5 != 0).then_some(["red", "green", "blue"][i % 3])).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from_iter((0..200).map(|i| (i % 3 != 0).then_some(i * i))))),
        ("t", Arc::new(StringArray::from_iter_values((0..200).map(|i| format!("text number {i}"))))),
        ("v", Arc::new(StringViewArray::from_iter((0..200).map(|i| Some("x".repeat(i % 40)))))),
        ("d", Arc::new(dictionary)),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn ipc(compression: Option<CompressionType>) -> Vec<u8> {
    let (rows, mut bytes) = (rows(), Vec::new());
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(&mut bytes, &rows.schema(), options).unwrap();
    (0..4).for_each(|i| writer.write(&rows.slice(i * 50, 50)).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

fn ipc_stream() -> Vec<u8> {
    let (rows, mut bytes) = (rows(), Vec::new());
    let mut writer = StreamWriter::try_new(&mut bytes, &rows.schema()).unwrap();
    (0..4).for_each(|i| writer.write(&rows.slice(i * 50, 50)).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

fn parquet(compression: Compression, version: WriterVersion) -> Vec<u8> {
    let (rows, mut bytes) = (rows(), Vec::new());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_writer_version(version)
        .set_max_row_group_row_count(Some(80))
        .build();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    bytes
}

fn texts() -> RecordBatch {
    rows().project(&[0, 1, 2]).unwrap()
}

fn csv() -> Vec<u8> {
    let mut bytes = Vec::new();
    WriterBuilder::new().build(&mut bytes).write(&texts()).unwrap();
    bytes
}

fn json() -> Vec<u8> {
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write(&texts()).unwrap();
    writer.finish().unwrap();
    writer.into_inner()
}

/// Reads all of a file, in two shards, and then a few columns, in another order.
fn read(path: &str) -> Result<(), DataFusionError> {
    let files = Arc::new(FileDataset::open(&[path.to_string()], Some(2))?);
    let all = Stream::scan("files", files)?;
    // The names may be damaged too.
    let few = all.select(vec![column("v"), column("n")]).ok();
    for stream in [Some(all), few].iter().flatten() {
        collect(stream, &library())?.wait()?;
    }
    Ok(())
}

/// Flips bytes, cuts the end off, or writes a number that is too large.
fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut bytes, length) = (bytes.to_vec(), bytes.len() as u64);
    match random.below(4) {
        0 => bytes.truncate(random.below(length) as usize),
        1 => {
            let at = random.below(length) as usize;
            let number = [0xffu8; 8];
            let end = bytes.len().min(at + [1, 2, 4, 8][random.below(4) as usize]);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        2 => {
            // Most metadata is at the end of a file.
            let at = length - 1 - random.below(length.min(600)) as u64;
            bytes[at as usize] = random.below(256) as u8;
        }
        _ => {
            for _ in 0..=random.below(3) {
                bytes[random.below(length) as usize] ^= 1 << random.below(8);
            }
        }
    }
    bytes
}

fn assert_rows_or_clean_error(name: &str, bytes: &[u8]) {
    let (folder, mut random) = (Folder::new(), Random(0x5eed + name.len() as u64));
    let path = folder.path(name);
    std::fs::write(&path, bytes).unwrap();
    read(&path).unwrap();
    for turn in 0..ROUNDS {
        let damaged = damage(bytes, &mut random);
        std::fs::write(&path, &damaged).unwrap();
        if let Err(error) = read(&path) {
            let kept = std::env::temp_dir().join(format!("whimbrel-damaged-{name}"));
            let kind = ErrorKind::of(&error);
            if kind != ErrorKind::Data || !error.to_string().contains(name) {
                std::fs::write(&kept, &damaged).unwrap();
                panic!("turn {turn}, kept in {}: {kind:?} {error}", kept.display());
            }
        }
    }
}

#[test]
fn damaged_arrow_files_give_rows_or_a_clean_error() {
    assert_rows_or_clean_error("a.arrow", &ipc(None));
    assert_rows_or_clean_error("lz4.arrow", &ipc(Some(CompressionType::LZ4_FRAME)));
    assert_rows_or_clean_error("zstd.arrow", &ipc(Some(CompressionType::ZSTD)));
    assert_rows_or_clean_error("a.arrows", &ipc_stream());
}

#[test]
fn damaged_parquet_files_give_rows_or_a_clean_error() {
    assert_rows_or_clean_error("a.parquet", &parquet(Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0));
    assert_rows_or_clean_error("snappy.parquet", &parquet(Compression::SNAPPY, WriterVersion::PARQUET_2_0));
    assert_rows_or_clean_error(
        "zstd.parquet",
        &parquet(Compression::ZSTD(Default::default()), WriterVersion::PARQUET_1_0),
    );
    assert_rows_or_clean_error(
        "gzip.parquet",
        &parquet(Compression::GZIP(Default::default()), WriterVersion::PARQUET_2_0),
    );
    assert_rows_or_clean_error("lz4.parquet", &parquet(Compression::LZ4_RAW, WriterVersion::PARQUET_1_0));
}

#[test]
fn damaged_text_files_give_rows_or_a_clean_error() {
    assert_rows_or_clean_error("a.csv", &csv());
    assert_rows_or_clean_error("a.jsonl", &json());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn damaged_gzip_files_give_rows_or_a_clean_error() {
    assert_rows_or_clean_error("a.csv.gz", &gzip(&csv()));
    assert_rows_or_clean_error("a.jsonl.zst", &zstd::encode_all(json().as_slice(), 0).unwrap());
}

#[test]
fn a_length_that_no_file_has_takes_no_memory() {
    let (folder, bytes) = (Folder::new(), ipc(None));
    // The length of a body in a block of the footer.
    for at in bytes.len() - 400..bytes.len() - 8 {
        let mut damaged = bytes.clone();
        damaged[at..at + 8].copy_from_slice(&6_473_924_464_352_272u64.to_le_bytes());
        let path = folder.path("a.arrow");
        std::fs::write(&path, damaged).unwrap();
        if let Err(error) = read(&path) {
            assert_eq!(ErrorKind::of(&error), ErrorKind::Data, "{error}");
        }
    }
}
