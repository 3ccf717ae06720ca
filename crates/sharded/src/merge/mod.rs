//! Merges time-ordered lanes into one time-ordered stream: the receiving end of an exchange.
//!
//! Invariants: rows come out in the order of (sync, lane, position in the lane), so the order depends on the
//! contents of the lanes and not on their arrival. A row comes out as soon as no lane can bring a row before
//! it or at the same instant. Batches that do not overlap are passed on as they are, and long runs of one
//! lane as slices; other rows are copied into full batches (quill.txt §4.2).

mod interleave;

use datafusion::common::{Result, exec_err};
use interleave::Interleave;
use std::collections::VecDeque;
use whimbrel_temporal::checkpoint::{SavedMessage, decode, encode, open, seal};
use whimbrel_temporal::{BEGINNING, Batch, INFINITY, Message, Time};

/// Merges lanes by time.
///
/// ```
/// use whimbrel_sharded::merge::Gather;
/// use whimbrel_temporal::Message;
///
/// let mut gather = Gather::new(2, 1000);
/// gather.push(0, Message::Punctuation(7))?;
/// assert!(gather.next().is_none(), "the other lane may bring rows before 7");
/// assert_eq!(gather.blocked_lane(), Some(1));
/// gather.push(1, Message::Punctuation(9))?;
/// assert!(matches!(gather.next(), Some(Message::Punctuation(7))));
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub struct Gather {
    lanes: Vec<Lane>,
    ready: VecDeque<Message>,
    /// The last punctuation that came out.
    announced: Time,
    batch_rows: usize,
}

/// A lane: the batches that wait, and how far it has come.
struct Lane {
    waiting: VecDeque<Batch>,
    /// No row before this time will come.
    frontier: Time,
}

/// A lane in a checkpoint: the batches that wait, and its frontier.
type SavedLane = (Vec<SavedMessage>, Time);

impl Iterator for Gather {
    type Item = Message;

    /// The next message of the merged stream, or none until more is pushed.
    fn next(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }
}

impl Gather {
    /// A merge of so many lanes into batches of at most so many rows.
    pub fn new(lanes: usize, batch_rows: usize) -> Gather {
        let lane = || Lane { waiting: VecDeque::new(), frontier: BEGINNING };
        Gather {
            lanes: (0..lanes).map(|_| lane()).collect(),
            ready: VecDeque::new(),
            announced: BEGINNING,
            batch_rows,
        }
    }

    /// Takes the next message of a lane.
    ///
    /// # Errors
    /// `ArrowError` if rows of different lanes cannot be put into one batch.
    pub fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        if self.lanes.len() == 1 {
            self.pass(message);
            return Ok(());
        }
        let state = &mut self.lanes[lane];
        match message {
            Message::Punctuation(time) => state.frontier = state.frontier.max(time),
            Message::Batch(batch) => {
                let batch = batch.compact()?;
                if let Some(&last) = batch.sync.last() {
                    state.frontier = state.frontier.max(last);
                    state.waiting.push_back(batch);
                }
            }
        }
        self.release()
    }

    /// The time before which the merged stream is complete.
    pub fn frontier(&self) -> Time {
        self.lanes.iter().map(|l| l.frontier).min().unwrap_or(INFINITY)
    }

    /// The lane that has to bring a message next; none if all have ended.
    pub fn blocked_lane(&self) -> Option<usize> {
        let (lane, state) = self.lanes.iter().enumerate().min_by_key(|(i, l)| (l.frontier, *i))?;
        (state.frontier < INFINITY).then_some(lane)
    }

    /// The state as [sealed](whimbrel_temporal::checkpoint) bytes. A new merge of as many lanes that
    /// [`restore`](Gather::restore)s them goes on as this one would.
    ///
    /// # Errors
    /// `ArrowError` if the columns cannot be written.
    pub fn save(&self) -> Result<Vec<u8>> {
        let lane = |lane: &Lane| -> Result<SavedLane> {
            let batch = |b: &Batch| SavedMessage::of(&Message::Batch(b.clone()));
            Ok((lane.waiting.iter().map(batch).collect::<Result<_>>()?, lane.frontier))
        };
        let lanes: Vec<SavedLane> = self.lanes.iter().map(lane).collect::<Result<_>>()?;
        let ready: Vec<SavedMessage> = self.ready.iter().map(SavedMessage::of).collect::<Result<_>>()?;
        seal(&self.describe(), &encode(&(lanes, ready, self.announced))?)
    }

    /// Restores a saved state.
    ///
    /// # Errors
    /// `Execution` if the bytes are no state of a merge of as many lanes. The merge is not changed then.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (lanes, ready, announced): (Vec<SavedLane>, Vec<SavedMessage>, Time) =
            decode(open(&self.describe(), state)?)?;
        let lanes: Vec<Lane> = lanes.into_iter().map(Lane::restore).collect::<Result<_>>()?;
        if lanes.len() != self.lanes.len() {
            return exec_err!("the checkpoint has {} lanes, this merge {}", lanes.len(), self.lanes.len());
        }
        self.ready = ready.into_iter().map(SavedMessage::message).collect::<Result<_>>()?;
        (self.lanes, self.announced) = (lanes, announced);
        Ok(())
    }

    /// What a checkpoint is compared by. The size of batches is not in it: it changes no answer.
    fn describe(&self) -> String {
        format!("merge of {} lanes by time", self.lanes.len())
    }

    /// Passes on a message of the only lane, which is in order.
    fn pass(&mut self, message: Message) {
        let lane = &mut self.lanes[0];
        match &message {
            Message::Punctuation(time) => lane.frontier = lane.frontier.max(*time),
            Message::Batch(batch) => match batch.sync.last() {
                Some(&last) => lane.frontier = lane.frontier.max(last),
                None => return,
            },
        }
        self.ready.push_back(message);
    }

    /// Moves all rows before the frontier to the output.
    fn release(&mut self) -> Result<()> {
        let frontier = self.frontier();
        if frontier == self.announced {
            return Ok(());
        }
        let pieces: Vec<Vec<Batch>> = self.lanes.iter_mut().map(|lane| lane.take_before(frontier)).collect();
        if let Some(batches) = concatenation(&pieces) {
            self.ready.extend(batches.into_iter().map(Message::Batch));
        } else {
            Interleave::new(pieces).run(self.batch_rows, &mut self.ready)?;
        }
        self.announced = frontier;
        self.ready.push_back(Message::Punctuation(frontier));
        Ok(())
    }
}

impl Lane {
    /// A lane of a checkpoint.
    fn restore((saved, frontier): SavedLane) -> Result<Lane> {
        let mut waiting = VecDeque::with_capacity(saved.len());
        for message in saved {
            match message.message()? {
                Message::Batch(batch) if !batch.is_empty() => waiting.push_back(batch),
                _ => return exec_err!("the checkpoint has a lane in which other things than rows wait"),
            }
        }
        Ok(Lane { waiting, frontier })
    }

    /// Takes the rows before an instant; all at the end of time.
    fn take_before(&mut self, limit: Time) -> Vec<Batch> {
        let mut taken = Vec::new();
        while let Some(batch) = self.waiting.pop_front() {
            let count = match limit {
                INFINITY => batch.len(),
                _ => batch.sync.partition_point(|&t| t < limit),
            };
            if count == batch.len() {
                taken.push(batch);
                continue;
            }
            if count > 0 {
                taken.push(batch.slice(0, count));
            }
            self.waiting.push_front(batch.slice(count, batch.len() - count));
            break;
        }
        taken
    }
}

/// All batches in an order in which each begins after the one before it has ended, if there is one.
fn concatenation(pieces: &[Vec<Batch>]) -> Option<Vec<Batch>> {
    let mut order: Vec<(Time, Time, usize, usize)> = pieces
        .iter()
        .enumerate()
        .flat_map(|(lane, batches)| {
            batches.iter().enumerate().map(move |(i, b)| (b.sync[0], b.sync[b.len() - 1], lane, i))
        })
        .collect();
    order.sort_unstable_by_key(|&(first, _, lane, i)| (first, lane, i));
    let follows = order.windows(2).all(|pair| {
        let ((_, last, lane, _), (first, _, next, _)) = (pair[0], pair[1]);
        last < first || last == first && lane <= next
    });
    follows.then(|| order.iter().map(|&(_, _, lane, i)| pieces[lane][i].clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use std::sync::Arc;
    use whimbrel_temporal::Other;

    fn batch(lane: i64, times: &[i64]) -> Message {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
        let values = Int64Array::from_iter_values(times.iter().map(|t| t * 10 + lane));
        let rows = RecordBatch::try_new(schema, vec![Arc::new(values)]).unwrap();
        Message::Batch(Batch::new(times.to_vec().into(), Other::After(1), rows))
    }

    fn drain(gather: &mut Gather) -> Vec<i64> {
        use datafusion::arrow::array::AsArray;
        let mut values = Vec::new();
        for message in gather {
            if let Message::Batch(b) = message {
                assert!(b.sync.is_sorted());
                values.extend(b.rows.column(0).as_primitive::<Int64Type>().values().iter().copied());
            }
        }
        values
    }

    #[test]
    fn rows_come_in_order_of_time_then_lane() {
        for batch_rows in [1, 2, 3, 100] {
            let mut gather = Gather::new(3, batch_rows);
            gather.push(2, batch(2, &[1, 2, 2, 5])).unwrap();
            gather.push(0, batch(0, &[2, 3, 5])).unwrap();
            assert_eq!(gather.blocked_lane(), Some(1));
            assert_eq!(drain(&mut gather), Vec::<i64>::new());
            gather.push(1, batch(1, &[2])).unwrap();
            assert_eq!(drain(&mut gather), vec![12]);
            gather.push(1, Message::Punctuation(4)).unwrap();
            assert_eq!(drain(&mut gather), vec![20, 21, 22, 22, 30]);
            for lane in 0..3 {
                gather.push(lane, Message::Punctuation(INFINITY)).unwrap();
            }
            assert_eq!(drain(&mut gather), vec![50, 52]);
            assert_eq!(gather.blocked_lane(), None);
        }
    }

    #[test]
    fn lanes_that_do_not_overlap_are_not_copied() {
        let mut gather = Gather::new(2, 2);
        gather.push(1, batch(1, &[10, 11, 12, 13])).unwrap();
        gather.push(0, batch(0, &[1, 2, 3, 10])).unwrap();
        gather.push(0, Message::Punctuation(INFINITY)).unwrap();
        gather.push(1, Message::Punctuation(INFINITY)).unwrap();
        assert_eq!(drain(&mut gather), vec![10, 20, 30, 100, 101, 111, 121, 131]);
    }

    #[test]
    fn runs_are_copied_whole_or_row_by_row() {
        let times =
            |run: i64, from: i64| -> Vec<i64> { (0..2000).filter(|t| (t / run) % 2 == from).collect() };
        for run in [1, 3, 100] {
            let mut gather = Gather::new(2, 300);
            gather.push(0, batch(0, &times(run, 0))).unwrap();
            gather.push(1, batch(1, &times(run, 1))).unwrap();
            gather.push(0, Message::Punctuation(INFINITY)).unwrap();
            gather.push(1, Message::Punctuation(INFINITY)).unwrap();
            let expected: Vec<i64> = (0..2000).map(|t| t * 10 + (t / run) % 2).collect();
            assert_eq!(drain(&mut gather), expected);
        }
    }

    #[test]
    fn long_runs_are_not_copied() {
        let long = batch(1, &[1; interleave::LONG_RUN]);
        let Message::Batch(original) = long.clone() else { unreachable!() };
        let mut gather = Gather::new(2, 100_000);
        gather.push(0, batch(0, &[0, 0, 1, 2])).unwrap();
        gather.push(1, long).unwrap();
        for lane in 0..2 {
            gather.push(lane, Message::Punctuation(INFINITY)).unwrap();
        }
        let same = |message: Message| match message {
            Message::Batch(batch) => batch.sync.as_ptr() == original.sync.as_ptr(),
            Message::Punctuation(_) => false,
        };
        assert!(gather.any(same));
    }
}
