//! Frank–Wolfe over the polytope {w ≥ 0, Σ wᵢ‖φᵢ‖ = σ}, σ = Σ‖φᵢ‖ (Campbell & Broderick 2019, *Automated scalable
//! Bayesian inference via Hilbert coresets*).
//!
//! Each step moves towards the vertex σφ_f/‖φ_f‖ best aligned with the residual, by exact line search. One pass a
//! step; the residual never grows after the first vertex.

use crate::dictionary::{Oracle, Ranking, Score};
use crate::driver::{Algorithm, Problem, Step, Weights};
use crate::error::Error;
use crate::kernel::{dot, norm};
use crate::method::combination::Combination;
use crate::status::Status;

pub(super) struct FrankWolfe {
    iterate: Combination,
    steps: usize,
}

impl FrankWolfe {
    pub(super) fn new(problem: &Problem) -> Self {
        Self { iterate: Combination::new(problem), steps: 0 }
    }
}

impl Algorithm for FrankWolfe {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        let mut answer = Vec::new();
        let ranking = Ranking { score: Score::NormScaled, count: 1 };
        oracle.rank(&self.iterate.residual, ranking, &[], &mut answer)?;
        let Some(best) = answer.first() else { return Ok(Step::Finished(Status::Optimal)) };
        let mut column = vec![0.0; problem.target.len()];
        oracle.columns(&[best.id], &mut column)?;
        let reach = problem.norms_sum / norm(&column);
        if self.iterate.is_empty() {
            self.iterate.update(problem, oracle, 0.0, best.id, reach)?;
        } else {
            // d = vertex − Φw; the exact step is ⟨d, r⟩/‖d‖², within [0, 1].
            let direction: Vec<f64> =
                column.iter().zip(&self.iterate.image).map(|(x, z)| reach * x - z).collect();
            let (gain, length) = (dot(&direction, &self.iterate.residual), dot(&direction, &direction));
            if gain <= 0.0 || length == 0.0 {
                return Ok(Step::Finished(Status::Optimal));
            }
            let step = (gain / length).min(1.0);
            self.iterate.update(problem, oracle, 1.0 - step, best.id, reach * step)?;
        }
        self.steps += 1;
        Ok(if self.steps == problem.k { Step::Finished(Status::Completed) } else { Step::Continue })
    }

    fn progress(&self) -> (usize, f64) {
        self.iterate.progress()
    }

    fn weights(&self) -> Weights {
        self.iterate.weights()
    }
}
