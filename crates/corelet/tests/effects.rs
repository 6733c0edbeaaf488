//! Models whose likelihood sees products of their parameters: one Gaussian in these effects stands for all rows, where one in the
//! parameters does not; and where nothing smaller stands for them, all rows are sampled.

#[path = "common/any_model.rs"]
mod any_model;

use std::f64::consts::TAU;
use std::ops::ControlFlow;

use any_model::{AnyModel, Begin, Gives, Model, normal_prior};
use corelet::coreset::RestChoice;
use corelet::engine::{Advice, Effects, Length, Plan, Sample, Slopes, TargetError, TargetFit, Units, fit};
use corelet::trust::Grade;

/// y ~ Bernoulli(logit⁻¹(x₀·e^{u₀}u₁ + x₁u₂)): a coefficient that is a scale times a normal variable, and one that is itself.
struct Product {
    x: Vec<[f64; 2]>,
    y: Vec<f64>,
    says: Says,
    /// Prior standard deviation of u₀: of a wide one the posterior bends more.
    spread: f64,
    /// Of the final chains of its sampler, as it says.
    steps: usize,
    /// Seconds in which the user's tool can do without all rows.
    otherwise: f64,
}

/// What it says that its likelihood sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    Truth,
    /// The second parameter alone where it is its product with the scale.
    WithoutScale,
}

fn noise(x: usize) -> f64 {
    (x as f64 * 0.618_033_988_75).fract()
}

fn log1p_exp(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

impl Product {
    fn new(rows: usize, says: Says) -> Self {
        let normal = |i: usize, part: usize| {
            let (a, b) = (noise(7 * i + 2 * part + 1), noise(13 * i + 5 * part + 3));
            (-2.0 * (a.max(1e-9)).ln()).sqrt() * (TAU * b).cos()
        };
        let x: Vec<[f64; 2]> = (0..rows).map(|i| [normal(i, 0), normal(i, 1)]).collect();
        let chance = |row: &[f64; 2]| 1.0 / (1.0 + (-(0.9 * row[0] - 0.4 * row[1])).exp());
        let y = x
            .iter()
            .enumerate()
            .map(|(i, row)| f64::from(u8::from(noise(29 * i + 11) < chance(row))))
            .collect();
        Self { x, y, says, spread: 0.4, steps: 4000, otherwise: f64::INFINITY }
    }

    fn seen(u: &[f64]) -> [f64; 2] {
        [u[0].exp() * u[1], u[2]]
    }

    /// Of rows with weights, at coefficients.
    fn by_effects(&self, at: &[f64], rows: &[(usize, f64)]) -> Slopes {
        let (mut values, mut gradients) = (Vec::new(), Vec::new());
        for beta in at.chunks_exact(2) {
            let (mut value, mut gradient) = (0.0, [0.0; 2]);
            for &(row, weight) in rows {
                let (x, y) = (self.x[row], self.y[row]);
                let eta = x[0] * beta[0] + x[1] * beta[1];
                value += weight * (y * eta - log1p_exp(eta));
                let slope = weight * (y - 1.0 / (1.0 + (-eta).exp()));
                gradient.iter_mut().zip(x).for_each(|(g, x)| *g += slope * x);
            }
            values.push(value);
            gradients.extend(gradient);
        }
        Slopes { values, gradients }
    }

    fn all(&self) -> Vec<(usize, f64)> {
        (0..self.x.len()).map(|row| (row, 1.0)).collect()
    }

    /// Draws of a density that is known on a grid, independent.
    fn draws_of(&self, rows: &[(usize, f64)], count: usize) -> Vec<f64> {
        let grid = self.grid(rows);
        let mut sums = Vec::with_capacity(grid.masses.len());
        let mut sum = 0.0;
        grid.masses.iter().for_each(|mass| {
            sum += mass;
            sums.push(sum);
        });
        let draw = |s: usize| {
            let at = sums.partition_point(|sum| *sum < noise(s * 31 + 17) * 0.999_999);
            let jitter = |j: usize| noise(s * 7 + j * 3 + 1) - 0.5;
            let [scale, v, slope] = grid.cells[at.min(grid.cells.len() - 1)];
            unseen([scale + STEP * jitter(0), v + grid.step * jitter(1), slope + grid.step * jitter(2)])
        };
        (0..count).flat_map(draw).collect()
    }

    /// The posterior of these rows on a grid of the log scale and of the two numbers that rows see, about where these are likely: in u₁
    /// itself it is a ridge that is too thin for a grid.
    fn grid(&self, rows: &[(usize, f64)]) -> Grid {
        let total: f64 = rows.iter().map(|(_, weight)| weight).sum();
        let mut top = [0.0; 2];
        for _ in 0..200 {
            let slope = self.by_effects(&top, rows).gradients;
            top.iter_mut().zip(slope).for_each(|(x, s)| *x += 4.0 * (s - *x / 4.0) / (total + 1.0));
        }
        let step = 0.5 / total.sqrt();
        let seen: Vec<[f64; 2]> = (-HALF..=HALF)
            .flat_map(|i| (-HALF..=HALF).map(move |j| [step * f64::from(i), step * f64::from(j)]))
            .map(|[v, slope]| [top[0] + v, top[1] + slope])
            .collect();
        let likelihood = self.by_effects(&seen.concat(), rows).values;
        let mut cells = Vec::new();
        let mut density = Vec::new();
        for i in -50..=50 {
            let scale = STEP * f64::from(i);
            for (&[v, slope], value) in seen.iter().zip(&likelihood) {
                let cell = [scale, v, slope];
                // du₁ = e^{−u₀} dv.
                density.push(value + self.prior(&unseen(cell), &mut [0.0; 3]) - scale);
                cells.push(cell);
            }
        }
        let most = density.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let masses: Vec<f64> = density.iter().map(|x| (x - most).exp()).collect();
        let whole: f64 = masses.iter().sum();
        Grid { cells, masses: masses.iter().map(|mass| mass / whole).collect(), step }
    }
}

/// Cells of the log scale, of the coefficient and of the slope, with the mass of each.
struct Grid {
    cells: Vec<[f64; 3]>,
    masses: Vec<f64>,
    /// Distance of cells in the last two.
    step: f64,
}

/// Distance of cells in the log scale, and cells on either side of the likeliest numbers that rows see.
const STEP: f64 = 0.05;
const HALF: i32 = 20;

/// The parameters at which rows see these numbers.
fn unseen([scale, v, slope]: [f64; 3]) -> [f64; 3] {
    [scale, v * (-scale).exp(), slope]
}

impl Model for Product {
    fn rows(&self) -> usize {
        self.x.len()
    }

    fn dim(&self) -> usize {
        3
    }

    fn row(&self, row: usize, u: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let Slopes { values, gradients } = self.by_effects(&Self::seen(u), &[(row, 1.0)]);
        let back = [u[0].exp() * u[1] * gradients[0], u[0].exp() * gradients[0], gradients[1]];
        slope.iter_mut().zip(back).for_each(|(sum, x)| *sum += weight * x);
        values[0]
    }

    /// u ~ N(0, spread²), N(0, 1), N(0, 1).
    fn prior(&self, u: &[f64], slope: &mut [f64]) -> f64 {
        normal_prior(&u[..1], self.spread, &mut slope[..1]) + normal_prior(&u[1..], 1.0, &mut slope[1..])
    }

    fn sample(&self, rows: &[usize], weights: &[f64]) -> Option<Sample> {
        let given: Vec<(usize, f64)> = rows.iter().copied().zip(weights.iter().copied()).collect();
        Some(Sample::new(self.draws_of(&given, 4000), 3, 4, true, 0))
    }

    fn final_steps(&self) -> usize {
        self.steps
    }

    fn before_all_rows(&self, seconds: f64) -> Result<(), TargetError> {
        if self.otherwise < seconds { Err("there is a faster way".into()) } else { Ok(()) }
    }

    fn effects(&self) -> Option<&dyn Effects> {
        (self.says != Says::Nothing).then_some(self)
    }

    fn length(&self) -> Length {
        Length { chains: 4, warmup: 500, draws: 2000, target_accept: 0.9 }
    }
}

impl Effects for Product {
    fn count(&self) -> usize {
        2
    }

    fn names(&self) -> Result<Vec<String>, TargetError> {
        Ok(["coefficient", "slope"].map(str::to_owned).to_vec())
    }

    fn at(&self, points: &[f64]) -> Result<Vec<f64>, TargetError> {
        let at = |u: &[f64]| if self.says == Says::WithoutScale { [u[1], u[2]] } else { Self::seen(u) };
        Ok(points.chunks_exact(3).flat_map(at).collect())
    }

    fn pull_back(&self, points: &[f64], slopes: &[f64]) -> Result<Vec<f64>, TargetError> {
        let one = |(u, s): (&[f64], &[f64])| match self.says {
            Says::WithoutScale => [0.0, s[0], s[1]],
            _ => [u[0].exp() * u[1] * s[0], u[0].exp() * s[0], s[1]],
        };
        Ok(points.chunks_exact(3).zip(slopes.chunks_exact(2)).flat_map(one).collect())
    }

    fn log_likelihood(&self, effects: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
        let which = rows.map_or_else(|| self.all(), |rows| rows.iter().map(|&row| (row, 1.0)).collect());
        Ok(self.by_effects(effects, &which))
    }
}

fn fitted(model: &Product, rest: RestChoice, k: usize) -> Result<TargetFit, TargetError> {
    advised(model, rest, k, Advice::Silent)
}

fn advised(model: &Product, rest: RestChoice, k: usize, advice: Advice) -> Result<TargetFit, TargetError> {
    let plan = Plan { k, max_k: k, pilot: 50, max_rounds: 6, draws: None, seed: 3, advice };
    let units = Units::of_rows(model.rows());
    let target = AnyModel { model, begin: Begin::Apart, gives: Gives::Density, seed: 1 };
    fit(&target, units, plan, rest, None, &mut |_| ControlFlow::Continue(()))
}

/// Mean and standard deviation of one coordinate.
fn moments(lines: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let mean: f64 = lines.clone().map(|(x, w)| w * x).sum();
    (mean, lines.map(|(x, w)| w * (x - mean).powi(2)).sum::<f64>().sqrt())
}

#[test]
fn a_gaussian_in_the_effects_stands_for_rows_that_see_a_product() {
    let model = Product::new(1500, Says::Truth);
    let found = fitted(&model, RestChoice::Gaussian, 1).unwrap();
    assert_eq!(found.verdict.grade, Grade::A, "{:?}", found.verdict.reasons);
    assert!(found.verdict.divergence.variance < 0.02, "{:?}", found.verdict.divergence);
    let Some((names, rest)) = &found.coreset.rest else { panic!("no Gaussian") };
    assert_eq!((names.join(", ").as_str(), rest.dim()), ("coefficient, slope", 2));
    let Grid { cells, masses, .. } = model.grid(&model.all());
    let points: Vec<[f64; 3]> = cells.into_iter().map(unseen).collect();
    let theta = &found.draws.draws.theta;
    let share = 3.0 / theta.len() as f64;
    for j in 0..3 {
        let (mean, sd) = moments(points.iter().zip(&masses).map(|(u, w)| (u[j], *w)));
        let (ours, our_sd) = moments(theta.chunks_exact(3).map(|u| (u[j], share)));
        assert!((ours - mean).abs() < 0.12 * sd, "{j}: {ours} {mean} ± {sd}");
        assert!((our_sd / sd - 1.0).abs() < 0.12, "{j}: {our_sd} {sd}");
    }
}

/// The same model that does not say what its likelihood sees: as a function of its parameters the log-likelihood bends.
#[test]
fn a_gaussian_in_the_parameters_does_not() {
    let found = fitted(&Product::new(1500, Says::Nothing), RestChoice::Gaussian, 1).unwrap();
    assert_eq!(found.verdict.grade, Grade::C);
    assert!(found.verdict.divergence.variance > 0.3, "{:?}", found.verdict.divergence);
}

/// No single row stands for all, and a Gaussian in the parameters neither.
#[test]
fn all_rows_are_sampled_where_nothing_smaller_stands_for_them() {
    let model = Product::new(400, Says::Nothing);
    let found = fitted(&model, RestChoice::Auto, 1).unwrap();
    assert_eq!(found.coreset.rows.len(), 400, "{:?}", found.notes);
    assert!(found.coreset.weights.iter().all(|weight| *weight == 1.0));
    assert_eq!(found.verdict.grade, Grade::A, "{:?}", found.verdict.reasons);
    assert!(found.notes.iter().any(|note| note.contains("all 400 rows were sampled")), "{:?}", found.notes);
}

/// Where the first Gaussian is far off, nothing more is tried.
#[test]
fn all_rows_are_sampled_at_once_where_the_log_likelihood_is_far_from_quadratic() {
    let model = Product { spread: 0.7, ..Product::new(400, Says::Nothing) };
    let found = advised(&model, RestChoice::Auto, 1, Advice::Heeded).unwrap();
    assert_eq!((found.coreset.rows.len(), found.rounds.len()), (400, 0), "{:?}", found.notes);
    assert_eq!(found.verdict.grade, Grade::A, "{:?}", found.verdict.reasons);
    assert!(found.notes.iter().any(|note| note.contains("far from quadratic")), "{:?}", found.notes);
}

/// A tool that can do without all rows in fewer seconds is heard before they are sampled, at the first Gaussian and after the rounds; one
/// that takes longer is not.
#[test]
fn a_tool_that_knows_a_faster_way_takes_it() {
    let far = || Product { spread: 0.7, otherwise: 1e-3, ..Product::new(400, Says::Nothing) };
    let after = Product { spread: 0.4, ..far() };
    for (model, advice) in [(far(), Advice::Heeded), (after, Advice::Silent)] {
        let error = advised(&model, RestChoice::Auto, 1, advice).err().unwrap();
        assert_eq!(error.to_string(), "there is a faster way");
    }
    let slow = Product { otherwise: 1e9, ..far() };
    let found = advised(&slow, RestChoice::Auto, 1, Advice::Heeded).unwrap();
    assert_eq!(found.coreset.rows.len(), 400, "{:?}", found.notes);
}

/// All rows that would take hours are sampled only where somebody asks for them.
#[test]
fn hours_are_spent_where_they_are_asked_for() {
    let model = Product { steps: 1 << 40, ..Product::new(400, Says::Nothing) };
    let told = advised(&model, RestChoice::Auto, 1, Advice::Told).unwrap();
    assert_eq!((told.coreset.rows.len(), told.verdict.grade), (400, Grade::A), "{:?}", told.notes);
    let heeded = advised(&model, RestChoice::Auto, 1, Advice::Heeded).unwrap();
    assert!(heeded.coreset.rows.len() < 400, "{:?}", heeded.notes);
    assert!(heeded.notes.iter().any(|note| note.contains("force=True does that")), "{:?}", heeded.notes);
}

/// Two effects that rows see only in a sum: their difference is left to the prior, and that is said.
#[test]
fn effects_that_rows_do_not_tell_apart_are_left_to_the_prior() {
    let mut model = Product::new(1500, Says::Truth);
    model.x.iter_mut().for_each(|x| x[1] = 2.0 * x[0]);
    let fit = fitted(&model, RestChoice::Gaussian, 20).unwrap();
    let said = fit.coreset.summary.warnings().join(" ");
    assert!(said.contains("do not inform 1 direction"), "{said}");
    let (_, rest) = fit.coreset.rest.as_ref().unwrap();
    let curved = |a: f64, b: f64| {
        let [aa, ab, ba, bb] = rest.curvature[..] else { panic!("two effects") };
        a * a * aa + a * b * (ab + ba) + b * b * bb
    };
    assert!(curved(1.0, 2.0) < -100.0, "{:?}", rest.curvature);
    assert!(curved(2.0, -1.0).abs() < 1e-6, "{:?}", rest.curvature);
}

/// Effects without the scale, from which the log-likelihood does not follow.
#[test]
fn wrong_effects_are_refused() {
    let error = match fitted(&Product::new(1000, Says::WithoutScale), RestChoice::Gaussian, 1) {
        Ok(found) => panic!("{:?}", found.verdict),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("another log-likelihood than the model"), "{error}");
}
