//! The worked example of `docs/adding-a-model.md`: the page shows the code of this file, and a test here holds it to that.

use std::sync::Arc;

use corelet::model::special::{bounded_exp, ln_factorial, log_sigmoid_difference, sigmoid, softplus};
use corelet::model::{Family, Glm, Inputs, Joint, JointFamily};
use corelet::posterior::{LaplaceSettings, LaplaceStatus, Prior, laplace};
use corelet::rows::{All, Memory, Observations, Rows};

/// y ~ NegativeBinomial(mean e·exp(η), size r), by way of z = η + log(e/r):
/// ℓ = y log σ(z) + r log σ(−z) + log Γ(y+r) − log Γ(r) − log y!.
struct NegativeBinomial {
    size: f64,
}

impl NegativeBinomial {
    fn logit(&self, eta: f64, exposure: f64) -> f64 {
        eta + (exposure / self.size).ln()
    }
}

impl Family for NegativeBinomial {
    fn name(&self) -> &'static str {
        "negative-binomial"
    }

    fn check_target(&self, y: f64) -> Result<(), &'static str> {
        if y >= 0.0 && y.fract() == 0.0 { Ok(()) } else { Err("a count: 0, 1, 2, …") }
    }

    fn value(&self, eta: f64, y: f64, exposure: f64) -> f64 {
        let (z, r) = (self.logit(eta, exposure), self.size);
        let constant = ln_factorial(y + r - 1.0) - ln_factorial(r - 1.0) - ln_factorial(y);
        constant - y * softplus(-z) - r * softplus(z)
    }

    fn derivatives(&self, eta: f64, y: f64, exposure: f64) -> [f64; 3] {
        let (z, r) = (self.logit(eta, exposure), self.size);
        let (p, q) = (sigmoid(z), sigmoid(-z));
        [y * q - r * p, -(y + r) * p * q, (y + r) * p * q * (p - q)]
    }

    fn difference(&self, eta: f64, delta: f64, y: f64, exposure: f64) -> f64 {
        let z = self.logit(eta, exposure);
        y * log_sigmoid_difference(z, delta) + self.size * log_sigmoid_difference(-z, -delta)
    }
}

#[test]
fn derivatives_are_slopes() {
    let family = NegativeBinomial { size: 2.5 };
    let step = 1e-5;
    for (eta, y) in [(-2.0, 0.0), (0.3, 4.0), (5.0, 120.0)] {
        let at = |eta: f64| {
            let [first, second, third] = family.derivatives(eta, y, 1.5);
            [family.value(eta, y, 1.5), first, second, third]
        };
        for order in 1..4 {
            let slope = (at(eta + step)[order - 1] - at(eta - step)[order - 1]) / (2.0 * step);
            assert!((at(eta)[order] - slope).abs() < 1e-6 * (1.0 + slope.abs()));
        }
    }
}

#[test]
fn it_has_a_laplace_fit() {
    // Rows (x, 1), row-major, and counts that grow with x.
    let features: Vec<f64> = (0..200).flat_map(|i| [i as f64 / 100.0 - 1.0, 1.0]).collect();
    let target = (0..200).map(|i| (i / 40 + i % 3) as f64).collect();
    let observations = Observations::new(&features, 2, target);
    let rows = Memory::new(Arc::new(Glm::new(observations, NegativeBinomial { size: 2.5 }).unwrap()));
    let prior = Prior::isotropic(rows.dim(), 1.0).unwrap();
    let fit = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
    assert_eq!(fit.status, LaplaceStatus::Converged);
    assert!(fit.posterior.mean[0] > 0.5);
}

/// y = η + σ·Logistic noise, λ = log σ, u = (y − η)e^{−λ}: ℓ(η, λ) = −λ − u − 2 log(1 + e^{−u}).
struct LogisticNoise;

impl JointFamily for LogisticNoise {
    fn name(&self) -> &'static str {
        "logistic-noise"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features, Inputs::Constant]
    }

    fn check_target(&self, _target: (f64, f64)) -> Result<(), &'static str> {
        Ok(())
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let u = (y - zeta[0]) * bounded_exp(-zeta[1]);
        -zeta[1] - u - 2.0 * softplus(-u)
    }

    fn derivatives(&self, zeta: &[f64], (y, _): (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        let inverse = bounded_exp(-zeta[1]);
        let u = (y - zeta[0]) * inverse;
        let (p, q) = (sigmoid(u), sigmoid(-u));
        let (slope, bend) = (p - q, 2.0 * p * q);
        let mixed = -inverse * (slope + u * bend);
        gradient.copy_from_slice(&[inverse * slope, u * slope - 1.0]);
        hessian.copy_from_slice(&[-inverse * inverse * bend, mixed, mixed, -u * (slope + u * bend)]);
    }
}

#[test]
fn its_noise_is_estimated() {
    let features: Vec<f64> = (0..200).flat_map(|i| [i as f64 / 100.0 - 1.0, 1.0]).collect();
    let noise = |i: usize| (((i * 7919) % 997) as f64 + 0.5) / 997.0;
    let target = (0..200).map(|i| features[2 * i] + 0.5 * (noise(i) / (1.0 - noise(i))).ln()).collect();
    let observations = Observations::new(&features, 2, target);
    let rows = Memory::new(Arc::new(Joint::new(observations, LogisticNoise).unwrap()));
    let prior = Prior::isotropic(rows.dim(), 1.0).unwrap();
    let fit = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
    // β, the intercept, log σ.
    assert!((fit.posterior.mean[2] - 0.5_f64.ln()).abs() < 0.15);
}

#[test]
fn the_page_shows_this_code() {
    let (page, source) = (include_str!("../../../docs/adding-a-model.md"), include_str!("adding_a_model.rs"));
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        assert!(source.contains(block), "not in tests/adding_a_model.rs:\n{block}");
    }
}

#[test]
fn the_default_difference_agrees() {
    /// The same family without its own `difference`.
    struct Plain(NegativeBinomial);
    impl Family for Plain {
        fn name(&self) -> &'static str {
            self.0.name()
        }
        fn check_target(&self, y: f64) -> Result<(), &'static str> {
            self.0.check_target(y)
        }
        fn value(&self, eta: f64, y: f64, exposure: f64) -> f64 {
            self.0.value(eta, y, exposure)
        }
        fn derivatives(&self, eta: f64, y: f64, exposure: f64) -> [f64; 3] {
            self.0.derivatives(eta, y, exposure)
        }
    }
    let (own, plain) = (NegativeBinomial { size: 2.5 }, Plain(NegativeBinomial { size: 2.5 }));
    for delta in [1e-9, -1e-4, 0.2, -0.24, 0.3, 5.0] {
        let (a, b) = (own.difference(0.7, delta, 3.0, 1.0), plain.difference(0.7, delta, 3.0, 1.0));
        assert!((a - b).abs() <= 1e-12 * a.abs(), "{delta}: {a} {b}");
    }
    let mut row = [1e-6f32, 0.1];
    plain.differences_row(0.7, 3.0, 1.0, &mut row);
    assert!((row[1] as f64 / own.difference(0.7, 0.1f32 as f64, 3.0, 1.0) - 1.0).abs() < 1e-7);
}
