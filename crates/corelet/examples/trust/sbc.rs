//! Simulation-based calibration (Talts et al. 2018): θ* ~ prior, data given θ*, ranks of θ* among the draws of the
//! coreset's posterior. They are uniform where that posterior is the right one.

use std::fmt::Write as _;
use std::sync::Arc;

use corelet::embed::Choice;
use corelet::linalg::dot;
use corelet::model::special::sigmoid;
use corelet::model::{Logistic, Model};
use corelet::posterior::SampleSettings;
use corelet::rows::Observations;
use corelet::trust::Grade;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use sparse_nnls::Method;

use super::common::Setting;

const ROWS: usize = 2000;
pub(crate) const DIM: usize = 4;
/// Draws that θ* is ranked among, so that there are 210 ranks in 21 bins of 10.
const RANKED: usize = 209;
const BINS: usize = 21;

/// Ranks of each parameter, and how often each grade was given.
pub(crate) struct Calibration {
    pub(crate) k: usize,
    /// DIM × replicates.
    pub(crate) ranks: Vec<Vec<usize>>,
    pub(crate) grades: [usize; 3],
}

/// Ranks over `replicates` data sets of 2000 rows, each with a coreset of k points.
pub(crate) fn run(k: usize, replicates: usize) -> Calibration {
    let each: Vec<(Vec<usize>, Grade)> =
        (0..replicates).into_par_iter().map(|at| replicate(k, at as u64)).collect();
    let ranks = (0..DIM).map(|j| each.iter().map(|(ranks, _)| ranks[j]).collect()).collect();
    let count = |grade| each.iter().filter(|(_, g)| *g == grade).count();
    Calibration { k, ranks, grades: [count(Grade::A), count(Grade::B), count(Grade::C)] }
}

fn replicate(k: usize, seed: u64) -> (Vec<usize>, Grade) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let theta: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(DIM).collect();
    let (mut features, mut target) = (Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let mut x: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(DIM - 1).collect();
        x.push(1.0);
        target.push(if rng.random::<f64>() < sigmoid(dot(&x, &theta)) { 1.0 } else { -1.0 });
        features.extend(x);
    }
    let observations = Observations::new(&features, DIM, target);
    let model: Arc<dyn Model> = Arc::new(Logistic::model(observations).unwrap());
    let setting = Setting::new("sbc", model, 1.0);
    let coreset = setting.coreset(Method::default(), k, Choice::Auto, seed);
    let settings = SampleSettings { warmup: 300, draws: RANKED, ..SampleSettings::default() };
    let chains = setting.coreset_chains(&coreset, &settings, seed);
    let grade = setting.verdict(&coreset, &chains).grade;
    // Every fourth draw of the pooled chains is as good as independent.
    let kept: Vec<Vec<f64>> =
        chains.theta().chunks_exact(DIM).step_by(4).take(RANKED).map(<[f64]>::to_vec).collect();
    let rank = |j: usize| kept.iter().filter(|draw| draw[j] < theta[j]).count();
    ((0..DIM).map(rank).collect(), grade)
}

impl Calibration {
    /// The χ² test of uniform ranks in 21 bins: its p value for each parameter.
    pub(crate) fn p_values(&self) -> Vec<f64> {
        self.ranks
            .iter()
            .map(|ranks| {
                let expected = ranks.len() as f64 / BINS as f64;
                let width = (RANKED + 1) / BINS;
                let mut counts = [0.0; BINS];
                ranks.iter().for_each(|rank| counts[rank / width] += 1.0);
                chi_squared_tail(counts.iter().map(|c: &f64| (c - expected).powi(2) / expected).sum())
            })
            .collect()
    }

    pub(crate) fn to_table(&self) -> String {
        let [a, b, c] = self.grades;
        let mut text =
            format!("k = {}, {} replicates, grades A {a}, B {b}, C {c}; χ² p:", self.k, self.ranks[0].len());
        self.p_values().iter().for_each(|p| write!(text, " {p:.3e}").unwrap());
        text
    }
}

/// P(χ² ≥ x) with BINS − 1 = 20 degrees of freedom: e^{−x/2} Σ_{i<10} (x/2)ⁱ/i!.
fn chi_squared_tail(x: f64) -> f64 {
    let half = 0.5 * x;
    let (mut term, mut sum) = (1.0, 0.0);
    for i in 1..=(BINS - 1) / 2 {
        sum += term;
        term *= half / i as f64;
    }
    (-half).exp() * sum
}
