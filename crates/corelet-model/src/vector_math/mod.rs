//! Loops over many numbers at once, compiled for every instruction set: functions with exp and log in them, series.

mod planes;
mod real;
mod rowwise;

pub use self::planes::{Planes, WIDTH};
pub use self::real::{LogParts, Real, exp_minus, expm1_minus_x, log, log1p};
pub use self::rowwise::{Rowwise, Term, add_terms, map_rows};
pub use corelet_kernels::kernel::{Kernel, dispatch};

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

/// Terms of a series in f64 that converges for |x| < π after which what follows is below the rounding of the first, for |x| up to
/// [`SERIES_RANGE`].
pub const SERIES_TERMS: usize = 15;

/// The same for |x| up to [`LONG_SERIES_RANGE`].
pub const LONG_SERIES_TERMS: usize = 50;

/// The largest |x| of a series of [`LONG_SERIES_TERMS`].
pub const LONG_SERIES_RANGE: f64 = 1.5;

/// Numbers from which a long series, whose coefficients take as long as several dozen of them, is worth it.
const MANY: usize = 128;

/// Which series reaches all of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// One of [`SERIES_TERMS`].
    Short,
    /// One of [`LONG_SERIES_TERMS`].
    Long,
    /// None, or none that would pay.
    Beyond,
}

impl Reach {
    /// The series for these numbers.
    #[inline]
    pub fn of(values: &[f64]) -> Self {
        let farthest = dispatch(Farthest(values));
        if farthest <= f64::from(SERIES_RANGE) {
            Self::Short
        } else if farthest <= LONG_SERIES_RANGE && values.len() >= MANY {
            Self::Long
        } else {
            Self::Beyond
        }
    }
}

struct Farthest<'a>(&'a [f64]);

impl Kernel for Farthest<'_> {
    type Output = f64;

    /// The largest |x|, or infinity where one is not a number.
    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        let (blocks, rest) = self.0.as_chunks::<8>();
        let mut farthest = [0.0_f64; 8];
        // A comparison that a NaN makes false takes the other branch.
        let farther = |x: f64, far: f64| if x.abs() <= far { far } else { x.abs() };
        for block in blocks {
            for (far, x) in farthest.iter_mut().zip(block) {
                *far = if far.is_nan() { *far } else { farther(*x, *far) };
            }
        }
        let farthest = farthest.iter().chain(rest).copied();
        farthest.fold(0.0, |far, x| if x.is_nan() { f64::INFINITY } else { farther(x, far) })
    }
}

struct WideSeries<'a, const N: usize>([f64; N], &'a mut [f64]);

impl<const N: usize> Kernel for WideSeries<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let WideSeries(c, values) = self;
        for x in values {
            let mut sum = c[N - 1];
            for k in (0..N - 1).rev() {
                sum = sum.fma::<FMA>(*x, c[k]);
            }
            *x *= sum;
        }
    }
}

/// Replaces every x by c₁x + c₂x² + … + c_Nx^N in f64; which N is enough [`Reach::of`] says.
#[inline]
pub fn map_series_f64<const N: usize>(coefficients: [f64; N], values: &mut [f64]) {
    dispatch(WideSeries(coefficients, values));
}
