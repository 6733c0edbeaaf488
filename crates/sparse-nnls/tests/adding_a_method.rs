//! The worked example of `docs/adding-a-method.md`: the page shows the code of this file, and a test here holds it to that.

mod common;

use common::{awkward_matrix, random_matrix};
use sparse_nnls::{
    Algorithm, Error, Method, Oracle, Problem, Ranking, Score, Settings, Solver, Start, Status, Step, Weights,
};

/// Non-negative matching pursuit: each step adds the exact multiple of the best column.
struct MatchingPursuit {
    weights: Vec<(usize, f64)>,
    residual: Vec<f64>,
    steps_left: usize,
}

impl MatchingPursuit {
    fn new(problem: &Problem) -> Self {
        Self { weights: Vec::new(), residual: problem.target.clone(), steps_left: problem.k }
    }
}

impl Algorithm for MatchingPursuit {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        let mut best = Vec::new();
        let ranking = Ranking { score: Score::NormScaled, count: 1 };
        oracle.rank(&self.residual, ranking, &[], &mut best)?;
        let Some(best) = best.first().filter(|best| best.score > 0.0) else {
            return Ok(Step::Finished(Status::Optimal)); // no column makes an acute angle with the residual
        };
        let mut column = vec![0.0; problem.target.len()];
        oracle.columns(&[best.id], &mut column)?;
        let weight = dot(&column, &self.residual) / dot(&column, &column);
        self.residual.iter_mut().zip(&column).for_each(|(r, x)| *r -= weight * x);
        match self.weights.iter_mut().find(|entry| entry.0 == best.id) {
            Some(entry) => entry.1 += weight,
            None => self.weights.push((best.id, weight)),
        }
        self.steps_left -= 1;
        Ok(if self.steps_left == 0 { Step::Finished(Status::Completed) } else { Step::Continue })
    }

    fn progress(&self) -> (usize, f64) {
        (self.weights.len(), dot(&self.residual, &self.residual).sqrt())
    }

    fn weights(&self) -> Weights {
        Weights::from_pairs(self.weights.iter().copied())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn it_runs_as_the_others_do() {
    let matrix = random_matrix(1, 300, 20);
    let phi = matrix.dense();
    let solution = Solver::new(&phi, 15).run(&MatchingPursuit::new).unwrap();
    assert!(solution.weights.len() <= 15 && solution.residual < 0.3 * solution.target_norm);
    let recomputed = matrix.residual(&matrix.sum(), &solution.weights);
    assert!((solution.residual - recomputed).abs() < 1e-12 * solution.target_norm);
    let best = Solver::new(&phi, 15).run(&Method::default()).unwrap();
    assert!(best.residual < solution.residual);
}

/// Matching pursuit with a setting, and with a name for messages.
struct Brief {
    most_steps: usize,
}

impl Start for Brief {
    fn name(&self) -> &'static str {
        "brief-pursuit"
    }

    fn check(&self) -> Result<(), Error> {
        if self.most_steps > 0 {
            return Ok(());
        }
        Err(Error::Setting { name: "most_steps", value: 0.0, expected: "it must be at least 1" })
    }

    fn start(&self, problem: &Problem) -> Box<dyn Algorithm> {
        let steps_left = problem.k.min(self.most_steps);
        Box::new(MatchingPursuit { steps_left, ..MatchingPursuit::new(problem) })
    }
}

#[test]
fn settings_of_its_own_are_checked() {
    let phi = awkward_matrix(2, 50, 8).dense();
    let run = |settings, most_steps| Solver::new(&phi, settings).run(&Brief { most_steps });
    assert_eq!(run(Settings::from(4), 3).unwrap().iterations, 3);
    assert!(run(Settings::from(4), 0).unwrap_err().to_string().contains("most_steps = 0"));
    let total = Settings { total: Some(3.0), ..Settings::from(4) };
    assert!(run(total, 1).unwrap_err().to_string().contains("brief-pursuit cannot hold the total"));
}

#[test]
fn the_page_shows_this_code() {
    let (page, source) =
        (include_str!("../../../docs/adding-a-method.md"), include_str!("adding_a_method.rs"));
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        assert!(source.contains(block), "not in tests/adding_a_method.rs:\n{block}");
    }
}
