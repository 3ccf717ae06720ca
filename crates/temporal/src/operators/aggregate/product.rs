//! The product of numbers: multiplied in their order, so that it rounds in one way, and in floats whose
//! exponents do not end.

use super::bag::Readout;
use super::multiset::Multiset;
use super::scaled::Scaled;
use super::sort_keys::Argument;
use crate::values::{Column, Value};

/// The product; null of nothing. A zero among the values has no sign.
#[derive(Debug)]
pub(super) struct Product;

fn product(state: &Multiset<<f64 as Value>::Ordered>) -> f64 {
    let power =
        |(value, count): (&i64, i64)| Scaled::new(f64::from_ordered(value), 0).power(count.unsigned_abs());
    state.iter().map(power).fold(Scaled::ONE, Scaled::times).value()
}

impl Readout<Argument<f64>> for Product {
    fn results<'a>(
        &self,
        _keys: &Argument<f64>,
        states: impl ExactSizeIterator<Item = &'a Multiset<<f64 as Value>::Ordered>> + Clone,
        out: &mut Column,
    ) {
        out.extend_optional(states.map(|state| (state.count() > 0).then(|| product(state))));
    }
}
