//! The log-likelihoods of some rows and their derivatives, whether a row has one predictor or others beside it.

use std::sync::Arc;

use crate::{Family, Jets, JointFamily, JointJets};

/// The likelihood of a row.
pub(super) enum RowFamily {
    /// A family of one linear predictor.
    One(Arc<dyn Family>),
    /// Of one predictor and so many parameters that are the same for every row.
    Joint(Arc<dyn JointFamily>, usize),
}

impl RowFamily {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::One(family) => family.name(),
            Self::Joint(family, _) => family.name(),
        }
    }

    /// Whether the log-likelihood of a row is concave in its predictor, whatever its target.
    pub(super) fn is_concave(&self) -> bool {
        match self {
            Self::One(family) => family.is_log_concave(),
            Self::Joint(family, _) => family.is_concave_in_first(),
        }
    }

    /// The predictor that a row of this target and exposure would have by itself, roughly, where that is a number.
    pub(super) fn own_predictor(&self, target: (f64, f64)) -> Option<f64> {
        match self {
            Self::One(_) => None,
            Self::Joint(family, _) => family.own_predictor(target),
        }
    }

    /// Number of parameters beside the predictor.
    pub(super) fn constants(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Joint(_, constants) => *constants,
        }
    }

    /// Buffers for its rows.
    pub(super) fn jets(&self) -> RowJets {
        match self {
            Self::One(_) => RowJets::One(Jets::default()),
            Self::Joint(family, _) => RowJets::Joint(JointJets::new(family.predictors())),
        }
    }

    /// Fills in the answers of rows whose predictors, targets and exposures are set.
    pub(super) fn fill(&self, jets: &mut RowJets) {
        match (self, jets) {
            (Self::One(family), RowJets::One(jets)) => family.jets(jets.asked()),
            (Self::Joint(family, _), RowJets::Joint(jets)) => family.jets(jets.asked()),
            _ => unreachable!("buffers are of this family"),
        }
    }
}

/// Rows and their answers.
pub(super) enum RowJets {
    One(Jets),
    Joint(JointJets),
}

impl RowJets {
    /// The parameters that are the same for every row.
    pub(super) fn set_constants(&mut self, constants: &[f64]) {
        if let Self::Joint(jets) = self {
            jets.constants.clear();
            jets.constants.extend_from_slice(constants);
        }
    }

    /// Predictors, targets and exposures, to be set.
    pub(super) fn columns(&mut self) -> [&mut Vec<f64>; 3] {
        match self {
            Self::One(Jets { eta, y, exposure, .. }) => [eta, y, exposure],
            Self::Joint(JointJets { zeta, y, exposure, .. }) => [&mut zeta[0], y, exposure],
        }
    }

    /// ℓ, ∂ℓ/∂η and ∂²ℓ/∂η².
    pub(super) fn answers(&self) -> [&[f64]; 3] {
        match self {
            Self::One(Jets { value, first, second, .. }) => [value, first, second],
            Self::Joint(JointJets { value, gradient, hessian, .. }) => [value, &gradient[0], &hessian[0]],
        }
    }

    /// The derivatives by the parameters that are the same for every row.
    pub(super) fn constant_slopes(&self) -> &[Vec<f64>] {
        match self {
            Self::One(_) => &[],
            Self::Joint(jets) => &jets.gradient[1..],
        }
    }
}
