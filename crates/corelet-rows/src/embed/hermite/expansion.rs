//! The Hermite coefficients of one row's log-likelihood.

use crate::model::quadrature::{LADDER, Rule};
use crate::model::{Family, Slopes};
use crate::vector_math::{Kernel, dispatch};

/// Highest order whose coefficient is computed: those above the order kept make up the tail.
pub(super) const HIGHEST: usize = 6;

/// Coefficients are kept below this, so that their squares and sums are numbers.
const LARGEST: f64 = 1e100;

/// Computes hₘ = E[ℓ(η̂ + sz)Heₘ(z)]/m! for z ~ N(0, 1).
///
/// By Gaussian integration by parts hₘ = sᵐ·E[ℓ⁽ᵐ⁾(η̂ + sz)]/m!, which has nothing to cancel however small s is:
/// E[ℓ·Heₘ] itself would lose s^{1−m} of its digits. Orders above 3 have three derivatives taken and the rest left
/// to the polynomial, hₘ = s³·E[ℓ‴(η̂ + sz)Heₘ₋₃(z)]/m!. The number of nodes follows the width s.
#[derive(Debug)]
pub(super) struct Expansion {
    rules: [Rule; LADDER.len()],
}

impl Expansion {
    pub(super) fn new() -> Self {
        Self { rules: LADDER.map(|(_, nodes)| Rule::gauss(nodes)) }
    }

    /// h₁ … h₆ of ℓ(·; y, e) around η̂ with standard deviation s; zeros at s = 0.
    ///
    /// A likelihood so extreme that a coefficient overflows (the rate of a log link past e²³⁰) is held at ±10¹⁰⁰.
    pub(super) fn coefficients(
        &self,
        family: &dyn Family,
        eta: f64,
        s: f64,
        target: (f64, f64),
    ) -> [f64; HIGHEST] {
        if s == 0.0 {
            return [0.0; HIGHEST];
        }
        let wide;
        let rule = match LADDER.iter().position(|(width, _)| s <= *width) {
            Some(at) => &self.rules[at],
            None => {
                wide = Rule::trapezoidal(s);
                &wide
            }
        };
        scaled(means(rule, family, eta, s, target), s)
    }

    /// The same of many rows, each to its own bits whatever stands beside it: rows on one rung take a node of its rule together.
    pub(super) fn many(&self, family: &dyn Family, rows: &mut Expanded) {
        rows.h.iter_mut().for_each(|h| {
            h.clear();
            h.resize(rows.eta.len(), 0.0);
        });
        for (rung, rule) in self.rules.iter().enumerate() {
            let above = if rung == 0 { 0.0 } else { LADDER[rung - 1].0 };
            rows.pick(|s| s > above && s <= LADDER[rung].0);
            if !rows.picked.is_empty() {
                rows.expand(family, rule);
            }
        }
        for i in 0..rows.eta.len() {
            if rows.s[i] > LADDER[LADDER.len() - 1].0 || rows.s[i].is_nan() {
                let h = self.coefficients(family, rows.eta[i], rows.s[i], (rows.y[i], rows.exposure[i]));
                rows.h.iter_mut().zip(h).for_each(|(to, h)| to[i] = h);
            }
        }
    }
}

/// From the means of [`means`] to coefficients.
fn scaled(mut h: [f64; HIGHEST], s: f64) -> [f64; HIGHEST] {
    let mut power = 1.0;
    for (order, h) in (1..).zip(&mut h) {
        power *= if order <= 3 { s } else { 1.0 } / f64::from(order);
        *h *= power;
        // Only the orders above 3, where signs alternate, can come to ∞ − ∞, and only the tail looks at them.
        *h = if h.is_nan() { 0.0 } else { h.clamp(-LARGEST, LARGEST) };
    }
    h
}

/// Rows with their predictor, its standard deviation, target and exposure; and what [`Expansion::many`] makes of them.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) eta: Vec<f64>,
    pub(super) s: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) exposure: Vec<f64>,
    /// h₁ … h₆ of all rows.
    pub(super) h: [Vec<f64>; HIGHEST],
    /// The rows of one rung, what is asked at a node of its rule, and the means so far.
    picked: Vec<usize>,
    slopes: Slopes,
    means: [Vec<f64>; HIGHEST],
}

impl Expanded {
    fn pick(&mut self, is_on_rung: impl Fn(f64) -> bool) {
        let Self { s, y, exposure, picked, slopes, means, .. } = self;
        picked.clear();
        picked.extend((0..s.len()).filter(|&i| is_on_rung(s[i])));
        for (to, from) in [(&mut slopes.y, y), (&mut slopes.exposure, exposure)] {
            to.clear();
            to.extend(picked.iter().map(|&i| from[i]));
        }
        means.iter_mut().for_each(|mean| {
            mean.clear();
            mean.resize(picked.len(), 0.0);
        });
    }

    fn expand(&mut self, family: &dyn Family, rule: &Rule) {
        let Self { eta, s, h, picked, slopes, means, .. } = self;
        for &node in &rule.nodes {
            slopes.eta.clear();
            slopes.eta.extend(picked.iter().map(|&i| eta[i] + s[i] * node.0));
            family.slopes(slopes.asked());
            dispatch(AddNode { slopes, node, means });
        }
        for (at, &i) in picked.iter().enumerate() {
            let row = scaled(std::array::from_fn(|m| means[m][at]), s[i]);
            h.iter_mut().zip(row).for_each(|(to, h)| to[i] = h);
        }
    }
}

/// Adds one node of [`means`] for many rows.
struct AddNode<'a> {
    slopes: &'a Slopes,
    node: (f64, f64),
    means: &'a mut [Vec<f64>; HIGHEST],
}

impl Kernel for AddNode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AddNode { slopes: Slopes { first, second, third, .. }, node: (z, weight), means } = self;
        let mut add = |m: usize, slopes: &[f64], factor: f64| {
            means[m].iter_mut().zip(slopes).for_each(|(mean, slope)| *mean += weight * slope * factor);
        };
        add(0, first, 1.0);
        add(1, second, 1.0);
        for (m, factor) in [1.0, z, z * z - 1.0, z * (z * z - 3.0)].into_iter().enumerate() {
            add(2 + m, third, factor);
        }
    }
}

/// E[ℓ′], E[ℓ″], E[ℓ‴], E[ℓ‴He₁], E[ℓ‴He₂], E[ℓ‴He₃] at η̂ + sz.
fn means(rule: &Rule, family: &dyn Family, eta: f64, s: f64, (y, exposure): (f64, f64)) -> [f64; HIGHEST] {
    let mut sums = [0.0; HIGHEST];
    for &(z, weight) in &rule.nodes {
        let [first, second, third] = family.derivatives(eta + s * z, y, exposure);
        let third = weight * third;
        let terms = [
            weight * first,
            weight * second,
            third,
            third * z,
            third * (z * z - 1.0),
            third * (z * (z * z - 3.0)),
        ];
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
    }
    sums
}

/// The monomial coefficients a₀ … a₆ of Σₘ gₘHeₘ(t), given g₁ … g₆.
pub(super) fn monomials(g: &[f64; HIGHEST]) -> [f64; HIGHEST + 1] {
    let [g1, g2, g3, g4, g5, g6] = *g;
    [
        -g2 + 3.0 * g4 - 15.0 * g6,
        g1 - 3.0 * g3 + 15.0 * g5,
        g2 - 6.0 * g4 + 45.0 * g6,
        g3 - 10.0 * g5,
        g4 - 15.0 * g6,
        g5,
        g6,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Linear, Link, Logistic, Poisson};

    fn families() -> Vec<(Box<dyn Family>, f64)> {
        vec![
            (Box::new(Logistic), -1.0),
            (Box::new(Poisson { link: Link::Log }), 3.0),
            (Box::new(Poisson { link: Link::Softplus }), 3.0),
            (Box::new(Linear::new(0.4).unwrap()), 0.7),
        ]
    }

    /// The definition, from differences of ℓ.
    fn plain(family: &dyn Family, eta: f64, s: f64, y: f64) -> [f64; HIGHEST] {
        let nodes = Rule::trapezoidal(s).nodes;
        let factorials = [1.0, 2.0, 6.0, 24.0, 120.0, 720.0];
        std::array::from_fn(|at| {
            let mut unit = [0.0; HIGHEST];
            unit[at] = 1.0;
            let a = monomials(&unit);
            let he = |z: f64| a.iter().rev().fold(0.0, |sum, a| sum * z + a);
            let term = |&(z, w): &(f64, f64)| w * family.difference(eta, s * z, y, 1.0) * he(z);
            nodes.iter().map(term).sum::<f64>() / factorials[at]
        })
    }

    #[test]
    fn parts_and_definition_agree() {
        let expansion = Expansion::new();
        for (family, y) in families() {
            for eta in [-3.0, -0.4, 0.0, 1.7] {
                for s in [0.11, 0.25, 0.6, 1.5, 4.0] {
                    let (got, want) =
                        (expansion.coefficients(&*family, eta, s, (y, 1.0)), plain(&*family, eta, s, y));
                    let size = want.iter().fold(0.0_f64, |m, h| m.max(h.abs()));
                    for (got, want) in got.iter().zip(want) {
                        assert!(
                            (got - want).abs() < 1e-11 * size,
                            "{} {eta} {s}: {got} {want}",
                            family.name()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn many_rows_have_the_coefficients_of_each() {
        let expansion = Expansion::new();
        let s = [0.0, 1e-30, 0.001, 0.3, 0.005, 0.0051, 0.02, 0.1, 0.12, 0.2, 0.28, 0.29, 2.0, 0.003];
        for (family, y) in families() {
            let mut rows = Expanded { s: s.to_vec(), y: vec![y; s.len()], ..Expanded::default() };
            rows.exposure = vec![1.0; s.len()];
            rows.eta = (0..s.len()).map(|i| 0.7 * i as f64 - 4.0).collect();
            expansion.many(&*family, &mut rows);
            for (i, &s) in s.iter().enumerate() {
                let want = expansion.coefficients(&*family, rows.eta[i], s, (y, 1.0));
                let size = want.iter().fold(0.0_f64, |m, h| m.max(h.abs()));
                for (got, want) in rows.h.iter().map(|h| h[i]).zip(want) {
                    let near = (got - want).abs() <= 1e-13 * want.abs() + 1e-15 * size;
                    assert!(near, "{} {s}: {got} {want}", family.name());
                }
            }
        }
    }

    /// Just below a rung the short rule agrees with the long one to full relative precision.
    #[test]
    fn every_rung_is_long_enough() {
        let expansion = Expansion::new();
        let mut worst = 0.0_f64;
        for (family, y) in families() {
            for eta in [-5.0, -1.1, 0.3, 2.0, 9.0] {
                for (s, _) in LADDER {
                    let got = expansion.coefficients(&*family, eta, s, (y, 1.0));
                    let long = means(&Rule::trapezoidal(s), &*family, eta, s, (y, 1.0));
                    let scales = [s, s * s / 2.0, s.powi(3) / 6.0];
                    for (order, scale) in scales.iter().enumerate() {
                        let want = long[order] * scale;
                        let error = (got[order] - want).abs() / want.abs().max(1e-3 * scale);
                        worst = worst.max(error);
                        assert!(error < 1e-12, "{} {eta} {s} {order}: {error}", family.name());
                    }
                }
            }
        }
        println!("largest relative error at a rung: {worst:.1e}");
    }

    #[test]
    fn tiny_widths_keep_their_digits() {
        let expansion = Expansion::new();
        for (family, y) in families() {
            for s in [1e-4, 1e-9, 1e-30] {
                let [a, b, c] = family.derivatives(0.8, y, 1.0);
                let h = expansion.coefficients(&*family, 0.8, s, (y, 1.0));
                for (got, want) in h.iter().zip([a * s, b * s * s / 2.0, c * s * s * s / 6.0]) {
                    assert!(
                        (got - want).abs() <= 1e2 * (s * s + 1e-16) * want.abs(),
                        "{}: {got} {want}",
                        family.name()
                    );
                }
            }
        }
    }
}
