//! A job is crashed at every step that it takes, before the step has its effect and after, and begun
//! again. What its sink has in the end is what one undisturbed run gives.

use crate::faults::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use whimbrel_jobs::is_overtaken;
use whimbrel_plan::Source;
use whimbrel_sharded::RuntimeKind;

/// A folder of a test, which is removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty folder.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("whimbrel-jobs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// The rows that one run gives which nothing disturbs.
fn undisturbed(source: &Arc<dyn Source>, runtime: RuntimeKind) -> Vec<String> {
    let (disk, database) = (Disk::default(), Database::default());
    let process = Process::that_crashes_at(usize::MAX);
    run(&query(source.clone()), runtime, &disk, &database, &process).unwrap().wait().unwrap();
    sorted(&database)
}

/// Crashes a job at a step, begins it again until it ends, and returns its rows; none if it did not get
/// so far.
fn crashed_at(source: &Arc<dyn Source>, runtime: RuntimeKind, step: usize) -> Option<Vec<String>> {
    let (disk, database) = (Disk::default(), Database::default());
    let process = Process::that_crashes_at(step);
    let first = run(&query(source.clone()), runtime, &disk, &database, &process);
    let ended = first.and_then(|job| job.wait());
    if !process.has_crashed() {
        ended.unwrap();
        return None;
    }
    // The second run crashes too, soon after it has begun.
    let process = Process::that_crashes_at(step % 13);
    let _ = run(&query(source.clone()), runtime, &disk, &database, &process).and_then(|job| job.wait());
    let process = Process::that_crashes_at(usize::MAX);
    let last = run(&query(source.clone()), runtime, &disk, &database, &process);
    last.and_then(|job| job.wait()).unwrap_or_else(|error| panic!("after a crash at step {step}: {error}"));
    Some(sorted(&database))
}

fn crash_at_every_step(runtime: RuntimeKind) {
    let source: Arc<dyn Source> = table(600);
    let expected = undisturbed(&source, runtime);
    assert!(expected.len() > 20, "{expected:?}");
    for step in 0.. {
        match crashed_at(&source, runtime, step) {
            Some(rows) => assert_eq!(rows, expected, "after a crash at step {step}"),
            None => {
                assert!(step > 30, "the job takes {step} steps only");
                break;
            }
        }
    }
}

#[test]
fn a_crash_at_any_step_changes_nothing() {
    crash_at_every_step(RuntimeKind::Library);
    crash_at_every_step(RuntimeKind::Local);
}

#[test]
fn a_job_goes_on_where_it_was() {
    let folder = Folder::new("goes-on");
    let (source, sender) = source(folder.as_ref());
    let (disk, database) = (Disk::default(), Database::default());
    let query = query(source as Arc<dyn Source>);
    let run = || {
        let process = Process::that_crashes_at(usize::MAX);
        let job = run(&query, RuntimeKind::Local, &disk, &database, &process).unwrap();
        job.wait().unwrap();
        job.restored_from()
    };
    sender.push(clicks(0..20)).unwrap();
    assert_eq!(run(), None);
    let rows = sorted(&database).len();
    assert!(run().is_some());
    assert_eq!(sorted(&database).len(), rows, "nothing new has come");
    sender.push(clicks(20..60)).unwrap();
    sender.close();
    assert!(run().is_some());
    let all = sorted(&database);
    assert!(all.len() > rows);
    run();
    assert_eq!(sorted(&database), all, "the query has ended");
}

#[test]
fn a_damaged_checkpoint_is_skipped() {
    let source: Arc<dyn Source> = table(2000);
    let expected = undisturbed(&source, RuntimeKind::Local);
    let (disk, database) = (Disk::default(), Database::default());
    let process = Process::that_crashes_at(100);
    let job = run(&query(source.clone()), RuntimeKind::Local, &disk, &database, &process);
    let _ = job.and_then(|job| job.wait());
    assert!(process.has_crashed());
    {
        let mut disk = disk.lock().unwrap();
        let committed = format!("checkpoints/{:012}", database.lock().unwrap().0.unwrap());
        let usable = disk.keys().filter(|name| name.starts_with("checkpoints/") && **name <= committed);
        let newest = usable.max().cloned().unwrap();
        let middle = disk[&newest].len() / 2;
        disk.get_mut(&newest).unwrap()[middle] ^= 1;
    }
    let process = Process::that_crashes_at(usize::MAX);
    let job = run(&query(source), RuntimeKind::Local, &disk, &database, &process).unwrap();
    assert_eq!(job.damaged_checkpoints(), 1);
    job.wait().unwrap();
    assert_eq!(sorted(&database), expected);
}

#[test]
fn states_and_results_that_do_not_belong_together_are_refused() {
    let source: Arc<dyn Source> = table(600);
    let (disk, database) = (Disk::default(), Database::default());
    let start_on = |disk: &Disk, stream, database: &Database| {
        let process = Process::that_crashes_at(usize::MAX);
        run(&stream, RuntimeKind::Local, disk, database, &process)
    };
    let start = |stream, database: &Database| start_on(&disk, stream, database);
    start(query(source.clone()), &database).unwrap().wait().unwrap();
    let other = query(source.clone()).distinct().unwrap();
    let error = start(other, &database).err().unwrap().to_string();
    assert!(error.contains("of another query"), "{error}");
    // The beginning of the tape is gone, as it is once there are two checkpoints.
    let shortened: Disk = Arc::new(Mutex::new(disk.lock().unwrap().clone()));
    shortened.lock().unwrap().retain(|name, _| name != "tape/000000000001");
    let error = start_on(&shortened, query(source.clone()), &Database::default()).err().unwrap().to_string();
    assert!(error.contains("Results are gone"), "{error}");
    let ahead = Database::default();
    ahead.lock().unwrap().0 = Some(1_000_000);
    let error = start(query(source.clone()), &ahead).err().unwrap().to_string();
    assert!(error.contains("older than the results"), "{error}");
    start(query(source), &database).unwrap().wait().unwrap();
}

#[test]
fn an_older_run_stops_when_a_newer_one_goes_on() {
    let folder = Folder::new("generations");
    let (source, sender) = source(folder.as_ref());
    let (disk, database) = (Disk::default(), Database::default());
    let process = Process::that_crashes_at(usize::MAX);
    let start = || run(&query(source.clone()), RuntimeKind::Local, &disk, &database, &process).unwrap();
    sender.push(clicks(0..20)).unwrap();
    let old = start();
    while old.committed() == 0 {
        std::thread::yield_now();
    }
    // A store without a lock, as an object store is.
    let new = start();
    sender.push(clicks(20..60)).unwrap();
    let outcomes = [old.wait(), new.wait()];
    let stopped: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    stopped.iter().for_each(|error| {
        assert!(error.to_string().contains("another process"), "{error}");
        assert!(is_overtaken(error), "{error}");
    });
    // The older run may have cut an epoch that the newer one was about to cut, and be refused its next
    // checkpoint: then both have stopped, and the job goes on once it is begun again.
    if stopped.len() == outcomes.len() {
        start().wait().unwrap();
    }
}
