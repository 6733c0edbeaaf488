//! Loops over many numbers at once, compiled for every instruction set: functions with exp and log in them, series.

mod planes;
mod real;
mod rowwise;

pub use self::planes::{Planes, WIDTH};
pub use self::real::{LogParts, Real, exp_minus, expm1_minus_x, log, log1p};
pub use self::rowwise::{Rowwise, Term, add_terms, map_rows};
pub use corelet_data::kernel::{Kernel, dispatch};

/// A function of one number, applied to many by [`map_in_place`].
pub trait Pointwise<T = f32>: Copy {
    /// f(x). An implementation must be `#[inline(always)]` and free of branches that depend on `x`.
    fn apply<const FMA: bool>(self, x: T) -> T;
}

struct Map<'a, P, T>(P, &'a mut [T]);

impl<T: Copy, P: Pointwise<T>> Kernel for Map<'_, P, T> {
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
pub fn map_in_place<T: Copy, P: Pointwise<T>>(function: P, values: &mut [T]) {
    dispatch(Map(function, values));
}

/// A function of two numbers, applied to many by [`map_pairs`].
pub trait Pairwise: Copy {
    /// f(x, y). An implementation must be `#[inline(always)]` and free of branches that depend on `x` or `y`.
    fn apply<const FMA: bool>(self, x: f64, y: f64) -> f64;
}

struct MapPairs<'a, P>(P, [&'a [f64]; 2], &'a mut [f64]);

impl<P: Pairwise> Kernel for MapPairs<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let MapPairs(function, [first, second], out) = self;
        for ((x, y), out) in first.iter().zip(second).zip(out) {
            *out = function.apply::<FMA>(*x, *y);
        }
    }
}

/// `function` of each pair of numbers, the first of which stand before the second in `pairs`, into `out`, vectorised.
#[inline]
pub fn map_pairs<P: Pairwise>(function: P, pairs: &[f64], out: &mut [f64]) {
    let (first, second) = pairs.split_at(out.len());
    dispatch(MapPairs(function, [first, second], out));
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
                sum = sum.fma::<FMA>(*x, c[k]);
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
                sum = sum.fma::<FMA>(*x, c[k]);
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
