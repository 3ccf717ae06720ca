//! Which events satisfy which filters of a program, found once for a whole batch; and classes of events that
//! satisfy the same ones.
//!
//! Invariants: a blank event satisfies nothing, not even where nothing is asked, and is of class
//! [`BLANK`]; two events are of one class exactly if the same filters hold for them. Classes are numbered as
//! they come, and mean something only until they are forgotten.

use super::program::{Arrow, Program};
use super::reader::Reader;
use arrow::array::{Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use hashbrown::HashMap;

/// The class of blank events.
pub(crate) const BLANK: u32 = 0;

/// Stands for no class.
const NONE: u32 = u32::MAX;

/// Up to so many filters, classes are found by the filters that hold as a number.
const DIRECT: usize = 12;

/// For each filter, one bit an event.
#[derive(Debug)]
pub(crate) struct Truths {
    filters: Vec<BooleanBuffer>,
    /// Which events are not blank; none: all.
    present: Option<BooleanBuffer>,
}

impl Truths {
    /// Evaluates the filters over events.
    pub fn of(program: &Program, rows: &RecordBatch, blank: Option<&BooleanBuffer>) -> Result<Truths> {
        let present = blank.map(|blank| !blank);
        let truth = |filter: &Reader| {
            let columns = filter.columns.iter().map(|&column| rows.column(column).clone()).collect();
            let truth = filter.truth(columns, rows.num_rows())?;
            let truth = match truth.nulls() {
                Some(nulls) => truth.values() & nulls.inner(),
                None => truth.values().clone(),
            };
            Ok(match &present {
                Some(present) => &truth & present,
                None => truth,
            })
        };
        Ok(Truths { filters: program.filters.iter().map(truth).collect::<Result<_>>()?, present })
    }

    /// Whether an event may take an arc, as far as filters go.
    #[inline]
    pub fn allow(&self, arc: &Arrow, row: usize) -> bool {
        match arc.filter {
            Some(filter) => self.filters[filter].value(row),
            None => self.present.as_ref().is_none_or(|present| present.value(row)),
        }
    }
}

/// The classes of events.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Words of the filters that hold for an event.
    words: usize,
    /// Classes by the filters that hold, if these are few.
    direct: Vec<u32>,
    /// Else by their words.
    others: HashMap<Box<[u64]>, u32>,
    /// The filters that hold, by class; those of the blank class are no matter.
    held: Vec<u64>,
    /// The filters that hold for the events of a batch.
    scratch: Vec<u64>,
}

impl Classes {
    pub fn new(filters: usize) -> Classes {
        let words = filters.div_ceil(64).max(1);
        let direct = if filters <= DIRECT { vec![NONE; 1 << filters] } else { Vec::new() };
        Classes { words, direct, others: HashMap::new(), held: vec![0; words], scratch: Vec::new() }
    }

    /// How many classes there are, the blank one included.
    pub fn len(&self) -> usize {
        self.held.len() / self.words
    }

    /// Forgets all classes.
    pub fn clear(&mut self) {
        self.direct.fill(NONE);
        self.others.clear();
        self.held.truncate(self.words);
    }

    /// Whether an event of this class may take an arc.
    pub fn allow(&self, arc: &Arrow, class: u32) -> bool {
        let holds =
            |filter: usize| self.held[class as usize * self.words + filter / 64] >> (filter % 64) & 1 == 1;
        class != BLANK && arc.filter.is_none_or(holds)
    }

    /// The class of each event.
    pub fn classify(&mut self, truths: &Truths, rows: usize, classes: &mut Vec<u32>) {
        self.hold(truths, rows);
        classes.clear();
        classes.reserve(rows);
        let scratch = std::mem::take(&mut self.scratch);
        let mut last = None;
        for held in scratch.chunks_exact(self.words) {
            let class = match last {
                Some((before, class)) if before == held => class,
                _ => self.class(held),
            };
            last = Some((held, class));
            classes.push(class);
        }
        self.scratch = scratch;
        if let Some(present) = &truths.present {
            (!present).set_indices().for_each(|row| classes[row] = BLANK);
        }
    }

    /// Turns bits by filter into words by event.
    fn hold(&mut self, truths: &Truths, rows: usize) {
        self.scratch.clear();
        self.scratch.resize(rows * self.words, 0);
        for (filter, truth) in truths.filters.iter().enumerate() {
            let (word, bit) = (filter / 64, 1 << (filter % 64));
            for row in truth.set_indices() {
                self.scratch[row * self.words + word] |= bit;
            }
        }
    }

    #[inline]
    fn class(&mut self, held: &[u64]) -> u32 {
        match self.direct.get(held[0] as usize) {
            Some(&class) if class != NONE => class,
            _ => self.search(held),
        }
    }

    #[inline(never)]
    fn search(&mut self, held: &[u64]) -> u32 {
        if let Some(&class) = self.others.get(held) {
            return class;
        }
        let class = self.len() as u32;
        self.held.extend_from_slice(held);
        match self.direct.get_mut(held[0] as usize) {
            Some(place) if self.words == 1 => *place = class,
            _ => {
                self.others.insert(held.into(), class);
            }
        }
        class
    }
}
