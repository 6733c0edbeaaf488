//! The two kinds of weights of a chosen row, each with its own type, so that they cannot be confused.
//!
//! If the data give row i a weight fᵢ, L = Σ fᵢℓᵢ, and L_w = Σ mᵢ·fᵢℓᵢ over the chosen rows. Computations use the multiple mᵢ. Coreset
//! files store mᵢfᵢ, so that readers need no other column. [`Study`](crate::study::Study), which knows fᵢ, converts between them.
//! Without weights in the data, both are the same numbers.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

/// Multiples mᵢ of the rows' terms fᵢℓᵢ in the log-likelihood, which methods choose and everything below a study uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Multiples(Vec<f64>);

impl Multiples {
    /// The numbers.
    pub fn into_values(self) -> Vec<f64> {
        self.0
    }
}

impl From<Vec<f64>> for Multiples {
    fn from(multiples: Vec<f64>) -> Self {
        Self(multiples)
    }
}

impl<'a> IntoIterator for &'a Multiples {
    type Item = &'a f64;
    type IntoIter = std::slice::Iter<'a, f64>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Deref for Multiples {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.0
    }
}

impl DerefMut for Multiples {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.0
    }
}

/// Weights mᵢfᵢ of the rows' own log-likelihoods ℓᵢ, for files and other tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WrittenWeights(Vec<f64>);

impl WrittenWeights {
    /// The numbers.
    pub fn values(&self) -> &[f64] {
        &self.0
    }
}

impl From<Vec<f64>> for WrittenWeights {
    fn from(weights: Vec<f64>) -> Self {
        Self(weights)
    }
}
