//! Mean, spread and range of numbers, weighted where rows have weights, by sums in twice the precision of a double.
//!
//! The error of such a sum is about n·2⁻¹⁰⁶ of its terms, so that the rounded result is the same however the numbers were
//! cut into blocks: the same table gives the same bits from memory, from text and from row groups of any size.

use serde::{Deserialize, Serialize};

use corelet_kernels::kernel::{Kernel, dispatch};

/// What standardisation needs to know about one feature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// Standard deviation, with n − 1; see [`Size`].
    pub(crate) sd: f64,
    /// Root mean square, about zero.
    pub(crate) rms: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Those of an indicator that is 1 in `ones` of all rows.
    pub(crate) fn of_indicator(ones: &Tally, size: &Size) -> Self {
        let (min, max) = (f64::from(ones.rows == size.rows), f64::from(ones.rows > 0));
        let (ones, n) = (ones.weight(), size.weight);
        let mean = ones / n;
        let variance = (ones * (n - ones) / n / size.freedom).max(0.0);
        Self { mean, sd: variance.sqrt(), rms: mean.sqrt(), min, max }
    }

    /// True if the values differ by no more than rounding.
    pub(crate) fn is_constant(&self) -> bool {
        let size = self.min.abs().max(self.max.abs());
        self.max - self.min <= 4.0 * f64::EPSILON * size
    }
}

/// How many rows there are, and what sums over them are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    /// Σf: n where rows have no weights.
    pub(crate) weight: f64,
    /// What a sum of squares about the mean is divided by.
    pub(crate) freedom: f64,
}

impl Size {
    /// Rows without weights.
    pub(crate) fn of_rows(rows: usize) -> Self {
        Self { rows, weight: rows as f64, freedom: rows as f64 - 1.0 }
    }

    /// Rows of these weights. Where they are counts, a row is as many rows: Σf − 1. Others have whatever unit they have, and the
    /// variance may not depend on it: Σf·(n − 1)/n.
    pub(crate) fn of_weights(rows: &Tally, are_counts: bool) -> Self {
        let (weight, n) = (rows.weight(), rows.rows as f64);
        let freedom = if are_counts { weight - 1.0 } else { weight * ((n - 1.0) / n) };
        Self { rows: rows.rows, weight, freedom }
    }
}

/// Some rows: how many they are, and the sum of their weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) rows: usize,
    /// None if rows have no weights.
    weights: Option<Twofold>,
}

impl Tally {
    /// Rows without weights.
    pub(crate) fn of_rows(rows: usize) -> Self {
        Self { rows, weights: None }
    }

    /// One row of this weight, where it has one.
    pub(crate) fn of_row(weight: Option<f64>) -> Self {
        Self { rows: 1, weights: weight.map(Twofold::from) }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.weights.is_some() || other.weights.is_some() {
            self.weights = Some(self.total().plus(other.total()));
        }
        self.rows += other.rows;
    }

    /// Σf.
    pub(crate) fn weight(&self) -> f64 {
        self.total().value()
    }

    fn total(&self) -> Twofold {
        self.weights.unwrap_or_else(|| Twofold::from(self.rows as f64))
    }
}

/// Σf(x − c) and Σf(x − c)² about the first number c, with Σf and the range; f is 1 where rows have no weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) rows: Tally,
    shift: f64,
    first: Twofold,
    second: Twofold,
    min: f64,
    max: f64,
}

impl Sums {
    /// Sums of all `values`, of these weights where they have any.
    pub(crate) fn of(values: &[f64], weights: Option<&[f64]>) -> Self {
        let plain = dispatch(SumUp(values));
        weights.map_or(plain, |weights| {
            let (rows, [first, second]) = Self::weighted(values, weights, plain.shift);
            Self { rows, first, second, ..plain }
        })
    }

    fn weighted(values: &[f64], weights: &[f64], shift: f64) -> (Tally, [Twofold; 2]) {
        let (mut rows, mut sums) = (Tally::default(), [Twofold::default(); 2]);
        for (&value, &weight) in values.iter().zip(weights) {
            let d = Twofold::difference(value, shift);
            let first = Twofold::from(weight).times(d);
            rows.merge(&Tally::of_row(Some(weight)));
            sums = [sums[0].plus(first), sums[1].plus(first.times(d))];
        }
        (rows, sums)
    }

    /// Adds the sums of further numbers: about c they are Σ + n·d and Σ² + 2d·Σ + n·d², where n is their Σf and d is how far their
    /// own shift is from c.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.rows.rows == 0 || other.rows.rows == 0 {
            if other.rows.rows > 0 {
                *self = *other;
            }
            return;
        }
        let d = Twofold::difference(other.shift, self.shift);
        let n = other.rows.total();
        let first = other.first.plus(n.times(d));
        let twice = Twofold::from(2.0).times(d).times(other.first);
        let second = other.second.plus(twice).plus(n.times(d).times(d));
        self.first = self.first.plus(first);
        self.second = self.second.plus(second);
        self.rows.merge(&other.rows);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The moments of all that was added, which are the numbers of so many rows: two at least.
    pub(crate) fn moments(&self, size: &Size) -> Spread {
        let n = size.weight;
        let about_shift = self.first.over(n);
        // Rounding must not push the mean of a constant column off its value.
        let mean = Twofold::from(self.shift).plus(about_shift).value().clamp(self.min, self.max);
        let squares = self.second.plus(about_shift.times(self.first).negative()).value().max(0.0);
        let sd = if self.second.is_finite() { (squares / size.freedom).sqrt() } else { f64::INFINITY };
        Spread { mean, sd, rms: (squares / n + mean * mean).sqrt(), min: self.min, max: self.max }
    }
}

/// Numbers that are added side by side.
const LANES: usize = 8;

/// [`Sums::of`], with registers of numbers side by side.
struct SumUp<'a>(&'a [f64]);

impl Kernel for SumUp<'_> {
    type Output = Sums;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Sums {
        let SumUp(values) = self;
        let shift = values.first().copied().unwrap_or_default();
        let mut lanes = Lanes::new();
        let (chunks, rest) = values.as_chunks::<LANES>();
        chunks.iter().for_each(|chunk| lanes.add::<FMA>(chunk, shift));
        // The shift itself adds nothing to any sum, and is one of the values.
        let mut last = [shift; LANES];
        last[..rest.len()].copy_from_slice(rest);
        if !rest.is_empty() {
            lanes.add::<FMA>(&last, shift);
        }
        let sum = |[high, low]: &[[f64; LANES]; 2]| {
            let lanes = high.iter().zip(low).map(|(&high, &low)| Twofold { high, low });
            lanes.fold(Twofold::default(), Twofold::plus)
        };
        Sums {
            rows: Tally::of_rows(values.len()),
            shift,
            first: sum(&lanes.first),
            second: sum(&lanes.second),
            min: lanes.min.iter().copied().fold(f64::INFINITY, f64::min),
            max: lanes.max.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// Running sums, each with what its roundings have lost, and the range.
struct Lanes {
    first: [[f64; LANES]; 2],
    second: [[f64; LANES]; 2],
    min: [f64; LANES],
    max: [f64; LANES],
}

impl Lanes {
    #[inline(always)]
    fn new() -> Self {
        let zero = [[0.0; LANES]; 2];
        Self { first: zero, second: zero, min: [f64::INFINITY; LANES], max: [f64::NEG_INFINITY; LANES] }
    }

    #[inline(always)]
    fn add<const FMA: bool>(&mut self, values: &[f64; LANES], shift: f64) {
        for (lane, &value) in values.iter().enumerate() {
            let (d, lost) = two_sum(value, -shift);
            let (sum, rounding) = two_sum(self.first[0][lane], d);
            self.first[0][lane] = sum;
            self.first[1][lane] += rounding + lost;
            // Fused, the rounding of the square is one operation.
            let (square, rest) = if FMA { (d * d, d.mul_add(d, -(d * d))) } else { two_product(d, d) };
            let (sum, rounding) = two_sum(self.second[0][lane], square);
            self.second[0][lane] = sum;
            self.second[1][lane] += rounding + (rest + 2.0 * d * lost);
            self.min[lane] = if value < self.min[lane] { value } else { self.min[lane] };
            self.max[lane] = if value > self.max[lane] { value } else { self.max[lane] };
        }
    }
}

/// A number as the sum of two doubles, the second about 2⁻⁵³ of the first: sums of many do not show the order in which they were
/// added once they are rounded to one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Twofold {
    high: f64,
    low: f64,
}

impl From<f64> for Twofold {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Twofold {
    fn difference(a: f64, b: f64) -> Self {
        let (high, low) = two_sum(a, -b);
        Self { high, low }
    }

    /// As one double.
    pub fn value(self) -> f64 {
        self.high + self.low
    }

    fn is_finite(self) -> bool {
        self.high.is_finite() && self.low.is_finite()
    }

    fn negative(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (sum, lost) = two_sum(self.high, other.high);
        let (high, low) = two_sum(sum, lost + (self.low + other.low));
        Self { high, low }
    }

    fn times(self, other: Self) -> Self {
        let (product, lost) = two_product(self.high, other.high);
        let (high, low) = two_sum(product, lost + (self.high * other.low + self.low * other.high));
        Self { high, low }
    }

    fn over(self, divisor: f64) -> Self {
        let quotient = self.high / divisor;
        let (product, lost) = two_product(quotient, divisor);
        let rest = (self.high - product) - lost + self.low;
        let (high, low) = two_sum(quotient, rest / divisor);
        Self { high, low }
    }
}

/// a + b as the rounded sum and the rounding (Knuth).
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_in_sum = sum - a;
    (sum, (a - (sum - b_in_sum)) + (b - b_in_sum))
}

/// a·b as the rounded product and the rounding (Dekker). No fused multiply-add, which some machines do in software.
#[inline(always)]
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (halves(a), halves(b));
    (product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low))
}

/// A double as two numbers of 26 bits (Veltkamp).
#[inline(always)]
fn halves(a: f64) -> (f64, f64) {
    const SPLIT: f64 = 134_217_729.0;
    let scaled = SPLIT * a;
    let high = scaled - (scaled - a);
    (high, a - high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn in_blocks(values: &[f64], size: usize) -> Spread {
        let mut sums = Sums::of(&[], None);
        values.chunks(size).for_each(|block| sums.merge(&Sums::of(block, None)));
        sums.moments(&Size::of_rows(values.len()))
    }

    #[test]
    fn moments_survive_a_large_offset() {
        let values: Vec<f64> = (0..1000).map(|i| 1e9 + f64::from(i % 2)).collect();
        for size in [1000, 1, 7] {
            let found = in_blocks(&values, size);
            assert_eq!(found.mean, 1e9 + 0.5);
            assert!((found.sd - (250.0f64 / 999.0).sqrt()).abs() < 1e-15);
            assert!(!found.is_constant());
        }
    }

    #[test]
    fn an_outlier_in_front_costs_no_digits() {
        let mut values: Vec<f64> = (0..999).map(|i| f64::from(i % 10)).collect();
        values.insert(0, 1e15);
        let found = in_blocks(&values, 100);
        assert!((found.mean - (1e15 + 4491.0) / 1000.0).abs() < 1e-3, "{}", found.mean);
    }

    #[test]
    fn constants_are_seen() {
        let found = in_blocks(&[0.1; 77], 5);
        assert!(found.is_constant());
        assert_eq!((found.mean, found.sd), (0.1, 0.0));
    }

    #[test]
    fn ranges_beyond_squaring_are_infinite() {
        assert_eq!(in_blocks(&[1e200, -1e200, 4.0], 3).sd, f64::INFINITY);
        assert_eq!(in_blocks(&[f64::MAX, -f64::MAX, 4.0], 1).sd, f64::INFINITY);
    }

    #[test]
    fn indicators_have_the_moments_of_their_numbers() {
        for (ones, n) in [(0, 3), (1, 5), (4, 7), (7, 7)] {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i < ones)).collect();
            let ones = Tally::of_rows(usize::try_from(ones).unwrap());
            let (a, b) = (Spread::of_indicator(&ones, &Size::of_rows(values.len())), in_blocks(&values, 2));
            assert_eq!((a.mean, a.min, a.max), (b.mean, b.min, b.max));
            assert!((a.sd - b.sd).abs() < 1e-15 && (a.rms - b.rms).abs() < 1e-15);
        }
    }

    proptest! {
        /// The same bits for any blocks, and the plain two passes to a few units in the last place.
        #[test]
        fn blocks_do_not_show(
            values in prop::collection::vec(-1e3f64..1e6, 3..200),
            offset in prop::sample::select(vec![0.0, 1e7, -3e12]),
            size in 1usize..50,
        ) {
            let values: Vec<f64> = values.iter().map(|value| value + offset).collect();
            let (whole, cut) = (in_blocks(&values, values.len()), in_blocks(&values, size));
            prop_assert_eq!(whole, cut);
            let n = values.len() as f64;
            let mean = values.iter().map(|value| value - values[0]).sum::<f64>() / n + values[0];
            let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            prop_assert!((whole.sd - (square / (n - 1.0)).sqrt()).abs() <= 1e-9 * whole.sd);
        }

        /// Counts are rows that are repeated, and the unit of other weights does not matter; in blocks as in one.
        #[test]
        fn weights_are_repeated_rows(
            rows in prop::collection::vec((-1e3f64..1e6, 1usize..5), 3..100),
            offset in prop::sample::select(vec![0.0, 1e7, -3e12]),
            size in 1usize..50,
        ) {
            let values: Vec<f64> = rows.iter().map(|(value, _)| value + offset).collect();
            let weights: Vec<f64> = rows.iter().map(|&(_, times)| times as f64).collect();
            let repeated = rows.iter().flat_map(|&(value, times)| std::iter::repeat_n(value + offset, times));
            let repeated: Vec<f64> = repeated.collect();
            let weighted = |unit: f64, size: usize, are_counts: bool| {
                let weights: Vec<f64> = weights.iter().map(|weight| weight * unit).collect();
                let mut sums = Sums::of(&[], None);
                for (values, weights) in values.chunks(size).zip(weights.chunks(size)) {
                    sums.merge(&Sums::of(values, Some(weights)));
                }
                sums.moments(&Size::of_weights(&sums.rows, are_counts))
            };
            let close = |a: Spread, b: Spread| {
                [(a.mean, b.mean), (a.sd, b.sd), (a.rms, b.rms)].iter().all(|(a, b)| (a - b).abs() <= 1e-14 * a.abs())
            };
            prop_assert!(close(weighted(1.0, size, true), in_blocks(&repeated, 7)));
            prop_assert_eq!(weighted(1.0, size, true), weighted(1.0, values.len(), true));
            prop_assert!(close(weighted(0.3, size, false), weighted(1e6, 3, false)));
        }
    }
}
