//! Floats with an exponent of their own, for what is computed on the way to a float: it neither overflows nor
//! vanishes before the result does.
//!
//! Invariant: the mantissa is zero, not finite, or of a size in `[1, 2)`; the first two have exponent 0.

/// The bits of a float's exponent.
const EXPONENT: u64 = 0x7ff << 52;
/// What is added to an exponent where a float stores it.
const BIAS: i64 = 1023;

/// `mantissa · 2^exponent`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scaled {
    mantissa: f64,
    exponent: i64,
}

/// The float `2^exponent`, of an exponent that a normal float can have.
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((BIAS + exponent) as u64) << 52)
}

impl Scaled {
    pub const ONE: Scaled = Scaled { mantissa: 1.0, exponent: 0 };

    /// `value · 2^exponent`.
    pub fn new(value: f64, exponent: i64) -> Scaled {
        if value == 0.0 || !value.is_finite() {
            return Scaled { mantissa: value, exponent: 0 };
        }
        if value.is_subnormal() {
            return Scaled::new(value * power_of_two(64), exponent.saturating_sub(64));
        }
        let bits = value.to_bits();
        let own = ((bits & EXPONENT) >> 52) as i64 - BIAS;
        let mantissa = f64::from_bits(bits & !EXPONENT | (BIAS as u64) << 52);
        Scaled { mantissa, exponent: exponent.saturating_add(own) }
    }

    pub fn times(self, other: Scaled) -> Scaled {
        Scaled::new(self.mantissa * other.mantissa, self.exponent.saturating_add(other.exponent))
    }

    /// The product of so many of it, by repeated squaring.
    pub fn power(self, mut times: u64) -> Scaled {
        let (mut power, mut product) = (self, Scaled::ONE);
        while times > 0 {
            if times & 1 == 1 {
                product = product.times(power);
            }
            power = power.times(power);
            times >>= 1;
        }
        product
    }

    pub fn divided_by(self, by: f64) -> Scaled {
        let by = Scaled::new(by, 0);
        Scaled::new(self.mantissa / by.mantissa, self.exponent.saturating_sub(by.exponent))
    }

    /// The square root.
    pub fn root(self) -> Scaled {
        let odd = self.exponent & 1;
        let mantissa = if odd == 1 { self.mantissa * 2.0 } else { self.mantissa };
        Scaled::new(mantissa.sqrt(), (self.exponent - odd) / 2)
    }

    /// The nearest float; infinite if all floats are smaller.
    pub fn value(self) -> f64 {
        let Scaled { mantissa, exponent } = self;
        match exponent {
            ..-1100 => 0.0_f64.copysign(mantissa),
            // In two steps, of which the first is exact.
            -1100..-1022 => mantissa * power_of_two(-1022) * power_of_two(exponent + 1022),
            -1022..=1023 => mantissa * power_of_two(exponent),
            1024.. => f64::INFINITY.copysign(mantissa),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_come_back_as_they_were() {
        let tiny = f64::from_bits(1);
        for value in [0.0, -0.0, 1.0, -3.75, f64::MAX, -f64::MIN_POSITIVE, tiny, -tiny * 5.0, f64::INFINITY] {
            assert_eq!(Scaled::new(value, 0).value().to_bits(), value.to_bits(), "{value}");
        }
        assert!(Scaled::new(f64::NAN, 0).value().is_nan());
    }

    #[test]
    fn nothing_overflows_or_vanishes_on_the_way() {
        let (huge, tiny) = (Scaled::new(1e300, 0), Scaled::new(1e-300, 0));
        let product = huge.times(huge).times(tiny).times(tiny).value();
        assert!((product - 1.0).abs() < 1e-14, "{product}");
        assert_eq!(huge.times(huge).value(), f64::INFINITY);
        assert_eq!(tiny.times(tiny).value(), 0.0);
        assert!((huge.power(5).divided_by(1e300).root().root().value() / 1e300 - 1.0).abs() < 1e-13);
        assert_eq!(Scaled::new(-2.0, 0).power(1025).value(), f64::NEG_INFINITY);
        assert_eq!(
            Scaled::new(-2.0, 0).power(u64::MAX).times(Scaled::new(0.5, 0)).value(),
            f64::NEG_INFINITY
        );
        assert_eq!(Scaled::new(2.0, 0).root().value(), 2.0_f64.sqrt());
        assert_eq!(Scaled::new(0.5, 0).root().value(), 0.5_f64.sqrt());
    }

    #[test]
    fn what_is_not_finite_is_as_in_ieee_754() {
        let (inf, zero) = (Scaled::new(f64::NEG_INFINITY, 0), Scaled::new(0.0, 0));
        assert!(inf.times(zero).value().is_nan());
        assert_eq!(inf.power(2).value(), f64::INFINITY);
        assert_eq!(inf.power(3).value(), f64::NEG_INFINITY);
        assert_eq!(zero.power(4).value(), 0.0);
        assert_eq!(zero.power(0).value(), 1.0);
    }
}
