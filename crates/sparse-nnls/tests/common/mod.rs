//! What the tests share: seeded random problems, with the zero columns and duplicates that real ones have.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test file uses its own part

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparse_nnls::{
    Dense, Dictionary, HardThresholding, LineSearch, Method, Settings, Solution, Solver, Weights,
};

/// A random matrix of n columns, one after the other.
#[derive(Debug, Clone)]
pub struct Matrix {
    pub entries: Vec<f64>,
    pub dim: usize,
}

impl Matrix {
    pub fn len(&self) -> usize {
        self.entries.len() / self.dim
    }

    pub fn column(&self, i: usize) -> &[f64] {
        &self.entries[i * self.dim..(i + 1) * self.dim]
    }

    pub fn dense(&self) -> Dense<f64> {
        Dense::new(self.entries.clone(), self.dim).unwrap()
    }

    pub fn sum(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.dim];
        for i in 0..self.len() {
            sum.iter_mut().zip(self.column(i)).for_each(|(s, x)| *s += x);
        }
        sum
    }

    /// ‖y − Φw‖, the plain way.
    pub fn residual(&self, y: &[f64], weights: &Weights) -> f64 {
        let mut r = y.to_vec();
        for (&id, &w) in weights.ids.iter().zip(&weights.values) {
            r.iter_mut().zip(self.column(id)).for_each(|(r, x)| *r -= w * x);
        }
        r.iter().map(|x| x * x).sum::<f64>().sqrt()
    }

    pub fn map_columns(&self, order: &[usize]) -> Self {
        Self { entries: order.iter().flat_map(|&i| self.column(i).to_vec()).collect(), dim: self.dim }
    }
}

/// A standard normal number.
pub fn normal(rng: &mut impl Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Gaussian columns around a common direction, of very different lengths, as log-likelihood vectors are.
pub fn random_matrix(seed: u64, n: usize, dim: usize) -> Matrix {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let common: Vec<f64> = (0..dim).map(|_| normal(&mut rng)).collect();
    let entries = (0..n)
        .flat_map(|_| {
            let length = (0.7 * normal(&mut rng)).exp();
            let lean = 0.5 * normal(&mut rng);
            common.iter().map(|c| length * (lean * c + normal(&mut rng))).collect::<Vec<_>>()
        })
        .collect();
    Matrix { entries, dim }
}

/// [`random_matrix`] with about one zero column and one duplicate in every eight.
pub fn awkward_matrix(seed: u64, n: usize, dim: usize) -> Matrix {
    let mut matrix = random_matrix(seed, n, dim);
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xabcd);
    for i in 0..n {
        match rng.random_range(0..8) {
            0 => matrix.entries[i * dim..(i + 1) * dim].fill(0.0),
            1 => {
                let twin = rng.random_range(0..n);
                let copy = matrix.column(twin).to_vec();
                matrix.entries[i * dim..(i + 1) * dim].copy_from_slice(&copy);
            }
            _ => {}
        }
    }
    matrix
}

/// Every method, and every form of the hard-thresholding ones.
pub fn all_methods() -> Vec<(String, Method)> {
    let mut methods: Vec<(String, Method)> =
        Method::all().into_iter().map(|method| (method.name().to_string(), method)).collect();
    let forms = [
        ("reference", HardThresholding { line_search: LineSearch::Reference, ..Default::default() }),
        ("backtracking", HardThresholding { line_search: LineSearch::Backtracking, ..Default::default() }),
        ("stochastic", HardThresholding { batch: 0.4, max_iterations: 60, ..Default::default() }),
    ];
    for (form, settings) in forms {
        for method in [Method::Iht(settings), Method::AIht(settings), Method::AIht2(settings)] {
            methods.push((format!("{} {form}", method.name()), method));
        }
    }
    methods
}

pub fn run(
    dictionary: &dyn Dictionary,
    target: Option<&[f64]>,
    method: &Method,
    settings: &Settings,
) -> Solution {
    let solver = Solver::new(dictionary, settings.clone());
    let solver = match target {
        Some(target) => solver.target(target),
        None => solver,
    };
    solver.run(method).unwrap()
}
