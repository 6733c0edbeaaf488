//! Cubature for E[f(z)], z ~ N(0, I) in r dimensions: products of Gauss rules where r is small, else a few points by symmetry.

use crate::quadrature::Rule;

/// Points and weights for E[f(z)], z ~ N(0, I) in r dimensions.
#[derive(Debug)]
pub struct Nodes {
    /// Their coordinates, point after point.
    pub points: Vec<f64>,
    /// One a point, of sum 1.
    pub weights: Vec<f64>,
}

impl Nodes {
    /// ±√r along each axis: exact for polynomials of degree 3, and so to fourth order in the width.
    fn cross(r: usize) -> Self {
        let (mut points, reach) = (Vec::new(), (r as f64).sqrt());
        (0..r).for_each(|axis| [reach, -reach].iter().for_each(|z| push(&mut points, r, &[(axis, *z)])));
        Nodes { points, weights: vec![0.5 / r as f64; 2 * r] }
    }

    /// The origin, ±√3 along each axis and (±√3, ±√3) in each plane, 2r² + 1 points: exact for polynomials of degree 5, and so to
    /// sixth order in the width.
    fn planes(r: usize) -> Self {
        let (reach, count) = (3f64.sqrt(), r as f64);
        let (mut points, mut weights) = (vec![0.0; r], vec![1.0 + count * (count - 7.0) / 18.0]);
        for axis in 0..r {
            [reach, -reach].iter().for_each(|z| push(&mut points, r, &[(axis, *z)]));
        }
        weights.resize(1 + 2 * r, (4.0 - count) / 18.0);
        for (first, second) in (0..r).flat_map(|a| (0..a).map(move |b| (a, b))) {
            for (y, z) in [(reach, reach), (reach, -reach), (-reach, reach), (-reach, -reach)] {
                push(&mut points, r, &[(first, y), (second, z)]);
            }
        }
        weights.resize(1 + 2 * r * r, 1.0 / 36.0);
        Nodes { points, weights }
    }

    /// The product of Gauss rules of so many nodes along each axis.
    fn product(counts: &[usize]) -> Self {
        let (mut points, mut weights) = (vec![Vec::new()], vec![1.0]);
        for &count in counts {
            let rule = Rule::gauss(count);
            let extended = |z: f64| points.iter().map(move |point: &Vec<f64>| [&point[..], &[z]].concat());
            points = rule.nodes.iter().flat_map(|(z, _)| extended(*z)).collect();
            weights =
                rule.nodes.iter().flat_map(|(_, w)| weights.iter().map(move |weight| w * weight)).collect();
        }
        Nodes { points: points.concat(), weights }
    }
}

/// Adds the point with these coordinates, and zeros elsewhere.
fn push(points: &mut Vec<f64>, r: usize, coordinates: &[(usize, f64)]) {
    let start = points.len();
    points.resize(start + r, 0.0);
    coordinates.iter().for_each(|&(axis, z)| points[start + axis] = z);
}

/// The nodes for rows of any width: a few where predictors hardly vary, and more along the axes along which they do.
///
/// Whatever the nodes, φᵢ is linear in ℓᵢ: weights that match Σφᵢ match the log-likelihood as the nodes see it.
#[derive(Debug)]
pub struct Ladder {
    predictors: usize,
    /// The cross; then the planes, or every product of rules.
    rungs: Vec<Nodes>,
}

/// Standard deviations of a predictor up to which two nodes along an axis, or the cross, are exact to about 10⁻⁵; three; and four.
const WIDTHS: [f64; 3] = [0.05, 0.15, 0.3];

/// Nodes along an axis that is narrow, wider, wider still, or wide.
const COUNTS: [usize; 4] = [2, 3, 4, 8];

/// Most predictors for products of rules.
const MOST_PREDICTORS: usize = 3;

impl Ladder {
    /// For r predictors.
    pub fn new(r: usize) -> Self {
        let mut rungs = vec![Nodes::cross(r)];
        if r <= MOST_PREDICTORS {
            let count =
                |code: usize, axis: usize| COUNTS[code / COUNTS.len().pow(axis as u32) % COUNTS.len()];
            let counts = |code| (0..r).map(|axis| count(code, axis)).collect::<Vec<usize>>();
            rungs.extend((0..COUNTS.len().pow(r as u32)).map(|code| Nodes::product(&counts(code))));
        } else {
            rungs.push(Nodes::planes(r));
        }
        Ladder { predictors: r, rungs }
    }

    /// Where a row stands whose predictor a varies by `factor`(a, b) along the axis b.
    pub fn rung(&self, factor: impl Fn(usize, usize) -> f64) -> usize {
        let r = self.predictors;
        let square = |a: usize| (0..r).map(|axis| factor(a, axis).powi(2)).sum::<f64>();
        if (0..r).all(|a| square(a) <= WIDTHS[0] * WIDTHS[0]) {
            return 0;
        }
        if r > MOST_PREDICTORS {
            return 1;
        }
        let width = |axis: usize| (0..r).map(|a| factor(a, axis).abs()).fold(0.0, f64::max);
        let code = |axis: usize| WIDTHS.iter().filter(|limit| width(axis) > **limit).count();
        1 + (0..r).map(|axis| code(axis) * COUNTS.len().pow(axis as u32)).sum::<usize>()
    }

    /// The nodes of a rung.
    pub fn of_rung(&self, rung: usize) -> &Nodes {
        &self.rungs[rung]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_moments_of_a_normal() {
        let rules = [
            (Nodes::cross(2), 3),
            (Nodes::cross(5), 3),
            (Nodes::planes(2), 5),
            (Nodes::planes(9), 5),
            (Nodes::product(&[4, 4]), 7),
            (Nodes::product(&[4, 8, 3]), 7),
        ];
        for (nodes, degree) in rules {
            let r = nodes.points.len() / nodes.weights.len();
            let moment = |p: i32, q: i32| {
                let term = |(z, w): (&[f64], &f64)| w * z[0].powi(p) * z[1].powi(q);
                nodes.points.chunks_exact(r).zip(&nodes.weights).map(term).sum::<f64>()
            };
            assert!((moment(0, 0) - 1.0).abs() < 1e-14 && (moment(2, 0) - 1.0).abs() < 1e-13);
            assert!(moment(1, 1).abs() < 1e-14 && moment(2, 1).abs() < 1e-14);
            if degree > 3 {
                assert!((moment(2, 2) - 1.0).abs() < 1e-13 && (moment(0, 4) - 3.0).abs() < 1e-13);
            }
        }
    }
}
