//! Actions: results can be read in again.

use crate::data::*;
use crate::files::Folder;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::prelude::lit;
use std::io::Write;
use std::sync::{Arc, Mutex};
use whimbrel_plan::nodes::{Scope, TimeSpec};
use whimbrel_plan::{Stream, column};
use whimbrel_sharded::action::{
    Existing, collect, schema, subscribe, to_binary_stream, to_memory, to_storage,
};
use whimbrel_sharded::dataset::FileDataset;
use whimbrel_sharded::error::ErrorKind;
use whimbrel_sharded::{Options, Output, run};
use whimbrel_temporal::{Closed, INFINITY, IngressOptions, Message};

fn windows(shards: usize) -> Stream {
    let keyed = points(&clicks(1000), shards, 1).rekey(vec![column("ad")]).unwrap();
    let keyed = keyed.redistribute(None, Scope::Global).unwrap();
    keyed.hopping(50, 10, 0, Closed::Left).unwrap().aggregate(count()).unwrap()
}

#[test]
fn a_result_in_memory_is_the_same_stream() {
    for options in [library(), local()] {
        let query = windows(3);
        let memory = to_memory(&query, &options).unwrap().wait().unwrap();
        assert_eq!(memory.dataset.shards().len(), 3);
        assert_eq!(memory.stream.properties().key, query.properties().key);
        assert_eq!(memory.stream.properties().time, query.properties().time);
        assert_eq!(changes(&memory.stream, &options), changes(&query, &options));
        let again = memory.stream.where_(column("n").gt(lit(3_i64))).unwrap();
        let expected = query.where_(column("n").gt(lit(3_i64))).unwrap();
        assert_eq!(changes(&again, &options), changes(&expected, &options));
        let table = to_memory(&relation(&clicks(10), 2, 1), &options).unwrap().wait().unwrap();
        assert_eq!(rows(&table.stream, &options), rows(&relation(&clicks(10), 1, 1), &options));
    }
}

#[test]
fn a_table_has_few_batches() {
    for options in [library(), local()] {
        let table = collect(&windows(3), &options).unwrap().wait().unwrap();
        let rows = rows_in_order(&windows(1), &options);
        assert_eq!((table.batches.len(), table.num_rows()), (1, rows.len()));
        let starts = table.batches[0]["start"].as_primitive::<Int64Type>();
        assert!(starts.values().is_sorted());
    }
}

#[test]
fn a_stored_result_is_the_same_stream() {
    for options in [library(), local()] {
        let (query, folder) = (windows(3), Folder::new());
        let stored = folder.0.join("counts");
        let paths = to_storage(&query, &options, &stored, Existing::Refuse).unwrap().wait().unwrap();
        assert_eq!(paths.len(), 3);
        assert_eq!(std::fs::read_dir(&stored).unwrap().count(), 3);
        let files = FileDataset::open(&[stored.to_str().unwrap().to_string()], Some(1)).unwrap();
        assert_eq!(files.schema().as_ref(), schema(&query, &options).as_ref());
        let reads = |path: &std::path::Path| {
            let files = FileDataset::open(&[path.to_str().unwrap().to_string()], Some(2)).unwrap();
            let files = Stream::scan("stored", Arc::new(files)).unwrap();
            changes(
                &files.ingress(TimeSpec::interval("start", "end"), IngressOptions::default()).unwrap(),
                &options,
            )
        };
        let mut found = Changes::new();
        paths.iter().for_each(|path| found.extend(reads(path)));
        // The key is among the columns and redistributed: no row is in two shards.
        assert_eq!(found, changes(&query, &options));
        let refused = to_storage(&query, &options, &stored, Existing::Refuse).err().unwrap();
        assert_eq!(ErrorKind::of(&refused), ErrorKind::Invalid);
        let again = to_storage(&windows(2), &options, &stored, Existing::Replace).unwrap().wait().unwrap();
        assert_eq!(std::fs::read_dir(&stored).unwrap().count(), again.len());
    }
}

#[test]
fn a_url_is_no_folder() {
    for url in ["s3://bucket/x", "http:/ann:s3cret@h/x"] {
        let refused = to_storage(&windows(1), &library(), url.as_ref(), Existing::Replace).err().unwrap();
        assert_eq!(ErrorKind::of(&refused), ErrorKind::Invalid);
        assert!(!refused.to_string().contains("s3cret"), "{refused}");
        assert!(!std::path::Path::new(url).exists());
    }
}

#[test]
fn a_query_that_fails_leaves_no_files() {
    for options in [library(), local()] {
        let folder = Folder::new();
        let query = relation(&clicks(5000), 3, 1);
        let query = query.select(vec![(lit(1_i64) / (column("cost") - lit(50_i64))).alias("x")]).unwrap();
        assert!(to_storage(&query, &options, &folder.0, Existing::Refuse).unwrap().wait().is_err());
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    }
}

/// A writer whose bytes can be read meanwhile.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_binary_stream_can_be_read() {
    for options in [library(), local()] {
        let (query, folder) = (windows(2), Folder::new());
        let streams: Vec<Shared> = (0..2).map(|_| Shared::default()).collect();
        let writers = streams.iter().map(|s| Box::new(s.clone()) as Box<dyn Write + Send>).collect();
        to_binary_stream(&query, &options, writers).unwrap().wait().unwrap();
        let mut found = Vec::new();
        for (shard, stream) in streams.iter().enumerate() {
            let bytes = stream.0.lock().unwrap().clone();
            std::fs::write(folder.path(&format!("{shard}.arrows")), &bytes).unwrap();
            for batch in StreamReader::try_new(bytes.as_slice(), None).unwrap() {
                found.extend(text(&batch.unwrap()));
            }
        }
        found.sort();
        assert_eq!(found, rows(&query, &options));
        let files = FileDataset::open(&[folder.path("*.arrows")], Some(2)).unwrap();
        assert_eq!(rows(&Stream::scan("streams", Arc::new(files)).unwrap(), &options), found);
        assert!(to_binary_stream(&query, &options, vec![]).is_err());
    }
}

#[test]
fn events_can_be_read_in_again() {
    for options in [library(), local()] {
        let options = Options { output: Output::Events, ..options };
        let query = windows(2);
        let memory = to_memory(&query, &options).unwrap().wait();
        // The events have a kind, so the stream has edges.
        let memory = memory.unwrap();
        assert_eq!(memory.dataset.schema().field(0).name(), "kind");
        let kinds: Vec<String> = memory
            .dataset
            .batches()
            .flat_map(|b| {
                b.column(0).as_string::<i32>().iter().map(|k| k.unwrap().to_string()).collect::<Vec<_>>()
            })
            .collect();
        assert!(kinds.iter().any(|k| k != "punctuation"));
        let intervals = Options { output: Output::Intervals, ..options };
        assert_eq!(changes(&memory.stream, &intervals), changes(&query, &intervals));
    }
}

#[test]
fn subscribers_get_each_shard_in_order() {
    for options in [library(), local()] {
        let got: Arc<Mutex<Vec<(usize, i64)>>> = Arc::default();
        let sink = got.clone();
        let job = subscribe(&windows(3), &options, move |shard, batch| {
            let starts = batch.column(0).as_primitive::<datafusion::arrow::datatypes::Int64Type>();
            sink.lock().unwrap().extend(starts.values().iter().map(|s| (shard, *s)));
            Ok(())
        });
        job.unwrap().wait().unwrap();
        let got = got.lock().unwrap();
        assert_eq!(got.len(), rows(&windows(3), &options).len());
        for shard in 0..3 {
            assert!(got.iter().filter(|(s, _)| *s == shard).map(|(_, t)| *t).is_sorted());
        }
    }
}

#[test]
fn raw_messages_end_with_the_stream() {
    for options in [library(), local()] {
        let last: Arc<Mutex<Vec<Option<Message>>>> = Arc::new(Mutex::new(vec![None; 2]));
        let sink = last.clone();
        let sink = move |shard: usize, message: Message| {
            sink.lock().unwrap()[shard] = Some(message);
            Ok(())
        };
        run(&windows(2), &options, Box::new(sink)).unwrap().wait().unwrap();
        assert!(last.lock().unwrap().iter().all(|m| matches!(m, Some(Message::Punctuation(INFINITY)))));
    }
}
