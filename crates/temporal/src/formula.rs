//! Formulas over columns of whole numbers, computed a block of rows after the other: what lies between two operations
//! stays in the nearest cache.
//!
//! Invariant: numbers are computed without a check, and are handed out only if the largest that were read cannot make one
//! that is too large for its type. Who is handed none computes these rows in another way.

use arrow::array::ArrowNativeTypeOp;
use datafusion::logical_expr::Operator;
use std::fmt;
use std::ops::Range;

/// How many bytes of a column are computed at once: of all that a formula reads, a part of the nearest cache.
pub const BLOCK: usize = 4096;

/// What is computed of some arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Formula {
    /// The argument of this number.
    Argument(usize),
    /// A sum, a difference or a product of two numbers; a comparison of two numbers, which is a truth; a truth that
    /// follows from two others (`and`, `or`).
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

    /// Memory for a block of what each of its operations comes to.
    pub fn memory<N: Whole>(&self) -> Vec<Vec<N>> {
        vec![vec![N::ZERO; BLOCK / size_of::<N>()]; self.operations()]
    }

    /// How many operations it has.
    pub fn operations(&self) -> usize {
        match self {
            Formula::Argument(_) => 0,
            Formula::Operation(_, left, right) => 1 + left.operations() + right.operations(),
        }
    }

    /// What it comes to for the rows of a block; none if a number may be too large. `memory`: its own.
    pub fn compute<'a, N: Whole>(
        &self,
        arguments: &'a [Numbers<'a, N>],
        rows: Range<usize>,
        memory: &'a mut [Vec<N>],
    ) -> Option<Numbers<'a, N>> {
        match self {
            Formula::Argument(number) => Some(arguments[*number].of(rows)),
            Formula::Operation(..) => {
                self.operate(arguments, rows, memory).map(|(numbers, _)| Numbers::Column(numbers))
            }
        }
    }

    /// The truths of a comparison, or of what follows from some, and how many are true.
    pub fn truths<'a>(
        &self,
        arguments: &'a [Numbers<'a, i64>],
        rows: Range<usize>,
        memory: &'a mut [Vec<i64>],
    ) -> Option<(&'a [i64], usize)> {
        let (truths, total) = self.operate(arguments, rows, memory)?;
        Some((truths, total.unsigned_abs() as usize))
    }

    /// What its operation comes to, and all of that together.
    fn operate<'a, N: Whole>(
        &self,
        arguments: &'a [Numbers<'a, N>],
        rows: Range<usize>,
        memory: &'a mut [Vec<N>],
    ) -> Option<(&'a [N], N)> {
        let Formula::Operation(op, left, right) = self else { return None };
        let (out, memory) = memory.split_first_mut()?;
        let (of_left, of_right) = memory.split_at_mut(left.operations());
        let left = left.compute(arguments, rows.clone(), of_left)?;
        let right = right.compute(arguments, rows.clone(), of_right)?;
        let out = &mut out[..rows.len()];
        let total = each(*op, left, right, out)?;
        Some((out, total))
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

/// The numbers of an argument, or of what was computed of some. A truth is a number too: all of its bits are set, or none.
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a, N> {
    /// One for each row.
    Column(&'a [N]),
    /// The same one for all rows.
    Same(N),
}

impl<'a, N: Copy> Numbers<'a, N> {
    /// Those of some rows.
    pub fn of(self, rows: Range<usize>) -> Numbers<'a, N> {
        match self {
            Numbers::Column(values) => Numbers::Column(&values[rows]),
            same => same,
        }
    }
}

/// Whole numbers of which the binary digits can be counted.
pub trait Whole: ArrowNativeTypeOp {
    /// How many digits a result may have.
    const DIGITS: u32;
    /// Whether there are negative ones.
    const SIGNED: bool;
    /// The digits without the sign: a negative number has those of the one that it is the complement of.
    fn digits(self) -> Self;
    /// The bits of either.
    fn or(self, other: Self) -> Self;
    /// The bits of both.
    fn and(self, other: Self) -> Self;
    /// All bits if it is true, else none.
    fn truth(is: bool) -> Self;
    /// How many digits a number without a sign has.
    fn count(self) -> u32;
}

macro_rules! whole {
    ($number:ty, $signed:literal, $digits:expr) => {
        impl Whole for $number {
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
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn truth(is: bool) -> Self {
                (is as $number).wrapping_neg()
            }
            fn count(self) -> u32 {
                Self::BITS - self.leading_zeros()
            }
        }
    };
    ($($signed:ty, $unsigned:ty;)*) => {$(
        whole!($signed, true, |number: $signed| number ^ (number >> (<$signed>::BITS - 1)));
        whole!($unsigned, false, std::convert::identity);
    )*};
}

whole! { i8, u8; i16, u16; i32, u32; i64, u64; }

/// Writes what comes of each pair; all of it together, or none if a number may be too large.
fn each<N: Whole>(op: Operator, left: Numbers<N>, right: Numbers<N>, out: &mut [N]) -> Option<N> {
    match op {
        Operator::Lt => Some(added(left, right, out, |left, right| N::truth(left.is_lt(right)))),
        Operator::LtEq => Some(added(left, right, out, |left, right| N::truth(left.is_le(right)))),
        Operator::Gt => Some(added(left, right, out, |left, right| N::truth(left.is_gt(right)))),
        Operator::GtEq => Some(added(left, right, out, |left, right| N::truth(left.is_ge(right)))),
        Operator::Eq => Some(added(left, right, out, |left, right| N::truth(left.is_eq(right)))),
        Operator::NotEq => Some(added(left, right, out, |left, right| N::truth(left.is_ne(right)))),
        Operator::And => Some(added(left, right, out, N::and)),
        Operator::Or => Some(added(left, right, out, N::or)),
        Operator::Plus => {
            counted(left, right, out, N::add_wrapping, |left, right| left.max(right) < N::DIGITS)
        }
        Operator::Minus => {
            counted(left, right, out, N::sub_wrapping, |left, right| N::SIGNED && left.max(right) < N::DIGITS)
        }
        // The least number of so many digits is one further from zero than the largest.
        Operator::Multiply => counted(left, right, out, N::mul_wrapping, |left, right| {
            left + right + N::SIGNED as u32 <= N::DIGITS
        }),
        _ => None,
    }
}

/// Writes what comes of each pair, which is not larger than they are; all of it together.
#[inline(always)]
fn added<N: Whole>(left: Numbers<N>, right: Numbers<N>, out: &mut [N], of: impl Fn(N, N) -> N + Copy) -> N {
    folded(left, right, out, N::ZERO, move |total, left, right| {
        let result = of(left, right);
        (total.add_wrapping(result), result)
    })
}

/// The same for numbers that may grow, if those with the most digits on either side `fit`. Digits are counted while numbers
/// are read. What stands under a null counts too, which at worst makes rows be computed with checks.
#[inline(always)]
fn counted<N: Whole>(
    left: Numbers<N>,
    right: Numbers<N>,
    out: &mut [N],
    of: impl Fn(N, N) -> N + Copy,
    fit: impl Fn(u32, u32) -> bool,
) -> Option<N> {
    let start = (N::ZERO, N::ZERO, N::ZERO);
    let (left, right, total) = folded(left, right, out, start, move |(lefts, rights, total), left, right| {
        let result = of(left, right);
        let digits = (lefts.or(left.digits()), rights.or(right.digits()));
        ((digits.0, digits.1, total.add_wrapping(result)), result)
    });
    fit(left.count(), right.count()).then_some(total)
}

/// Writes what `step` makes of each pair, and returns what it has made of the state. Nothing that a step captures changes:
/// so loops become vector instructions.
#[inline(always)]
fn folded<N: Whole, S>(
    left: Numbers<N>,
    right: Numbers<N>,
    out: &mut [N],
    start: S,
    step: impl Fn(S, N, N) -> (S, N) + Copy,
) -> S {
    use Numbers::{Column, Same};
    let put = move |state: S, out: &mut N, left: N, right: N| {
        let (state, result) = step(state, left, right);
        *out = result;
        state
    };
    match (left, right) {
        (Column(left), Column(right)) => {
            let rows = out.iter_mut().zip(left).zip(right);
            rows.fold(start, |state, ((out, left), right)| put(state, out, *left, *right))
        }
        (Column(left), Same(right)) => {
            out.iter_mut().zip(left).fold(start, |state, (out, left)| put(state, out, *left, right))
        }
        (Same(left), Column(right)) => {
            out.iter_mut().zip(right).fold(start, |state, (out, right)| put(state, out, left, *right))
        }
        (Same(left), Same(right)) => out.iter_mut().fold(start, |state, out| put(state, out, left, right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(formula: &Formula, arguments: &[Numbers<i64>], rows: usize) -> Option<Vec<i64>> {
        match formula.compute(arguments, 0..rows, &mut formula.memory())? {
            Numbers::Column(values) => Some(values.to_vec()),
            Numbers::Same(value) => Some(vec![value; rows]),
        }
    }

    #[test]
    fn truths_are_all_bits_or_none() {
        use Operator::*;
        let (left, right) = ([1, 2, 3, i64::MIN], [2, 2, 2, i64::MAX]);
        let arguments = [Numbers::Column(&left[..]), Numbers::Column(&right[..])];
        let compared = |op| Formula::of(op, Formula::Argument(0), Formula::Argument(1));
        for (op, truths) in [
            (Lt, [-1, 0, 0, -1]),
            (LtEq, [-1, -1, 0, -1]),
            (Gt, [0, 0, -1, 0]),
            (GtEq, [0, -1, -1, 0]),
            (Eq, [0, -1, 0, 0]),
            (NotEq, [-1, 0, -1, -1]),
        ] {
            assert_eq!(computed(&compared(op), &arguments, 4).unwrap(), truths, "{op}");
        }
        let both = |op| Formula::of(op, compared(LtEq), compared(GtEq));
        assert_eq!(computed(&both(And), &arguments, 4).unwrap(), [0, -1, 0, 0]);
        assert_eq!(computed(&both(Or), &arguments, 4).unwrap(), [-1; 4]);
    }

    #[test]
    fn no_number_is_handed_out_that_may_be_too_large() {
        let plus = Formula::of(Operator::Plus, Formula::Argument(0), Formula::Argument(1));
        let compared = Formula::of(Operator::Lt, plus.clone(), Formula::Argument(0));
        for (value, fits) in [(1 << 61, true), (i64::MAX, false), (i64::MIN, false)] {
            let arguments = [Numbers::Column(&[1, value][..]), Numbers::Same(1)];
            assert_eq!(computed(&plus, &arguments, 2).is_some(), fits, "{value}");
            assert_eq!(computed(&compared, &arguments, 2).is_some(), fits, "{value}");
        }
    }
}
