//! The covariance of the random effects of a group as a function of unconstrained parameters.

use serde::{Deserialize, Serialize};

/// Most random effects of a group: the product rule of the quadrature takes the square of its nodes for two.
pub const MOST_EFFECTS: usize = 2;

/// What the effect of a group is multiplied by in each of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Term {
    /// z = 1.
    Intercept,
    /// z = x + a.
    Slope {
        /// The place of x among the features.
        feature: usize,
        /// The shift a.
        shift: f64,
    },
}

impl Term {
    /// z of a row with these features.
    #[inline]
    pub fn of(&self, features: &[f32]) -> f64 {
        match *self {
            Self::Intercept => 1.0,
            Self::Slope { feature, shift } => f64::from(features[feature]) + shift,
        }
    }
}

/// The random effects that every group has: one or two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    /// What they are multiplied by.
    pub terms: Vec<Term>,
    /// Whether two effects of a group may be correlated.
    pub correlated: bool,
}

impl Effects {
    /// An intercept for every group.
    pub fn intercepts() -> Self {
        Self { terms: vec![Term::Intercept], correlated: false }
    }

    /// Number of effects of a group, q.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether there is a correlation.
    pub fn has_correlation(&self) -> bool {
        self.correlated && self.len() > 1
    }

    /// Number of parameters of the covariance: log sd of each effect, then artanh of the correlation where there is one.
    pub fn parameters(&self) -> usize {
        self.len() + usize::from(self.has_correlation())
    }

    /// Λ and its derivatives at these parameters.
    pub fn factor(&self, parameters: &[f64]) -> Factor {
        // Beyond these an effect is 0 or the whole predictor; numbers stay finite.
        let sd = |at: usize| parameters[at].clamp(-300.0, 300.0).exp();
        let first = sd(0);
        if self.len() == 1 {
            return Factor { lambda: [first, 0.0, 0.0, 0.0], slopes: vec![[first, 0.0, 0.0, 0.0]] };
        }
        let second = sd(1);
        let turned = if self.has_correlation() { parameters[2] } else { 0.0 };
        // ρ = tanh r, √(1 − ρ²) = 1/cosh r.
        let (rho, rest) = (turned.tanh(), turned.clamp(-300.0, 300.0).cosh().recip());
        let lower = [rho * second, rest * second];
        let mut slopes = vec![[first, 0.0, 0.0, 0.0], [0.0, 0.0, lower[0], lower[1]]];
        if self.has_correlation() {
            slopes.push([0.0, 0.0, rest * rest * second, -rho * rest * second]);
        }
        Factor { lambda: [first, 0.0, lower[0], lower[1]], slopes }
    }
}

/// Λ, lower triangular, and its derivative by each parameter; 2 × 2 row-major, of which one effect uses the first number.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// Λ.
    pub lambda: [f64; 4],
    /// ∂Λ by each parameter.
    pub slopes: Vec<[f64; 4]>,
}

/// M v.
#[inline]
pub(super) fn apply(m: &[f64; 4], v: &[f64; 2]) -> [f64; 2] {
    [m[0] * v[0] + m[1] * v[1], m[2] * v[0] + m[3] * v[1]]
}

/// Mᵀ v.
#[inline]
pub(super) fn apply_transposed(m: &[f64; 4], v: &[f64; 2]) -> [f64; 2] {
    [m[0] * v[0] + m[2] * v[1], m[1] * v[0] + m[3] * v[1]]
}
