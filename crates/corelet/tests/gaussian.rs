//! A Gaussian in place of all rows, for a model that is known by its gradients: certified where it should be, and not where a second
//! mode, a bend that no quadratic has, or a gradient that fails says otherwise.

#[path = "common/any_model.rs"]
mod any_model;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use any_model::{AnyModel, Begin, Gives, Model, normal_prior};
use corelet::coreset::RestChoice;
use corelet::engine::{Advice, Derivatives, Plan, Sample, TargetError, TargetFit, Units, fit};
use corelet::trust::{Grade, Reason};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

fn fitted(model: &dyn Model, rest: RestChoice, k: usize) -> Result<TargetFit, TargetError> {
    let plan =
        Plan { k, max_k: 2 * k, pilot: 500, max_rounds: 6, draws: None, seed: 3, advice: Advice::Heeded };
    let units = Units::of_rows(model.rows());
    fit(&target(model), units, plan, rest, None, &mut |_| ControlFlow::Continue(()))
}

/// By a Gaussian from these draws.
fn begun(model: &dyn Model, pilot: Sample) -> Result<TargetFit, TargetError> {
    let plan =
        Plan { k: 20, max_k: 20, pilot: 500, max_rounds: 10, draws: None, seed: 3, advice: Advice::Heeded };
    let units = Units::of_rows(model.rows());
    fit(&target(model), units, plan, RestChoice::Gaussian, Some(pilot), &mut |_| ControlFlow::Continue(()))
}

fn target(model: &dyn Model) -> AnyModel<'_> {
    AnyModel { model, begin: Begin::Apart, gives: Gives::Density, seed: 1 }
}

/// Counts in groups of unequal size: an intercept for each, and a slope.
struct Counts {
    x: Vec<f64>,
    group: Vec<usize>,
    y: Vec<f64>,
    groups: usize,
}

impl Counts {
    fn new(rows: usize, groups: usize, rate: f64) -> Self {
        let unit = |row: usize, salt: usize| {
            ((row * 2_654_435_761 + salt * 40_503) % 1_000_003) as f64 / 1_000_003.0
        };
        let x: Vec<f64> = (0..rows).map(|row| 2.0 * unit(row, 1) - 1.0).collect();
        let group: Vec<usize> =
            (0..rows).map(|row| ((unit(row, 2) * unit(row, 3)).sqrt() * groups as f64) as usize).collect();
        let count = |row: usize| {
            let mean = rate * (0.4 * x[row] + (group[row] % 5) as f64 / 5.0).exp();
            (mean + (unit(row, 4) - 0.5) * 2.0 * mean.sqrt()).round().max(0.0)
        };
        Self { y: (0..rows).map(count).collect(), x, group, groups }
    }
}

impl Model for Counts {
    fn rows(&self) -> usize {
        self.x.len()
    }

    fn dim(&self) -> usize {
        self.groups + 1
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(theta, 2.0, slope)
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let (x, group) = (self.x[row], self.group[row]);
        let eta = theta[0] * x + theta[group + 1];
        let left = self.y[row] - eta.exp();
        slope[0] += weight * left * x;
        slope[group + 1] += weight * left;
        self.y[row] * eta - eta.exp()
    }
}

/// Many rows for each parameter: no row is needed, and the draws are those of the posterior of all rows.
#[test]
fn many_rows_need_none_of_them() {
    let fit = fitted(&Counts::new(12_000, 30, 4.0), RestChoice::Auto, 60).unwrap();
    assert_eq!((fit.verdict.grade, fit.coreset.rows.len()), (Grade::A, 0), "{:?}", fit.verdict.reasons);
    let (names, rest) = fit.coreset.rest.as_ref().unwrap();
    assert_eq!((names.len(), rest.dim()), (31, 31));
    // An independent look: the gradient of all rows vanishes on average over the draws.
    let counts = Counts::new(12_000, 30, 4.0);
    let model = target(&counts);
    let some = fit.draws.thinned(200).draws;
    let (likelihood, prior) =
        (model.log_likelihood(&some.theta, None).unwrap(), model.log_prior(&some.theta).unwrap());
    for j in 0..31 {
        let score = |s: usize| likelihood.gradients[s * 31 + j] + prior.gradients[s * 31 + j];
        let mean = (0..200).map(score).sum::<f64>() / 200.0;
        let spread = ((0..200).map(|s| (score(s) - mean).powi(2)).sum::<f64>() / 200.0).sqrt();
        assert!(mean.abs() < 0.4 * spread, "coordinate {j}: {mean} of {spread}");
    }
}

/// Few events for each parameter: a Gaussian alone is off, and rows beside it bring V down by an order.
#[test]
fn rows_beside_it_have_what_is_not_gaussian() {
    let fit = fitted(&Counts::new(1500, 30, 0.7), RestChoice::Gaussian, 120).unwrap();
    let variances: Vec<f64> =
        fit.rounds.iter().filter(|round| round.points == 0).map(|round| round.variance).collect();
    let alone = variances.iter().copied().fold(f64::INFINITY, f64::min);
    let points = fit.coreset.rows.len();
    assert!(alone > 0.1 && points > 0, "V = {alone} alone, {points} rows");
    assert!(fit.verdict.divergence.variance < 0.2 * alone, "{} of {alone}", fit.verdict.divergence.variance);
    assert_eq!(fit.verdict.grade, Grade::A);
    assert!(fit.coreset.weights.iter().all(|weight| *weight > 0.0));
}

/// θ² is seen and its sign is not: the same Gaussian is a good one of either mode, and neither is the posterior.
struct Squared {
    rows: Vec<f64>,
    /// Whether all points to climb from are at 0 or above.
    one_sided: bool,
}

impl Model for Squared {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn dim(&self) -> usize {
        1
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(theta, 3.0, slope)
    }

    fn starts(&self, count: usize) -> Option<Vec<f64>> {
        self.one_sided.then(|| (0..count).map(|x| 0.3 * x as f64).collect())
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let left = self.rows[row] - theta[0] * theta[0];
        slope[0] += weight * 2.0 * left * theta[0];
        -0.5 * left * left
    }
}

#[test]
fn a_second_mode_is_no_a() {
    let rows: Vec<f64> = (0..2000).map(|row| 1.0 + ((row * 37 % 101) as f64 - 50.0) / 50.0).collect();
    // The mirror image of a start finds the mode that no start is near.
    for one_sided in [false, true] {
        let fit = fitted(&Squared { rows: rows.clone(), one_sided }, RestChoice::Gaussian, 20).unwrap();
        assert_eq!(fit.verdict.grade, Grade::C);
        assert!(fit.verdict.reasons.contains(&Reason::SecondMode), "{:?}", fit.verdict.reasons);
    }
}

/// A gradient that is not finite is an error that names the row.
struct Broken;

impl Model for Broken {
    fn rows(&self) -> usize {
        500
    }

    fn dim(&self) -> usize {
        2
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(theta, 1.0, slope)
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        slope[1] += if row == 311 { f64::NAN } else { -weight * theta[1] };
        -0.5 * theta[1] * theta[1]
    }
}

#[test]
fn a_gradient_that_is_not_finite_is_said() {
    let error = match fitted(&Broken, RestChoice::Gaussian, 20) {
        Ok(_) => panic!("a posterior"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("row 311") && error.contains("theta[1]"), "{error}");
}

/// Each row sees the sum of two coordinates, and not their difference; a third is seen by none.
struct Sum(Vec<f64>);

impl Model for Sum {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn dim(&self) -> usize {
        3
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(theta, 1.5, slope)
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let left = self.0[row] - theta[0] - theta[1];
        slope[..2].iter_mut().for_each(|slope| *slope += weight * left);
        -0.5 * left * left
    }
}

/// What the data do not determine has the prior's spread, and the number of such directions is said.
#[test]
fn undetermined_directions_are_left_to_the_prior() {
    let rows: Vec<f64> = (0..3000).map(|row| 2.0 + ((row * 37 % 101) as f64 - 50.0) / 30.0).collect();
    let mean = rows.iter().sum::<f64>() / 3000.0;
    let fit = fitted(&Sum(rows), RestChoice::Gaussian, 20).unwrap();
    assert_ne!(fit.verdict.grade, Grade::C, "{:?}", fit.verdict.reasons);
    let said = fit.coreset.summary.warnings().join(" ");
    assert!(said.contains("do not inform 1 direction"), "{said}");
    let moments = |of: &dyn Fn(&[f64]) -> f64| {
        let values: Vec<f64> = fit.draws.draws.theta.chunks_exact(3).map(of).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt())
    };
    let (sum, sum_sd) = moments(&|theta| theta[0] + theta[1]);
    let (_, difference_sd) = moments(&|theta| theta[0] - theta[1]);
    let (_, unseen_sd) = moments(&|theta| theta[2]);
    // The sum: precision n + 1/(2 s²), in closed form.
    let precision = 3000.0 + 1.0 / (2.0 * 1.5_f64.powi(2));
    assert!((sum - mean * 3000.0 / precision).abs() < 0.2 * precision.powf(-0.5), "{sum}");
    assert!((sum_sd * precision.sqrt() - 1.0).abs() < 0.1, "{sum_sd}");
    assert!((difference_sd / (1.5 * 2.0_f64.sqrt()) - 1.0).abs() < 0.1, "{difference_sd}");
    assert!((unseen_sd / 1.5 - 1.0).abs() < 0.1, "{unseen_sd}");
}

/// A gradient that is finite at the mode and not beside it: the Hessian is not finite.
struct Cliff;

impl Model for Cliff {
    fn rows(&self) -> usize {
        400
    }

    fn dim(&self) -> usize {
        2
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(theta, 1.0, slope)
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        slope[0] -= weight * theta[0];
        slope[1] += if row == 123 && theta[1] > 1e-9 { f64::NAN } else { -weight * theta[1] };
        -0.5 * (theta[0] * theta[0] + theta[1] * theta[1])
    }
}

#[test]
fn a_hessian_that_is_not_finite_is_said() {
    let error = match fitted(&Cliff, RestChoice::Gaussian, 20) {
        Ok(_) => panic!("a posterior"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("row 123") && error.contains("theta[1]"), "{error}");
}

/// Only the product of two coordinates is seen: the posterior lies along two arms of a hyperbola.
struct Product(Vec<f64>);

impl Model for Product {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn dim(&self) -> usize {
        2
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(theta, 3.0, slope)
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let left = self.0[row] - theta[0] * theta[1];
        slope[0] += weight * left * theta[1];
        slope[1] += weight * left * theta[0];
        -0.5 * left * left
    }
}

/// Far from Gaussian whatever is done: a C that says so after few rounds, and rows beside it are not tried.
#[test]
fn a_posterior_far_from_gaussian_is_a_c_that_says_so() {
    let rows = (0..5000).map(|row| 2.0 + ((row * 37 % 101) as f64 - 50.0) / 30.0).collect();
    let fit = fitted(&Product(rows), RestChoice::Gaussian, 20).unwrap();
    assert_eq!(fit.verdict.grade, Grade::C);
    assert!(fit.rounds.len() <= 3, "{:?}", fit.rounds.len());
    assert!(fit.notes.iter().any(|note| note.contains("far from quadratic")), "{:?}", fit.notes);
}

/// Means of coordinates, with their standard deviations.
fn moments(fit: &TargetFit) -> Vec<(f64, f64)> {
    let (draws, dim) = (&fit.draws.draws.theta, fit.draws.draws.dim);
    let count = fit.draws.len() as f64;
    let of = |j: usize| {
        let values = || draws.iter().skip(j).step_by(dim);
        let mean = values().sum::<f64>() / count;
        (mean, (values().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt())
    };
    (0..dim).map(of).collect()
}

/// Draws with these moments, but every mean off by so many standard deviations, up or down.
fn far_from(moments: &[(f64, f64)], off: f64) -> Sample {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut theta = Vec::new();
    for _ in 0..400 {
        for (j, (mean, sd)) in moments.iter().enumerate() {
            let z: f64 = StandardNormal.sample(&mut rng);
            let side = if j % 3 == 0 { -off } else { off };
            theta.push(mean + sd * (side + z));
        }
    }
    Sample::new(theta, moments.len(), 2, true, 0)
}

/// Draws to begin with that are 100 standard deviations off in every coordinate lead to the posterior that the search for the mode leads to.
#[test]
fn a_pilot_far_off_leads_to_the_same_place() {
    let counts = Counts::new(3000, 15, 4.0);
    let near = fitted(&counts, RestChoice::Gaussian, 60).unwrap();
    let pilot = far_from(&moments(&near), 100.0);
    let far = begun(&counts, pilot).unwrap();
    assert_eq!((near.verdict.grade, far.verdict.grade), (Grade::A, Grade::A), "{:?}", far.verdict.reasons);
    for (j, ((mean, sd), (own, _))) in moments(&near).into_iter().zip(moments(&far)).enumerate() {
        assert!((own - mean).abs() < 0.15 * sd, "coordinate {j}: {own} and {mean}, sd {sd}");
    }
}

/// −√(1 + r²) of each residual r: far away a slope and next to no curvature, so that a Newton step from a distance x leads to −x³. The prior,
/// wide and elsewhere, does not lead back.
struct Flat(Vec<f64>);

impl Model for Flat {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn dim(&self) -> usize {
        2
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(theta, 200.0, slope)
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let x = if row.is_multiple_of(2) { 1.0 } else { -1.0 };
        let left = theta[0] + x * theta[1] - self.0[row];
        let root = left.hypot(1.0);
        slope[0] -= weight * left / root;
        slope[1] -= weight * x * left / root;
        -root
    }
}

/// Steps that make the log posterior worse are shortened until they do not.
#[test]
fn a_step_that_goes_too_far_is_damped() {
    let rows: Vec<f64> = (0..600).map(|row| 150.0 + ((row * 37 % 101) as f64 - 50.0) / 30.0).collect();
    let near = fitted(&Flat(rows.clone()), RestChoice::Gaussian, 20).unwrap();
    let pilot = far_from(&moments(&near), 100.0);
    let far = begun(&Flat(rows), pilot).unwrap();
    assert_eq!((near.verdict.grade, far.verdict.grade), (Grade::A, Grade::A), "{:?}", far.verdict.reasons);
    for ((mean, sd), (own, _)) in moments(&near).into_iter().zip(moments(&far)) {
        assert!((own - mean).abs() < 0.15 * sd, "{own} and {mean}, sd {sd}");
    }
}

/// Groups that do not differ, under a centred prior: u₀ is the log of their spread, and the density rises without end as that vanishes. The
/// prior counts how often it is asked.
struct Alike(AtomicUsize);

impl Model for Alike {
    fn rows(&self) -> usize {
        600
    }

    fn dim(&self) -> usize {
        21
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let left = ((row * 37 % 101) as f64 - 50.0) / 30.0 - theta[1 + row % 20];
        slope[1 + row % 20] += weight * left;
        -0.5 * left * left
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (log_spread, precision) = (theta[0], (-2.0 * theta[0]).exp());
        let squares: f64 = theta[1..].iter().map(|x| x * x).sum();
        slope[0] += precision * squares - 20.0 + 1.0 - (2.0 * log_spread).exp();
        slope[1..].iter_mut().zip(&theta[1..]).for_each(|(slope, x)| *slope -= precision * x);
        -0.5 * precision * squares - 20.0 * log_spread + log_spread - 0.5 * (2.0 * log_spread).exp()
    }
}

/// Where the density has no top, chains begin where the likelihood has one, in coordinates of that place: they end, with a verdict.
#[test]
fn a_density_without_a_top_takes_no_endless_chains() {
    let model = Alike(AtomicUsize::new(0));
    let fit = fitted(&model, RestChoice::Gaussian, 20).unwrap();
    assert!(fit.verdict.divergence.variance < 1e-6, "{:?}", fit.verdict.divergence);
    let asked = model.0.load(Ordering::Relaxed);
    assert!(asked < 2_000_000, "{asked} gradients of the prior, {:?}", fit.verdict.reasons);
}

/// Rounds are numbered through, whatever scheme they are of, and groups beside the Gaussian are whole.
#[test]
fn rounds_are_numbered_through_and_groups_are_whole() {
    let counts = Counts::new(1500, 30, 0.7);
    let codes: Vec<usize> = (0..1500).map(|row| row / 5).collect();
    let plan =
        Plan { k: 60, max_k: 60, pilot: 500, max_rounds: 6, draws: None, seed: 3, advice: Advice::Told };
    let (mut heard, mut forecasts) = (Vec::new(), 0);
    let fit =
        fit(&target(&counts), Units::of_groups(&codes), plan, RestChoice::Gaussian, None, &mut |step| {
            heard.push(step.round);
            forecasts += usize::from(step.forecast.is_some());
            ControlFlow::Continue(())
        })
        .unwrap();
    let most = heard.iter().copied().max();
    assert_eq!(most, Some(fit.rounds.len()));
    assert_eq!(forecasts, 2, "of the Gaussian alone, and of rows beside it");
    let chosen: Vec<usize> = fit.coreset.units.iter().flat_map(|&unit| 5 * unit..5 * unit + 5).collect();
    assert!(!chosen.is_empty() && fit.coreset.units.len() <= 60);
    assert_eq!(fit.coreset.rows, chosen);
}
