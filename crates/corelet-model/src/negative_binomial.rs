//! Negative-binomial regression: counts with mean μ = e·exp(η) and variance μ + μ²/φ, log φ a parameter, e the exposure.

use super::built_in::{Card, Dispersion, LOG};
use super::logistic::{AboveZero, BelowZero, in_delta, sigmoids};
use super::predictive::{count, gamma};
use super::special::{
    bounded_exp, digamma_rise, expm1_minus_x, ln_factorial, ln_gamma_rise, log_sigmoid_difference,
    log_sigmoid_series, log1p_minus_x, sigmoid, softplus, trigamma_rise,
};
use super::{Given, Inputs, Joint, JointFamily, JointJets, ModelError, NearShifts, Predictive};
use crate::vector_math::{
    LogParts, Pairwise, Pointwise, Real, Rowwise, SERIES_RANGE, Term, add_terms, exp_minus,
    expm1_minus_x as curved_part, log, log1p, map_pairs,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "negative-binomial",
    about: "Counts that vary more than a Poisson allows",
    outcome: Outcome::Count,
    settings: &["exposure", "offset"],
    sigma: None,
    dispersions: |_| &[LOG_SIZE],
    scaled_by_target: false,
    link: LOG,
    bind: |observations, _| Ok(Arc::new(NegativeBinomial::model(observations)?)),
    predictive: Predictive::Number {
        mean: mean_count,
        draw: overdispersed,
        moments: |given| {
            let mean = mean_count(given);
            (mean, mean + mean * mean * (-given.zeta[1]).exp())
        },
    },
};

/// μ.
fn mean_count(given: &Given<'_>) -> f64 {
    given.exposure * given.zeta[0].exp()
}

/// A Poisson count of a mean that varies.
fn overdispersed(given: &Given<'_>, rng: &mut ChaCha8Rng) -> f64 {
    let mean = gamma(given.zeta[1].exp(), mean_count(given), rng);
    count(mean, rng)
}

/// log φ ~ N(0, 2²): nine in ten of the size between 0.04 and 27, from wild counts to nearly Poisson ones.
const LOG_SIZE: Dispersion = Dispersion { name: "log_size", prior: |_| (0.0, 2.0) };

/// ℓ(η, κ) = y log σ(z) + φ log σ(−z) + log Γ(y+φ) − log Γ(φ) − log y!, with φ = e^κ the size and z = η + log e − κ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NegativeBinomial;

impl NegativeBinomial {
    /// The model of these observations; θ is (β, log φ).
    pub fn model(observations: Observations) -> Result<Joint<NegativeBinomial>, ModelError> {
        Joint::new(observations, NegativeBinomial)
    }
}

/// log e. An exposure of 0, whose count is 0, is taken as the least number there is: ℓ and its derivatives are then 0 to rounding.
fn log_exposure(exposure: f64) -> f64 {
    exposure.max(f64::MIN_POSITIVE).ln()
}

/// Counts up to which Γ's recurrence gives the difference of its logarithms, term by term.
const FEW: f64 = 12.0;

/// log Γ(y+φ′)/Γ(φ′) − log Γ(y+φ)/Γ(φ) with φ′ = φe^ε, to full relative precision.
fn rise_difference(size: f64, shift: f64, y: f64) -> f64 {
    if y <= FEW {
        let growth = size * shift.exp_m1();
        return (0..y as usize).map(|j| (growth / (size + j as f64)).ln_1p()).sum();
    }
    if shift.abs() > 0.25 {
        return ln_gamma_rise(size * bounded_exp(shift), y) - ln_gamma_rise(size, y);
    }
    // The derivative in κ is φ(ψ(y+φ) − ψ(φ)).
    let slope = |t: f64| {
        let size = size * (0.5 * shift * (1.0 + t)).exp();
        size * digamma_rise(size, y)
    };
    let sum: f64 =
        super::family::LEGENDRE.iter().map(|&(node, weight)| weight * (slope(node) + slope(-node))).sum();
    0.5 * shift * sum
}

/// log Γ(y+φ)/(Γ(φ)y!), and the first two derivatives of log Γ(y+φ)/Γ(φ) in κ, for y = 0, 1, …: by Γ's recurrence.
fn rises(size: f64, counts: usize) -> Vec<[f64; 3]> {
    let (mut value, mut first, mut second) = (0.0, 0.0, 0.0);
    let step = |y: usize| {
        let row = [value, size * first, size * (first - size * second)];
        let next = 1.0 / (size + y as f64);
        value += ((size + y as f64) / (1.0 + y as f64)).ln();
        first += next;
        second += next * next;
        row
    };
    (0..counts).map(step).collect()
}

/// The same of one count, however large.
fn rise(size: f64, y: f64) -> [f64; 3] {
    let first = size * digamma_rise(size, y);
    [ln_gamma_rise(size, y) - ln_factorial(y), first, first + size * size * trigamma_rise(size, y)]
}

impl JointFamily for NegativeBinomial {
    fn name(&self) -> &'static str {
        "negative-binomial"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features, Inputs::Constant]
    }

    fn check_target(&self, (y, exposure): (f64, f64)) -> Result<(), &'static str> {
        if y >= 0.0 && y.fract() == 0.0 && (exposure > 0.0 || exposure == 0.0 && y == 0.0) {
            Ok(())
        } else {
            Err("a count, 0, 1, 2, …, and a positive exposure, or 0 and 0")
        }
    }

    fn own_predictor(&self, (y, exposure): (f64, f64)) -> Option<f64> {
        (exposure > 0.0).then(|| ((y + 0.5) / exposure).ln())
    }

    fn is_concave_in_first(&self) -> bool {
        true
    }

    fn value(&self, zeta: &[f64], (y, exposure): (f64, f64)) -> f64 {
        let (size, z) = (bounded_exp(zeta[1]), zeta[0] + log_exposure(exposure) - zeta[1]);
        ln_gamma_rise(size, y) - ln_factorial(y) - y * softplus(-z) - size * softplus(z)
    }

    fn derivatives(
        &self,
        zeta: &[f64],
        (y, exposure): (f64, f64),
        gradient: &mut [f64],
        hessian: &mut [f64],
    ) {
        let (size, z) = (bounded_exp(zeta[1]), zeta[0] + log_exposure(exposure) - zeta[1]);
        let (p, q) = (sigmoid(z), sigmoid(-z));
        let slope = y * q - size * p;
        let bend = (y + size) * p * q;
        // φ(ψ(y+φ) − ψ(φ) + log q), and with φ²(ψ′(y+φ) − ψ′(φ)) the second derivative of the part that κ alone is in.
        let own = size * (digamma_rise(size, y) - softplus(z));
        let mixed = bend - size * p;
        gradient.copy_from_slice(&[slope, own - slope]);
        let second = own + size * size * trigamma_rise(size, y) + 2.0 * size * p - bend;
        hessian.copy_from_slice(&[-bend, mixed, mixed, second]);
    }

    fn jets(&self, rows: &mut JointJets) {
        let log_size = rows.constants[0];
        let size = bounded_exp(log_size);
        if rows.exposure.iter().all(|exposure| *exposure == 1.0) {
            rows.map(&CountJet::<false> { log_size, size });
        } else {
            rows.map(&CountJet::<true> { log_size, size });
        }
        let largest = rows.y.iter().copied().filter(|y| *y <= TABLED as f64).fold(0.0, f64::max);
        let rises = rises(size, largest as usize + 1);
        let [_, of_size] = &mut rows.gradient[..] else { return };
        let [_, _, bend] = &mut rows.hessian[..] else { return };
        for (((y, value), slope), bend) in rows.y.iter().zip(&mut rows.value).zip(of_size).zip(bend) {
            let own = if *y <= TABLED as f64 { rises[*y as usize] } else { rise(size, *y) };
            *value += own[0];
            *slope += own[1];
            *bend += own[2];
        }
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], (y, exposure): (f64, f64)) -> f64 {
        let (size, z) = (bounded_exp(zeta[1]), zeta[0] + log_exposure(exposure) - zeta[1]);
        let turn = delta[0] - delta[1];
        rise_difference(size, delta[1], y)
            + y * log_sigmoid_difference(z, turn)
            + size * bounded_exp(delta[1]) * log_sigmoid_difference(-z, -turn)
            - size * delta[1].exp_m1() * softplus(z)
    }

    /// log Γ(y+φ′)/Γ(φ′) − log Γ(y+φ)/Γ(φ) at each shift, for y = 0, then 1, …, up to `TABLED`.
    fn table(&self, constants: &[(f64, &[f64])]) -> Vec<f64> {
        let Some(&(zeta, shifts)) = constants.first() else { return Vec::new() };
        let size = bounded_exp(zeta);
        let mut row = vec![0.0; shifts.len()];
        let mut table = row.clone();
        for y in 0..TABLED {
            let step = |shift: f64| (size * shift.exp_m1() / (size + y as f64)).ln_1p();
            row.iter_mut().zip(shifts).for_each(|(sum, &shift)| *sum += step(shift));
            table.extend_from_slice(&row);
        }
        table
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (y, exposure): (f64, f64),
        deltas: &[f64],
        table: &[f64],
        out: &mut [f64],
    ) {
        let (size, z) = (bounded_exp(zeta[1]), zeta[0] + log_exposure(exposure) - zeta[1]);
        let (decay, of) = (softplus(z), (y, size));
        if z <= 0.0 {
            map_pairs(Change { fall: AboveZero::new(-z, -1.0), of, decay }, deltas, out);
        } else {
            map_pairs(Change { fall: BelowZero::new(-z, -1.0), of, decay }, deltas, out);
        }
        let count = out.len();
        if y <= TABLED as f64 {
            out.iter_mut().zip(&table[y as usize * count..]).for_each(|(out, rise)| *out += rise);
        } else {
            let shifts = &deltas[count..];
            out.iter_mut().zip(shifts).for_each(|(out, &shift)| *out += rise_difference(size, shift, y));
        }
    }

    /// ε, φ(e^ε − 1) and φ(e^ε − 1 − ε) at each shift; then what is curved of log Γ(y+φ)/Γ(φ), for y = 0, 1, …, up to `TABLED`.
    fn curved_table(&self, constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        let &(zeta, shifts) = constants.first()?;
        let size = bounded_exp(zeta);
        let growth: Vec<f64> = shifts.iter().map(|shift| size * shift.exp_m1()).collect();
        let curved: Vec<f64> = shifts.iter().map(|&shift| size * expm1_minus_x(shift)).collect();
        let mut row = vec![0.0; shifts.len()];
        let mut table = [shifts, &growth, &curved, &row].concat();
        for y in 0..TABLED {
            let inverse = 1.0 / (size + y as f64);
            for ((sum, growth), curved) in row.iter_mut().zip(&growth).zip(&curved) {
                *sum += log1p_minus_x(growth * inverse) + curved * inverse;
            }
            table.extend_from_slice(&row);
        }
        Some(table.into_iter().map(|x| x as f32).collect())
    }

    fn add_curved(
        &self,
        zeta: &[f64],
        (y, exposure): (f64, f64),
        shifts: &NearShifts<'_>,
        sum: &mut [f32],
    ) -> bool {
        let (size, z) = (bounded_exp(zeta[1]), zeta[0] + log_exposure(exposure) - zeta[1]);
        let decay = softplus(z);
        if y > TABLED as f64
            || shifts.reach.iter().any(|reach| *reach > NEAR)
            || size * (1.0 + decay) > LARGEST
        {
            return false;
        }
        let [shift, growth, curved, rise] = [0, 1, 2, 3 + y as usize].map(|at| shifts.column(at));
        let columns = [shifts.of(0), shift, growth, curved, rise];
        let [p, q, decay, all] = [sigmoid(z), sigmoid(-z), decay, y + size].map(|x| x as f32);
        let parts = Parts { p, all, decay };
        if shifts.reach.iter().sum::<f64>() <= f64::from(SERIES_RANGE) {
            let [_, series @ ..] = in_delta(log_sigmoid_series(-z), -1.0).map(|c| c as f32);
            add_terms(NearCurve { series, parts }, shifts.weight, columns, sum);
        } else {
            let turn = if z > 0.0 { -1.0 } else { 1.0 };
            add_terms(Curve { smaller: p.min(q), turn, parts }, shifts.weight, columns, sum);
        }
        true
    }
}

/// Shifts for which f32 has room, and coefficients.
const NEAR: f64 = 4.0;
const LARGEST: f64 = 1e25;

/// What of ℓ(η+δ, κ+ε) − ℓ is curved: that of log Γ(y+φ)/Γ(φ), and (y + φ′)f̃ − (φ′ − φ)pt − φE(ε) log(1 + e^z), where t = δ − ε and
/// f̃ = f + pt is what is curved of the change f of log σ(−z): with m = min(p, q) and τ = ±t, −(log(1 + x) − x) − mE(τ) for x = m(e^τ − 1).
#[derive(Clone, Copy)]
struct Curve {
    smaller: f32,
    turn: f32,
    parts: Parts,
}

impl Term<5> for Curve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, [delta, shift, growth, curved, rise]: [f32; 5]) -> f32 {
        let t = delta - shift;
        let turned = self.turn * t;
        let bent = curved_part::<f32, FMA>(turned);
        let x = self.smaller * (bent + turned);
        let fall = -self.smaller.fma::<FMA>(bent, LogParts::new::<FMA>(x, 1.0).log_minus_x::<FMA>(x));
        rise + self.parts.join::<FMA>([t, fall], growth, curved)
    }
}

/// The same where no |t| is above [`SERIES_RANGE`]: f̃ = Σ cₖtᵏ, k = 2 … 7.
#[derive(Clone, Copy)]
struct NearCurve {
    series: [f32; 6],
    parts: Parts,
}

impl Term<5> for NearCurve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, [delta, shift, growth, curved, rise]: [f32; 5]) -> f32 {
        let t = delta - shift;
        let mut sum = self.series[5];
        for k in (0..5).rev() {
            sum = sum.fma::<FMA>(t, self.series[k]);
        }
        rise + self.parts.join::<FMA>([t, sum * t * t], growth, curved)
    }
}

/// What joins f̃ with the rest of a curve.
#[derive(Clone, Copy)]
struct Parts {
    p: f32,
    /// y + φ.
    all: f32,
    /// log(1 + e^z).
    decay: f32,
}

impl Parts {
    #[inline(always)]
    fn join<const FMA: bool>(self, [t, fall]: [f32; 2], growth: f32, curved: f32) -> f32 {
        let moved = self.all.fma::<FMA>(fall, growth * (-self.p).fma::<FMA>(t, fall));
        (-self.decay).fma::<FMA>(curved, moved)
    }
}

/// ℓ, ∇ℓ and ∇²ℓ of a row, at one φ, without log Γ(y+φ)/(Γ(φ)y!); e is 1 where rows are not exposed.
struct CountJet<const EXPOSED: bool> {
    log_size: f64,
    size: f64,
}

impl<const EXPOSED: bool> Rowwise<3, 6> for CountJet<EXPOSED> {
    #[inline(always)]
    fn apply<const FMA: bool>(&self, [eta, y, exposure]: [f64; 3]) -> [f64; 6] {
        let known = if EXPOSED { log::<FMA>(exposure.max(f64::MIN_POSITIVE)) } else { 0.0 };
        let (size, z) = (self.size, eta + known - self.log_size);
        let small = exp_minus::<f64, FMA>(-z.abs(), 0.0);
        let (q, p) = sigmoids(z, small);
        let log = log1p::<f64, FMA>(small);
        let decay = if z > 0.0 { z + log } else { log };
        let rest = if z > 0.0 { log } else { log - z };
        let (slope, bend) = (y * q - size * p, (y + size) * p * q);
        let own = -size * decay;
        let mixed = bend - size * p;
        [-y * rest - size * decay, slope, own - slope, -bend, mixed, own + 2.0 * size * p - bend]
    }
}

/// Counts for which a table knows how log Γ(y+φ) − log Γ(φ) changes.
const TABLED: usize = 100;

/// y·(log σ)(z) + φ·(log σ)(−z) as it changes with δ = dη and ε = dκ: y·t + (y + φ′)·f − φ(e^ε − 1) log(1 + e^z), where t = δ − ε and f
/// is the change of log σ(−z).
#[derive(Clone, Copy)]
struct Change<P> {
    fall: P,
    /// y and φ.
    of: (f64, f64),
    /// log(1 + e^z).
    decay: f64,
}

impl<P: Pointwise<f64>> Pairwise for Change<P> {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: f64, shift: f64) -> f64 {
        let ((y, size), turn) = (self.of, delta - shift);
        let growth = size * exp_minus::<f64, FMA>(shift, 1.0);
        y * turn + (y + size + growth) * self.fall.apply::<FMA>(turn) - growth * self.decay
    }
}
