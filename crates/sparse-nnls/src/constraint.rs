//! Projections onto the sets that hard thresholding works in: k-sparse non-negative vectors, and the k-sparse simplex.

use std::cmp::Ordering;

/// The set an iterate must lie in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Constraint {
    /// {w : ‖w‖₀ ≤ k, w ≥ 0}.
    NonNegative {
        /// Largest number of non-zero entries.
        k: usize,
    },
    /// {w : ‖w‖₀ ≤ k, w ≥ 0, Σw = total}.
    Simplex {
        /// Largest number of non-zero entries.
        k: usize,
        /// L > 0.
        total: f64,
    },
}

impl Constraint {
    /// Replaces `values` by the nearest point of the set, ties going to the smaller index. `order` is scratch.
    ///
    /// Non-negative: the k largest positive entries stay (the paper, appendix B). Simplex: the k largest entries,
    /// projected onto the simplex {v ≥ 0, Σv = L}, stay; that greedy choice is exact (Kyrillidis, Becker, Cevher &
    /// Koch, *Sparse projections onto the simplex*, ICML 2013, Theorem 1).
    pub fn project(self, values: &mut [f64], order: &mut Vec<usize>) {
        let k = match self {
            Self::NonNegative { k } | Self::Simplex { k, .. } => k,
        };
        order.clear();
        order.extend(0..values.len());
        let descending = |a: &usize, b: &usize| match values[*b].total_cmp(&values[*a]) {
            Ordering::Equal => a.cmp(b),
            unequal => unequal,
        };
        if k < order.len() {
            order.select_nth_unstable_by(k, descending);
            for &i in &order[k..] {
                values[i] = 0.0;
            }
            order.truncate(k);
        }
        match self {
            Self::NonNegative { .. } => order.iter().for_each(|&i| values[i] = values[i].max(0.0)),
            Self::Simplex { total, .. } => {
                order.sort_unstable_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
                project_simplex(values, order, total);
            }
        }
    }

    /// Projects with the support held: entries may fall to zero, none may enter.
    pub fn project_on_support(self, values: &mut [f64], order: &mut Vec<usize>) {
        let k = values.len();
        match self {
            Self::NonNegative { .. } => Self::NonNegative { k }.project(values, order),
            Self::Simplex { total, .. } => Self::Simplex { k, total }.project(values, order),
        }
    }
}

/// Projects the entries listed in `descending` order of value onto {v ≥ 0, Σv = total}: subtract the one shift that
/// makes the positive parts add up (Duchi et al. 2008).
fn project_simplex(values: &mut [f64], descending: &[usize], total: f64) {
    let (mut sum, mut shift) = (0.0, 0.0);
    for (count, &i) in descending.iter().enumerate() {
        sum += values[i];
        let candidate = (sum - total) / (count + 1) as f64;
        if values[i] <= candidate {
            break;
        }
        shift = candidate;
    }
    for &i in descending {
        values[i] = (values[i] - shift).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f64>()
    }

    /// All supports of at most k of n entries, as bit masks.
    fn supports(n: usize, k: usize) -> impl Iterator<Item = u32> {
        (1_u32..1 << n).filter(move |mask| mask.count_ones() as usize <= k)
    }

    /// The nearest point of the simplex on one support, by trying every set of entries that may be positive.
    fn simplex_on(values: &[f64], mask: u32, total: f64) -> Vec<f64> {
        let n = values.len();
        let mut best = vec![f64::INFINITY; n];
        for positive in (1_u32..1 << n).filter(|p| p & !mask == 0) {
            let chosen: Vec<usize> = (0..n).filter(|i| positive >> i & 1 == 1).collect();
            let shift = (chosen.iter().map(|&i| values[i]).sum::<f64>() - total) / chosen.len() as f64;
            let mut point = vec![0.0; n];
            chosen.iter().for_each(|&i| point[i] = values[i] - shift);
            if point.iter().all(|&x| x >= -1e-12) && distance(&point, values) < distance(&best, values) {
                best = point;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn sparse_projection_is_nearest(values in prop::collection::vec(-5.0..5.0_f64, 1..8), k in 1..6_usize) {
            let mut projected = values.clone();
            Constraint::NonNegative { k }.project(&mut projected, &mut vec![]);
            prop_assert!(projected.iter().filter(|x| **x != 0.0).count() <= k);
            prop_assert!(projected.iter().all(|x| *x >= 0.0));
            let brute = supports(values.len(), k)
                .map(|mask| {
                    let point: Vec<f64> =
                        values.iter().enumerate().map(|(i, v)| if mask >> i & 1 == 1 { v.max(0.0) } else { 0.0 }).collect();
                    distance(&point, &values)
                })
                .fold(f64::INFINITY, f64::min);
            prop_assert!((distance(&projected, &values) - brute).abs() <= 1e-12);
        }

        #[test]
        fn simplex_projection_is_nearest(
            values in prop::collection::vec(-5.0..5.0_f64, 1..7),
            k in 1..5_usize,
            total in 0.1..8.0_f64,
        ) {
            let mut projected = values.clone();
            Constraint::Simplex { k, total }.project(&mut projected, &mut vec![]);
            prop_assert!(projected.iter().filter(|x| **x != 0.0).count() <= k);
            prop_assert!(projected.iter().all(|x| *x >= 0.0));
            prop_assert!((projected.iter().sum::<f64>() - total).abs() <= 1e-12 * total.max(1.0));
            let brute = supports(values.len(), k)
                .map(|mask| distance(&simplex_on(&values, mask, total), &values))
                .fold(f64::INFINITY, f64::min);
            prop_assert!((distance(&projected, &values) - brute).abs() <= 1e-10);
        }
    }
}
