//! The temporal inner join of two streams whose rows come in the order of the join key (trill.txt §6.2;
//! Trill's `IncreasingOrderEquiJoin`).
//!
//! Neither a table of keys nor the rows of other keys are kept: a key at which both sides have come is
//! finished before the next one. Rows do not wait for their time either, only for the other side's key.
//!
//! Invariants: rows have their turn in the order of key, start and side; so the order of the result does not
//! depend on which side came first, and is that of the key. Start times never decrease on either side, and a
//! pair starts with the later of its two rows; so the pairs of a key start no earlier than those of the keys
//! before it. The runs hold the rows of one key, `run_key`, with which a row may still be joined.

mod side;

use super::join::{JoinedColumns, Pairs};
use crate::batch::Message;
use crate::held::Held;
use crate::key::{KeyOrder, OrderedKey, OrderedKeys, OwnedKey};
use crate::operator::{Operator, decode, encode};
use crate::pieces::PIECE_ROWS;
use crate::time::{BEGINNING, INFINITY, Time};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use side::{RunRow, SavedSide, Side, Waiting};

/// Joins two streams without end edges, each sorted by its key: ascending, nulls last.
///
/// It holds the rows of one key, and those of the side that is ahead.
pub struct MergeJoin {
    columns: JoinedColumns,
    order: KeyOrder,
    nulls_equal: bool,
    sides: [Side; 2],
    run_key: Option<OwnedKey>,
    pairs: Pairs,
    /// The last punctuation that was handed out.
    watermark: Time,
}

impl MergeJoin {
    /// Joins rows whose key columns are equal, pairwise, and of equal types; there is one. `nulls_equal`:
    /// whether a null equals a null. The result has the left columns, then the right ones.
    pub fn new(
        left: SchemaRef,
        right: SchemaRef,
        left_key: Vec<usize>,
        right_key: Vec<usize>,
        nulls_equal: bool,
    ) -> MergeJoin {
        let types: Vec<_> = left_key.iter().map(|column| left.field(*column).data_type().clone()).collect();
        MergeJoin {
            columns: JoinedColumns::of(&left, &right),
            order: KeyOrder::of(&types, nulls_equal),
            nulls_equal,
            sides: [Side::new(left_key), Side::new(right_key)],
            run_key: None,
            pairs: Pairs::default(),
            watermark: BEGINNING,
        }
    }

    /// The same, but of its columns only these come out, in this order.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn select(self, columns: &[usize]) -> MergeJoin {
        MergeJoin { columns: self.columns.select(columns), ..self }
    }

    /// The left columns, then the right ones, or those selected.
    pub fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    /// The side whose row is next, if that is certain.
    #[inline]
    fn next_side(&self) -> Option<usize> {
        let [left, right] = &self.sides;
        match (left.head(), right.head()) {
            (Some(head), _) if right.has_passed(&head, false) => Some(0),
            (_, Some(head)) if left.has_passed(&head, true) => Some(1),
            _ => None,
        }
    }

    /// Takes the rows of which it is certain that they are next, until there are many pairs.
    fn join(&mut self) {
        while !self.is_full() {
            match self.next_side() {
                Some(side) if self.sides[1 - side].head().is_none() => self.join_next(side),
                Some(_) => self.join_batches(),
                None => return,
            }
        }
    }

    /// Whether there are so many pairs that they should be handed out.
    fn is_full(&self) -> bool {
        self.pairs.left().len() >= PIECE_ROWS
    }

    /// Joins the first batches of both sides until one of them has had its turn.
    fn join_batches(&mut self) {
        let [left, right] = &mut self.sides;
        let (Some(mut left), Some(mut right)) = (left.take_first(), right.take_first()) else { return };
        let rows = (left.taken, right.taken);
        (left.taken, right.taken) = match (&left.keys, &right.keys) {
            (OrderedKeys::Words(l), OrderedKeys::Words(r)) => {
                let keys = (|row: usize| OrderedKey::Word(l[row]), |row: usize| OrderedKey::Word(r[row]));
                self.merge((&left, &right), rows, keys)
            }
            (l, r) => self.merge((&left, &right), rows, (|row| l.get(row), |row| r.get(row))),
        };
        self.sides[0].put_back(left);
        self.sides[1].put_back(right);
    }

    /// Joins two batches from these rows on; the rows at which it stops.
    #[inline]
    fn merge<'a>(
        &mut self,
        (left, right): (&Waiting, &Waiting),
        (mut l, mut r): (usize, usize),
        (left_key, right_key): (impl Fn(usize) -> OrderedKey<'a>, impl Fn(usize) -> OrderedKey<'a>),
    ) -> (usize, usize) {
        while l < left.batch.len() && r < right.batch.len() && !self.is_full() {
            let key = left_key(l);
            let order = key.cmp(&right_key(r));
            let takes_left = order.then_with(|| left.batch.sync[l].cmp(&right.batch.sync[r])).is_le();
            // The row of the other side that is next has this key: it is to be joined with this row.
            let stays = order.is_eq();
            match takes_left {
                true => {
                    self.take_row(0, key, stays, || left.row(l));
                    l += 1;
                }
                false => {
                    self.take_row(1, right_key(r), stays, || right.row(r));
                    r += 1;
                }
            }
        }
        (l, r)
    }

    /// The next row of a side is joined with the run of the other side, of which no row waits.
    fn join_next(&mut self, side: usize) {
        let (this, other) = (&self.sides[side], &self.sides[1 - side]);
        let Some(head) = this.head() else { return };
        if other.has_ended() && !self.is_run(head.key) {
            return self.sides[side].drop_waiting();
        }
        let stays = other.may_follow(head.key);
        let key = head.key.to_owned();
        let Some(row) = self.sides[side].take() else { return };
        self.take_row(side, key.get(), stays, || row);
    }

    /// A row has its turn: it is joined with the run of the other side, and becomes one of the run if it
    /// `stays`, because rows of its key may follow on the other side.
    #[inline]
    fn take_row(&mut self, side: usize, key: OrderedKey, stays: bool, row: impl FnOnce() -> RunRow) {
        let goes_on = self.is_run(key);
        if !goes_on && !stays {
            return;
        }
        let MergeJoin { sides, run_key, pairs, .. } = self;
        let row = row();
        if !goes_on {
            sides.iter_mut().for_each(Side::forget_run);
            *run_key = Some(key.to_owned());
        }
        for partner in &sides[1 - side].run {
            let end = row.end.min(partner.end);
            if end > row.start {
                pairs.push(end, side, row.row, partner.row);
            }
        }
        pairs.complete(row.start);
        if stays {
            sides[side].hold(row);
        }
    }

    /// Whether the runs are those of this key.
    #[inline]
    fn is_run(&self, key: OrderedKey) -> bool {
        self.run_key.as_ref().is_some_and(|run| run.get() == key)
    }

    /// Forgets the run of a side if no row of its key will come on the other.
    fn forget_runs(&mut self) {
        let Some(key) = &self.run_key else { return };
        for side in [0, 1] {
            if !self.sides[1 - side].may_follow(key.get()) {
                self.sides[side].forget_run();
            }
        }
    }

    /// No pair that is still to come starts before this. No row is certain to be next.
    fn frontier(&self) -> Time {
        let [left, right] = &self.sides;
        let both = left.next_start().max(right.next_start());
        let with_rows_of =
            |side: &Side, other: &Side| side.oldest().map(|start| start.max(other.next_start()));
        let of_either = with_rows_of(left, right).into_iter().chain(with_rows_of(right, left));
        of_either.fold(both, Time::min)
    }

    /// The punctuation that follows what was handed out, if there is a new one.
    fn punctuation(&mut self) -> Option<Time> {
        let time = self.frontier();
        let is_punctuated = self.sides.iter().any(|side| side.has_punctuated(time));
        let ended = self.sides.iter().all(|side| side.frontier() == INFINITY);
        let is_new = time > self.watermark && is_punctuated && (time < INFINITY || ended);
        is_new.then(|| {
            self.watermark = time;
            time
        })
    }
}

impl Operator for MergeJoin {
    fn held(&self) -> Held {
        let [left, right] = &self.sides;
        left.held().and(right.held())
    }

    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.sides[input].wait(batch, self.order, self.nulls_equal)?,
            Message::Punctuation(time) => self.sides[input].punctuate(time),
        }
        self.proceed(out)
    }

    fn proceed(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.join();
        let [left, right] = &self.sides;
        self.columns.hand_out(&mut self.pairs, [left.batches(), right.batches()], out)?;
        if self.pairs.left().is_empty() && self.next_side().is_none() {
            let frontiers = [self.sides[1].frontier(), self.sides[0].frontier()];
            self.sides.iter_mut().zip(frontiers).for_each(|(side, other)| side.drop_ended(other));
            self.forget_runs();
            self.sides.iter_mut().for_each(Side::tidy);
            out.extend(self.punctuation().map(Message::Punctuation));
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        let [left, right] = &self.sides;
        encode(&(self.watermark, left.save()?, right.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (watermark, left, right): (Time, SavedSide, SavedSide) = decode(state)?;
        self.watermark = watermark;
        self.sides[0].restore(left, self.order, self.nulls_equal)?;
        self.sides[1].restore(right, self.order, self.nulls_equal)?;
        self.run_key = match self.sides[0].run_key(self.order)? {
            None => self.sides[1].run_key(self.order)?,
            key => key,
        };
        Ok(())
    }
}
