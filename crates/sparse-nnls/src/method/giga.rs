//! GIGA, greedy iterative geodesic ascent (Campbell & Broderick 2018, *Bayesian coreset construction via greedy
//! iterative geodesic ascent*).
//!
//! On the unit sphere: move from Φw/‖Φw‖ along the geodesic towards the column that points best at y/‖y‖, then give
//! the result the length that minimises the residual. One pass a step; the residual never grows. Zero columns,
//! which the public implementation refuses, are never chosen.

use crate::dictionary::{Oracle, Query, Ranking, Score};
use crate::driver::{Algorithm, Problem, Step, Weights};
use crate::error::Error;
use crate::kernel::{axpy, dot, norm};
use crate::method::combination::Combination;
use crate::status::Status;

/// Below this angle to y, the direction that remains is rounding.
const ANGLE_FLOOR: f64 = 1e-12;

pub(super) struct Giga {
    iterate: Combination,
    steps: usize,
}

impl Giga {
    pub(super) fn new(problem: &Problem) -> Self {
        Self { iterate: Combination::new(problem), steps: 0 }
    }
}

/// v / ‖v‖, or v = 0 as it is.
fn unit(v: &[f64]) -> Vec<f64> {
    let length = norm(v);
    v.iter().map(|x| if length > 0.0 { x / length } else { 0.0 }).collect()
}

impl Algorithm for Giga {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        let (goal, current) = (unit(&problem.target), unit(&self.iterate.image));
        let mut direction = goal.clone();
        axpy(-dot(&goal, &current), &current, &mut direction);
        if norm(&direction) < ANGLE_FLOOR {
            return Ok(Step::Finished(Status::NumericalFloor));
        }
        let direction = unit(&direction);
        let rankings = [Ranking { score: Score::Geodesic, count: 1 }];
        let query =
            Query { vectors: &[&direction, &current], rankings: &rankings, exclude: &[], batch: None };
        let mut answers = [Vec::new()];
        oracle.top(&query, &mut answers)?;
        let Some(best) = answers[0].first().copied() else { return Ok(Step::Finished(Status::Optimal)) };
        let mut column = vec![0.0; goal.len()];
        oracle.columns(&[best.id], &mut column)?;
        let length = norm(&column);
        let column = unit(&column);

        let (to_column, to_current, between) =
            (dot(&goal, &column), dot(&goal, &current), dot(&current, &column));
        let towards = to_column - to_current * between;
        let keep = to_current - to_column * between;
        if towards <= 0.0 || keep < 0.0 {
            return Ok(Step::Finished(Status::Optimal));
        }
        let now = norm(&self.iterate.image);
        let a = if now > 0.0 { keep / (towards + keep) / now } else { 0.0 };
        let b = towards / (towards + keep);
        let mut point: Vec<f64> = self.iterate.image.iter().map(|x| a * x).collect();
        axpy(b, &column, &mut point);
        let scale = dot(&point, &problem.target) / dot(&point, &point);
        self.iterate.update(problem, oracle, a * scale, best.id, b * scale / length)?;
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
