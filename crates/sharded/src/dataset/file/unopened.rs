//! Parquet files in an object store that are opened when rows of them are read: a process that reads some
//! shards of a dataset opens the files of these shards, and no others.
//!
//! Invariant: what is known of a file before it is opened (its size, its version, the rows of its row groups)
//! is what it has when it is opened, or opening it fails.

use super::location::{Location, objects_at};
use super::parquet::{self, File};
use datafusion::common::{Result, exec_err, plan_err};
use std::sync::{Arc, OnceLock};

/// A Parquet file that is not open yet.
#[derive(Debug)]
pub(super) struct Unopened {
    pub location: Location,
    /// The rows of each row group.
    row_groups: Vec<usize>,
    file: OnceLock<Arc<File>>,
}

impl Unopened {
    /// The file at a location, whose row groups have so many rows.
    pub fn new(location: Location, row_groups: Vec<usize>) -> Unopened {
        Unopened { location, row_groups, file: OnceLock::new() }
    }

    /// The rows of each row group.
    pub fn row_groups(&self) -> &[usize] {
        &self.row_groups
    }

    /// The file, which is opened unless it is open.
    ///
    /// # Errors
    /// `Execution` if it is missing, has changed, or cannot be read.
    pub fn open(&self) -> Result<Arc<File>> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        check_unchanged(&self.location, &object_at(&self.location.to_string())?)?;
        let file = parquet::cached(&self.location)?;
        if !file.row_groups().eq(self.row_groups.iter().copied()) {
            return written_again(&self.location);
        }
        Ok(Arc::clone(self.file.get_or_init(|| file)))
    }
}

/// The object at a URL.
///
/// # Errors
/// `Execution` if there is none, or the store fails.
pub(super) fn object_at(url: &str) -> Result<Location> {
    match <[Location; 1]>::try_from(objects_at(url)?) {
        Ok([object]) => Ok(object),
        Err(objects) => plan_err!("`{url}` is {} objects, not one", objects.len()),
    }
}

/// Checks that an object has the size and the version that it had.
///
/// # Errors
/// `Execution` if it has not.
pub(super) fn check_unchanged(before: &Location, now: &Location) -> Result<()> {
    let (Location::Object(before), Location::Object(now)) = (before, now) else { return Ok(()) };
    if before.size != now.size {
        return changed(&before.url, before.size, now.size);
    }
    match before.tag == now.tag {
        true => Ok(()),
        false => written_again(&before.url),
    }
}

/// The error of a file that has another size.
pub(super) fn changed<T>(place: &str, before: u64, now: u64) -> Result<T> {
    exec_err!(
        "`{place}` has changed since the plan was written: it had {before} bytes, and has {now}; write the plan again"
    )
}

/// The error of a file that has the same size and another content.
pub(super) fn written_again<T>(place: impl std::fmt::Display) -> Result<T> {
    exec_err!("`{place}` has been written again since the plan was written; write the plan again")
}

#[cfg(test)]
mod tests {
    use super::super::FileDataset;
    use super::super::location::known_object;
    use super::super::object_runtime::block_on;
    use super::*;
    use crate::dataset::{Dataset, OpenStores, Shard, freeze, open_stores_with, thaw};
    use ::parquet::arrow::ArrowWriter;
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::arrow::record_batch::RecordBatch;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
    use std::any::Any;
    use std::ops::Range;
    use whimbrel_plan::Source;

    /// A store for the URLs `unopened://…`.
    #[derive(Debug)]
    struct Store(Arc<InMemory>);

    impl OpenStores for Store {
        fn open(&self, url: &str) -> Option<Result<(Arc<dyn ObjectStore>, Path)>> {
            let (_, path) = url.strip_prefix("unopened://")?.split_once('/')?;
            Some(Ok((Arc::clone(&self.0) as _, Path::from(path))))
        }
    }

    fn put(store: &Arc<InMemory>, name: &str, rows: Range<i64>) {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
        let rows = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let (store, path) = (Arc::clone(store), Path::from(name));
        block_on(async move { store.put(&path, PutPayload::from(bytes)).await.unwrap() }).unwrap();
    }

    /// The sum of the rows of a shard.
    fn sum(source: &Arc<dyn Source>, shard: usize) -> Result<i64> {
        let source: &dyn Any = source.as_ref();
        let files = source.downcast_ref::<FileDataset>().expect("the source is files");
        let Shard::Reader(mut reader) = files.open(shard, None, 1000)? else { panic!("files have readers") };
        let mut sum = 0;
        while let Some(rows) = reader.next()? {
            sum += rows.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
        }
        Ok(sum)
    }

    #[test]
    fn only_files_that_are_read_are_opened() {
        let store = Arc::new(InMemory::new());
        open_stores_with(Arc::new(Store(Arc::clone(&store))));
        for (number, rows) in [(0, 0..100), (1, 100..200), (2, 200..300)] {
            put(&store, &format!("t/{number}.parquet"), rows);
        }
        let files = FileDataset::open(&["unopened://b/t/".to_string()], Some(3)).unwrap();
        let frozen = freeze(&files).unwrap();
        let source = thaw(&frozen).unwrap();
        assert_eq!(source.statistics().num_rows.get_value(), Some(&300));
        assert_eq!(source.info().schema, files.info().schema);
        assert_eq!(freeze(source.as_ref()).unwrap(), frozen, "it can be sent on");
        // What is gone or has changed is noticed by who reads it.
        put(&store, "t/2.parquet", 500..600);
        let (gone, path) = (Arc::clone(&store), Path::from("t/1.parquet"));
        block_on(async move { gone.delete(&path).await.unwrap() }).unwrap();
        assert_eq!(sum(&source, 0).unwrap(), (0..100).sum::<i64>());
        assert!(sum(&source, 1).unwrap_err().to_string().contains("unopened://b/t/1.parquet"));
        let error = sum(&source, 2).unwrap_err().to_string();
        assert!(error.contains("2.parquet` has been written again since the plan was written"), "{error}");
    }

    #[test]
    fn another_size_or_version_is_a_change() {
        let known = |size, tag: Option<&str>| {
            known_object("http://h/u.parquet", size, tag.map(str::to_string)).unwrap()
        };
        assert!(check_unchanged(&known(9, Some("a")), &known(9, Some("a"))).is_ok());
        let error = check_unchanged(&known(9, None), &known(10, None)).unwrap_err().to_string();
        assert!(error.contains("it had 9 bytes, and has 10"), "{error}");
        let error = check_unchanged(&known(9, Some("a")), &known(9, Some("b"))).unwrap_err().to_string();
        assert!(error.contains("written again"), "{error}");
    }
}
