//! One-dimensional log-likelihoods ℓ(η; y, e): all that a model with a linear predictor has to define.

/// A log-likelihood ℓ(η; y, e) of one number η, with target y and exposure e (1 where the data have none).
///
/// A new family needs [`name`](Family::name), [`check_target`](Family::check_target), [`value`](Family::value) and
/// [`derivatives`](Family::derivatives); the rest has defaults that are exact, and can be replaced by faster ones.
pub trait Family: Send + Sync {
    /// One word for tables and files.
    fn name(&self) -> &'static str;

    /// `Err` with what is needed, in words, where `y` is no possible target.
    fn check_target(&self, y: f64) -> Result<(), &'static str>;

    /// ℓ(η; y, e), constants included.
    fn value(&self, eta: f64, y: f64, exposure: f64) -> f64;

    /// Whether ℓ is concave in η, whatever y and e are: then the posterior under a log-concave prior has one mode, and no other is
    /// looked for. The default, no, is always safe.
    fn is_log_concave(&self) -> bool {
        false
    }

    /// ∂ℓ/∂η, ∂²ℓ/∂η², ∂³ℓ/∂η³.
    fn derivatives(&self, eta: f64, y: f64, exposure: f64) -> [f64; 3];

    /// ℓ and its first two derivatives at once, where they share work.
    fn jet(&self, eta: f64, y: f64, exposure: f64) -> [f64; 3] {
        let [first, second, _] = self.derivatives(eta, y, exposure);
        [self.value(eta, y, exposure), first, second]
    }

    /// Fills in ℓ and its first two derivatives of many rows.
    ///
    /// The default calls [`jet`](Family::jet); a family that is used at scale computes them a register at a time.
    fn jets(&self, rows: &mut Jets) {
        rows.fill(|eta, y, exposure| self.jet(eta, y, exposure));
    }

    /// Fills in the first three derivatives of many rows.
    ///
    /// The default calls [`derivatives`](Family::derivatives); a family that is used at scale computes them a register at a time.
    fn slopes(&self, rows: &mut Slopes) {
        rows.fill(|eta, y, exposure| self.derivatives(eta, y, exposure));
    }

    /// c₁ … c₇ with ℓ(η + δ) − ℓ(η) = Σ cₖδᵏ to full relative precision of f32 for |δ| ≤
    /// [`SERIES_RANGE`](crate::vector_math::SERIES_RANGE), where there are such.
    fn series(&self, _eta: f64, _y: f64, _exposure: f64) -> Option<[f64; 7]> {
        None
    }

    /// ℓ(η + δ) − ℓ(η) to full relative precision, also at δ = 10⁻⁹.
    ///
    /// The default integrates ℓ′ from η to η + δ by Gauss–Legendre quadrature where δ is small, and subtracts
    /// elsewhere.
    fn difference(&self, eta: f64, delta: f64, y: f64, exposure: f64) -> f64 {
        if delta.abs() > 0.25 {
            return self.value(eta + delta, y, exposure) - self.value(eta, y, exposure);
        }
        let half = 0.5 * delta;
        let slope = |t: f64| self.derivatives(eta + half + half * t, y, exposure)[0];
        half * LEGENDRE.iter().map(|&(node, weight)| weight * (slope(node) + slope(-node))).sum::<f64>()
    }

    /// Replaces each δ of `deltas` by ℓ(η + δ) − ℓ(η), in f64.
    ///
    /// The default calls [`difference`](Family::difference); a series that is exact enough for small δ is faster.
    fn differences_row_f64(&self, eta: f64, y: f64, exposure: f64, deltas: &mut [f64]) {
        for delta in deltas {
            *delta = self.difference(eta, *delta, y, exposure);
        }
    }

    /// Replaces each δ of `deltas` by ℓ(η + δ) − ℓ(η), to full relative precision of f32.
    ///
    /// The default calls [`difference`](Family::difference); a family that is used at scale gives a kernel to
    /// [`map_in_place`](crate::vector_math::map_in_place).
    fn differences_row(&self, eta: f64, y: f64, exposure: f64, deltas: &mut [f32]) {
        for delta in deltas {
            *delta = self.difference(eta, *delta as f64, y, exposure) as f32;
        }
    }
}

/// The predictor, target and exposure of some rows, and the log-likelihood of each with its first two derivatives.
#[derive(Debug, Clone, Default)]
pub struct Jets {
    /// η.
    pub eta: Vec<f64>,
    /// y.
    pub y: Vec<f64>,
    /// e.
    pub exposure: Vec<f64>,
    /// ℓ.
    pub value: Vec<f64>,
    /// ∂ℓ/∂η.
    pub first: Vec<f64>,
    /// ∂²ℓ/∂η².
    pub second: Vec<f64>,
}

/// The predictor, target and exposure of some rows, and the first three derivatives of the log-likelihood of each.
#[derive(Debug, Clone, Default)]
pub struct Slopes {
    /// η.
    pub eta: Vec<f64>,
    /// y.
    pub y: Vec<f64>,
    /// e.
    pub exposure: Vec<f64>,
    /// ∂ℓ/∂η.
    pub first: Vec<f64>,
    /// ∂²ℓ/∂η².
    pub second: Vec<f64>,
    /// ∂³ℓ/∂η³.
    pub third: Vec<f64>,
}

impl Slopes {
    /// The same with room for the answers: predictors, targets and exposures have been set.
    pub fn asked(&mut self) -> &mut Self {
        for answer in [&mut self.first, &mut self.second, &mut self.third] {
            answer.resize(self.eta.len(), 0.0);
        }
        self
    }

    /// Fills in the answers, row by row.
    pub(super) fn fill(&mut self, derivatives: impl Fn(f64, f64, f64) -> [f64; 3]) {
        for i in 0..self.eta.len() {
            [self.first[i], self.second[i], self.third[i]] =
                derivatives(self.eta[i], self.y[i], self.exposure[i]);
        }
    }
}

impl Jets {
    /// The same with room for the answers: predictors, targets and exposures have been set.
    pub(super) fn asked(&mut self) -> &mut Self {
        for answer in [&mut self.value, &mut self.first, &mut self.second] {
            answer.resize(self.eta.len(), 0.0);
        }
        self
    }

    /// Fills in the answers, row by row.
    pub(super) fn fill(&mut self, jet: impl Fn(f64, f64, f64) -> [f64; 3]) {
        for i in 0..self.eta.len() {
            [self.value[i], self.first[i], self.second[i]] = jet(self.eta[i], self.y[i], self.exposure[i]);
        }
    }
}

/// The positive nodes and the weights of the 8-point Gauss–Legendre rule on [−1, 1].
pub(super) const LEGENDRE: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// ∫₀^δ (δ − t)·f″(t) dt = f(δ) − f(0) − f′(0)δ of a function whose second derivative is smooth on [0, δ].
pub(super) fn curved_part(delta: f64, bend: impl Fn(f64) -> f64) -> f64 {
    let term = |node: f64| 0.5 * (1.0 - node) * bend(0.5 * delta * (1.0 + node));
    let nodes = LEGENDRE.iter().map(|&(node, weight)| weight * (term(node) + term(-node)));
    0.5 * delta * delta * nodes.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Logistic, Poisson};

    #[test]
    fn many_rows_have_the_derivatives_of_each() {
        let families: [(&dyn Family, f64); 3] = [
            (&Logistic, -1.0),
            (&Poisson { link: Link::Log }, 3.0),
            (&Poisson { link: Link::Softplus }, 0.0),
        ];
        for (family, y) in families {
            let eta: Vec<f64> = (-60..=60).map(|i| 0.61 * f64::from(i)).chain([-800.0, 300.0]).collect();
            let (y_of_each, exposure) = (vec![y; eta.len()], vec![0.7; eta.len()]);
            let mut rows = Jets { eta: eta.clone(), y: y_of_each, exposure, ..Jets::default() };
            family.jets(rows.asked());
            let (y_of_each, exposure) = (rows.y.clone(), rows.exposure.clone());
            let mut slopes = Slopes { eta: eta.clone(), y: y_of_each, exposure, ..Slopes::default() };
            family.slopes(slopes.asked());
            for (i, &eta) in eta.iter().enumerate() {
                let want = family.jet(eta, y, 0.7).into_iter().chain(family.derivatives(eta, y, 0.7));
                let jet = [rows.value[i], rows.first[i], rows.second[i]];
                let got = jet.into_iter().chain([slopes.first[i], slopes.second[i], slopes.third[i]]);
                for (got, want) in got.zip(want) {
                    let near = (got - want).abs() <= 1e-14 * want.abs() + 1e-300;
                    assert!(near, "{} at {eta}: {got} {want}", family.name());
                }
            }
        }
    }
}
