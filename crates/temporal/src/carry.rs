//! Addition and subtraction of integers with a carry, for sums that know whether they fit their type.
//!
//! A sum is `low + carry · 2^bits`. Whether it fits does not depend on the order of its values: one that
//! overflows for a while is right again afterwards.

use arrow::datatypes::i256;

/// An integer that is added and subtracted modulo the size of its type.
///
/// ```
/// use whimbrel_temporal::Carry;
///
/// let (low, carry) = i64::MAX.add_carrying(1);
/// assert_eq!((low, carry), (i64::MIN, 1));
/// let (low, back) = low.sub_carrying(1);
/// assert_eq!((low, carry + back), (i64::MAX, 0));
/// ```
pub trait Carry: Copy {
    /// The sum, and its carry: 1 if it overflows, -1 if it underflows.
    fn add_carrying(self, by: Self) -> (Self, i64);

    /// The difference, and its carry.
    fn sub_carrying(self, by: Self) -> (Self, i64);
}

macro_rules! carry {
    ($integer:ty, $is_negative:expr) => {
        impl Carry for $integer {
            #[inline(always)]
            fn add_carrying(self, by: Self) -> (Self, i64) {
                match self.overflowing_add(by) {
                    (sum, false) => (sum, 0),
                    (sum, true) => (sum, if $is_negative(by) { -1 } else { 1 }),
                }
            }

            #[inline(always)]
            fn sub_carrying(self, by: Self) -> (Self, i64) {
                match self.overflowing_sub(by) {
                    (difference, false) => (difference, 0),
                    (difference, true) => (difference, if $is_negative(by) { 1 } else { -1 }),
                }
            }
        }
    };
}

carry!(i32, i32::is_negative);
carry!(i64, i64::is_negative);
carry!(u64, |_| false);
carry!(u128, |_| false);
carry!(i128, i128::is_negative);
carry!(i256, i256::is_negative);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_cancel() {
        let (low, over) = i256::MAX.add_carrying(i256::ONE);
        let (low, back) = low.sub_carrying(i256::ONE);
        assert_eq!((low, over, over + back), (i256::MAX, 1, 0));
        let (low, under) = i32::MIN.add_carrying(-1);
        assert_eq!((low, under), (i32::MAX, -1));
        assert_eq!(low.add_carrying(1), (i32::MIN, 1));
        assert_eq!(3_u64.sub_carrying(4), (u64::MAX, -1));
    }
}
