//! Cubature for E[f(z)], z ~ N(0, I) in r dimensions: products of Gauss rules where r is small, else a few points by symmetry.

use super::quadrature::Rule;

/// Points and weights for E[f(z)], z ~ N(0, I) in r dimensions.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) points: Vec<f64>,
    pub(super) weights: Vec<f64>,
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

    /// The product of r Gauss rules of so many nodes.
    fn product(r: usize, count: usize) -> Self {
        let rule = Rule::gauss(count);
        let places = count.pow(r as u32);
        let node = |at: usize, axis: usize| rule.nodes[at / count.pow(axis as u32) % count];
        Nodes {
            points: (0..places)
                .flat_map(|at| (0..r).map(move |axis| (at, axis)))
                .map(|(at, axis)| node(at, axis).0)
                .collect(),
            weights: (0..places).map(|at| (0..r).map(|axis| node(at, axis).1).product()).collect(),
        }
    }
}

/// Adds the point with these coordinates, and zeros elsewhere.
fn push(points: &mut Vec<f64>, r: usize, coordinates: &[(usize, f64)]) {
    let start = points.len();
    points.resize(start + r, 0.0);
    coordinates.iter().for_each(|&(axis, z)| points[start + axis] = z);
}

/// The nodes for rows of any width: a few where predictors hardly vary.
///
/// Whatever the nodes, φᵢ is linear in ℓᵢ: weights that match Σφᵢ match the log-likelihood as the nodes see it.
#[derive(Debug)]
pub(super) struct Ladder {
    narrow: Nodes,
    /// For widths above [`NARROW`].
    middle: Nodes,
    /// For widths above [`WIDE`]; none where there are too many predictors for products.
    wide: Option<Nodes>,
}

/// Standard deviation of a predictor up to which the cross is exact to about 10⁻⁵.
const NARROW: f64 = 0.05;

/// That up to which four nodes a predictor are.
const WIDE: f64 = 0.3;

/// Most predictors for products of rules.
const MOST_PREDICTORS: usize = 3;

impl Ladder {
    pub(super) fn new(r: usize) -> Self {
        let products = r <= MOST_PREDICTORS;
        let middle = if products { Nodes::product(r, 4) } else { Nodes::planes(r) };
        Ladder { narrow: Nodes::cross(r), middle, wide: products.then(|| Nodes::product(r, 8)) }
    }

    pub(super) fn of_width(&self, width: f64) -> &Nodes {
        match &self.wide {
            Some(wide) if width > WIDE => wide,
            _ if width > NARROW => &self.middle,
            _ => &self.narrow,
        }
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
            (Nodes::product(2, 4), 7),
            (Nodes::product(3, 4), 7),
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
