//! The two meanings that the weight of a chosen row has, each a type of its own, so that one is never taken for the other.
//!
//! Where the data give row i a weight fᵢ, L = Σ fᵢℓᵢ, and L_w = Σ mᵢ·fᵢℓᵢ over the chosen rows. What is computed with is the multiple mᵢ; what a
//! coreset is written with is mᵢfᵢ, since whoever reads it needs no other column then. [`Study`](crate::study::Study), which knows fᵢ, makes
//! one of the other. Where the data have no weights both are the same numbers.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

/// Multiples mᵢ of the rows' terms fᵢℓᵢ in the log-likelihood: what methods choose and everything below a study computes with.
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

/// Weights mᵢfᵢ of the rows' own log-likelihoods ℓᵢ: what files and other tools have.
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
