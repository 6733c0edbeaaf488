//! The paper's convergence theory on problems small enough to know all of its constants: restricted isometry by brute
//! force, the contraction of Theorem 1, the rate of Corollary 1, and the iterates of A-IHT beside their bounds.
//!
//! ```
//! use sparse_nnls::theory::{Contraction, trace};
//! use sparse_nnls::{Dense, Weights};
//!
//! // Nearly orthogonal columns, and a target that one of them makes up.
//! let phi = Dense::new(vec![1.0, 0.0, 0.01, 0.02, 1.0, 0.0, 0.0, 0.01, 1.0], 3)?;
//! let optimum = Weights { ids: vec![1], values: vec![2.0] };
//! let contraction = Contraction::brute_force(&phi, 1)?;
//! for point in trace(&phi, &[0.04, 2.0, 0.0], &optimum, &contraction, 10)? {
//!     assert!(point.invariant.is_none_or(|bound| point.distance <= bound + 1e-12));
//! }
//! # Ok::<(), sparse_nnls::Error>(())
//! ```

use std::ops::ControlFlow;

use crate::dictionary::Dictionary;
use crate::driver::{Settings, Weights, solve};
use crate::error::Error;
use crate::kernel::{axpy, dot, norm};
use crate::method::{HardThresholding, Method};

/// The most supports that are looked at.
const MOST_SUPPORTS: f64 = 2e6;

/// Where ‖y − Φw*‖ is below this share of ‖y‖ there is no noise but rounding.
const NOISELESS: f64 = 1e-12;

/// α and β with α‖w‖² ≤ ‖Φw‖² ≤ β‖w‖² for every w of at most `sparsity` non-zeros: the paper's Assumption 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RestrictedIsometry {
    /// Most non-zeros of w.
    pub sparsity: usize,
    /// The smallest eigenvalue of ΦₛᵀΦₛ over all supports of that size.
    pub alpha: f64,
    /// The largest.
    pub beta: f64,
}

impl RestrictedIsometry {
    /// From the eigenvalues of ΦₛᵀΦₛ for every support of `sparsity` columns, or of all where there are fewer.
    ///
    /// Smaller supports need no look: their eigenvalues lie between those of any support that holds them.
    ///
    /// # Errors
    /// [`Error::Setting`] where the sparsity is zero or there are more than two million supports; whatever the
    /// dictionary fails with.
    pub fn brute_force(dictionary: &dyn Dictionary, sparsity: usize) -> Result<Self, Error> {
        Self::of_gram(&Gram::new(dictionary)?, sparsity)
    }

    fn of_gram(gram: &Gram, sparsity: usize) -> Result<Self, Error> {
        let size = sparsity.min(gram.n);
        let supports = (0..size).fold(1.0, |count, i| count * (gram.n - i) as f64 / (i + 1) as f64);
        if size == 0 || supports > MOST_SUPPORTS {
            let expected = "supports of that size must be at least one and at most two million";
            return Err(Error::Setting { name: "sparsity", value: sparsity as f64, expected });
        }
        let (mut alpha, mut beta) = (f64::INFINITY, 0.0_f64);
        let mut support: Vec<usize> = (0..size).collect();
        loop {
            let eigenvalues = eigenvalues(gram.restricted(&support), size);
            for eigenvalue in eigenvalues {
                alpha = alpha.min(eigenvalue);
                beta = beta.max(eigenvalue);
            }
            if !advance(&mut support, gram.n) {
                return Ok(Self { sparsity, alpha, beta });
            }
        }
    }
}

/// The constants of Theorem 1 for k-sparse weights.
///
/// > ρ = 2·max{β₂ₖ/α₃ₖ − 1, 1 − α₂ₖ/β₃ₖ} + (β₄ₖ − α₄ₖ)/α₃ₖ
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contraction {
    /// k.
    pub k: usize,
    /// αⱼₖ and βⱼₖ for j = 1, 2, 3, 4.
    pub isometry: [RestrictedIsometry; 4],
    /// ρ.
    pub rho: f64,
    /// What ‖ε‖ = ‖y − Φw*‖ is multiplied by, (2/α₃ₖ)√β₂ₖ: what the proof shows.
    pub noise: f64,
    /// What the paper prints in its place, 2β₃ₖ√β₂ₖ, which is no bound (`docs/errata.md`).
    pub printed_noise: f64,
}

impl Contraction {
    /// By brute force over all supports of up to 4k columns.
    ///
    /// # Errors
    /// As [`RestrictedIsometry::brute_force`].
    pub fn brute_force(dictionary: &dyn Dictionary, k: usize) -> Result<Self, Error> {
        let gram = Gram::new(dictionary)?;
        let of = |multiple: usize| RestrictedIsometry::of_gram(&gram, multiple * k);
        let [one, two, three, four] = [of(1)?, of(2)?, of(3)?, of(4)?];
        let spread = (two.beta / three.alpha - 1.0).max(1.0 - two.alpha / three.beta);
        Ok(Self {
            k,
            isometry: [one, two, three, four],
            rho: 2.0 * spread + (four.beta - four.alpha) / three.alpha,
            noise: 2.0 / three.alpha * two.beta.sqrt(),
            printed_noise: 2.0 * three.beta * two.beta.sqrt(),
        })
    }

    /// Theorem 1: ‖wₜ₊₁ − w*‖ ≤ ρ|1 + τₜ|·‖wₜ − w*‖ + ρ|τₜ|·‖wₜ₋₁ − w*‖ + (2/α₃ₖ)√β₂ₖ·‖ε‖.
    pub fn invariant(&self, tau: f64, distance: f64, distance_before: f64, epsilon: f64) -> f64 {
        self.rho * ((1.0 + tau).abs() * distance + tau.abs() * distance_before) + self.noise * epsilon
    }

    /// φ = (ρ(1 + τ) + √(ρ²(1 + τ)² + 4ρτ))/2 of Corollary 1, for τ = max |τᵢ|; below 1 just where ρ < 1/(1 + 2τ).
    pub fn rate(&self, tau: f64) -> f64 {
        let linear = self.rho * (1.0 + tau);
        0.5 * (linear + (linear * linear + 4.0 * self.rho * tau).sqrt())
    }

    /// ρτ/φ, the share that the iterate before has in Corollary 1.
    fn memory(&self, tau: f64) -> f64 {
        let rate = self.rate(tau);
        if rate > 0.0 { self.rho * tau / rate } else { 0.0 }
    }
}

/// One iterate of A-IHT beside what the theory says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct TracePoint {
    /// t.
    pub iteration: usize,
    /// wₜ.
    pub weights: Weights,
    /// ‖wₜ − w*‖.
    pub distance: f64,
    /// f(wₜ) = ‖y − Φwₜ‖².
    pub objective: f64,
    /// τₜ, by which wₜ is extrapolated; 0 at t = 0.
    pub tau: f64,
    /// Theorem 1's bound on the distance, from the two iterates before; none at t = 0.
    pub invariant: Option<f64>,
    /// The bound on the distance in the proof of Corollary 1, φᵗ⁻¹(‖w₁ − w*‖ + (ρτ/φ)‖w₀ − w*‖) with τ the largest so
    /// far; none at t = 0, and none where there is noise.
    pub distance_bound: Option<f64>,
    /// Corollary 1's bound on the objective, φᵗ⁻¹(f(w₁)β₂ₖ/α₂ₖ + f(w₀)·ρτβ₂ₖ/(φαₖ)); none where there is no bound on the
    /// distance.
    pub objective_bound: Option<f64>,
}

/// The iterates w₀ = 0, w₁, … of A-IHT with exact steps on min ‖y − Φw‖², w ≥ 0, ‖w‖₀ ≤ k, beside the bounds on their way to
/// `optimum`: at most `iterations` of them, fewer where two are equal.
///
/// Each comes from a run of its own that is stopped after t iterations, so that it is the method itself that is traced.
///
/// # Errors
/// As [`solve`], and [`Error::BadColumn`] where the optimum names a column that is not there.
pub fn trace(
    dictionary: &dyn Dictionary,
    target: &[f64],
    optimum: &Weights,
    contraction: &Contraction,
    iterations: usize,
) -> Result<Vec<TracePoint>, Error> {
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
        if tracer.epsilon <= NOISELESS * norm(target) {
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
) -> Result<Option<Weights>, Error> {
    let endless =
        HardThresholding { tolerance: f64::MIN_POSITIVE, max_iterations: t, ..HardThresholding::default() };
    let settings = Settings { k, ..Settings::default() };
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let solution = solve(dictionary, Some(target), &Method::AIht(endless), &settings, go_on)?;
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
    fn new(dictionary: &dyn Dictionary, target: &'a [f64], optimum: &'a Weights) -> Result<Self, Error> {
        let columns = dictionary.len();
        if let Some(&id) = optimum.ids.iter().find(|&&id| id >= columns) {
            return Err(Error::BadColumn { id, columns });
        }
        if target.len() != dictionary.coordinates() {
            return Err(Error::TargetLength { target: target.len(), coordinates: dictionary.coordinates() });
        }
        let mut tracer = Self { entries: all_columns(dictionary)?, target, optimum, epsilon: 0.0 };
        tracer.epsilon = norm(&tracer.residual(optimum));
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

fn all_columns(dictionary: &dyn Dictionary) -> Result<Vec<f64>, Error> {
    let ids: Vec<usize> = (0..dictionary.len()).collect();
    let mut entries = vec![0.0; ids.len() * dictionary.coordinates()];
    dictionary.columns(&ids, &mut entries)?;
    Ok(entries)
}

/// ΦᵀΦ.
struct Gram {
    n: usize,
    entries: Vec<f64>,
}

impl Gram {
    fn new(dictionary: &dyn Dictionary) -> Result<Self, Error> {
        let (n, coordinates) = (dictionary.len(), dictionary.coordinates());
        if n == 0 || coordinates == 0 {
            return Err(Error::EmptyDictionary { columns: n, coordinates });
        }
        let columns = all_columns(dictionary)?;
        let column = |i: usize| &columns[i * coordinates..][..coordinates];
        let entries = (0..n * n).map(|at| dot(column(at / n), column(at % n))).collect();
        Ok(Self { n, entries })
    }

    /// ΦₛᵀΦₛ, row-major.
    fn restricted(&self, support: &[usize]) -> Vec<f64> {
        support.iter().flat_map(|i| support.iter().map(move |j| self.entries[i * self.n + j])).collect()
    }
}

/// The next support of that size in lexicographic order; `false` after the last.
fn advance(support: &mut [usize], n: usize) -> bool {
    let size = support.len();
    let Some(at) = (0..size).rev().find(|&at| support[at] < n - size + at) else { return false };
    let first = support[at] + 1;
    support[at..].iter_mut().enumerate().for_each(|(step, id)| *id = first + step);
    true
}

/// The eigenvalues of a row-major symmetric matrix by Jacobi's rotations, in no order.
fn eigenvalues(mut a: Vec<f64>, size: usize) -> Vec<f64> {
    const SWEEPS: usize = 50;
    let scale = norm(&a);
    for _ in 0..SWEEPS {
        let off: f64 =
            (0..size).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i * size + j].powi(2)).sum();
        if off.sqrt() <= 1e-15 * scale {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                rotate(&mut a, size, p, q);
            }
        }
    }
    (0..size).map(|i| a[i * size + i]).collect()
}

/// The rotation of rows and columns p and q that makes entry (p, q) zero.
fn rotate(a: &mut [f64], size: usize, p: usize, q: usize) {
    let entry = a[p * size + q];
    if entry == 0.0 {
        return;
    }
    let ratio = (a[q * size + q] - a[p * size + p]) / (2.0 * entry);
    let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    let turn = |a: &mut [f64], first: usize, second: usize| {
        let (x, y) = (a[first], a[second]);
        a[first] = cosine * x - sine * y;
        a[second] = sine * x + cosine * y;
    };
    for i in 0..size {
        turn(a, p * size + i, q * size + i);
    }
    for i in 0..size {
        turn(a, i * size + p, i * size + q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_have_the_traces_of_the_matrix() {
        for size in 1..9 {
            let mut a = vec![0.0; size * size];
            for i in 0..size {
                for j in 0..=i {
                    let x = ((i * 7 + j * 3) as f64).sin() + if i == j { 2.0 } else { 0.0 };
                    (a[i * size + j], a[j * size + i]) = (x, x);
                }
            }
            let found = eigenvalues(a.clone(), size);
            let trace: f64 = (0..size).map(|i| a[i * size + i]).sum();
            assert!((found.iter().sum::<f64>() - trace).abs() < 1e-12);
            assert!((found.iter().map(|x| x * x).sum::<f64>() - dot(&a, &a)).abs() < 1e-11);
            let cube: f64 = (0..size * size * size)
                .map(|at| (at / size / size, at / size % size, at % size))
                .map(|(i, j, k)| a[i * size + j] * a[j * size + k] * a[k * size + i])
                .sum();
            assert!((found.iter().map(|x| x.powi(3)).sum::<f64>() - cube).abs() < 1e-10);
        }
    }

    #[test]
    fn supports_are_all_there_once() {
        let mut support = vec![0, 1, 2];
        let mut seen = vec![support.clone()];
        while advance(&mut support, 6) {
            seen.push(support.clone());
        }
        assert_eq!(seen.len(), 20);
        assert!(seen.is_sorted() && seen.iter().all(|s| s.is_sorted() && s[2] < 6));
    }
}
