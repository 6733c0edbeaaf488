//! The iterates of A-IHT beside the bounds of Theorem 1 and Corollary 1.

use corelet::linalg::dot;
use sparse_nnls::{Dictionary, Error, HardThresholding, Method, Settings, Solver, Weights};

use super::isometry::{Contraction, all_columns};
use super::length;

/// Where ‖y − Φw*‖ is below this share of ‖y‖ there is no noise but rounding.
const NOISELESS: f64 = 1e-12;

/// One iterate of A-IHT beside what the theory says about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TracePoint {
    /// t.
    pub(crate) iteration: usize,
    /// wₜ.
    pub(crate) weights: Weights,
    /// ‖wₜ − w*‖.
    pub(crate) distance: f64,
    /// f(wₜ) = ‖y − Φwₜ‖².
    pub(crate) objective: f64,
    /// τₜ, by which wₜ is extrapolated; 0 at t = 0.
    pub(crate) tau: f64,
    /// Theorem 1's bound on the distance, from the two iterates before; none at t = 0.
    pub(crate) invariant: Option<f64>,
    /// The bound on the distance in the proof of Corollary 1, φᵗ⁻¹(‖w₁ − w*‖ + (ρτ/φ)‖w₀ − w*‖) with τ the largest so
    /// far; none at t = 0, and none if there is noise.
    pub(crate) distance_bound: Option<f64>,
    /// Corollary 1's bound on the objective, φᵗ⁻¹(f(w₁)β₂ₖ/α₂ₖ + f(w₀)·ρτβ₂ₖ/(φαₖ)); none if there is no bound on the
    /// distance.
    pub(crate) objective_bound: Option<f64>,
}

/// The iterates w₀ = 0, w₁, … of A-IHT with exact steps on min ‖y − Φw‖², w ≥ 0, ‖w‖₀ ≤ k, beside the bounds on their way to
/// `optimum`: at most `iterations` of them, fewer where two are equal.
///
/// Each comes from a run of its own that is stopped after t iterations, so that it is the method itself that is traced.
///
/// # Errors
/// Errors of the solver, and [`Error::BadColumn`] where the optimum names a column that is not there.
pub(crate) fn trace(
    dictionary: &dyn Dictionary,
    target: &[f64],
    optimum: &Weights,
    contraction: &Contraction,
    iterations: usize,
) -> anyhow::Result<Vec<TracePoint>> {
    let tracer = Tracer::new(dictionary, target, optimum)?;
    let mut points = vec![tracer.start()];
    let mut largest = 0.0_f64;
    for t in 1..=iterations {
        let Some(weights) = iterate(dictionary, target, contraction.k, t)? else { break };
        let [before, now] = [points.len().saturating_sub(2), points.len() - 1].map(|at| &points[at]);
        let invariant = contraction.invariant(now.tau, now.distance, before.distance, tracer.epsilon);
        largest = largest.max(now.tau.abs());
        let mut point = tracer.point(t, weights, Some(&now.weights));
        point.invariant = Some(invariant);
        if tracer.epsilon <= NOISELESS * length(target) {
            let (start, first) = (&points[0], points.get(1).unwrap_or(&point));
            let (distance, objective) = linear_bounds(contraction, largest, t, start, first);
            (point.distance_bound, point.objective_bound) = (Some(distance), Some(objective));
        }
        points.push(point);
    }
    Ok(points)
}

/// Corollary 1 at iteration t ≥ 1, from w₀ and w₁.
fn linear_bounds(
    contraction: &Contraction,
    tau: f64,
    t: usize,
    start: &TracePoint,
    first: &TracePoint,
) -> (f64, f64) {
    let [one, two, ..] = contraction.isometry;
    let decay = contraction.rate(tau).powi(t as i32 - 1);
    let memory = contraction.memory(tau);
    let distance = first.distance + memory * start.distance;
    let objective = two.beta / two.alpha * first.objective + memory * two.beta / one.alpha * start.objective;
    (decay * distance, decay * objective)
}

/// wₜ, or `None` where the method came to rest before.
fn iterate(
    dictionary: &dyn Dictionary,
    target: &[f64],
    k: usize,
    t: usize,
) -> anyhow::Result<Option<Weights>> {
    let endless =
        HardThresholding { tolerance: f64::MIN_POSITIVE, max_iterations: t, ..HardThresholding::default() };
    let settings = Settings { k, ..Settings::default() };
    let solution = Solver::new(dictionary, settings).target(target).run(&Method::AIht(endless))?;
    Ok((solution.iterations == t).then_some(solution.weights))
}

/// Columns, target and optimum in memory.
struct Tracer<'a> {
    entries: Vec<f64>,
    target: &'a [f64],
    optimum: &'a Weights,
    /// ‖y − Φw*‖.
    epsilon: f64,
}

impl<'a> Tracer<'a> {
    fn new(dictionary: &dyn Dictionary, target: &'a [f64], optimum: &'a Weights) -> anyhow::Result<Self> {
        let columns = dictionary.len();
        if let Some(&id) = optimum.ids.iter().find(|&&id| id >= columns) {
            return Err(Error::BadColumn { id, columns }.into());
        }
        if target.len() != dictionary.coordinates() {
            let coordinates = dictionary.coordinates();
            return Err(Error::TargetLength { target: target.len(), coordinates }.into());
        }
        let mut tracer = Self { entries: all_columns(dictionary)?, target, optimum, epsilon: 0.0 };
        tracer.epsilon = length(&tracer.residual(optimum));
        Ok(tracer)
    }

    fn start(&self) -> TracePoint {
        TracePoint { tau: 0.0, ..self.point(0, Weights::default(), None) }
    }

    fn residual(&self, weights: &Weights) -> Vec<f64> {
        let mut residual = self.target.to_vec();
        for (&id, &weight) in weights.ids.iter().zip(&weights.values) {
            axpy(-weight, &self.entries[id * self.target.len()..][..self.target.len()], &mut residual);
        }
        residual
    }

    /// wₜ with its own figures; the bounds are left out.
    fn point(&self, iteration: usize, weights: Weights, before: Option<&Weights>) -> TracePoint {
        let residual = self.residual(&weights);
        let tau = before.map_or(0.0, |before| {
            // Φ(wₜ − wₜ₋₁) is the difference of the residuals.
            let mut image = self.residual(before);
            axpy(-1.0, &residual, &mut image);
            let curvature = dot(&image, &image);
            if curvature > 0.0 { dot(&residual, &image) / curvature } else { 0.0 }
        });
        TracePoint {
            iteration,
            distance: distance(&weights, self.optimum),
            objective: dot(&residual, &residual),
            weights,
            tau,
            invariant: None,
            distance_bound: None,
            objective_bound: None,
        }
    }
}

/// ‖a − b‖.
fn distance(a: &Weights, b: &Weights) -> f64 {
    let value = |weights: &Weights, id: usize| {
        weights.ids.iter().position(|&other| other == id).map_or(0.0, |at| weights.values[at])
    };
    let only_b = b.ids.iter().filter(|id| !a.ids.contains(id)).map(|&id| value(b, id));
    let differences = a.ids.iter().map(|&id| value(a, id) - value(b, id)).chain(only_b);
    differences.map(|x| x * x).sum::<f64>().sqrt()
}

/// y ← y + s·x.
fn axpy(s: f64, x: &[f64], y: &mut [f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += s * x);
}
