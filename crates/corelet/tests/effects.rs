//! Models whose likelihood sees products of their parameters: one Gaussian in these effects stands for all rows, where one in the
//! parameters does not; and where nothing smaller stands for them, all rows are sampled.

use std::f64::consts::TAU;
use std::ops::ControlFlow;

use corelet::coreset::RestChoice;
use corelet::engine::{
    Advice, Derivatives, Effects, Length, Plan, Rows, Sample, Slopes, Target, TargetError, TargetFit, Units,
    Wanted, fit,
};
use corelet::posterior::Chains;
use corelet::trust::Grade;

/// y ~ Bernoulli(logit⁻¹(x₀·e^{u₀}u₁ + x₁u₂)): a coefficient that is a scale times a normal variable, and one that is itself.
struct Product {
    x: Vec<[f64; 2]>,
    y: Vec<f64>,
    /// Whether it says what its likelihood sees.
    says: bool,
}

fn noise(x: usize) -> f64 {
    (x as f64 * 0.618_033_988_75).fract()
}

fn log1p_exp(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

impl Product {
    fn new(rows: usize, says: bool) -> Self {
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
        Self { x, y, says }
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

    fn by_coordinates(&self, at: &[f64], rows: &[(usize, f64)]) -> Slopes {
        let effects: Vec<f64> = at.chunks_exact(3).flat_map(Self::seen).collect();
        let Slopes { values, gradients } = self.by_effects(&effects, rows);
        Slopes { values, gradients: back(at, &gradients) }
    }

    /// Draws of a density that is known on a grid, independent.
    fn draws_of(&self, rows: &[(usize, f64)], count: usize) -> Vec<f64> {
        let (points, masses) = self.grid(rows);
        let mut sums = Vec::with_capacity(masses.len());
        let mut sum = 0.0;
        masses.iter().for_each(|mass| {
            sum += mass;
            sums.push(sum);
        });
        let draw = |s: usize| {
            let at = sums.partition_point(|sum| *sum < noise(s * 31 + 17) * 0.999_999);
            let jitter = |j: usize, step: f64| step * (noise(s * 7 + j * 3 + 1) - 0.5);
            let point = points[at.min(points.len() - 1)];
            [point[0] + jitter(0, WIDE), point[1] + jitter(1, WIDE), point[2] + jitter(2, NARROW)]
        };
        (0..count).flat_map(draw).collect()
    }

    /// Points of the posterior of these rows and the mass at each.
    fn grid(&self, rows: &[(usize, f64)]) -> (Vec<[f64; 3]>, Vec<f64>) {
        let mut points = Vec::new();
        for i in -30..=30 {
            for j in -30..=42 {
                for k in -12..=12 {
                    points.push([WIDE * f64::from(i), WIDE * f64::from(j), -0.4 + NARROW * f64::from(k)]);
                }
            }
        }
        // The likelihood is a function of two numbers: a quadratic about its top would do, but it is computed as it is.
        let flat: Vec<f64> = points.iter().flatten().copied().collect();
        let prior = prior(&flat).values;
        let likelihood = self.by_coordinates(&flat, rows).values;
        let most = likelihood.iter().zip(&prior).map(|(a, b)| a + b).fold(f64::NEG_INFINITY, f64::max);
        let masses: Vec<f64> = likelihood.iter().zip(&prior).map(|(a, b)| (a + b - most).exp()).collect();
        let whole: f64 = masses.iter().sum();
        (points, masses.iter().map(|mass| mass / whole).collect())
    }
}

const WIDE: f64 = 0.1;
const NARROW: f64 = 0.1;

/// u ~ N(0, 0.7²), N(0, 1), N(0, 1).
fn prior(at: &[f64]) -> Slopes {
    const PRECISION: [f64; 3] = [1.0 / 0.49, 1.0, 1.0];
    let value = |u: &[f64]| -0.5 * u.iter().zip(PRECISION).map(|(x, p)| p * x * x).sum::<f64>();
    Slopes {
        values: at.chunks_exact(3).map(value).collect(),
        gradients: at.iter().enumerate().map(|(i, x)| -PRECISION[i % 3] * x).collect(),
    }
}

fn back(at: &[f64], slopes: &[f64]) -> Vec<f64> {
    let one = |(u, s): (&[f64], &[f64])| [u[0].exp() * u[1] * s[0], u[0].exp() * s[0], s[1]];
    at.chunks_exact(3).zip(slopes.chunks_exact(2)).flat_map(one).collect()
}

fn which(rows: Option<&[usize]>, model: &Product) -> Vec<(usize, f64)> {
    rows.map_or_else(|| model.all(), |rows| rows.iter().map(|&row| (row, 1.0)).collect())
}

impl Target for Product {
    type Place = Vec<f64>;

    fn rows(&self) -> usize {
        self.x.len()
    }

    fn final_steps(&self) -> usize {
        4000
    }

    fn sample(
        &self,
        rows: &[usize],
        weights: &[f64],
        _: Option<&Sample>,
        _: Wanted,
    ) -> Result<Sample, TargetError> {
        let given: Vec<(usize, f64)> = rows.iter().copied().zip(weights.iter().copied()).collect();
        Ok(Sample::new(self.draws_of(&given, 4000), 3, 4, true, 0))
    }

    fn place(&self, sample: &Sample) -> Result<Vec<f64>, TargetError> {
        Ok(sample.draws.theta.clone())
    }

    fn log_likelihoods(
        &self,
        place: &Vec<f64>,
        rows: &Rows,
        see: &mut (dyn FnMut(&[f64]) + Send),
    ) -> Result<(), TargetError> {
        let ids: Vec<usize> = match rows {
            Rows::Range(range) => range.clone().collect(),
            Rows::Some(ids) => ids.clone(),
        };
        let each = |u: &[f64]| -> Vec<f64> {
            let one = |&row: &usize| self.by_coordinates(u, &[(row, 1.0)]).values[0];
            ids.iter().map(one).collect()
        };
        see(&place.chunks_exact(3).flat_map(each).collect::<Vec<f64>>());
        Ok(())
    }

    fn derivatives(&self) -> Option<&dyn Derivatives> {
        Some(self)
    }
}

impl Derivatives for Product {
    fn dimension(&self) -> usize {
        3
    }

    fn names(&self) -> Result<Vec<String>, TargetError> {
        Ok(["log_scale", "z", "slope"].map(str::to_owned).to_vec())
    }

    fn starts(&self, count: usize) -> Result<Vec<f64>, TargetError> {
        Ok((0..3 * count).map(|x| if x < 3 { 0.1 } else { 2.0 * noise(x) - 1.0 }).collect())
    }

    fn unconstrained(&self, sample: &Sample) -> Result<Vec<f64>, TargetError> {
        Ok(sample.draws.theta.clone())
    }

    fn log_likelihood(&self, at: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
        Ok(self.by_coordinates(at, &which(rows, self)))
    }

    fn weighted(&self, at: &[f64], rows: &[usize], weights: &[f64]) -> Result<Slopes, TargetError> {
        let given: Vec<(usize, f64)> = rows.iter().copied().zip(weights.iter().copied()).collect();
        Ok(self.by_coordinates(at, &given))
    }

    fn log_prior(&self, at: &[f64]) -> Result<Slopes, TargetError> {
        Ok(prior(at))
    }

    fn constrained(&self, points: &[f64], chains: Option<&Chains>) -> Result<Sample, TargetError> {
        let count = chains.map_or(1, |chains| chains.chains.len());
        Ok(Sample::new(points.to_vec(), 3, count, true, chains.map_or(0, Chains::divergences)))
    }

    fn effects(&self) -> Option<&dyn Effects> {
        self.says.then_some(self)
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
        Ok(points.chunks_exact(3).flat_map(Self::seen).collect())
    }

    fn pull_back(&self, points: &[f64], slopes: &[f64]) -> Result<Vec<f64>, TargetError> {
        Ok(back(points, slopes))
    }

    fn log_likelihood(&self, effects: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
        Ok(self.by_effects(effects, &which(rows, self)))
    }
}

fn fitted(model: &Product, rest: RestChoice, k: usize) -> TargetFit {
    advised(model, rest, k, Advice::Silent)
}

fn advised(model: &Product, rest: RestChoice, k: usize, advice: Advice) -> TargetFit {
    let plan = Plan { k, max_k: k, pilot: 50, max_rounds: 6, draws: None, seed: 3, advice };
    let units = Units::of_rows(model.rows());
    match fit(model, units, plan, rest, None, &mut |_| ControlFlow::Continue(())) {
        Ok(found) => found,
        Err(error) => panic!("{error}"),
    }
}

/// Mean and standard deviation of one coordinate.
fn moments(lines: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let mean: f64 = lines.clone().map(|(x, w)| w * x).sum();
    (mean, lines.map(|(x, w)| w * (x - mean).powi(2)).sum::<f64>().sqrt())
}

#[test]
fn a_gaussian_in_the_effects_stands_for_rows_that_see_a_product() {
    let model = Product::new(1500, true);
    let found = fitted(&model, RestChoice::Gaussian, 1);
    assert_eq!(found.verdict.grade, Grade::A, "{:?}", found.verdict.reasons);
    assert!(found.verdict.divergence.variance < 0.02, "{:?}", found.verdict.divergence);
    let Some((names, rest)) = &found.coreset.rest else { panic!("no Gaussian") };
    assert_eq!((names.join(", ").as_str(), rest.dim()), ("coefficient, slope", 2));
    let (points, masses) = model.grid(&model.all());
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
    let found = fitted(&Product::new(1500, false), RestChoice::Gaussian, 1);
    assert_eq!(found.verdict.grade, Grade::C);
    assert!(found.verdict.divergence.variance > 1.0, "{:?}", found.verdict.divergence);
}

/// No single row stands for all, and a Gaussian in the parameters neither.
#[test]
fn all_rows_are_sampled_where_nothing_smaller_stands_for_them() {
    let model = Product::new(400, false);
    let found = fitted(&model, RestChoice::Auto, 1);
    assert_eq!(found.coreset.rows.len(), 400, "{:?}", found.notes);
    assert!(found.coreset.weights.iter().all(|weight| *weight == 1.0));
    assert_eq!(found.verdict.grade, Grade::A, "{:?}", found.verdict.reasons);
    assert!(found.notes.iter().any(|note| note.contains("all 400 rows were sampled")), "{:?}", found.notes);
}

/// Where the first Gaussian is far off, nothing more is tried.
#[test]
fn all_rows_are_sampled_at_once_where_the_log_likelihood_is_far_from_quadratic() {
    let found = advised(&Product::new(400, false), RestChoice::Auto, 1, Advice::Heeded);
    assert_eq!((found.coreset.rows.len(), found.rounds.len()), (400, 0), "{:?}", found.notes);
    assert_eq!(found.verdict.grade, Grade::A, "{:?}", found.verdict.reasons);
    assert!(found.notes.iter().any(|note| note.contains("far from quadratic")), "{:?}", found.notes);
}

/// Effects whose slopes are not those of the likelihood: the fit is not certified.
#[test]
fn wrong_effects_are_found() {
    struct Liar(Product);
    impl Effects for Liar {
        fn count(&self) -> usize {
            2
        }
        fn names(&self) -> Result<Vec<String>, TargetError> {
            Effects::names(&self.0)
        }
        // The scale is left out: η is not what the likelihood sees.
        fn at(&self, points: &[f64]) -> Result<Vec<f64>, TargetError> {
            Ok(points.chunks_exact(3).flat_map(|u| [u[1], u[2]]).collect())
        }
        fn pull_back(&self, points: &[f64], slopes: &[f64]) -> Result<Vec<f64>, TargetError> {
            let _ = points;
            Ok(slopes.chunks_exact(2).flat_map(|s| [0.0, s[0], s[1]]).collect())
        }
        fn log_likelihood(&self, effects: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
            Effects::log_likelihood(&self.0, effects, rows)
        }
    }
    impl Target for Liar {
        type Place = Vec<f64>;
        fn rows(&self) -> usize {
            self.0.rows()
        }
        fn sample(
            &self,
            _: &[usize],
            _: &[f64],
            _: Option<&Sample>,
            _: Wanted,
        ) -> Result<Sample, TargetError> {
            Err("rows are not sampled here".into())
        }
        fn place(&self, sample: &Sample) -> Result<Vec<f64>, TargetError> {
            self.0.place(sample)
        }
        fn log_likelihoods(
            &self,
            place: &Vec<f64>,
            rows: &Rows,
            see: &mut (dyn FnMut(&[f64]) + Send),
        ) -> Result<(), TargetError> {
            self.0.log_likelihoods(place, rows, see)
        }
        fn derivatives(&self) -> Option<&dyn Derivatives> {
            Some(self)
        }
    }
    impl Derivatives for Liar {
        fn dimension(&self) -> usize {
            3
        }
        fn names(&self) -> Result<Vec<String>, TargetError> {
            Derivatives::names(&self.0)
        }
        fn starts(&self, count: usize) -> Result<Vec<f64>, TargetError> {
            self.0.starts(count)
        }
        fn unconstrained(&self, sample: &Sample) -> Result<Vec<f64>, TargetError> {
            self.0.unconstrained(sample)
        }
        fn log_likelihood(&self, at: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
            Derivatives::log_likelihood(&self.0, at, rows)
        }
        fn weighted(&self, at: &[f64], rows: &[usize], weights: &[f64]) -> Result<Slopes, TargetError> {
            self.0.weighted(at, rows, weights)
        }
        fn log_prior(&self, at: &[f64]) -> Result<Slopes, TargetError> {
            self.0.log_prior(at)
        }
        fn constrained(&self, points: &[f64], chains: Option<&Chains>) -> Result<Sample, TargetError> {
            self.0.constrained(points, chains)
        }
        fn effects(&self) -> Option<&dyn Effects> {
            Some(self)
        }
        fn length(&self) -> Length {
            self.0.length()
        }
    }
    let liar = Liar(Product::new(1000, false));
    let plan =
        Plan { k: 1, max_k: 1, pilot: 50, max_rounds: 4, draws: None, seed: 3, advice: Advice::Silent };
    let found =
        fit(
            &liar,
            Units::of_rows(1000),
            plan,
            RestChoice::Gaussian,
            None,
            &mut |_| ControlFlow::Continue(()),
        );
    assert!(!matches!(&found, Ok(found) if found.verdict.grade != Grade::C));
}
