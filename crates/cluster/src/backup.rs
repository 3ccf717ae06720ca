//! The upstream backup: what the channels of a worker have sent, until their job ends (quokka.txt §III).
//!
//! Consumers pull frames by their numbers, as often as they like. Frames are kept in memory while there is
//! room; behind that they are on the disk, of which a worker may have a quota.
//!
//! Invariant: the frames of a queue are appended in the order of their numbers, and never change. A queue
//! that keeps what is unread alone has one reader.

use crate::budget::Budget;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err, resources_err};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, create_dir_all};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use whimbrel_sharded::runtime::Frame;
use whimbrel_sharded::runtime::Topology;

/// How long a queue is waited for that its worker has not begun yet.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How often the folder of the backup is made again for one file.
const FOLDER_ATTEMPTS: usize = 5;

/// A queue of a job. The shards of the result are queues, too, with numbers behind the others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueName {
    /// The job.
    pub job: String,
    /// The number of the queue.
    pub queue: usize,
}

impl QueueName {
    /// The queue of the shard of the result that a channel makes.
    pub fn of_result(job: &str, topology: &Topology, channel: usize) -> QueueName {
        QueueName { job: job.to_string(), queue: topology.queues().len() + channel }
    }
}

/// The queues that the channels of a worker fill.
pub struct Backup {
    queues: Mutex<HashMap<QueueName, Arc<QueueBackup>>>,
    /// Learns of each queue that is begun.
    begun: watch::Sender<()>,
    room: Arc<Room>,
}

/// Where frames are kept, and how many bytes of them.
#[derive(Debug)]
pub struct Room {
    /// Frames in memory.
    pub memory: Budget,
    /// Frames in files.
    pub disk: Budget,
    folder: PathBuf,
}

/// Which frames of a queue are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// All, until the job ends: a consumer that runs again reads them again.
    All,
    /// Those that have not been read. Whoever runs again goes on from a checkpoint, with queues of its own.
    Unread,
}

/// The frames of a queue.
pub struct QueueBackup {
    keeps: Keeps,
    frames: Mutex<Frames>,
    room: Arc<Room>,
    length: watch::Sender<Length>,
}

/// How long a queue is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Length {
    frames: u64,
    /// Whether the queue was given up: no frame follows here.
    is_given_up: bool,
}

#[cfg(test)]
impl Length {
    /// How many frames readers can have.
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

#[derive(Default)]
struct Frames {
    /// The number of the first frame that is kept.
    first: u64,
    places: VecDeque<Place>,
    file: Option<File>,
    file_bytes: u64,
    /// Whether nobody needs them any more: what comes is not kept.
    are_given_up: bool,
}

/// Where a frame is.
enum Place {
    Memory(Frame),
    File { header: Vec<u8>, offset: u64, bytes: usize },
}

impl Backup {
    /// A backup that keeps so many bytes in memory, and the rest in files in this folder, which have no
    /// names: so many bytes, or as many as the disk takes.
    pub fn new(folder: &Path, memory: u64, disk: Option<u64>) -> Backup {
        let (memory, disk) = (Budget::new(Some(memory)), Budget::new(disk));
        let room = Arc::new(Room { memory, disk, folder: folder.to_path_buf() });
        Backup { queues: Mutex::default(), begun: watch::Sender::new(()), room }
    }

    /// Begins a queue. One of the same name is given up.
    pub fn begin(&self, name: QueueName, keeps: Keeps) -> Arc<QueueBackup> {
        let queue = Arc::new(QueueBackup {
            keeps,
            frames: Mutex::default(),
            room: Arc::clone(&self.room),
            length: watch::Sender::default(),
        });
        let old = self.lock().insert(name, Arc::clone(&queue));
        old.iter().for_each(|old| old.give_up());
        self.begun.send_replace(());
        queue
    }

    /// A queue, if one of its channels runs here, or has run here.
    pub fn queue(&self, name: &QueueName) -> Option<Arc<QueueBackup>> {
        self.lock().get(name).cloned()
    }

    /// A queue; waits a moment until it is begun.
    pub async fn wait_for_queue(&self, name: &QueueName) -> Option<Arc<QueueBackup>> {
        let mut begun = self.begun.subscribe();
        let found = timeout(BEGIN_TIMEOUT, begun.wait_for(|()| self.queue(name).is_some())).await;
        found.ok().and_then(|_| self.queue(name))
    }

    /// Gives up a queue that nobody needs any more.
    pub fn remove_queue(&self, name: &QueueName) {
        self.lock().remove(name).iter().for_each(|queue| queue.give_up());
    }

    /// Gives up the queues of a job.
    pub fn remove(&self, job: &str) {
        self.lock().retain(|name, queue| {
            if name.job == job {
                queue.give_up();
            }
            name.job != job
        });
    }

    /// Where frames are kept.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// How many queues it keeps.
    pub fn queue_count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueueName, Arc<QueueBackup>>> {
        // Every change is one insertion or removal.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueBackup {
    /// Appends a frame, which readers find once it has been [announced](QueueBackup::announce); how many
    /// frames there are.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the disk or the quota is full; `Internal` if it is not the next one.
    pub fn append(&self, frame: Frame) -> Result<u64> {
        let mut frames = self.lock();
        if frame.sequence() != frames.end() {
            return internal_err!("frame {} comes as number {}", frame.sequence(), frames.end());
        }
        if frames.are_given_up {
            frames.first += 1;
            return Ok(frames.end());
        }
        let place = match self.room.memory.reserve(frame.size() as u64) {
            true => Place::Memory(frame),
            false => frames.write(frame, &self.room)?,
        };
        frames.places.push_back(place);
        Ok(frames.end())
    }

    /// Whether it still has the frames from a number on.
    pub fn keeps_from(&self, sequence: u64) -> bool {
        self.lock().first <= sequence
    }

    /// Gives up the frames before a number, if they are not kept once they were read.
    fn release(&self, sequence: u64) {
        if self.keeps == Keeps::Unread {
            self.lock().release(sequence, &self.room);
        }
    }

    /// Lets readers have so many frames.
    pub fn announce(&self, frames: u64) {
        self.length.send_modify(|length| length.frames = length.frames.max(frames));
    }

    /// How many bytes of it are on the disk.
    pub fn spilled_bytes(&self) -> u64 {
        self.lock().file_bytes
    }

    /// Tells readers that no frame follows here, and gives up all frames. Its channel may still hold it.
    fn give_up(&self) {
        self.length.send_modify(|length| length.is_given_up = true);
        let mut frames = self.lock();
        frames.are_given_up = true;
        frames.release(u64::MAX, &self.room);
    }

    /// The frame of a number, if it has been sent.
    ///
    /// # Errors
    /// `Execution` if it cannot be read from its file.
    pub fn frame(&self, sequence: u64) -> Result<Option<Frame>> {
        let frames = self.lock();
        let place = sequence.checked_sub(frames.first).and_then(|place| usize::try_from(place).ok());
        Ok(match place.and_then(|place| frames.places.get(place)) {
            None => None,
            Some(Place::Memory(frame)) => Some(frame.clone()),
            Some(Place::File { header, offset, bytes }) => {
                let mut body = vec![0; *bytes];
                let Some(file) = &frames.file else { return internal_err!("a queue has lost its file") };
                file.read_exact_at(&mut body, *offset).map_err(|error| self.room.error(&error))?;
                Some(Frame::from_bytes(header, body.into())?)
            }
        })
    }

    /// Learns of new frames.
    pub fn length(&self) -> watch::Receiver<Length> {
        self.length.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Frames> {
        // A frame is pushed whole.
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueBackup {
    fn drop(&mut self) {
        self.lock().release(u64::MAX, &self.room);
    }
}

impl Frames {
    /// The number of the next frame.
    fn end(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// Gives up the frames before a number, and the file once no frame is left.
    fn release(&mut self, sequence: u64, room: &Room) {
        let count = sequence.min(self.end()).saturating_sub(self.first);
        self.first += count;
        room.memory.release(self.places.drain(..count as usize).map(|place| place.memory_size()).sum());
        if self.places.is_empty() {
            self.file = None;
            room.disk.release(std::mem::take(&mut self.file_bytes));
        }
    }

    /// Writes a frame to the file of the queue, which is gone with it.
    fn write(&mut self, frame: Frame, room: &Room) -> Result<Place> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed_file(&room.folder).map_err(|error| room.error(&error))?),
        };
        let (header, body) = frame.into_bytes()?;
        let (offset, bytes) = (self.file_bytes, body.len());
        room.reserve_disk(bytes as u64)?;
        file.write_all_at(&body, offset).map_err(|error| {
            room.disk.release(bytes as u64);
            room.error(&error)
        })?;
        self.file_bytes += bytes as u64;
        Ok(Place::File { header, offset, bytes })
    }
}

impl Place {
    /// How many bytes the frame has in memory.
    fn memory_size(&self) -> u64 {
        match self {
            Place::Memory(frame) => frame.size() as u64,
            Place::File { .. } => 0,
        }
    }
}

impl Room {
    /// Takes so many bytes of the disk, if they are within its quota.
    fn reserve_disk(&self, bytes: u64) -> Result<()> {
        if self.disk.reserve(bytes) {
            return Ok(());
        }
        let (folder, quota) = (self.folder.display(), self.disk.limit().unwrap_or(u64::MAX));
        let others = self.disk.used();
        resources_err!(
            "the backup of a worker in `{folder}` has a quota of {quota} bytes, and {others} of them are in use: \
             {bytes} more do not fit; give the worker more with --backup-disk, or wait until other jobs have ended"
        )
    }

    /// The error of a file.
    fn error(&self, error: &std::io::Error) -> DataFusionError {
        let message = format!("the backup of a worker in `{}`: {error}", self.folder.display());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DataFusionError::ResourcesExhausted(message),
            _ => DataFusionError::Execution(message),
        }
    }
}

/// A file in a folder, which is made again if somebody has removed it, also if that happens again meanwhile.
/// The file is gone when it is closed.
fn unnamed_file(folder: &Path) -> std::io::Result<File> {
    for _ in 0..FOLDER_ATTEMPTS {
        match tempfile::tempfile_in(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => create_dir_all(folder)?,
            file => return file,
        }
    }
    tempfile::tempfile_in(folder)
}

/// The next frame of a queue; waits for it.
///
/// # Errors
/// `Execution` if the queue is given up, or its frame cannot be read.
pub async fn next_frame(
    queue: &QueueBackup,
    length: &mut watch::Receiver<Length>,
    sequence: u64,
) -> Result<Frame> {
    let news = length.wait_for(|length| length.is_given_up || length.frames > sequence).await;
    if news.is_ok_and(|length| length.is_given_up) {
        return exec_err!("a queue was given up while it was read");
    }
    queue.release(sequence);
    match queue.frame(sequence)? {
        Some(frame) => Ok(frame),
        None => internal_err!("a queue has lost a frame"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use whimbrel_sharded::relation::always;
    use whimbrel_sharded::runtime::Item;
    use whimbrel_temporal::Message;

    #[test]
    fn frames_beyond_the_memory_are_on_the_disk() {
        let backup = Backup::new(&std::env::temp_dir(), 3 * Frame::of(0, Item::End).size() as u64, None);
        let name = QueueName { job: "job".into(), queue: 2 };
        let queue = backup.begin(name.clone(), Keeps::All);
        for time in 0..10 {
            let item = Item::Message(Message::Punctuation(time));
            let length = queue.append(Frame::of(time as u64, item)).unwrap();
            assert_eq!(length, time as u64 + 1);
        }
        assert!(queue.append(Frame::of(12, Item::End)).is_err());
        let places = queue.lock().places.iter().map(|p| matches!(p, Place::Memory(_))).collect::<Vec<_>>();
        assert_eq!(places.iter().filter(|memory| **memory).count(), 3);
        for time in 0..10 {
            let frame = queue.frame(time as u64).unwrap().unwrap();
            assert!(matches!(frame.item().unwrap(), Item::Message(Message::Punctuation(t)) if t == time));
        }
        assert!(queue.frame(10).unwrap().is_none());
        assert!(backup.queue(&name).is_some());
        backup.remove("job");
        assert!(backup.queue(&name).is_none());
        assert_eq!(backup.room.memory.used(), 0, "though its channel holds the queue");
        assert_eq!(queue.append(Frame::of(10, Item::End)).unwrap(), 11);
        assert_eq!(backup.room.memory.used(), 0);
    }

    #[test]
    fn what_is_on_the_disk_has_a_quota() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 100]));
        let rows = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let frame = |number| Frame::of(number, Item::Message(always(rows.clone())));
        let size = frame(0).into_bytes().unwrap().1.len() as u64;
        let backup = Backup::new(&std::env::temp_dir(), 0, Some(3 * size));
        let queue = |job: &str| backup.begin(QueueName { job: job.into(), queue: 0 }, Keeps::All);
        let (first, second) = (queue("first"), queue("second"));
        first.append(frame(0)).unwrap();
        first.append(frame(1)).unwrap();
        second.append(frame(0)).unwrap();
        let refused = second.append(frame(1)).unwrap_err();
        assert!(matches!(refused, DataFusionError::ResourcesExhausted(_)), "{refused}");
        assert!(refused.to_string().contains(&format!("a quota of {} bytes", 3 * size)), "{refused}");
        backup.remove("first");
        assert_eq!(backup.room.disk.used(), size, "the room of a job that has ended is free again");
        assert_eq!(second.append(frame(1)).unwrap(), 2);
        drop((backup, second));
        assert_eq!(first.room.disk.used(), 0);
    }

    #[test]
    fn frames_that_were_read_are_given_up() {
        let frame = |number: u64| Frame::of(number, Item::Message(Message::Punctuation(number as i64)));
        let backup = Backup::new(&std::env::temp_dir(), 2 * frame(0).size() as u64, None);
        let queue = backup.begin(QueueName { job: "job".into(), queue: 0 }, Keeps::Unread);
        for number in 0..6 {
            queue.append(frame(number)).unwrap();
        }
        assert_eq!(queue.lock().places.len(), 6);
        queue.release(4);
        assert!(!queue.keeps_from(3) && queue.keeps_from(4));
        assert!(queue.frame(3).unwrap().is_none());
        let item = queue.frame(4).unwrap().unwrap().item().unwrap();
        assert!(matches!(item, Item::Message(Message::Punctuation(4))));
        queue.release(6);
        assert!(queue.lock().places.is_empty());
        assert_eq!(queue.spilled_bytes(), 0);
        assert_eq!(backup.room.memory.used(), 0);
        assert_eq!(queue.append(frame(6)).unwrap(), 7);
    }
}
