//! The log-likelihoods of many rows with several predictors, and their derivatives, in columns: a register of rows at a time.

use super::Inputs;
use crate::vector_math::{Rowwise, map_rows};

/// The predictors, targets and exposures of some rows, and the log-likelihood of each with its first two derivatives.
#[derive(Debug, Clone, Default)]
pub struct JointJets {
    inputs: Vec<Inputs>,
    /// ζ of each predictor with features, a number a row.
    pub zeta: Vec<Vec<f64>>,
    /// ζ of each predictor with a constant input, the same for all of these rows: what depends on it alone is computed once.
    pub constants: Vec<f64>,
    /// y.
    pub y: Vec<f64>,
    /// e.
    pub exposure: Vec<f64>,
    /// ℓ, where it is wanted.
    pub value: Vec<f64>,
    /// Whether it is: where not, a family may leave it out.
    pub(crate) values: bool,
    /// ∂ℓ/∂ζₐ of each predictor.
    pub gradient: Vec<Vec<f64>>,
    /// ∂²ℓ/∂ζₐ∂ζ_b of each pair a ≥ b, in the order (0, 0), (1, 0), (1, 1), (2, 0), ….
    pub hessian: Vec<Vec<f64>>,
}

/// Pairs a ≥ b of r predictors, in their order.
pub(crate) fn pairs(r: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..r).flat_map(|a| (0..=a).map(move |b| (a, b)))
}

impl JointJets {
    /// Of rows whose predictors have these inputs; as yet there are none.
    pub fn new(inputs: &[Inputs]) -> Self {
        let r = inputs.len();
        let features = inputs.iter().filter(|input| **input == Inputs::Features).count();
        JointJets {
            inputs: inputs.to_vec(),
            zeta: vec![Vec::new(); features],
            constants: vec![0.0; r - features],
            gradient: vec![Vec::new(); r],
            hessian: vec![Vec::new(); pairs(r).count()],
            values: true,
            ..JointJets::default()
        }
    }

    /// The same where ℓ is not wanted.
    #[must_use]
    pub fn without_values(self) -> Self {
        JointJets { values: false, ..self }
    }

    /// The same with room for the answers: predictors, targets and exposures have been set.
    pub fn asked(&mut self) -> &mut Self {
        let rows = self.y.len();
        let derivatives = self.gradient.iter_mut().chain(&mut self.hessian);
        derivatives.chain([&mut self.value]).for_each(|answer| answer.resize(rows, 0.0));
        self
    }

    /// Makes room for so many rows.
    pub(crate) fn reserve(&mut self, rows: usize) {
        let columns = self.zeta.iter_mut().chain([&mut self.y, &mut self.exposure]);
        columns.for_each(|column| column.reserve(rows));
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, zeta: &[f64], (y, exposure): (f64, f64)) {
        let (mut columns, mut constants) = (self.zeta.iter_mut(), self.constants.iter_mut());
        for (input, &zeta) in self.inputs.iter().zip(zeta) {
            match input {
                Inputs::Features => columns.by_ref().take(1).for_each(|column| column.push(zeta)),
                Inputs::Constant => constants.by_ref().take(1).for_each(|constant| *constant = zeta),
            }
        }
        self.y.push(y);
        self.exposure.push(exposure);
    }

    /// ζ of row `at`.
    pub(crate) fn predictors(&self, at: usize, zeta: &mut [f64]) {
        let (mut columns, mut constants) = (self.zeta.iter(), self.constants.iter());
        for (input, zeta) in self.inputs.iter().zip(zeta) {
            let found = match input {
                Inputs::Features => columns.next().and_then(|column| column.get(at)),
                Inputs::Constant => constants.next(),
            };
            *zeta = found.copied().unwrap_or(f64::NAN);
        }
    }

    /// Fills in the answers, row by row: `jet` gives ℓ of ζ and (y, e), and ∇ℓ and ∇²ℓ into the buffers it is handed.
    pub fn fill(&mut self, jet: impl Fn(&[f64], (f64, f64), &mut [f64], &mut [f64]) -> f64) {
        let r = self.inputs.len();
        let (mut zeta, mut gradient, mut hessian) = (vec![0.0; r], vec![0.0; r], vec![0.0; r * r]);
        for at in 0..self.y.len() {
            self.predictors(at, &mut zeta);
            self.value[at] = jet(&zeta, (self.y[at], self.exposure[at]), &mut gradient, &mut hessian);
            self.gradient.iter_mut().zip(&gradient).for_each(|(to, g)| to[at] = *g);
            self.hessian.iter_mut().zip(pairs(r)).for_each(|(to, (a, b))| to[at] = hessian[a * r + b]);
        }
    }

    /// Fills in the answers by a function of the predictors with features, y and e, several rows at a time: ℓ, then ∇ℓ, then the
    /// pairs of ∇²ℓ.
    pub fn map<R: Rowwise<M, N>, const M: usize, const N: usize>(&mut self, function: &R) {
        debug_assert!(self.zeta.len() + 2 == M && 1 + self.gradient.len() + self.hessian.len() == N);
        let mut from = self.zeta.iter().chain([&self.y, &self.exposure]);
        let mut to = [&mut self.value].into_iter().chain(&mut self.gradient).chain(&mut self.hessian);
        let from = std::array::from_fn(|_| from.next().map_or(&[][..], Vec::as_slice));
        let to = std::array::from_fn(|_| to.next().map_or(&mut [][..], Vec::as_mut_slice));
        map_rows(function, from, to);
    }
}
