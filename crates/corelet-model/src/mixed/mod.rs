//! Mixed models: the log-likelihood of a whole group of rows with its random effects integrated out, and its gradient.
//!
//! Row j of group g has the predictor η = xᵀβ + o + zᵀu_g, where u_g ~ N(0, ΛΛᵀ) is the same for all rows of the group. With
//! u = Λv, v ~ N(0, I),
//!
//! > ℓ_g(φ) = log ∫ exp(Σⱼ fⱼ ℓ(xⱼᵀβ + oⱼ + zⱼᵀΛv; yⱼ)) N(v; 0, I) dv,   φ = (β, dispersions, log sds, correlation),
//!
//! by adaptive Gauss–Hermite quadrature about the mode of the integrand. The weights fⱼ of rows stand inside of the integral; a
//! weight of the group is a factor of ℓ_g. Factors that cross the groups add r of the row's level to η, and r are parameters, see
//! [`Kept`].

mod covariance;
mod draw;
mod group;
mod jets;
mod kept;
mod near;
mod peaks;

#[cfg(test)]
mod tests;

pub use covariance::{Effects, Factor, MOST_EFFECTS, Term};
pub use group::{Effect, Nodes, Place, Scratch};
pub use kept::Kept;
pub use near::{NearDraws, NearScratch};

use std::sync::Arc;

use corelet_data::observations::Observations;
use thiserror::Error;

use self::jets::RowFamily;
use crate::{Inputs, Model};

/// Rows in groups under a model with random effects.
pub struct Mixed {
    family: RowFamily,
    observations: Arc<Observations>,
    effects: Effects,
    /// Where each group begins, and where the last one ends.
    starts: Vec<usize>,
    /// Number of parameters of the rows' own model: coefficients, and what it has besides.
    fixed: usize,
    /// Further factors, whose effects are parameters.
    kept: Vec<Kept>,
}

/// Why there is no mixed model of these rows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MixedError {
    /// A likelihood whose rows have no predictor that a random effect could be added to.
    #[error("the {model} model takes no random effects: {why}")]
    Model {
        /// Name of the model.
        model: &'static str,
        /// What the model lacks.
        why: &'static str,
    },
    /// Groups that are not all rows.
    #[error("the groups end at row {end}, but there are {rows} rows")]
    Rows {
        /// Where they end.
        end: usize,
        /// Number of rows.
        rows: usize,
    },
    /// Too many random effects, or none.
    #[error("a group has {0} random effects, but it must have one or two")]
    Effects(usize),
}

impl Mixed {
    /// The rows of `model`, which stand group by group, with random effects of each group; group g has the rows
    /// `starts[g]..starts[g + 1]`.
    ///
    /// # Errors
    /// See [`MixedError`].
    pub fn new(model: &dyn Model, effects: Effects, starts: Vec<usize>) -> Result<Self, MixedError> {
        let refused = |why| MixedError::Model { model: model.name(), why };
        let (family, observations) = match (model.linear(), model.joint()) {
            (Some(linear), _) => (RowFamily::One(linear.family), linear.observations),
            (_, Some(joint)) => {
                let features =
                    joint.layout.inputs().iter().filter(|&&input| input == Inputs::Features).count();
                if features != 1 || joint.layout.inputs()[0] != Inputs::Features {
                    return Err(refused("each of its rows has several predictors"));
                }
                (RowFamily::Joint(joint.family, joint.layout.predictors() - 1), joint.observations)
            }
            _ => return Err(refused("its rows have no linear predictor")),
        };
        let (end, rows) = (starts.last().copied().unwrap_or(0), observations.len());
        if end != rows {
            return Err(MixedError::Rows { end, rows });
        }
        if !(1..=MOST_EFFECTS).contains(&effects.len()) {
            return Err(MixedError::Effects(effects.len()));
        }
        let fixed = observations.dim + family.constants();
        Ok(Self { family, observations, effects, starts, fixed, kept: Vec::new() })
    }

    /// No rows, an intercept.
    pub fn empty() -> Self {
        let observations = Arc::new(Observations::default());
        let (family, effects) = (RowFamily::One(Arc::new(crate::Logistic)), Effects::intercepts());
        Self { family, observations, effects, starts: vec![0], fixed: 0, kept: Vec::new() }
    }

    /// With the effects of further factors as parameters; η has r of the row's level in each.
    #[must_use]
    pub fn with_kept(mut self, kept: Vec<Kept>) -> Self {
        debug_assert!(kept.iter().all(|kept| kept.levels.len() == self.observations.len()));
        self.kept = kept;
        self
    }

    /// The factors whose effects are parameters.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// The same, for what stands between a parameter and an effect to be set.
    pub fn kept_mut(&mut self) -> &mut [Kept] {
        &mut self.kept
    }

    /// Where the parameters of each of these factors begin; the first of each is the log of its sd.
    pub fn kept_starts(&self) -> Vec<usize> {
        let first = self.fixed + self.effects.parameters();
        let ends = self.kept.iter().scan(first, |next, kept| {
            let start = *next;
            *next += kept.parameters();
            Some(start)
        });
        ends.collect()
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of parameters: those of the rows' own model, of the covariance of the random effects, and of factors that are kept.
    pub fn dim(&self) -> usize {
        self.fixed + self.effects.parameters() + self.kept.iter().map(Kept::parameters).sum::<usize>()
    }

    /// How many of the parameters, the first, belong to the rows' own model.
    pub fn fixed(&self) -> usize {
        self.fixed
    }

    /// The random effects of each group.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// The rows of a group.
    pub fn rows_of(&self, group: usize) -> std::ops::Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }

    /// The rows, group by group.
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// Whether the log-likelihood of a row is a quadratic function of its predictor, so that the integral has a closed form, to
    /// which three nodes come to rounding.
    pub fn is_gaussian(&self) -> bool {
        self.family.name() == "linear"
    }
}
