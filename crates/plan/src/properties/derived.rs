//! Properties while they are derived.

use crate::placement::Placement;
use crate::sort_order::SortedSide;
use arrow::datatypes::DataType;
use whimbrel_temporal::Lifetimes;

/// Properties with columns as positions in the schema.
#[derive(Debug, Clone)]
pub(super) struct Derived {
    pub time: Option<DataType>,
    pub key: Vec<usize>,
    pub lifetimes: Lifetimes,
    pub bounded: bool,
    pub shards: usize,
    pub groups: usize,
    pub placement: Placement<usize>,
    pub partition: Vec<usize>,
    pub sorted: Vec<usize>,
}

impl Derived {
    /// What decides whether it can be merged with another stream.
    pub fn sorted_side(&self) -> SortedSide<'_> {
        SortedSide { sorted: &self.sorted, lifetimes: self.lifetimes, has_time: self.time.is_some() }
    }
}
