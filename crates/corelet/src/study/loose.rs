//! Levels of which the data say nothing, so that they range as far as their prior lets them.

use crate::data::{Outcome, Standardisation};
use crate::posterior::Gaussian;
use crate::words::number;

use super::assign::may_be_flag;
use super::{Frame, Resolved};

/// A step of one in a linear predictor that moves odds or rates is held by nothing where its standard deviation is above this:
/// two of them are a factor of e²⁰.
const LOOSE: f64 = 10.0;

/// What to say where the coefficients of features that are 0 or 1 are known to nobody, on the scale of log odds or log rates.
pub(super) fn loose_levels(frame: &Frame, model: &Resolved, posterior: &Gaussian) -> Option<String> {
    let Standardisation { columns, means, scale, factor, .. } = &frame.standardisation;
    if model.model.is_scaled_by_target() || model.model.outcome() == Outcome::None || !factor.is_empty() {
        return None;
    }
    let sds: Vec<f64> = posterior.sds().collect();
    let mut loose: Vec<(&str, f64)> = Vec::new();
    for (&feature, (&mean, &sd)) in columns.iter().zip(means.iter().zip(scale)) {
        if may_be_flag(mean, sd) {
            let coefficients = (feature..model.coefficients()).step_by(frame.features);
            let known = coefficients.map(|at| (frame.names[at].as_str(), sds[at] / sd));
            loose.extend(known.filter(|(_, sd)| *sd > LOOSE));
        }
    }
    let (name, sd) = loose.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let more = match loose.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "the data do not inform '{name}'{more}, which the prior lets range over ±{} on the scale of the predictor; priors on the \
         scale of the data, as the weakly informative ones (auto) are, hold such levels",
        number(sd)
    ))
}
