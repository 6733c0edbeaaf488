//! Equal rows as one, with the sum of their weights.

use std::collections::HashMap;
use std::ops::Range;

use super::{BLOCK, Observations};
use crate::parallel;

/// Rows whose hashes are one task.
const PART: usize = 4096;

impl Observations {
    /// The distinct rows, each with the sum of the weights of all rows equal to it, and where each stands first; none where no two
    /// rows are equal.
    ///
    /// Σ fᵢℓᵢ(θ) is the same sum with equal terms taken together. What takes memory are the distinct rows.
    #[must_use]
    pub fn collapsed(&self) -> Option<(Self, Vec<usize>)> {
        let (mut first, mut weights): (Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new());
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
                    weights[at] += self.weight(i);
                    continue;
                }
                last.insert(hash, first.len());
                before.push(known);
                first.push(i);
                weights.push(self.weight(i));
            }
        }
        let distinct = first.len() < self.len();
        distinct.then(|| (Self { weights: Some(weights.into()), ..self.select(&first) }, first))
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
