//! exp and log in f32 and f64 without branches, so that a loop over them compiles to AVX-512, AVX2 or portable code.
//!
//! | function | error, in units of the last place | range |
//! | --- | --- | --- |
//! | [`exp_minus`], eˣ − c | f32 ≤ 3, f64 ≤ 2; relative also near 0 at c = 1 | eˣ stays where it is below [`Real::EXP_LOW`], +∞ above [`Real::EXP_HIGH`] |
//! | [`LogParts`], log(c + x) | f32 ≤ 3, f64 ≤ 2; relative also near 0 at c = 1 | c + x from 2⁻¹²⁰ to 2¹²⁰ in f32, from 2⁻¹⁰⁰⁰ to 2¹⁰⁰⁰ in f64 |
//!
//! c is 0 or 1. NaN gives NaN; a logarithm outside its range is a meaningless number. The sign of a zero is not kept.
//! `FMA` says whether the processor multiplies and adds in one instruction.

use std::ops::{Add, Mul, Neg, Sub};

/// A precision: what its exponentials and logarithms are made of.
pub trait Real:
    Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// ln 2 in two parts: the first has so few bits that its product with an exponent is exact.
    const LN2: [Self; 2];
    /// Below this eˣ no longer falls.
    const EXP_LOW: Self;
    /// Above this eˣ is +∞.
    const EXP_HIGH: Self;
    /// Beyond this e^|x| − 1 is e^|x| in this precision, and the product of a few of them still a number.
    const LARGE: Self;
    /// Below this 1 + eˣ is 1 in this precision.
    const TINY_EXP: Self;

    /// The nearest number.
    fn of(x: f64) -> Self;

    /// An integer, of which no digit is lost below 2²⁴.
    fn of_int(n: i32) -> Self;

    /// |x|.
    fn magnitude(self) -> Self;

    /// a·b + c, in one rounding where the processor can.
    fn fma<const FMA: bool>(self, b: Self, c: Self) -> Self;

    /// x = n·ln 2 + r with |r| ≤ ½ ln 2: n, r and e^r − 1 − r.
    fn exp_parts<const FMA: bool>(x: Self) -> (i32, Self, Self);

    /// 2ⁿ of a normal number.
    fn power_of_two(n: i32) -> Self;

    /// The k for which x/2ᵏ lies in [√½, √2), of a normal number above 0.
    fn scale_of(x: Self) -> i32;

    /// log(1 + f) − f for √½ ≤ 1 + f < √2, which is −f²/2 near zero.
    fn log_tail<const FMA: bool>(f: Self) -> Self;
}

/// p₀xᵐ + p₁xᵐ⁻¹ + … + pₘ.
#[inline(always)]
fn horner<T: Real, const FMA: bool>(x: T, coefficients: &[T]) -> T {
    let (first, rest) = (coefficients[0], &coefficients[1..]);
    rest.iter().fold(first, |sum, &c| sum.fma::<FMA>(x, c))
}

impl Real for f32 {
    const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const EXP_LOW: f32 = -86.0;
    const EXP_HIGH: f32 = 88.8;
    const LARGE: f32 = 60.0;
    const TINY_EXP: f32 = -15.0;

    #[inline(always)]
    fn of(x: f64) -> f32 {
        x as f32
    }

    #[inline(always)]
    fn of_int(n: i32) -> f32 {
        n as f32
    }

    #[inline(always)]
    fn magnitude(self) -> f32 {
        self.abs()
    }

    #[inline(always)]
    fn fma<const FMA: bool>(self, b: f32, c: f32) -> f32 {
        if FMA { self.mul_add(b, c) } else { self * b + c }
    }

    #[inline(always)]
    fn exp_parts<const FMA: bool>(x: f32) -> (i32, f32, f32) {
        // 1.5·2²³: adding it rounds to an integer and leaves that integer in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let shifted = x.fma::<FMA>(std::f32::consts::LOG2_E, ROUND);
        let n = shifted - ROUND;
        let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
        let r = (-n).fma::<FMA>(Self::LN2[1], (-n).fma::<FMA>(Self::LN2[0], x));
        let p = horner::<_, FMA>(
            r,
            &[1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5],
        );
        (exponent, r, r * r * p)
    }

    #[inline(always)]
    fn power_of_two(n: i32) -> f32 {
        f32::from_bits((n.wrapping_add(127) as u32).wrapping_shl(23))
    }

    #[inline(always)]
    fn scale_of(x: f32) -> i32 {
        (x.to_bits().wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits()) as i32) >> 23
    }

    #[inline(always)]
    fn log_tail<const FMA: bool>(f: f32) -> f32 {
        let p = horner::<_, FMA>(
            f,
            &[
                7.037_683_6e-2,
                -1.151_461e-1,
                1.167_699_9e-1,
                -1.242_014_1e-1,
                1.424_932_3e-1,
                -1.666_805_8e-1,
                2.000_071_5e-1,
                -2.499_999_4e-1,
                3.333_333e-1,
                -0.5,
            ],
        );
        f * f * p
    }
}

/// 1/13!, 1/12!, …, 1/2!: what follows is below 2⁻⁵⁶ of the sum for |r| ≤ ½ ln 2.
const FACTORIALS: [f64; 12] = {
    let mut inverse = [0.0; 12];
    let (mut k, mut product) = (2, 1.0);
    while k <= 13 {
        product *= k as f64;
        inverse[13 - k] = 1.0 / product;
        k += 1;
    }
    inverse
};

/// 2/23, 2/21, …, 2/3: the series of 2·atanh(s)/s − 2 in s² ≤ 0.0295.
const ATANH: [f64; 11] = {
    let mut terms = [0.0; 11];
    let mut k = 0;
    while k < 11 {
        terms[k] = 2.0 / (23 - 2 * k) as f64;
        k += 1;
    }
    terms
};

impl Real for f64 {
    const LN2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    const EXP_LOW: f64 = -700.0;
    const EXP_HIGH: f64 = 709.8;
    const LARGE: f64 = 300.0;
    const TINY_EXP: f64 = -36.0;

    #[inline(always)]
    fn of(x: f64) -> f64 {
        x
    }

    #[inline(always)]
    fn of_int(n: i32) -> f64 {
        f64::from(n)
    }

    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.abs()
    }

    #[inline(always)]
    fn fma<const FMA: bool>(self, b: f64, c: f64) -> f64 {
        if FMA { self.mul_add(b, c) } else { self * b + c }
    }

    #[inline(always)]
    fn exp_parts<const FMA: bool>(x: f64) -> (i32, f64, f64) {
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let shifted = x.fma::<FMA>(std::f64::consts::LOG2_E, ROUND);
        let n = shifted - ROUND;
        let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
        let r = (-n).fma::<FMA>(Self::LN2[1], (-n).fma::<FMA>(Self::LN2[0], x));
        (exponent, r, r * r * horner::<_, FMA>(r, &FACTORIALS))
    }

    #[inline(always)]
    fn power_of_two(n: i32) -> f64 {
        f64::from_bits((i64::from(n).wrapping_add(1023) as u64).wrapping_shl(52))
    }

    #[inline(always)]
    fn scale_of(x: f64) -> i32 {
        let above = x.to_bits().wrapping_sub(std::f64::consts::FRAC_1_SQRT_2.to_bits());
        // The upper half has sign and exponent.
        ((above >> 32) as i32) >> 20
    }

    /// With s = f/(2 + f), log(1 + f) = 2·atanh s and 2s = f − sf.
    #[inline(always)]
    fn log_tail<const FMA: bool>(f: f64) -> f64 {
        let s = f / (2.0 + f);
        let square = s * s;
        s * (square * horner::<_, FMA>(square, &ATANH) - f)
    }
}

/// eˣ − c for c = 0 or 1, with the relative precision of each.
#[inline(always)]
pub fn exp_minus<T: Real, const FMA: bool>(x: T, c: T) -> T {
    let (n, r, tail) = T::exp_parts::<FMA>(clamp(x, T::EXP_LOW, T::EXP_HIGH));
    // Half of 2ⁿ, which overflows one step later than 2ⁿ.
    let scale = T::power_of_two(n.wrapping_sub(1));
    T::of(2.0) * scale.fma::<FMA>(r + tail, scale - T::of(0.5) * c)
}

/// eˣ − 1 − x, which is x²/2 near zero, to full relative precision there.
#[inline(always)]
pub fn expm1_minus_x<T: Real, const FMA: bool>(x: T) -> T {
    let (n, r, tail) = T::exp_parts::<FMA>(clamp(x, T::EXP_LOW, T::EXP_HIGH));
    let scale = T::power_of_two(n.wrapping_sub(1));
    let double = T::of(2.0) * scale;
    let wide = double.fma::<FMA>(r + tail, (double - T::of(1.0)) - x);
    let wide = if x > T::EXP_HIGH - T::of(0.8) { T::of(f64::INFINITY) } else { wide };
    if n == 0 { tail } else { wide }
}

/// `x` kept inside [low, high]; NaN stays NaN.
#[inline(always)]
fn clamp<T: Real>(x: T, low: T, high: T) -> T {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// log(one + x) = k·ln 2 + f + tail, where one is 0 or 1.
#[derive(Clone, Copy)]
pub struct LogParts<T> {
    k: i32,
    f: T,
    tail: T,
}

impl<T: Real> LogParts<T> {
    /// Of `one` + x.
    #[inline(always)]
    pub fn new<const FMA: bool>(x: T, one: T) -> Self {
        let k = T::scale_of(one + x);
        let scale = T::power_of_two(k.wrapping_neg());
        // Exact but for one rounding, so nothing of a small x is lost to 1 + x.
        let f = x * scale + (one * scale - T::of(1.0));
        LogParts { k, f, tail: T::log_tail::<FMA>(f) }
    }

    /// log(one + x).
    #[inline(always)]
    pub fn log<const FMA: bool>(self) -> T {
        let k = T::of_int(self.k);
        k.fma::<FMA>(T::LN2[0], self.f + k.fma::<FMA>(T::LN2[1], self.tail))
    }

    /// log(1 + x) − x, made with this `x` and one = 1.
    #[inline(always)]
    pub fn log_minus_x<const FMA: bool>(self, x: T) -> T {
        if self.k == 0 { self.tail } else { self.log::<FMA>() - x }
    }
}

/// log x of any number above 0, also where [`LogParts`] does not reach.
#[inline(always)]
pub fn log<const FMA: bool>(x: f64) -> f64 {
    const POWER: i32 = 200;
    let exponent = if x < 1e-290 { POWER } else { 0 };
    let exponent = if x > 1e290 { -POWER } else { exponent };
    let parts = LogParts::new::<FMA>(x * f64::power_of_two(exponent), 0.0);
    LogParts { k: parts.k.wrapping_sub(exponent), ..parts }.log::<FMA>()
}

/// log(1 + x).
#[inline(always)]
pub fn log1p<T: Real, const FMA: bool>(x: T) -> T {
    LogParts::new::<FMA>(x, T::of(1.0)).log::<FMA>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance from the true value in units of the last place of f32 at that value.
    fn ulps(got: f32, want: f64) -> f64 {
        let nearest = want as f32;
        if got == nearest || (got.is_nan() && nearest.is_nan()) {
            return 0.0;
        }
        if !nearest.is_finite() {
            // Overflow may come a hair early or late.
            return if got >= f32::MAX { 1.0 } else { f64::INFINITY };
        }
        let exponent = want.abs().log2().floor().max(-126.0);
        (f64::from(got) - want).abs() / (exponent - 23.0).exp2()
    }

    /// The worst of about four million floats spread over every exponent, those in `range` only.
    fn worst(range: [f32; 2], both: [fn(f32) -> f32; 2], truth: fn(f64) -> f64) -> f64 {
        let all = (0..=u32::MAX).step_by(1021).map(f32::from_bits);
        all.filter(|x| (range[0]..range[1]).contains(x))
            .flat_map(|x| both.map(|f| ulps(f(x), truth(f64::from(x)))))
            .fold(0.0, f64::max)
    }

    /// The same in f64, against the platform's own functions, which are within one unit themselves.
    fn worst_wide(range: [f64; 2], both: [fn(f64) -> f64; 2], truth: fn(f64) -> f64) -> f64 {
        let all = (0..=u64::MAX).step_by(0x0000_4000_1357_9bdf).map(f64::from_bits);
        let unit = |want: f64| (want.abs().log2().floor().max(-1022.0) - 52.0).exp2();
        all.filter(|x| (range[0]..range[1]).contains(x))
            .flat_map(|x| both.map(|f| (f(x) - truth(x)).abs() / unit(truth(x))))
            .fold(0.0, f64::max)
    }

    macro_rules! both {
        ($type:ty, |$x:ident, $fma:ident| $body:expr) => {{
            fn with<const $fma: bool>($x: $type) -> $type {
                $body
            }
            [with::<true>, with::<false>]
        }};
    }

    #[test]
    fn error_in_units_of_the_last_place() {
        let exp = worst([-86.0, 88.7], both!(f32, |x, F| exp_minus::<_, F>(x, 0.0)), f64::exp);
        let expm1 = worst([-86.0, 88.7], both!(f32, |x, F| exp_minus::<_, F>(x, 1.0)), f64::exp_m1);
        let log = worst([1e-36, 1e36], both!(f32, |x, F| LogParts::new::<F>(x, 0.0).log::<F>()), f64::ln);
        let log1p = worst([-0.999_999, 1e36], both!(f32, |x, F| log1p::<_, F>(x)), f64::ln_1p);
        assert!([exp, expm1, log, log1p].iter().all(|&e| e > 0.0 && e <= 3.0), "{exp} {expm1} {log} {log1p}");
    }

    #[test]
    fn error_in_units_of_the_last_place_in_f64() {
        let exp = worst_wide([-700.0, 709.7], both!(f64, |x, F| exp_minus::<_, F>(x, 0.0)), f64::exp);
        let expm1 = worst_wide([-700.0, 709.7], both!(f64, |x, F| exp_minus::<_, F>(x, 1.0)), f64::exp_m1);
        let log =
            worst_wide([1e-300, 1e300], both!(f64, |x, F| LogParts::new::<F>(x, 0.0).log::<F>()), f64::ln);
        let log1p = worst_wide([-0.999_999, 1e300], both!(f64, |x, F| log1p::<_, F>(x)), f64::ln_1p);
        assert!([exp, expm1, log, log1p].iter().all(|&e| e > 0.0 && e <= 3.0), "{exp} {expm1} {log} {log1p}");
    }

    #[test]
    fn the_ends() {
        assert_eq!(exp_minus::<f32, true>(f32::INFINITY, 0.0), f32::INFINITY);
        assert_eq!(exp_minus::<f64, true>(f64::INFINITY, 1.0), f64::INFINITY);
        assert!(exp_minus::<f32, true>(f32::NEG_INFINITY, 0.0) < 1e-37);
        assert_eq!(exp_minus::<f64, true>(f64::NEG_INFINITY, 1.0), -1.0);
        assert!(exp_minus::<f32, true>(f32::NAN, 1.0).is_nan() && log1p::<f32, true>(f32::NAN).is_nan());
        assert!(exp_minus::<f64, true>(f64::NAN, 1.0).is_nan() && log1p::<f64, true>(f64::NAN).is_nan());
        assert_eq!(log1p::<f32, true>(1e-45), 1e-45);
        assert_eq!(log1p::<f64, true>(1e-300), 1e-300);
        for x in [5e-324, 1e-310, 1e-290, 0.3, 1.0, 7e5, 1e290, f64::MAX] {
            let [fused, plain] = [log::<true>(x), log::<false>(x)];
            let near = |got: f64| (got - x.ln()).abs() <= 4e-16 * x.ln().abs();
            assert!(near(fused) && near(plain), "{x}: {fused} {plain} {}", x.ln());
        }
    }

    #[test]
    fn remainders_keep_their_digits_near_zero() {
        let plain = |x: f64, series: [f64; 5], far: fn(f64) -> f64| {
            let near = x * x * series.iter().rev().fold(0.0, |sum, c| sum * x + c);
            if x.abs() < 1e-3 { near } else { far(x) }
        };
        for i in 1..20_000 {
            let x = (f64::from(i) * 0.001) * if i % 2 == 0 { 1.0 } else { -1.0 };
            for scale in [1.0, 1e-3, 1e-8] {
                let x = x * scale;
                let exp = plain(x, [1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0], |x| {
                    x.exp_m1() - x
                });
                let narrow = f64::from(x as f32);
                let narrow_exp = plain(narrow, [0.5, 1.0 / 6.0, 1.0 / 24.0, 0.0, 0.0], |x| x.exp_m1() - x);
                let got = f64::from(expm1_minus_x::<f32, true>(x as f32));
                assert!((got - narrow_exp).abs() <= 1e-6 * narrow_exp.abs(), "exp({x}): {got} {narrow_exp}");
                let got = expm1_minus_x::<f64, true>(x);
                assert!((got - exp).abs() <= 1e-12 * exp.abs(), "exp({x}): {got} {exp}");
                if x > -0.9 {
                    let log =
                        plain(x, [-1.0 / 2.0, 1.0 / 3.0, -1.0 / 4.0, 0.2, -1.0 / 6.0], |x| x.ln_1p() - x);
                    let got = f64::from(LogParts::new::<true>(x as f32, 1.0).log_minus_x::<true>(x as f32));
                    assert!((got - log).abs() <= 2e-6 * log.abs(), "log1p({x}): {got} {log}");
                    let got = LogParts::new::<true>(x, 1.0).log_minus_x::<true>(x);
                    assert!((got - log).abs() <= 1e-12 * log.abs(), "log1p({x}): {got} {log}");
                }
            }
        }
    }
}
