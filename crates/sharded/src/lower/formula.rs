//! Formulas over columns of integers, computed a block of rows after the other: what lies between two
//! operations stays in the nearest cache.
//!
//! Invariant: numbers are computed without a check, and are handed out only if the largest that were read
//! cannot make one that is too large for its type. Otherwise the caller computes these rows with checks.

use datafusion::arrow::array::ArrowNativeTypeOp;
use datafusion::logical_expr::Operator;
use std::fmt;
use std::ops::Range;

/// How many bytes of a column are computed at once: of all that a formula reads, a part of the nearest cache.
pub(super) const BLOCK: usize = 4096;

/// What is computed of some arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Formula {
    /// The argument of this number.
    Argument(usize),
    /// A sum, a difference or a product.
    Operation(Operator, Box<Formula>, Box<Formula>),
}

impl Formula {
    /// An operation on two others.
    pub fn of(op: Operator, left: Formula, right: Formula) -> Formula {
        Formula::Operation(op, Box::new(left), Box::new(right))
    }

    /// The same over arguments with numbers that are so much larger.
    pub fn after(self, first: usize) -> Formula {
        match self {
            Formula::Argument(number) => Formula::Argument(first + number),
            Formula::Operation(op, left, right) => Formula::of(op, left.after(first), right.after(first)),
        }
    }

    /// Memory for a block of results of each of its operations.
    pub fn memory<N: Integer>(&self) -> Vec<Vec<N>> {
        vec![vec![N::ZERO; BLOCK / size_of::<N>()]; self.operations()]
    }

    fn operations(&self) -> usize {
        match self {
            Formula::Argument(_) => 0,
            Formula::Operation(_, left, right) => 1 + left.operations() + right.operations(),
        }
    }

    /// Its values for the rows of a block; none if one may be too large. `memory`: its own.
    pub fn compute<'a, N: Integer>(
        &self,
        arguments: &'a [Numbers<'a, N>],
        rows: Range<usize>,
        memory: &'a mut [Vec<N>],
    ) -> Option<Numbers<'a, N>> {
        let (op, left, right) = match self {
            Formula::Argument(number) => return Some(arguments[*number].of(rows)),
            Formula::Operation(op, left, right) => (*op, left, right),
        };
        let (out, memory) = memory.split_first_mut()?;
        let (of_left, of_right) = memory.split_at_mut(left.operations());
        let left = left.compute(arguments, rows.clone(), of_left)?;
        let right = right.compute(arguments, rows.clone(), of_right)?;
        let out = &mut out[..rows.len()];
        operate(op, left, right, out)?;
        Some(Numbers::Column(out))
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Formula::Argument(number) => write!(f, "#{number}"),
            Formula::Operation(op, left, right) => write!(f, "({left} {op} {right})"),
        }
    }
}

/// The numbers of an argument, or of what was computed of some.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbers<'a, N> {
    /// One for each row.
    Column(&'a [N]),
    /// The same one for all rows.
    Same(N),
}

impl<'a, N: Copy> Numbers<'a, N> {
    fn of(self, rows: Range<usize>) -> Numbers<'a, N> {
        match self {
            Numbers::Column(values) => Numbers::Column(&values[rows]),
            same => same,
        }
    }
}

/// Integers of which the binary digits can be counted.
pub(super) trait Integer: ArrowNativeTypeOp {
    /// How many digits a result may have.
    const DIGITS: u32;
    /// Whether there are negative ones.
    const SIGNED: bool;
    /// The digits without the sign: a negative number has those of its complement.
    fn digits(self) -> Self;
    /// The bits of either.
    fn or(self, other: Self) -> Self;
    /// How many digits a number without a sign has.
    fn count(self) -> u32;
}

macro_rules! integer {
    ($number:ty, $signed:literal, $digits:expr) => {
        impl Integer for $number {
            const DIGITS: u32 = <$number>::BITS - $signed as u32;
            const SIGNED: bool = $signed;
            #[inline(always)]
            fn digits(self) -> Self {
                $digits(self)
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn count(self) -> u32 {
                Self::BITS - self.leading_zeros()
            }
        }
    };
    ($($signed:ty, $unsigned:ty;)*) => {$(
        integer!($signed, true, |number: $signed| number ^ (number >> (<$signed>::BITS - 1)));
        integer!($unsigned, false, std::convert::identity);
    )*};
}

integer! { i8, u8; i16, u16; i32, u32; i64, u64; }

/// Writes the result of each pair; none if a number may be too large.
fn operate<N: Integer>(op: Operator, left: Numbers<N>, right: Numbers<N>, out: &mut [N]) -> Option<()> {
    let (left, right) = match op {
        Operator::Plus => digits(left, right, out, N::add_wrapping),
        Operator::Minus => digits(left, right, out, N::sub_wrapping),
        Operator::Multiply => digits(left, right, out, N::mul_wrapping),
        _ => return None,
    };
    let fits = match op {
        Operator::Plus => left.max(right) < N::DIGITS,
        Operator::Minus => N::SIGNED && left.max(right) < N::DIGITS,
        // The least number of so many digits is one further from zero than the largest.
        _ => left + right + N::SIGNED as u32 <= N::DIGITS,
    };
    fits.then_some(())
}

/// Writes the result of each pair; the most digits on either side. They are counted while numbers are read.
/// What stands under a null counts too: at worst rows are computed with checks.
#[inline(always)]
fn digits<N: Integer>(
    left: Numbers<N>,
    right: Numbers<N>,
    out: &mut [N],
    of: impl Fn(N, N) -> N + Copy,
) -> (u32, u32) {
    use Numbers::{Column, Same};
    // Nothing that this captures changes: so loops become vector instructions.
    let step = move |(lefts, rights): (N, N), out: &mut N, left: N, right: N| {
        *out = of(left, right);
        (lefts.or(left.digits()), rights.or(right.digits()))
    };
    let none = (N::ZERO, N::ZERO);
    let (left, right) = match (left, right) {
        (Column(left), Column(right)) => {
            let rows = out.iter_mut().zip(left).zip(right);
            rows.fold(none, |digits, ((out, left), right)| step(digits, out, *left, *right))
        }
        (Column(left), Same(right)) => {
            out.iter_mut().zip(left).fold(none, |digits, (out, left)| step(digits, out, *left, right))
        }
        (Same(left), Column(right)) => {
            out.iter_mut().zip(right).fold(none, |digits, (out, right)| step(digits, out, left, *right))
        }
        (Same(left), Same(right)) => out.iter_mut().fold(none, |digits, out| step(digits, out, left, right)),
    };
    (left.count(), right.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_handed_out_that_may_be_too_large() {
        let plus = Formula::of(Operator::Plus, Formula::Argument(0), Formula::Argument(1));
        for (value, fits) in [(1 << 61, true), (i64::MAX, false), (i64::MIN, false)] {
            let arguments = [Numbers::Column(&[1, value][..]), Numbers::Same(1)];
            assert_eq!(plus.compute(&arguments, 0..2, &mut plus.memory()).is_some(), fits, "{value}");
        }
    }
}
