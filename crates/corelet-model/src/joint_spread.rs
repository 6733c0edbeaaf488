//! Means over Gaussian predictors of rows that have several: the twin of `spread` for a joint family, by cubature.

use super::cubature::{Ladder, Nodes};
use super::joint_family::{Inputs, JointFamily, Layout};
use super::joint_jets::JointJets;
use corelet_kernels::linalg::dot;

/// A predictor of which less than this share is its own depends on those before it.
const DEPENDENT: f64 = 1e-12;

/// How predictors vary where θ ~ N(μ, LLᵀ), and the nodes for it.
pub(super) struct Around<'a> {
    /// L, row-major.
    factor: &'a [f64],
    nodes: Ladder,
    /// Predictors with a constant input first, so that at a node they are the same for every row.
    sequence: Vec<usize>,
}

impl<'a> Around<'a> {
    pub(super) fn new(layout: &Layout, factor: &'a [f64]) -> Self {
        let inputs = layout.inputs();
        let of = |input: Inputs| (0..inputs.len()).filter(move |&a| inputs[a] == input);
        let sequence = of(Inputs::Constant).chain(of(Inputs::Features)).collect();
        Self { factor, nodes: Ladder::new(inputs.len()), sequence }
    }

    /// Replaces ℓ, ∇ℓ and ∇²ℓ of the rows, whose ζ̂ are set, by their means over ζ̂ + Cz.
    pub(super) fn mean_jets(
        &self,
        family: &dyn JointFamily,
        layout: &Layout,
        features: &[f32],
        rows: &mut JointJets,
    ) {
        let (r, count) = (layout.predictors(), rows.y.len());
        let factors = self.factors(layout, features, count);
        rows.asked();
        let rungs: Vec<usize> =
            factors.iter().map(|factor| self.nodes.rung(|a, axis| factor[a * r + axis])).collect();
        let mut distinct = rungs.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for rung in distinct {
            let picked: Vec<usize> = (0..count).filter(|&i| rungs[i] == rung).collect();
            take(family, layout, self.nodes.of_rung(rung), rows, &factors, &picked);
        }
    }

    /// C of every row, r × r, with AᵢL = CO and the rows of O orthonormal.
    fn factors(&self, layout: &Layout, features: &[f32], count: usize) -> Vec<Vec<f64>> {
        let (r, dim) = (layout.predictors(), layout.dim());
        let width = features.len() / count.max(1);
        let mut directions = vec![vec![0.0; dim]; r];
        let constant = |out: &mut Vec<f64>, at: usize| {
            out.copy_from_slice(&self.factor[at * dim..(at + 1) * dim]);
        };
        let of_row = |i: usize| {
            for ((input, block), direction) in layout.blocks().zip(&mut directions) {
                match input {
                    Inputs::Constant => constant(direction, block.start),
                    Inputs::Features => {
                        direction.fill(0.0);
                        for (j, &x) in block.zip(&features[i * width..(i + 1) * width]) {
                            let (x, line) = (f64::from(x), &self.factor[j * dim..][..=j]);
                            direction.iter_mut().zip(line).for_each(|(sum, l)| *sum += x * l);
                        }
                    }
                }
            }
            self.triangle(&directions)
        };
        (0..count).map(of_row).collect()
    }

    /// The Cholesky factor of the covariances of the predictors, which are found in their sequence.
    fn triangle(&self, directions: &[Vec<f64>]) -> Vec<f64> {
        let r = directions.len();
        let mut factor = vec![0.0; r * r];
        for (axis, &a) in self.sequence.iter().enumerate() {
            for (before, &b) in self.sequence[..axis].iter().enumerate() {
                let own = factor[b * r + before];
                if own > 0.0 {
                    let shared = dot(&factor[a * r..][..before], &factor[b * r..][..before]);
                    factor[a * r + before] = (dot(&directions[a], &directions[b]) - shared) / own;
                }
            }
            let whole = dot(&directions[a], &directions[a]);
            let rest = whole - dot(&factor[a * r..][..axis], &factor[a * r..][..axis]);
            factor[a * r + axis] = if rest > DEPENDENT * whole { rest.sqrt() } else { 0.0 };
        }
        factor
    }
}

/// The means of the rows that were picked, by one rule.
fn take(
    family: &dyn JointFamily,
    layout: &Layout,
    nodes: &Nodes,
    rows: &mut JointJets,
    factors: &[Vec<f64>],
    picked: &[usize],
) {
    let inputs = layout.inputs();
    let r = inputs.len();
    let mut asked = JointJets::new(inputs);
    let gather = |from: &[f64]| picked.iter().map(|&i| from[i]).collect::<Vec<f64>>();
    (asked.y, asked.exposure) = (gather(&rows.y), gather(&rows.exposure));
    let answers = 1 + rows.gradient.len() + rows.hessian.len();
    let mut sums = vec![vec![0.0; picked.len()]; answers];
    for (z, &weight) in nodes.points.chunks_exact(r).zip(&nodes.weights) {
        let (mut zetas, mut constants) =
            (asked.zeta.iter_mut().zip(&rows.zeta), asked.constants.iter_mut().zip(&rows.constants));
        for (a, input) in inputs.iter().enumerate() {
            let step = |i: usize| dot(&factors[i][a * r..(a + 1) * r], z);
            match input {
                Inputs::Features => zetas.by_ref().take(1).for_each(|(zeta, centre)| {
                    zeta.clear();
                    zeta.extend(picked.iter().map(|&i| centre[i] + step(i)));
                }),
                Inputs::Constant => {
                    constants.by_ref().take(1).for_each(|(zeta, centre)| *zeta = centre + step(picked[0]));
                }
            }
        }
        family.jets(asked.asked());
        let derivatives = [&asked.value].into_iter().chain(&asked.gradient).chain(&asked.hessian);
        for (sum, column) in sums.iter_mut().zip(derivatives) {
            sum.iter_mut().zip(column).for_each(|(sum, x)| *sum += weight * x);
        }
    }
    let answers = [&mut rows.value].into_iter().chain(&mut rows.gradient).chain(&mut rows.hessian);
    for (answer, sum) in answers.zip(sums) {
        picked.iter().zip(sum).for_each(|(&i, sum)| answer[i] = sum);
    }
}
