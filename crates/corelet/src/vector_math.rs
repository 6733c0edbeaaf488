//! f32 exp, expm1, log and log1p without branches, so that a loop over them compiles to AVX-512, AVX2 or portable code.
//!
//! | function | error on the whole range | at the ends |
//! | --- | --- | --- |
//! | [`exp`] | ≤ 2 ulp, also where the result is subnormal | 0 at −∞, +∞ above 88.73 |
//! | [`expm1`] | ≤ 3 ulp, relative also near 0 | −1 at −∞, +∞ above 88.73 |
//! | [`log`] | ≤ 2 ulp, also of subnormals | −∞ at ±0, NaN below 0, +∞ at +∞ |
//! | [`log1p`] | ≤ 3 ulp, relative also near 0 | −∞ at −1, NaN below −1, +∞ at +∞ |
//!
//! NaN gives NaN. The sign of a zero is not kept, nor is the last bit of a subnormal. `FMA` says whether the processor multiplies and adds in one
//! instruction; [`map_in_place`] and [`dispatch`] choose it together with the instruction set at run time.

use pulp::{Arch, Simd, WithSimd};

/// A computation compiled once for every instruction set, and run with the best one at hand.
pub trait Kernel {
    /// What it gives back.
    type Output;

    /// The computation. An implementation must be `#[inline(always)]`, or it is compiled for the oldest processor.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// A function of one number, applied to many by [`map_in_place`].
pub trait Pointwise: Copy {
    /// f(x). An implementation must be `#[inline(always)]` and free of branches that depend on `x`.
    fn apply<const FMA: bool>(self, x: f32) -> f32;
}

struct Dispatched<K>(K);

impl<K: Kernel> WithSimd for Dispatched<K> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> K::Output {
        if S::IS_SCALAR { self.0.run::<false>() } else { self.0.run::<true>() }
    }
}

/// Runs `kernel` with the best instruction set of this processor.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    Arch::new().dispatch(Dispatched(kernel))
}

struct Map<'a, P>(P, &'a mut [f32]);

impl<P: Pointwise> Kernel for Map<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Map(function, values) = self;
        for value in values {
            *value = function.apply::<FMA>(*value);
        }
    }
}

/// Replaces every x of `values` by `function`(x), vectorised.
#[inline]
pub fn map_in_place<P: Pointwise>(function: P, values: &mut [f32]) {
    dispatch(Map(function, values));
}

/// The largest |x| for which [`map_series`] answers.
pub const SERIES_RANGE: f32 = 0.25;

struct Series<'a>([f32; 7], &'a mut [f32]);

impl Kernel for Series<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        let Series(c, values) = self;
        let inside = values.iter().fold(true, |inside, x| inside & (x.abs() <= SERIES_RANGE));
        if !inside {
            return false;
        }
        for x in values {
            let mut sum = c[6];
            for k in (0..6).rev() {
                sum = fma::<FMA>(sum, *x, c[k]);
            }
            *x *= sum;
        }
        true
    }
}

/// Replaces every x by c₁x + c₂x² + … + c₇x⁷, several times faster than a function with an exp and a log in it;
/// or, where some |x| is above [`SERIES_RANGE`] or NaN, leaves them all as they are and returns `false`.
#[inline]
pub fn map_series(coefficients: [f64; 7], values: &mut [f32]) -> bool {
    dispatch(Series(coefficients.map(|c| c as f32), values))
}

/// Coefficients that [`map_series_f64`] takes.
pub const SERIES_TERMS_F64: usize = 15;

struct WideSeries<'a>([f64; SERIES_TERMS_F64], &'a mut [f64]);

impl Kernel for WideSeries<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        let WideSeries(c, values) = self;
        let range = f64::from(SERIES_RANGE);
        let inside = values.iter().fold(true, |inside, x| inside & (x.abs() <= range));
        if !inside {
            return false;
        }
        for x in values {
            let mut sum = c[SERIES_TERMS_F64 - 1];
            for k in (0..SERIES_TERMS_F64 - 1).rev() {
                sum = if FMA { sum.mul_add(*x, c[k]) } else { sum * *x + c[k] };
            }
            *x *= sum;
        }
        true
    }
}

/// [`map_series`] in f64 and with more terms: where a series converges for |x| < π, what follows the fifteenth is below
/// the rounding of the first.
#[inline]
pub fn map_series_f64(coefficients: [f64; SERIES_TERMS_F64], values: &mut [f64]) -> bool {
    dispatch(WideSeries(coefficients, values))
}

/// a·b + c, in one rounding where the processor can.
#[inline(always)]
pub fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

// ln 2 in two parts: the first has 9 bits, so that its product with an exponent is exact.
const LN2_HI: f32 = 0.693_359_4;
const LN2_LO: f32 = -2.121_944_4e-4;
/// 1.5·2²³: adding it rounds to an integer and leaves that integer in the low bits.
const ROUND: f32 = 12_582_912.0;
const SQRT_HALF_BITS: u32 = 0x3f35_04f3;

/// x = n·ln 2 + r with |r| ≤ ½ ln 2: n, r and e^r − 1 − r.
#[inline(always)]
fn exp_parts<const FMA: bool>(x: f32) -> (i32, f32, f32) {
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let r = fma::<FMA>(-n, LN2_LO, fma::<FMA>(-n, LN2_HI, x));
    let mut p = 1.987_569_1e-4;
    p = fma::<FMA>(p, r, 1.398_199_9e-3);
    p = fma::<FMA>(p, r, 8.333_452e-3);
    p = fma::<FMA>(p, r, 4.166_579_6e-2);
    p = fma::<FMA>(p, r, 1.666_666_5e-1);
    p = fma::<FMA>(p, r, 0.5);
    (exponent, r, r * r * p)
}

/// 2ⁿ for −126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32).wrapping_shl(23))
}

/// `x` kept inside [low, high]; NaN stays NaN.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// eˣ.
#[inline(always)]
pub fn exp<const FMA: bool>(x: f32) -> f32 {
    let (n, r, tail) = exp_parts::<FMA>(clamp(x, -110.0, 89.5));
    let half = n >> 1;
    (1.0 + (r + tail)) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// eˣ − c for c = 0 or 1, with the relative precision of each; eˣ stops falling at x = −86.
#[inline(always)]
pub fn exp_minus<const FMA: bool>(x: f32, c: f32) -> f32 {
    let (n, r, tail) = exp_parts::<FMA>(clamp(x, -86.0, 88.8));
    // Half of 2ⁿ, which overflows one step later than 2ⁿ.
    let scale = power_of_two(n.wrapping_sub(1));
    2.0 * fma::<FMA>(scale, r + tail, scale - 0.5 * c)
}

/// eˣ − 1.
#[inline(always)]
pub fn expm1<const FMA: bool>(x: f32) -> f32 {
    exp_minus::<FMA>(x, 1.0)
}

/// eˣ − 1 − x, which is x²/2 near zero, to full relative precision there.
#[inline(always)]
pub fn expm1_minus_x<const FMA: bool>(x: f32) -> f32 {
    let (n, r, tail) = exp_parts::<FMA>(clamp(x, -86.0, 88.8));
    let scale = power_of_two(n.wrapping_sub(1));
    let wide = fma::<FMA>(2.0 * scale, r + tail, (2.0 * scale - 1.0) - x);
    let wide = if x > 88.0 { f32::INFINITY } else { wide };
    if n == 0 { tail } else { wide }
}

/// log(one + x) = k·ln 2 + f + tail, where one is 0 or 1.
#[derive(Clone, Copy)]
pub(crate) struct LogParts {
    k: f32,
    f: f32,
    tail: f32,
}

impl LogParts {
    /// For 2⁻¹²⁰ < one + x < 2¹²⁰; anything else gives a meaningless number, NaN gives NaN.
    #[inline(always)]
    pub(crate) fn new<const FMA: bool>(x: f32, one: f32) -> LogParts {
        let bits = (one + x).to_bits();
        let k = (bits.wrapping_sub(SQRT_HALF_BITS) as i32) >> 23;
        let scale = power_of_two(k.wrapping_neg());
        // Exact but for one rounding, so nothing of a small x is lost to 1 + x.
        let f = x * scale + (one * scale - 1.0);
        let mut p = 7.037_683_6e-2;
        p = fma::<FMA>(p, f, -1.151_461e-1);
        p = fma::<FMA>(p, f, 1.167_699_9e-1);
        p = fma::<FMA>(p, f, -1.242_014_1e-1);
        p = fma::<FMA>(p, f, 1.424_932_3e-1);
        p = fma::<FMA>(p, f, -1.666_805_8e-1);
        p = fma::<FMA>(p, f, 2.000_071_5e-1);
        p = fma::<FMA>(p, f, -2.499_999_4e-1);
        p = fma::<FMA>(p, f, 3.333_333e-1);
        LogParts { k: k as f32, f, tail: f * f * fma::<FMA>(p, f, -0.5) }
    }

    /// log(one + x).
    #[inline(always)]
    pub(crate) fn log<const FMA: bool>(self) -> f32 {
        fma::<FMA>(self.k, LN2_HI, self.f + fma::<FMA>(self.k, LN2_LO, self.tail))
    }

    /// log(1 + x) − x, made with this `x` and one = 1.
    #[inline(always)]
    pub(crate) fn log_minus_x<const FMA: bool>(self, x: f32) -> f32 {
        if self.k == 0.0 { self.tail } else { self.log::<FMA>() - x }
    }
}

/// log(1 + x) for −1 < x < 2¹²⁰, without the care for the ends that [`log1p`] takes.
#[inline(always)]
pub(crate) fn log1p_inside<const FMA: bool>(x: f32) -> f32 {
    LogParts::new::<FMA>(x, 1.0).log::<FMA>()
}

/// log(1 + x).
#[inline(always)]
pub fn log1p<const FMA: bool>(x: f32) -> f32 {
    let large = x > 1.8e19;
    let one = if large { 0.0 } else { 1.0 };
    let parts = LogParts::new::<FMA>(if large { x * TWO_POW_M64 } else { x }, one);
    let k = if large { parts.k + 64.0 } else { parts.k };
    at_ends(LogParts { k, ..parts }.log::<FMA>(), x, -1.0)
}

/// log x.
#[inline(always)]
pub fn log<const FMA: bool>(x: f32) -> f32 {
    let small = x < 5.5e-20;
    let large = x > 1.8e19;
    let scale = if small { TWO_POW_64 } else { 1.0 };
    let scale = if large { TWO_POW_M64 } else { scale };
    let shift = if small { -64.0 } else { 0.0 };
    let shift = if large { 64.0 } else { shift };
    let parts = LogParts::new::<FMA>(x * scale, 0.0);
    at_ends(LogParts { k: parts.k + shift, ..parts }.log::<FMA>(), x, 0.0)
}

const TWO_POW_64: f32 = 18_446_744_073_709_551_616.0;
const TWO_POW_M64: f32 = 1.0 / TWO_POW_64;

/// A logarithm that is −∞ at `x` = `zero`, not a number below and +∞ at +∞.
#[inline(always)]
fn at_ends(inside: f32, x: f32, zero: f32) -> f32 {
    let value = if x == zero { f32::NEG_INFINITY } else { inside };
    let value = if x < zero { f32::NAN } else { value };
    if x == f32::INFINITY { x } else { value }
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
        (got as f64 - want).abs() / (exponent - 23.0).exp2()
    }

    /// The worst of about four million floats spread over every exponent, with and without FMA.
    fn worst(both: [fn(f32) -> f32; 2], truth: fn(f64) -> f64) -> f64 {
        let mut worst = 0.0f64;
        for bits in (0..=u32::MAX).step_by(1021) {
            let x = f32::from_bits(bits);
            let want = truth(x as f64);
            for f in both {
                worst = worst.max(ulps(f(x), want));
            }
        }
        worst
    }

    #[test]
    fn error_in_units_of_the_last_place() {
        let exp_error = worst([exp::<true>, exp::<false>], f64::exp);
        let expm1_error = worst([expm1::<true>, expm1::<false>], f64::exp_m1);
        let log_error = worst([log::<true>, log::<false>], f64::ln);
        let log1p_error = worst([log1p::<true>, log1p::<false>], f64::ln_1p);
        assert!(exp_error <= 2.0, "exp {exp_error}");
        assert!(expm1_error <= 3.0, "expm1 {expm1_error}");
        assert!(log_error <= 2.0, "log {log_error}");
        assert!(log1p_error <= 3.0, "log1p {log1p_error}");
    }

    #[test]
    fn the_ends() {
        let inf = f32::INFINITY;
        assert_eq!([exp::<true>(-inf), exp::<true>(0.0), exp::<true>(inf)], [0.0, 1.0, inf]);
        assert_eq!([expm1::<true>(-inf), expm1::<true>(0.0), expm1::<true>(inf)], [-1.0, 0.0, inf]);
        assert_eq!([log::<true>(0.0), log::<true>(1.0), log::<true>(inf)], [-inf, 0.0, inf]);
        assert_eq!([log1p::<true>(-1.0), log1p::<true>(0.0), log1p::<true>(inf)], [-inf, 0.0, inf]);
        for f in [exp::<true>, expm1::<true>, log::<true>, log1p::<true>] {
            assert!(f(f32::NAN).is_nan());
        }
        assert!(log::<true>(-1e-45).is_nan() && log1p::<true>(-1.0000001).is_nan());
        assert!((expm1::<true>(1e-44) - 1e-44).abs() < 3e-45);
        assert_eq!(log1p::<true>(1e-45), 1e-45);
    }

    #[test]
    fn remainders_keep_their_digits_near_zero() {
        for i in 1..20_000 {
            let x = (i as f32 * 0.001) * if i % 2 == 0 { 1.0 } else { -1.0 };
            for scale in [1.0f32, 1e-3, 1e-8] {
                let x = x * scale;
                let wide = x as f64;
                let want = if wide.abs() < 1e-4 {
                    wide * wide * (0.5 + wide / 6.0 + wide * wide / 24.0)
                } else {
                    wide.exp_m1() - wide
                };
                let got = expm1_minus_x::<true>(x) as f64;
                assert!((got - want).abs() <= 1e-6 * want.abs(), "exp({x}): {got} {want}");
                if wide > -0.9 {
                    let want = if wide.abs() < 1e-4 {
                        wide * wide * (-0.5 + wide / 3.0 - wide * wide / 4.0)
                    } else {
                        wide.ln_1p() - wide
                    };
                    let got = LogParts::new::<true>(x, 1.0).log_minus_x::<true>(x) as f64;
                    assert!((got - want).abs() <= 1e-6 * want.abs(), "log1p({x}): {got} {want}");
                }
            }
        }
    }
}
