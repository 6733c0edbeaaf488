//! Robust regression whose tails are estimated: y ~ η + σ·Student-t(ν), log σ and log ν parameters.

use super::built_in::Dispersion;
use super::family::curved_part;
use super::normal::{is_moderate, narrowing};
use super::special::expm1_minus_x;
use super::special::{digamma, ln_gamma, trigamma};
use super::student::{Scaled, beyond};
use super::{Inputs, Joint, JointFamily, JointJets, ModelError, NearShifts};
use crate::vector_math::{Kernel, LogParts, Real, Rowwise, Term, add_terms, dispatch, exp_minus, log1p};
use corelet_data::observations::Observations;

/// log ν ~ N(2.73, 0.8²), the mean and the standard deviation of log ν where ν ~ Gamma(2, 0.1): nine in ten of ν between 4 and 57.
pub(super) const LOG_NU: Dispersion = Dispersion { name: "log_nu", prior: |_| (2.73, 0.8) };

/// ℓ(η, λ, τ) = c(ν) − λ − ½(ν+1) log(1 + u²/ν) with u = (y − η)e^{−λ}, λ = log σ, τ = log ν and
/// c(ν) = log Γ(½(ν+1)) − log Γ(½ν) − ½ log πν.
///
/// With w = u²/ν, ℓ(η+δ, λ+ε, τ+ρ) − ℓ = c(ν′) − c(ν) − ε − ½(ν′+1) log(1 + (w′ − w)/(1 + w)) − ½(ν′ − ν) log(1 + w), where
/// ν(w′ − w) = u²(e^{−ρ} − 1) + (u′² − u²)e^{−ρ}.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StudentDegrees;

impl StudentDegrees {
    /// The model of these observations; θ is (β, log σ, log ν).
    pub fn model(observations: Observations) -> Result<Joint<StudentDegrees>, ModelError> {
        Joint::new(observations, StudentDegrees)
    }
}

/// Beyond this log σ and log ν are no likelihood's: held there, so that products stay finite.
const FAR: f64 = 100.0;

fn held(x: f64) -> f64 {
    x.clamp(-FAR, FAR)
}

/// ν from which Stirling's series takes the place of differences that would cancel.
const LARGE: f64 = 60.0;

/// c(ν) + ½ log 2π, and νc′ and ν²c″.
///
/// With x = ν/2, log Γ(x + ½) − log Γ(x) = ½ log x − 1/(8x) + 1/(192x³) − 1/(640x⁵) + 17/(14336x⁷) − ….
fn constant(nu: f64) -> [f64; 3] {
    let x = 0.5 * nu;
    if nu > LARGE {
        let inverse = 1.0 / x;
        let square = inverse * inverse;
        let series = |factor: fn(f64) -> f64| {
            let terms = [(7.0, 17.0 / 14_336.0), (5.0, -1.0 / 640.0), (3.0, 1.0 / 192.0), (1.0, -0.125)];
            terms.into_iter().fold(0.0, |sum, (power, c)| sum * square + factor(power) * c) * inverse
        };
        return [series(|_| 1.0), series(|p| -p), series(|p| p * (p + 1.0))];
    }
    let value = ln_gamma(x + 0.5) - ln_gamma(x) - 0.5 * x.ln();
    let slope = x * (digamma(x + 0.5) - digamma(x)) - 0.5;
    let bend = x * x * (trigamma(x + 0.5) - trigamma(x)) + 0.5;
    [value, slope, bend]
}

/// c(ν′) − c(ν): the integral of νc′ over log ν where the two are near.
fn constant_difference(tau: f64, shift: f64) -> f64 {
    use super::family::LEGENDRE;
    let at = |t: f64| held(tau + t * shift).exp();
    if shift.abs() > 0.25 {
        return constant(at(1.0))[0] - constant(at(0.0))[0];
    }
    let slope = |t: f64| constant(at(0.5 + 0.5 * t))[1];
    let nodes = LEGENDRE.iter().map(|&(node, weight)| weight * (slope(node) + slope(-node)));
    0.5 * shift * nodes.sum::<f64>()
}

/// c(ν′) − c(ν) less what is linear in log ν.
fn constant_curve(tau: f64, shift: f64) -> f64 {
    let at = |t: f64| constant(held(tau + t).exp());
    if shift.abs() > 0.25 {
        return at(shift)[0] - at(0.0)[0] - at(0.0)[1] * shift;
    }
    curved_part(shift, |t| {
        let [_, slope, bend] = at(t);
        slope + bend
    })
}

/// What ℓ needs of a row: e^{−λ}, u, ν, log(1 + u²/ν), and the shares of ν and u² in their sum.
struct Point {
    inverse: f64,
    u: f64,
    nu: f64,
    log: f64,
    shares: [f64; 2],
}

impl Point {
    fn new(zeta: &[f64], y: f64) -> Self {
        let (inverse, nu) = ((-held(zeta[1])).exp(), held(zeta[2]).exp());
        let u = (y - zeta[0]) * inverse;
        let (square, spread) = (u * u, nu + u * u);
        let log = if square < nu { (square / nu).ln_1p() } else { spread.ln() - nu.ln() };
        Self { inverse, u, nu, log: log + beyond(zeta[1], -FAR), shares: [nu / spread, square / spread] }
    }
}

impl JointFamily for StudentDegrees {
    fn name(&self) -> &'static str {
        "student"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features, Inputs::Constant, Inputs::Constant]
    }

    fn check_target(&self, _target: (f64, f64)) -> Result<(), &'static str> {
        Ok(())
    }

    fn own_predictor(&self, (y, _): (f64, f64)) -> Option<f64> {
        Some(y)
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let Point { nu, log, .. } = Point::new(zeta, y);
        let [constant, ..] = constant(nu);
        constant - 0.5 * (2.0 * std::f64::consts::PI).ln() - zeta[1] - 0.5 * (nu + 1.0) * log
    }

    fn derivatives(&self, zeta: &[f64], (y, _): (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        let Point { inverse, u, nu, log, shares: [rest, share] } = Point::new(zeta, y);
        let [_, slope, bend] = constant(nu);
        // (ν+1)/(ν+u²), and (u²−1)/(ν+u²).
        let (weight, excess) = ((1.0 + 1.0 / nu) * rest, share - rest / nu);
        let of_nu = slope + 0.5 * ((nu + 1.0) * share - nu * log);
        gradient.copy_from_slice(&[weight * u * inverse, (nu + 1.0) * share - 1.0, of_nu]);
        let of_mean = -inverse * inverse * weight * (rest - share);
        let mixed = -2.0 * u * inverse * weight * rest;
        let [mean_nu, scale_nu] = [u * inverse * rest * excess, nu * share * excess];
        let scale = -2.0 * (nu + 1.0) * rest * share;
        let nus = bend + of_nu + 0.5 * share * (nu * share - 2.0 * rest - share);
        hessian.copy_from_slice(&[of_mean, mixed, mean_nu, mixed, scale, scale_nu, mean_nu, scale_nu, nus]);
    }

    fn jets(&self, rows: &mut JointJets) {
        let [log_sigma, log_nu] = [rows.constants[0], rows.constants[1]];
        let nu = held(log_nu).exp();
        let [value, slope, bend] = constant(nu);
        let constant = value - 0.5 * (2.0 * std::f64::consts::PI).ln() - log_sigma;
        let (inverse, beyond) = ((-held(log_sigma)).exp(), beyond(log_sigma, -FAR));
        rows.map(&DegreesJet { nu, inverse, beyond, constant, slope, bend });
    }

    /// c(ν′) − c(ν) at each shift.
    fn table(&self, constants: &[(f64, &[f64])]) -> Vec<f64> {
        let Some(&(tau, shifts)) = constants.get(1) else { return Vec::new() };
        shifts.iter().map(|&shift| constant_difference(tau, shift)).collect()
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (y, _): (f64, f64),
        deltas: &[f64],
        table: &[f64],
        out: &mut [f64],
    ) {
        let Point { inverse, u, nu, log, .. } = Point::new(zeta, y);
        let spread = 1.0 / (nu + u * u);
        let [square, precision] = [u * u * spread, inverse * inverse * spread];
        out.copy_from_slice(table);
        dispatch(Change { residual: y - zeta[0], square, precision, nu, log, deltas, out });
    }

    /// Of λ as `narrowing` has it; then of log ν: what is curved of c, and e^{−ρ} − 1 and e^ρ − 1, each also without what is linear.
    fn curved_table(&self, constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        let &[(_, scales), (tau, shifts)] = constants else { return None };
        let of = |function: &dyn Fn(f64) -> f64| shifts.iter().map(|&shift| function(shift) as f32).collect();
        let columns: [Vec<f32>; 5] = [
            of(&|shift| constant_curve(tau, shift)),
            of(&|shift| (-shift).exp_m1()),
            of(&|shift| expm1_minus_x(-shift)),
            of(&f64::exp_m1),
            of(&expm1_minus_x),
        ];
        Some([narrowing(scales), columns.concat()].concat())
    }

    fn add_curved(&self, zeta: &[f64], (y, _): (f64, f64), shifts: &NearShifts<'_>, sum: &mut [f32]) -> bool {
        let Point { inverse, u, nu, log, .. } = Point::new(zeta, y);
        let (row, fall) = (Scaled::new(inverse, u, nu), 1.0 - (-shifts.reach[2]).exp());
        let least = row.least_growth(shifts.reach);
        let is_near = shifts.reach[2] < 4.0 && (1e-6..1e6).contains(&nu);
        if !is_near || !is_moderate(inverse, u, shifts.reach) || least - (row.square + least) * fall < -0.75 {
            return false;
        }
        let column = |at| shifts.column(at);
        let columns =
            [shifts.of(0), column(0), column(1), column(2), column(3), column(4), column(5), column(6)];
        let [nu, log] = [nu as f32, log as f32];
        add_terms(Curve { row: row.narrow(), nu, log }, shifts.weight, columns, sum);
        true
    }
}

/// What of ℓ(η+δ, λ+ε, τ+ρ) − ℓ is curved, with x = (w′ − w)/(1 + w) and x̃ what is curved of it: that of c(ν′) − c(ν), less
/// ½(ν+1)(log(1 + x) − x + x̃) + ½(ν′ − ν) log(1 + x) + ½ν(e^ρ − 1 − ρ) log(1 + w).
#[derive(Clone, Copy)]
struct Curve {
    row: Scaled<f32>,
    nu: f32,
    log: f32,
}

impl Term<8> for Curve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, columns: [f32; 8]) -> f32 {
        let [delta, growth, curved, constant, fall, curved_fall, rise, curved_rise] = columns;
        let (moved, curved) = self.row.growth::<FMA>([delta, growth, curved]);
        let x = (self.row.square + moved).fma::<FMA>(fall, moved);
        let bent = self.row.square.fma::<FMA>(curved_fall, moved.fma::<FMA>(fall, curved));
        let log_rest = LogParts::new::<FMA>(x, 1.0).log_minus_x::<FMA>(x);
        let second = (self.nu + 1.0) * (log_rest + bent);
        let third = self.nu * rise.fma::<FMA>(log_rest + x, curved_rise * self.log);
        constant - 0.5 * (second + third)
    }
}

/// ℓ, ∇ℓ and ∇²ℓ of a row, at one λ and one ν.
struct DegreesJet {
    nu: f64,
    /// e^{−λ}, and what a logarithm lacks where λ is held.
    inverse: f64,
    beyond: f64,
    /// c(ν) − λ, νc′ and ν²c″.
    constant: f64,
    slope: f64,
    bend: f64,
}

impl Rowwise<3, 10> for DegreesJet {
    #[inline(always)]
    fn apply<const FMA: bool>(&self, [eta, y, _]: [f64; 3]) -> [f64; 10] {
        let DegreesJet { nu, inverse, beyond, constant, slope, bend } = *self;
        let u = (y - eta) * inverse;
        let square = if u * u > 1e200 { 1e200 } else { u * u };
        let spread = 1.0 / (nu + square);
        let [rest, share] = [nu * spread, square * spread];
        let log = log1p::<f64, FMA>(square / nu) + beyond;
        let (weight, excess) = ((1.0 + 1.0 / nu) * rest, share - rest / nu);
        let of_scale = (nu + 1.0) * share;
        let of_nu = slope + 0.5 * (of_scale - nu * log);
        let moved = u * inverse;
        [
            constant - 0.5 * (nu + 1.0) * log,
            weight * moved,
            of_scale - 1.0,
            of_nu,
            -inverse * inverse * weight * (rest - share),
            -2.0 * moved * weight * rest,
            -2.0 * of_scale * rest,
            moved * rest * excess,
            nu * share * excess,
            bend + of_nu + 0.5 * share * (nu * share - 2.0 * rest - share),
        ]
    }
}

/// Adds what ℓ changes by beside c(ν) at each shift; u² and e^{−2λ} are divided by ν + u².
struct Change<'a> {
    residual: f64,
    square: f64,
    precision: f64,
    nu: f64,
    log: f64,
    deltas: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for Change<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Change { residual, square, precision, nu, log, deltas, out } = self;
        let (means, others) = deltas.split_at(out.len());
        let (scales, degrees) = others.split_at(out.len());
        for (((out, delta), shift), turn) in out.iter_mut().zip(means).zip(scales).zip(degrees) {
            let narrowed = exp_minus::<f64, FMA>(-2.0 * shift, 1.0);
            let moved = square * narrowed - delta * (2.0 * residual - delta) * precision * (narrowed + 1.0);
            let fall = exp_minus::<f64, FMA>(-*turn, 1.0);
            let rise = nu * exp_minus::<f64, FMA>(*turn, 1.0);
            let growth = square * fall + moved * (fall + 1.0);
            *out -= shift + 0.5 * (nu + rise + 1.0) * log1p::<f64, FMA>(growth) + 0.5 * rise * log;
        }
    }
}
