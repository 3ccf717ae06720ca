//! Checkpoints of an ingress: where it stands in time, and the rows that it holds back.

use super::Ingress;
use super::edges::{OpenEdges, SavedEdges};
use super::reorder::{Moved, NewStarts, Reorder, StartEdge};
use crate::checkpoint::{decode, encode, open, restore_rows, save_rows, seal};
use crate::synopsis::{SavedSynopsis, Synopsis};
use crate::time::Time;
use datafusion::common::{Result, internal_err};
use serde::{Deserialize, Serialize};

/// An ingress of a checkpoint.
#[derive(Serialize, Deserialize)]
struct Saved {
    high: Time,
    frontier: Time,
    punctuated: Time,
    rows_since: u64,
    rows_read: u64,
    waiting: SavedSynopsis,
    moved: Vec<(StartEdge, NewStarts)>,
    edges: Option<SavedEdges>,
    dropped: u64,
    /// The late rows that were not taken yet.
    late: Vec<Vec<u8>>,
}

impl Ingress {
    /// Where it stands and what it holds back, [sealed](crate::checkpoint); [`restore`](Ingress::restore)d
    /// into a new ingress of the same construction, it goes on as this one would.
    ///
    /// # Errors
    /// `Internal` if the state cannot be encoded, or a push has failed before.
    pub fn save(&self) -> Result<Vec<u8>> {
        if !self.reorder.rows.is_empty() {
            return internal_err!("a row was refused, so the ingress has no state that it could go on from");
        }
        let mut moved: Vec<_> = self.reorder.moved.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        moved.sort_unstable();
        let saved = Saved {
            high: self.high,
            frontier: self.frontier,
            punctuated: self.punctuated,
            rows_since: self.rows_since as u64,
            rows_read: self.rows_read,
            waiting: self.reorder.waiting.save()?,
            moved,
            edges: self.edges.save(),
            dropped: self.dropped,
            late: self.late.iter().map(save_rows).collect::<Result<_>>()?,
        };
        seal(&self.describe(), &encode(&saved)?)
    }

    /// Takes over a saved state.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a state of such an ingress; this one is as before.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let saved: Saved = decode(open(&self.describe(), state)?)?;
        let waiting = Synopsis::restore(saved.waiting)?;
        let late = saved.late.iter().map(|rows| restore_rows(rows)).collect::<Result<_>>()?;
        let moved: Moved = saved.moved.into_iter().collect();
        self.edges = OpenEdges::restore(saved.edges);
        self.reorder = Reorder { waiting, moved, ..Reorder::default() };
        (self.high, self.frontier, self.punctuated) = (saved.high, saved.frontier, saved.punctuated);
        (self.rows_since, self.rows_read) = (saved.rows_since as usize, saved.rows_read);
        (self.dropped, self.late) = (saved.dropped, late);
        // The rows before the checkpoint were another's to look at.
        self.order = None;
        Ok(())
    }

    /// What two ingresses have in common if one can go on where the other stopped: all but the size of
    /// batches.
    fn describe(&self) -> String {
        let options = &self.options;
        let mut lines = format!(
            "ingress by {:?}\ndisorder {:?}, reorder latency {}, punctuate {:?}, completed {:?}",
            self.time, options.disorder, options.reorder_latency, options.punctuate, options.on_completed
        );
        for field in self.input.fields() {
            lines.push_str(&format!("\ncolumn {}: {}", field.name(), field.data_type()));
        }
        lines
    }
}
