//! The data of a model: a numeric matrix, its target and other numbers of each row, all finite and of equal lengths.

mod collapse;
mod held;
#[cfg(feature = "files")]
mod mapping;
mod marks;
mod moments;
mod reorder;
mod scale;
#[cfg(feature = "files")]
mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

pub use collapse::Distinct;
pub use held::{Growing, Held};
use marks::Marking;
pub use marks::Marks;
pub use moments::Moments;
pub use scale::TargetScale;
#[cfg(feature = "files")]
pub(crate) use scratch::ScratchFile;
use serde::{Deserialize, Serialize};

use corelet_kernels::linalg::dot_features;
use corelet_kernels::parallel;

/// Rows in a block, whose answers are merged in block order. The sum of a block does not depend on the rows before it, so that
/// a block may also be held and summed elsewhere.
pub const BLOCK: usize = 1 << 16;

/// n rows of `dim` features, row-major, with one target a row and possibly an exposure, a weight and an offset.
///
/// A row of weight fᵢ and offset oᵢ has the log-likelihood fᵢ·ℓ(xᵢᵀθ + oᵢ; yᵢ, eᵢ): as fᵢ equal rows would, whose predictor is
/// known to that part.
///
/// Features are standardised in f64 and kept in f32: a row takes 4·D bytes, and every sum over rows is f64. The
/// rounding moves a posterior by some 10⁻⁷ of its standard deviation.
///
/// The numbers are in memory, or in scratch files where they are more than was allowed: slices either way.
///
/// The coding of the target belongs to the model: ±1 for logistic, a count for Poisson, a number for linear
/// regression, empty for the mean of a Gaussian.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// n × dim features, row-major, an intercept included as a column of ones.
    pub features: Held<f32>,
    /// Number of features, D.
    pub dim: usize,
    /// The target of each row, or empty for a model without one.
    pub target: Held<f64>,
    /// The second number of each row's outcome: the exposure of a count (0 if nothing could be counted), the number of trials, whether
    /// an event was seen.
    pub exposure: Option<Held<f64>>,
    /// The factor of each row's log-likelihood (> 0).
    pub weights: Option<Held<f64>>,
    /// What is added to the (first) predictor of each row.
    pub offset: Option<Held<f64>>,
}

impl Observations {
    /// Rows of features in f64, which are rounded; nothing beside the target.
    pub fn new(features: &[f64], dim: usize, target: Vec<f64>) -> Self {
        let features = features.iter().map(|&x| x as f32).collect();
        Observations { features, dim, target: target.into(), ..Observations::default() }
    }

    /// The same with the exposure of each row.
    pub fn with_exposure(self, exposure: Vec<f64>) -> Self {
        Observations { exposure: Some(exposure.into()), ..self }
    }

    /// The same with the weight of each row.
    pub fn with_weights(self, weights: Vec<f64>) -> Self {
        Observations { weights: Some(weights.into()), ..self }
    }

    /// The same with the offset of each row.
    pub fn with_offset(self, offset: Vec<f64>) -> Self {
        Observations { offset: Some(offset.into()), ..self }
    }

    /// Number of rows, n.
    #[inline]
    pub fn len(&self) -> usize {
        self.features.len() / self.dim.max(1)
    }

    /// True if there is no row.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// The features of row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.features[i * self.dim..(i + 1) * self.dim]
    }

    /// The features of row `i`, in f64.
    pub fn wide_row(&self, i: usize) -> Vec<f64> {
        self.row(i).iter().copied().map(f64::from).collect()
    }

    /// The target (0 where the model has none) and the exposure (1 where there is none) of row `i`.
    #[inline]
    pub fn target(&self, i: usize) -> (f64, f64) {
        let target = self.target.get(i).copied().unwrap_or(0.0);
        (target, self.exposure.as_ref().map_or(1.0, |exposure| exposure[i]))
    }

    /// The weight of row `i`, 1 where there is none.
    #[inline]
    pub fn weight(&self, i: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[i])
    }

    /// Bytes that the rows take.
    pub fn bytes(&self) -> u64 {
        let columns =
            [Some(&self.target), self.exposure.as_ref(), self.weights.as_ref(), self.offset.as_ref()];
        let numbers: usize = columns.into_iter().flatten().map(|column| column.len()).sum();
        4 * self.features.len() as u64 + 8 * numbers as u64
    }

    /// Σfᵢ: n where rows have no weights.
    pub fn total_weight(&self) -> f64 {
        self.weights.as_ref().map_or(self.len() as f64, |weights| weights.iter().sum())
    }

    /// The offset of row `i`, 0 where there is none.
    #[inline]
    pub fn offset(&self, i: usize) -> f64 {
        self.offset.as_ref().map_or(0.0, |offset| offset[i])
    }

    /// xᵢᵀθ + oᵢ.
    #[inline]
    pub fn predictor(&self, i: usize, theta: &[f64]) -> f64 {
        dot_features(self.row(i), theta) + self.offset(i)
    }

    /// The rows `ids`, in that order.
    pub fn select(&self, ids: &[usize]) -> Self {
        let of = |values: &Held<f64>| ids.iter().filter_map(|&i| values.get(i).copied()).collect();
        Observations {
            features: ids.iter().flat_map(|&i| self.row(i)).copied().collect(),
            dim: self.dim,
            target: of(&self.target),
            exposure: self.exposure.as_ref().map(of),
            weights: self.weights.as_ref().map(of),
            offset: self.offset.as_ref().map(of),
        }
    }

    /// Sixteen hexadecimal digits that tell these rows, in this order, from others.
    ///
    /// Σᵢ mix(hash(rowᵢ) + i·odd) modulo 2⁶⁴: a sum, so that blocks may be taken in any order, of terms that know their place.
    pub fn fingerprint(&self) -> String {
        Self::fingerprint_of(self.fingerprint_sum(0), self.len())
    }

    /// The fingerprint of `len` rows whose parts have these sums, added modulo 2⁶⁴.
    pub fn fingerprint_of(sum: u64, len: usize) -> String {
        format!("{:016x}", mix(sum ^ len as u64))
    }

    /// The fingerprint of `len` rows and then these, from that of the former; none if it is not one.
    pub fn fingerprint_after(&self, fingerprint: &str, len: usize) -> Option<String> {
        let before = unmix(u64::from_str_radix(fingerprint, 16).ok()?) ^ len as u64;
        let sum = before.wrapping_add(self.fingerprint_sum(len));
        Some(Self::fingerprint_of(sum, len + self.len()))
    }

    /// The sum over these rows, of which the first is row `first` of all.
    pub fn fingerprint_sum(&self, first: usize) -> u64 {
        self.each_hash(first, |(): &mut (), _| ()).0
    }

    /// The fingerprint, and the rows by which these are known again, in one pass.
    pub fn identity(&self) -> (String, Marks) {
        let (sum, parts) = self.each_hash(0, |marking: &mut Marking, hash| marking.add(hash, 1));
        let marks = parts.into_iter().fold(Marking::default(), Marking::merge).finish();
        (Self::fingerprint_of(sum, self.len()), marks)
    }

    /// How many of these rows have each of these hashes; those that none has are not there.
    pub fn rows_with(&self, hashes: &BTreeSet<u64>) -> BTreeMap<u64, usize> {
        let of = |found: &mut BTreeMap<u64, usize>, hash: u64| {
            if hashes.contains(&hash) {
                *found.entry(hash).or_default() += 1;
            }
        };
        let mut all = BTreeMap::new();
        for (hash, rows) in self.each_hash(0, of).1.into_iter().flatten() {
            *all.entry(hash).or_default() += rows;
        }
        all
    }

    /// [`fingerprint_sum`](Self::fingerprint_sum), and what `visit` makes of the hashes of each block.
    fn each_hash<T: Default + Send>(
        &self,
        first: usize,
        visit: impl Fn(&mut T, u64) + Sync,
    ) -> (u64, Vec<T>) {
        // Several rows side by side, each of which waits for its own cells alone.
        const TOGETHER: usize = 8;
        let of_block = |Range { start, end }: Range<usize>| {
            let (mut sum, mut seen, mut at) = (0_u64, T::default(), start);
            let mut take = |i: usize, hash: u64| {
                let term = mix(hash.wrapping_add(((first + i) as u64).wrapping_mul(ODD)));
                sum = sum.wrapping_add(term);
                visit(&mut seen, hash);
            };
            while at + TOGETHER <= end {
                (at..).zip(self.hashes::<TOGETHER>(at, true)).for_each(|(i, hash)| take(i, hash));
                at += TOGETHER;
            }
            (at..end).for_each(|i| take(i, self.hash(i, true)));
            (sum, seen)
        };
        let parts = parallel::map(parallel::parts(self.len(), BLOCK), of_block);
        let sum = parts.iter().fold(0, |sum: u64, (part, _)| sum.wrapping_add(*part));
        (sum, parts.into_iter().map(|(_, seen)| seen).collect())
    }

    /// Of the numbers of row `i`, its weight left out where that does not matter; −0 is 0.
    fn hash(&self, i: usize, weighted: bool) -> u64 {
        let [hash] = self.hashes(i, weighted);
        hash
    }

    /// The same of rows `first` … `first + N − 1`.
    fn hashes<const N: usize>(&self, first: usize, weighted: bool) -> [u64; N] {
        let mut hashes = [0; N];
        let rows = &self.features[first * self.dim..(first + N) * self.dim];
        for j in 0..self.dim {
            for (at, hash) in hashes.iter_mut().enumerate() {
                *hash = mix(*hash ^ u64::from((rows[at * self.dim + j] + 0.0).to_bits()));
            }
        }
        for (at, hash) in hashes.iter_mut().enumerate() {
            let (target, exposure) = self.target(first + at);
            *hash = mix(mix(*hash ^ target.to_bits()) ^ exposure.to_bits());
        }
        let weights = self.weights.as_ref().filter(|_| weighted);
        for column in [weights, self.offset.as_ref()].into_iter().flatten() {
            let column = &column[first..first + N];
            hashes.iter_mut().zip(column).for_each(|(hash, x)| *hash = mix(*hash ^ x.to_bits()));
        }
        hashes
    }

    /// Appends the rows of `other`, which must have the same columns.
    pub fn append(&mut self, other: &Self) {
        self.dim = other.dim;
        self.features.extend_from_slice(&other.features);
        self.target.extend_from_slice(&other.target);
        let columns = [
            (&mut self.exposure, &other.exposure),
            (&mut self.weights, &other.weights),
            (&mut self.offset, &other.offset),
        ];
        for (mine, theirs) in columns {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().extend_from_slice(theirs);
            }
        }
    }
}

/// A scratch file that could not be made, written or mapped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: the scratch file: {reason}", folder.display())]
pub struct ScratchError {
    /// Path of the folder.
    pub folder: PathBuf,
    /// What is wrong, and how much is needed.
    pub reason: String,
}

/// The golden ratio, as an odd number of 64 bits.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64 bits in which every bit of the input moves about half of the output.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 32)).wrapping_mul(ODD);
    bits = (bits ^ (bits >> 29)).wrapping_mul(ODD);
    bits ^ (bits >> 32)
}

/// The number that [`mix`] makes this of.
fn unmix(mut bits: u64) -> u64 {
    // Newton's iteration for 1/ODD modulo 2⁶⁴ doubles the digits that are right, three at first.
    let inverse = (0..5).fold(ODD, |x, _| x.wrapping_mul(2_u64.wrapping_sub(ODD.wrapping_mul(x))));
    bits = (bits ^ (bits >> 32)).wrapping_mul(inverse);
    bits = (bits ^ (bits >> 29) ^ (bits >> 58)).wrapping_mul(inverse);
    bits ^ (bits >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_goes_on_with_further_rows() {
        for bits in [0, 1, 12_345, u64::MAX, 1 << 63] {
            assert_eq!(unmix(mix(bits)), bits);
        }
        let features: Vec<f64> = (0..30).map(|i| f64::from(i).sin()).collect();
        let all = Observations::new(&features, 3, (0..10).map(f64::from).collect());
        let (first, last) = (all.select(&[0, 1, 2, 3]), all.select(&[4, 5, 6, 7, 8, 9]));
        assert_eq!(last.fingerprint_after(&first.fingerprint(), 4), Some(all.fingerprint()));
        assert_ne!(first.fingerprint_after(&last.fingerprint(), 6), Some(all.fingerprint()));
        assert_eq!(last.fingerprint_after("none", 4), None);
    }

    #[test]
    fn a_fingerprint_knows_cells_targets_and_order() {
        let rows = |features: [f64; 4], target: [f64; 2]| Observations::new(&features, 2, target.to_vec());
        let one = rows([1.0, 2.0, 3.0, 4.0], [0.0, 1.0]);
        let others = [
            rows([3.0, 4.0, 1.0, 2.0], [1.0, 0.0]),
            rows([1.0, 2.0, 3.0, 5.0], [0.0, 1.0]),
            rows([1.0, 2.0, 3.0, 4.0], [1.0, 0.0]),
            one.clone().with_exposure(vec![1.0, 2.0]),
            one.clone().with_weights(vec![1.0, 2.0]),
            one.clone().with_offset(vec![1.0, 2.0]),
            one.select(&[0]),
        ];
        assert_eq!(one.fingerprint(), rows([1.0, 2.0, 3.0, 4.0], [0.0, 1.0]).fingerprint());
        // Side by side as one by one.
        let many: Vec<f64> = (0..60).map(|i| (0.7 * f64::from(i)).sin()).collect();
        let many = Observations::new(&many, 2, vec![0.5; 30]).with_weights(vec![1.5; 30]);
        let term = |i: usize| mix(many.hash(i, true).wrapping_add((i as u64).wrapping_mul(ODD)));
        assert_eq!(many.fingerprint_sum(0), (0..30).fold(0, |sum: u64, i| sum.wrapping_add(term(i))));
        for other in others {
            assert_ne!(one.fingerprint(), other.fingerprint());
        }
    }
}
