//! Hessians by differences of gradients, several columns at a time where the model's structure allows.
//!
//! An intercept of one group meets no other's: their columns of the Hessian have no row in common, so that one pair of gradients, with
//! all of them moved at once, gives all of these columns (Curtis, Powell and Reid 1974). A few coordinates that meet everything would
//! forbid that; they get pairs of their own, and the others' rows there are known by symmetry.

use super::super::TargetError;
use super::derivatives::Slopes;

/// Of all pairs of coordinates, the share that may meet before columns are taken one by one.
const DENSE: f64 = 0.3;
/// How many sizes of the set of coordinates with pairs of their own are tried.
const TRIED: usize = 24;

/// Which columns of a symmetric matrix are found at once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    dim: usize,
    /// Coordinates that meet coordinate i, itself among them, ascending.
    meets: Vec<Vec<usize>>,
    /// Coordinates that are moved together. Those of the first `single` groups are alone.
    groups: Vec<Vec<usize>>,
    single: usize,
}

impl Pattern {
    /// Of a matrix in which every entry may be other than zero.
    pub(super) fn dense(dim: usize) -> Self {
        let groups = (0..dim).map(|i| vec![i]).collect();
        Self { dim, meets: vec![(0..dim).collect(); dim], groups, single: dim }
    }

    /// Of the entries of this matrix, row-major, that are not zero.
    pub(super) fn of(matrix: &[f64], dim: usize) -> Self {
        let entry = |i: usize, j: usize| i == j || matrix[i * dim + j] != 0.0 || matrix[j * dim + i] != 0.0;
        let meets: Vec<Vec<usize>> = (0..dim).map(|i| (0..dim).filter(|&j| entry(i, j)).collect()).collect();
        // Where a few busy coordinates fill the matrix, the others may still be moved together.
        let busy = meets.iter().filter(|own| own.len() as f64 > DENSE * dim as f64).count();
        if 2 * busy > dim {
            return Self::dense(dim);
        }
        let mut order: Vec<usize> = (0..dim).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(meets[i].len()), i));
        // Some sizes, and those at which what is left is less busy than what has pairs of its own.
        let step = dim.div_ceil(TRIED).max(1);
        let drops = (1..dim).filter(|&at| meets[order[at]].len() < meets[order[at - 1]].len());
        let sizes = (0..=8.min(dim)).chain((0..=dim).step_by(step)).chain(drops.take(TRIED));
        let coloured = sizes.map(|single| (colour(&meets, &order, single), single));
        let best = coloured.min_by_key(|(groups, single)| (groups.len(), *single));
        let (groups, single) = best.unwrap_or_default();
        Self { dim, meets, groups, single }
    }

    /// Pairs of gradients that one matrix takes.
    pub(super) fn pairs(&self) -> usize {
        self.groups.len()
    }

    /// The points at which gradients are wanted for the Hessian at `centre`, 2 a group: h_i away along the coordinates of each.
    pub(super) fn points(&self, centre: &[f64], steps: &[f64]) -> Vec<f64> {
        let mut points = Vec::with_capacity(2 * self.pairs() * self.dim);
        for group in &self.groups {
            for sign in [1.0, -1.0] {
                let begin = points.len();
                points.extend_from_slice(centre);
                group.iter().for_each(|&i| points[begin + i] += sign * steps[i]);
            }
        }
        points
    }

    /// The symmetric matrix of these gradients, row-major.
    pub(super) fn matrix(&self, gradients: &[f64], steps: &[f64]) -> Vec<f64> {
        let dim = self.dim;
        let mut matrix = vec![0.0; dim * dim];
        let mut is_single = vec![false; dim];
        self.groups[..self.single].iter().for_each(|group| is_single[group[0]] = true);
        for (at, group) in self.groups.iter().enumerate() {
            let (up, down) = (&gradients[2 * at * dim..][..dim], &gradients[(2 * at + 1) * dim..][..dim]);
            for &i in group {
                for &j in &self.meets[i] {
                    // Rows that meet everything are moved by every coordinate of the group: they are known by symmetry.
                    if at < self.single || !is_single[j] {
                        matrix[j * dim + i] = (up[j] - down[j]) / (2.0 * steps[i]);
                    }
                }
            }
        }
        for i in 0..dim {
            for j in 0..i {
                let (of_row, of_column) = (matrix[i * dim + j], matrix[j * dim + i]);
                let value = match (is_single[i], is_single[j]) {
                    (true, false) => of_column,
                    (false, true) => of_row,
                    _ => 0.5 * (of_row + of_column),
                };
                (matrix[i * dim + j], matrix[j * dim + i]) = (value, value);
            }
        }
        matrix
    }
}

/// The first `single` of these coordinates alone, the others in as few groups as greed finds, no two of a group meeting a third.
fn colour(meets: &[Vec<usize>], order: &[usize], single: usize) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = order[..single].iter().map(|&i| vec![i]).collect();
    let mut is_single = vec![false; meets.len()];
    order[..single].iter().for_each(|&i| is_single[i] = true);
    let mut colours = vec![usize::MAX; meets.len()];
    let mut taken: Vec<usize> = Vec::new();
    for (mark, &i) in order[single..].iter().enumerate() {
        for &j in meets[i].iter().filter(|&&j| !is_single[j]) {
            for &other in &meets[j] {
                if let Some(slot) = taken.get_mut(colours[other]) {
                    *slot = mark + 1;
                }
            }
        }
        let free = taken.iter().position(|&last| last != mark + 1).unwrap_or(taken.len());
        if free == taken.len() {
            taken.push(0);
            groups.push(Vec::new());
        }
        colours[i] = free;
        groups[single + free].push(i);
    }
    groups
}

/// The Hessian at a point by this pattern.
///
/// # Errors
/// Errors of the function.
pub(super) fn hessian(
    pattern: &Pattern,
    centre: &[f64],
    steps: &[f64],
    slopes: impl FnOnce(&[f64]) -> Result<Slopes, TargetError>,
) -> Result<Vec<f64>, TargetError> {
    let found = slopes(&pattern.points(centre, steps))?;
    Ok(pattern.matrix(&found.gradients, steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::multiply;

    /// A symmetric matrix with zeros where `meets` says so, as the gradient of ½xᵀMx.
    fn recovered(dim: usize, meets: impl Fn(usize, usize) -> bool) -> (usize, f64) {
        let entry = |i: usize, j: usize| 1.0 + ((i.min(j) * 31 + i.max(j) * 17) % 23) as f64;
        let matrix: Vec<f64> = (0..dim * dim)
            .map(|at| (at / dim, at % dim))
            .map(|(i, j)| if i == j || meets(i, j) || meets(j, i) { entry(i, j) } else { 0.0 })
            .collect();
        let pattern = Pattern::of(&matrix, dim);
        let steps: Vec<f64> = (0..dim).map(|i| 0.1 + 0.01 * i as f64).collect();
        let centre: Vec<f64> = (0..dim).map(|i| 0.3 * i as f64).collect();
        let slopes = |points: &[f64]| {
            let mut gradients = vec![0.0; points.len()];
            let lines = points.chunks_exact(dim).zip(gradients.chunks_exact_mut(dim));
            lines.for_each(|(x, out)| multiply(&matrix, x, out));
            Ok(Slopes { values: Vec::new(), gradients })
        };
        let found = hessian(&pattern, &centre, &steps, slopes).unwrap_or_default();
        let worst = found.iter().zip(&matrix).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        (pattern.pairs(), worst)
    }

    #[test]
    fn sparse_hessians_are_found_by_few_gradients() {
        // Intercepts of 60 groups beside three coefficients that meet everything.
        let (pairs, worst) = recovered(63, |i, j| i < 3 || j < 3);
        assert!(pairs == 4 && worst < 1e-9, "{pairs} {worst}");
        // Two crossed factors of 40 and 12: each level of one meets every level of the other.
        let (pairs, worst) = recovered(53, |i, j| i == 0 || (i <= 40 && j > 40));
        assert!(pairs == 14 && worst < 1e-9, "{pairs} {worst}");
        // A band, and a full matrix.
        let (pairs, worst) = recovered(50, |i, j| i.abs_diff(j) <= 1);
        assert!(pairs == 3 && worst < 1e-9, "{pairs} {worst}");
        let (pairs, worst) = recovered(20, |_, _| true);
        assert!(pairs == 20 && worst < 1e-9, "{pairs} {worst}");
    }
}
