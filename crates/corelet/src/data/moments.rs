//! Mean, spread and range of each feature.

use rayon::prelude::*;

use super::encode::{Cells, Feature};

/// What standardisation needs to know about one feature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moments {
    pub(super) mean: f64,
    /// Standard deviation, with n − 1.
    pub(super) sd: f64,
    /// Root mean square, about zero.
    pub(super) rms: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Moments {
    /// True where the values differ by no more than rounding.
    pub(super) fn is_constant(&self) -> bool {
        let size = self.min.abs().max(self.max.abs());
        self.max - self.min <= 4.0 * f64::EPSILON * size || self.sd == 0.0
    }
}

/// The moments of every feature over `rows`; each feature is summed in row order, whatever the threads.
pub(super) fn moments(features: &[Feature<'_>], rows: &[usize]) -> Vec<Moments> {
    features.par_iter().map(|feature| moments_of(feature.cells, rows)).collect()
}

fn moments_of(cells: Cells<'_>, rows: &[usize]) -> Moments {
    let n = rows.len() as f64;
    let mut sum = CompensatedSum::default();
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    cells.for_each(rows, |_, value| {
        sum.add(value);
        min = min.min(value);
        max = max.max(value);
    });
    // Rounding must not push the mean of a constant column off its value.
    let mean = (sum.total() / n).clamp(min.min(max), max.max(min));
    let mut squares = CompensatedSum::default();
    cells.for_each(rows, |_, value| squares.add((value - mean) * (value - mean)));
    let variance = squares.total() / (n - 1.0);
    Moments { mean, sd: variance.sqrt(), rms: (squares.total() / n + mean * mean).sqrt(), min, max }
}

/// A sum whose error does not grow with the number of terms (Kahan and Babuška, after Neumaier).
#[derive(Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, term: f64) {
        let next = self.sum + term;
        self.lost +=
            if self.sum.abs() >= term.abs() { (self.sum - next) + term } else { (term - next) + self.sum };
        self.sum = next;
    }

    fn total(&self) -> f64 {
        self.sum + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{Numbers, Strided};
    use super::*;

    fn numbers(values: &[f64]) -> Cells<'_> {
        Cells::Number(Numbers::Double(Strided::contiguous(values)))
    }

    #[test]
    fn moments_survive_a_large_offset() {
        let values: Vec<f64> = (0..1000).map(|i| 1e9 + f64::from(i % 2)).collect();
        let rows: Vec<usize> = (0..values.len()).collect();
        let found = moments_of(numbers(&values), &rows);
        assert_eq!(found.mean, 1e9 + 0.5);
        assert!((found.sd - (250.0f64 / 999.0).sqrt()).abs() < 1e-12);
        assert!(!found.is_constant());
    }

    #[test]
    fn constants_are_seen() {
        let values = vec![0.1; 77];
        let rows: Vec<usize> = (0..77).collect();
        let found = moments_of(numbers(&values), &rows);
        assert!(found.is_constant());
        assert_eq!((found.mean, found.sd), (0.1, 0.0));
    }
}
