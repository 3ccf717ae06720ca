//! The fan-outs at which a store is measured, and how one between them is made of them.
//!
//! Invariant: an axis has at least one value, and its values ascend.

use super::shape::{Kind, Shape};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The fan-outs at which operators are measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    requests: Vec<u64>,
    tuples: Vec<u64>,
    bytes: Vec<u64>,
}

impl Default for Grid {
    /// 1, 3, 10, 30 and 100 requests, ranges of 1, 10 and 100 tuples, tuples of 64 and of 512 bytes.
    fn default() -> Grid {
        Grid { requests: vec![1, 3, 10, 30, 100], tuples: vec![1, 10, 100], bytes: vec![64, 512] }
    }
}

impl Grid {
    /// A grid of these numbers of requests in a round, tuples of a range, and bytes of a tuple.
    ///
    /// # Errors
    /// `Invalid` if an axis is empty or has a zero.
    pub fn new(requests: &[u64], tuples: &[u64], bytes: &[u64]) -> Result<Grid> {
        let axis = |name: &str, values: &[u64]| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values.dedup();
            match values.first() {
                None | Some(0) => {
                    Err(Error::invalid(format!("a grid needs {name}, each of them one or more")))
                }
                Some(_) => Ok(values),
            }
        };
        Ok(Grid {
            requests: axis("numbers of requests", requests)?,
            tuples: axis("numbers of tuples", tuples)?,
            bytes: axis("sizes of tuples", bytes)?,
        })
    }

    /// Requests in a round.
    pub fn requests(&self) -> &[u64] {
        &self.requests
    }

    /// Tuples of a range.
    pub fn tuples(&self) -> &[u64] {
        &self.tuples
    }

    /// Bytes of a tuple.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// All that is measured.
    pub fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for bytes in &self.bytes {
            for requests in &self.requests {
                let shape = |kind, tuples| Shape { kind, requests: *requests, tuples, bytes: *bytes };
                shapes.push(shape(Kind::Get, 1));
                shapes.extend(self.tuples.iter().map(|tuples| shape(Kind::Range, *tuples)));
            }
        }
        shapes
    }

    /// The numbers of requests beside that of a shape, with their weights, and whether it is beyond the
    /// largest.
    pub(super) fn requests_around(&self, shape: &Shape) -> (Vec<(f64, u64)>, bool) {
        between(&self.requests, shape.requests)
    }

    /// The same for what each request finds: shapes of as many requests.
    pub(super) fn answers_around(&self, shape: &Shape) -> (Vec<(f64, Shape)>, bool) {
        let tuples: &[u64] = if shape.kind == Kind::Get { &[1] } else { &self.tuples };
        let (tuples, far) = between(tuples, shape.tuples);
        let (bytes, farther) = between(&self.bytes, shape.bytes);
        let corner = |(of_tuples, tuples): &(f64, u64), (of_bytes, bytes): &(f64, u64)| {
            (of_tuples * of_bytes, Shape { tuples: *tuples, bytes: *bytes, ..*shape })
        };
        let corners = tuples.iter().flat_map(|tuples| bytes.iter().map(move |bytes| corner(tuples, bytes)));
        (corners.collect(), far || farther)
    }
}

/// The values of an axis beside this one, and their weights by its logarithm. What is smaller than the
/// smallest is taken for that, so as not to be too quick; what is larger than the largest is continued from
/// the last two.
pub(super) fn between(axis: &[u64], value: u64) -> (Vec<(f64, u64)>, bool) {
    let (first, last) = (axis[0], axis[axis.len() - 1]);
    if value <= first {
        return (vec![(1.0, first)], false);
    }
    if axis.contains(&value) || axis.len() == 1 {
        return (vec![(1.0, value.min(last))], value > last);
    }
    let high = axis.iter().position(|at| *at > value).unwrap_or(axis.len() - 1);
    let logarithm = |value: u64| (value as f64).ln();
    let (low, high) = (axis[high - 1], axis[high]);
    let weight = (logarithm(value) - logarithm(low)) / (logarithm(high) - logarithm(low));
    (vec![(1.0 - weight, low), (weight, high)], value > last)
}
