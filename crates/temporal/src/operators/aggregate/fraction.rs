//! A part of a whole.

use datafusion::common::{Result, plan_err};

/// A number from 0 to 1: the share of values that a percentile asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fraction(
    /// The bits of a float, of which 0 has no sign: equal numbers are equal here.
    u64,
);

impl Fraction {
    /// A half: the share of the median.
    pub const HALF: Fraction = Fraction(0.5_f64.to_bits());

    /// The fraction that is this number.
    ///
    /// # Errors
    /// `Plan` if it is not from 0 to 1.
    pub fn new(number: f64) -> Result<Fraction> {
        match (0.0..=1.0).contains(&number) {
            true => Ok(Fraction((number + 0.0).to_bits())),
            false => plan_err!("{number} is not from 0 to 1, as the fraction of a percentile has to be"),
        }
    }

    /// The number.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}
