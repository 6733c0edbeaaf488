//! Equal rows as one, with the sum of their weights.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{BLOCK, Observations};
use crate::scan::sums::Twofold;
use corelet_kernels::parallel;

/// Rows whose hashes are one task.
const PART: usize = 4096;

/// Rows of which no two are equal, each with the sum of the weights of all that are equal to it. Sums have twice the digits of a
/// weight, so that they do not show which parts of the rows were taken together first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Distinct {
    /// Without weights.
    rows: Observations,
    weights: Vec<Twofold>,
    /// The first occurrence of each among all rows.
    first: Vec<usize>,
}

impl Distinct {
    /// Of these rows, of which the first is row `first` of all.
    pub fn of(rows: &Observations, first: usize) -> Self {
        let (places, weights) = rows.collapse(|i| rows.weight(i).into());
        let rows = Observations { weights: None, ..rows.select(&places) };
        Self { rows, weights, first: places.into_iter().map(|place| first + place).collect() }
    }

    /// Adds those of later rows.
    pub fn append(&mut self, next: Self) {
        self.rows.append(&next.rows);
        self.weights.extend(next.weights);
        self.first.extend(next.first);
        let (places, weights) = self.rows.collapse(|i| self.weights[i]);
        if places.len() < self.rows.len() {
            self.rows = self.rows.select(&places);
            self.first = places.into_iter().map(|place| self.first[place]).collect();
            self.weights = weights;
        }
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes() + (size_of::<Twofold>() + size_of::<usize>()) as u64 * self.first.len() as u64
    }

    /// Number of distinct rows.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The rows with their weights, and the first occurrence of each.
    pub fn into_observations(self) -> (Observations, Vec<usize>) {
        let weights = self.weights.into_iter().map(Twofold::value).collect();
        (self.rows.with_weights(weights), self.first)
    }
}

impl Observations {
    /// The distinct rows, each with the sum of the weights of all rows equal to it, and its first occurrence; none if no two
    /// rows are equal.
    ///
    /// Σ fᵢℓᵢ(θ) is the same sum with equal terms taken together. What takes memory are the distinct rows.
    #[must_use]
    pub fn collapsed(&self) -> Option<(Self, Vec<usize>)> {
        let (first, weights) = self.collapse(|i| self.weight(i).into());
        (first.len() < self.len()).then(|| {
            let weights = weights.into_iter().map(Twofold::value).collect();
            (self.select(&first).with_weights(weights), first)
        })
    }

    /// The first occurrence of each distinct row, and the sum of these weights over the rows that are equal to it.
    fn collapse(&self, weight: impl Fn(usize) -> Twofold) -> (Vec<usize>, Vec<Twofold>) {
        let (mut first, mut weights): (Vec<usize>, Vec<Twofold>) = (Vec::new(), Vec::new());
        // By its hash, the last distinct row that has it; by distinct row, the one before.
        let (mut last, mut before): (HashMap<u64, usize>, Vec<Option<usize>>) = (HashMap::new(), Vec::new());
        for start in (0..self.len()).step_by(BLOCK) {
            let block = start..self.len().min(start + BLOCK);
            let of_part =
                |part: Range<usize>| part.map(|i| self.hash(start + i, false)).collect::<Vec<u64>>();
            let hashes = parallel::map(parallel::parts(block.len(), PART), of_part).concat();
            for (i, hash) in block.zip(hashes) {
                let known = last.get(&hash).copied();
                let mut candidates = std::iter::successors(known, |&at| before[at]);
                if let Some(at) = candidates.find(|&at| self.equal(first[at], i)) {
                    weights[at] = weights[at].plus(weight(i));
                    continue;
                }
                last.insert(hash, first.len());
                before.push(known);
                first.push(i);
                weights.push(weight(i));
            }
        }
        (first, weights)
    }

    /// Whether two rows have the same log-likelihood, their weights apart.
    fn equal(&self, i: usize, j: usize) -> bool {
        self.row(i) == self.row(j) && self.target(i) == self.target(j) && self.offset(i) == self.offset(j)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_taken_together() {
        let features = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, -0.0, 0.0, 0.0, -0.0, 1.0, 2.0];
        let target = vec![1.0, 1.0, 2.0, 1.0, 1.0, 1.0];
        let rows = Observations::new(&features, 2, target);
        let (distinct, first) = rows.collapsed().unwrap();
        assert_eq!(distinct.collapsed(), None);
        assert_eq!(first, [0, 2, 3]);
        assert_eq!(distinct.weights, Some(vec![3.0, 1.0, 2.0].into()));
        assert_eq!(distinct.target[..], [1.0, 2.0, 1.0]);
        assert_eq!(distinct.total_weight(), rows.total_weight());

        let weighted = rows.clone().with_weights(vec![0.5, 2.0, 1.0, 1.0, 1.0, 4.0]);
        assert_eq!(weighted.collapsed().unwrap().0.weights, Some(vec![6.5, 1.0, 2.0].into()));
        let apart = rows.clone().with_offset(vec![0.0, 0.1, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(apart.collapsed().unwrap().1, [0, 1, 2, 3]);
        let exposed = rows.with_exposure(vec![1.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
        assert_eq!(exposed.collapsed().unwrap().1, [0, 2, 3, 4]);
    }

    #[test]
    fn parts_collapse_to_what_all_rows_do() {
        let level = |i: usize| ((i * i) % 23) as f64;
        let features: Vec<f64> = (0..300).map(level).collect();
        let weights: Vec<f64> = (0..300).map(|i| 0.1 + (i as f64).sin().abs()).collect();
        let rows = Observations::new(&features, 1, vec![1.0; 300]).with_weights(weights);
        let expected = rows.collapsed().unwrap();
        for cuts in [vec![0, 300], vec![0, 1, 7, 7, 150, 300], vec![0, 299, 300]] {
            let mut all = Distinct::default();
            for cut in cuts.windows(2) {
                let part = rows.select(&(cut[0]..cut[1]).collect::<Vec<_>>());
                all.append(Distinct::of(&part, cut[0]));
            }
            assert_eq!((all.len(), all.is_empty()), (expected.1.len(), false));
            assert_eq!(all.into_observations(), expected, "{cuts:?}");
        }
    }

    #[test]
    fn many_rows_of_few_levels() {
        let n = 3 * BLOCK + 17;
        let level = |i: usize| (i * 7919) % 1000;
        let features: Vec<f64> = (0..n).map(|i| level(i) as f64).collect();
        let rows = Observations::new(&features, 1, vec![0.0; n]);
        let (distinct, first) = rows.collapsed().unwrap();
        assert_eq!(first, (0..1000).collect::<Vec<_>>());
        let counted = |at: usize| (0..n).filter(|&i| level(i) == level(at)).count() as f64;
        assert!((0..1000).step_by(37).all(|at| distinct.weight(at) == counted(at)));
        assert_eq!(distinct.total_weight(), n as f64);
    }
}
