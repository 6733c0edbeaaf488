//! Quadrature for E[f(z)], z ~ N(0, 1): Gauss–Hermite rules of a few nodes, and the trapezoidal rule for wide rows.

use corelet_kernels::linalg::{row_major, symmetric_eigenvalues};

/// Nodes zₖ and weights wₖ with E[f(z)] ≈ Σ wₖ f(zₖ).
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// (zₖ, wₖ), ascending and symmetric about 0.
    pub nodes: Vec<(f64, f64)>,
}

impl Rule {
    /// The n-point Gauss rule of the weight φ(z): exact for polynomials of degree 2n − 1.
    ///
    /// The nodes are the eigenvalues of the Jacobi matrix with √1, √2, … beside its diagonal, sharpened by Newton
    /// steps; the weights are 1/Σₖ pₖ(z)² over the orthonormal polynomials p₀ … pₙ₋₁.
    pub fn gauss(n: usize) -> Rule {
        let jacobi = row_major(n, |i, j| if i.abs_diff(j) == 1 { (i.max(j) as f64).sqrt() } else { 0.0 });
        let guesses = symmetric_eigenvalues(&jacobi, n).unwrap_or_default();
        let mut nodes: Vec<(f64, f64)> = guesses
            .into_iter()
            .map(|mut z| {
                for _ in 0..3 {
                    let (value, slope, _) = orthonormal(n, z);
                    z -= value / slope;
                }
                (z, 1.0 / orthonormal(n, z).2)
            })
            .collect();
        // Odd moments vanish exactly only if the two halves are exact mirror images.
        for k in 0..n / 2 {
            let (z, w) = nodes[n - 1 - k];
            nodes[k] = (-z, w);
        }
        if n % 2 == 1 {
            nodes[n / 2].0 = 0.0;
        }
        Rule { nodes }
    }

    /// The trapezoidal rule for f(z) = g(η + sz) with g analytic in a strip |Im η| < π, as for every family with a
    /// logistic curve in it.
    ///
    /// Its error is about e^{−2π²/h²} + e^{−2π²/(sh)} for the step h, so h = min(0.6, 0.53/s) leaves 10⁻¹⁶. The
    /// window |z| ≤ 10 + s holds the peak of φ(z)e^{sz}, at z = s. There are at most 420 nodes, which is
    /// enough up to s ≈ 6; beyond, accuracy falls off gently.
    pub fn trapezoidal(s: f64) -> Rule {
        let window = (10.0 + s).min(37.0);
        let step = 0.6_f64.min(0.53 / s).max(2.0 * window / MOST_NODES as f64);
        let half = (window / step).floor() as i64;
        let density = |z: f64| step * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        Rule { nodes: (-half..=half).map(|k| (k as f64 * step, density(k as f64 * step))).collect() }
    }
}

/// Widths up to which a Gauss rule of so many nodes is used: its error is about n!·(s/π)²ⁿ, here below 10⁻¹⁴.
pub const LADDER: [(f64, usize); 4] = [(0.005, 3), (0.02, 4), (0.12, 8), (0.28, 13)];

/// The rule for a predictor of any standard deviation.
#[derive(Debug)]
pub struct Rules {
    rules: [Rule; LADDER.len()],
}

impl Default for Rules {
    fn default() -> Self {
        Self { rules: LADDER.map(|(_, nodes)| Rule::gauss(nodes)) }
    }
}

impl Rules {
    /// The rules of the ladder, in its order.
    pub fn gauss(&self) -> &[Rule] {
        &self.rules
    }

    /// Which rule of the ladder is for the standard deviation s; none where only a trapezoidal one is.
    pub fn rung(s: f64) -> Option<usize> {
        LADDER.iter().position(|(width, _)| s <= *width)
    }
}

/// Most nodes of a trapezoidal rule.
const MOST_NODES: usize = 420;

/// pₙ(z), pₙ′(z) = √n·pₙ₋₁(z) and Σ_{k<n} pₖ(z)² of the orthonormal Hermite polynomials pₖ = Heₖ/√k!.
fn orthonormal(n: usize, z: f64) -> (f64, f64, f64) {
    let (mut before, mut value, mut squares) = (0.0, 1.0, 0.0);
    for k in 0..n {
        squares += value * value;
        let next = (z * value - (k as f64).sqrt() * before) / ((k + 1) as f64).sqrt();
        (before, value) = (value, next);
    }
    (value, (n as f64).sqrt() * before, squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_the_moments_of_a_normal() {
        let double_factorial = |m: i32| (1..m).step_by(2).map(f64::from).product::<f64>();
        let rules =
            [(Rule::gauss(4), 6), (Rule::gauss(8), 14), (Rule::gauss(13), 24), (Rule::trapezoidal(0.3), 12)];
        for (rule, degree) in rules {
            for m in (0..=degree).step_by(2) {
                let moment: f64 = rule.nodes.iter().map(|(z, w)| w * z.powi(m)).sum();
                assert!((moment / double_factorial(m) - 1.0).abs() < 2e-14, "moment {m}: {moment}");
                let odd: f64 = rule.nodes.iter().map(|(z, w)| w * z.powi(m + 1)).sum();
                assert!(odd.abs() <= 1e-13 * double_factorial(m + 2));
            }
        }
    }

    #[test]
    fn the_window_holds_exponentials() {
        for s in [0.5_f64, 2.0, 5.0] {
            let rule = Rule::trapezoidal(s);
            let mean: f64 = rule.nodes.iter().map(|(z, w)| w * (s * z).exp()).sum();
            assert!((mean / (0.5 * s * s).exp() - 1.0).abs() < 1e-12, "{s}: {mean}");
        }
    }
}
