//! Draws from any source, by the names of their parameters, in the coordinates of the model.

use super::{Study, StudyError};
use crate::posterior::systematic;
use crate::trust::Draws;

/// Columns of a table of draws that are no parameters.
const CHAIN: &str = "chain";
const DRAW: &str = "draw";
const WEIGHT: &str = "weight";
/// The column with the log density that draws were made from.
pub const LOG_DENSITY: &str = "log_density";
/// The prefix of the names of standardised parameters.
const STANDARDISED: &str = "standardised.";

/// Given draws of the parameters of the standardised features.
#[derive(Debug, Clone)]
pub struct GivenDraws {
    /// The draws.
    pub draws: Draws,
    /// The log density of the approximation at each draw, up to a constant, if known.
    pub log_density: Option<Vec<f64>>,
    /// Divergent draws.
    pub diverged: usize,
}

impl Study {
    /// Draws from named columns of equal length: a parameter each, and perhaps `chain`, `draw`, `weight` and `log_density`. Where a
    /// parameter is the logarithm of something, as `log_sigma`, that itself will do, as `sigma`. `original`: on the scale of the data.
    ///
    /// Draws with weights are resampled by them. Draws whose density is given are independent; others are of the chains that are
    /// named, or of one.
    ///
    /// # Errors
    /// Names the differences from the parameters of the model.
    pub fn draws_of(
        &self,
        columns: &[(String, Vec<f64>)],
        who: &str,
        original: bool,
    ) -> Result<GivenDraws, StudyError> {
        let refused = |reason: String| StudyError::Draws { who: who.to_owned(), reason };
        let find =
            |name: &str| columns.iter().find(|(known, _)| known == name).map(|(_, values)| &values[..]);
        let names = &self.frame.names;
        let missing: Vec<&str> =
            names.iter().filter(|name| self.given(columns, name).is_none()).map(String::as_str).collect();
        if !missing.is_empty() {
            let others = |name: &&str| ![CHAIN, DRAW, WEIGHT, LOG_DENSITY].contains(name);
            let have: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).filter(others).collect();
            return Err(refused(format!(
                "nothing is called {}; the model has the parameters {}, the draws {}",
                listed(&missing),
                listed(&names.iter().map(String::as_str).collect::<Vec<_>>()),
                listed(&have)
            )));
        }
        if let Some((name, _)) = columns.iter().find(|(name, _)| !self.is_known(name)) {
            return Err(refused(format!(
                "column '{name}' is no parameter of the model, which has {}",
                listed(&names.iter().map(String::as_str).collect::<Vec<_>>())
            )));
        }
        let of: Vec<Vec<f64>> = names.iter().filter_map(|name| self.given(columns, name)).collect();
        let count = of.first().map_or(0, Vec::len);
        for (name, values) in names.iter().zip(&of) {
            if let Some(at) = values.iter().position(|x| !x.is_finite()) {
                return Err(refused(format!("{name} of draw {at} is not finite ({})", values[at])));
            }
        }
        let (order, chains) = ordered(find(CHAIN), count).map_err(refused)?;
        let log_density =
            find(LOG_DENSITY).map(|values| order.iter().map(|&s| values[s]).collect::<Vec<_>>());
        let mut theta = Vec::with_capacity(count * names.len());
        for &s in &order {
            let draw: Vec<f64> = of.iter().map(|values| values[s]).collect();
            theta.extend(if original { self.to_standardised(&draw) } else { draw });
        }
        let independent = log_density.is_some() && chains == 1;
        let chains = if independent { None } else { Some(chains) };
        let mut draws = Draws { theta, dim: names.len(), chains, log_weights: None };
        let weights = find(WEIGHT);
        if let Some(weights) = weights {
            if let Some(at) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
                return Err(refused(format!(
                    "the weight of draw {at} is {}, but it must be ≥ 0",
                    weights[at]
                )));
            }
            if !weights.iter().any(|w| *w > 0.0) {
                return Err(refused("no draw has a weight above 0".to_owned()));
            }
        }
        if let Some(weights) = weights.filter(|weights| weights.iter().any(|w| *w != weights[0])) {
            if log_density.is_some() {
                return Err(refused(
                    "columns weight and log_density say the same twice: leave out one".to_owned(),
                ));
            }
            let total: f64 = weights.iter().sum();
            let logs: Vec<f64> = order.iter().map(|&s| (weights[s] / total).ln()).collect();
            draws.theta = systematic(&logs).into_iter().flat_map(|s| draws.row(s)).copied().collect();
        }
        Ok(GivenDraws { draws, log_density, diverged: 0 })
    }

    /// The column of a parameter, or the logarithm of that which the parameter is the logarithm of.
    fn given(&self, columns: &[(String, Vec<f64>)], name: &str) -> Option<Vec<f64>> {
        let find =
            |name: &str| columns.iter().find(|(known, _)| known == name).map(|(_, values)| values.clone());
        let is_intercept = name == INTERCEPT;
        find(name)
            .or_else(|| is_intercept.then(|| find("Intercept").or_else(|| find("intercept"))).flatten())
            .or_else(|| {
                let natural = self.is_dispersion(name).then(|| name.strip_prefix("log_")).flatten()?;
                Some(find(natural)?.into_iter().map(f64::ln).collect())
            })
    }

    fn is_dispersion(&self, name: &str) -> bool {
        self.model.dispersions().iter().any(|dispersion| dispersion.name == name)
    }

    fn is_known(&self, name: &str) -> bool {
        let names = &self.frame.names;
        let is = |name: &str| names.iter().any(|known| known == name);
        is(name)
            || [CHAIN, DRAW, WEIGHT, LOG_DENSITY].contains(&name)
            || name.ends_with("__")
            || (is(INTERCEPT) && ["Intercept", "intercept"].contains(&name))
            || self.is_dispersion(&format!("log_{name}"))
            || name.strip_prefix(STANDARDISED).is_some_and(is)
    }
}

/// What the constant feature is called.
const INTERCEPT: &str = "(intercept)";

/// The draws chain by chain, and the number of chains.
fn ordered(chain: Option<&[f64]>, count: usize) -> Result<(Vec<usize>, usize), String> {
    let Some(chain) = chain else { return Ok(((0..count).collect(), 1)) };
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| chain[a].total_cmp(&chain[b]));
    let lengths: Vec<usize> = order.chunk_by(|&a, &b| chain[a] == chain[b]).map(<[usize]>::len).collect();
    match lengths.iter().find(|&&length| length != lengths[0]) {
        Some(other) => Err(format!(
            "chains must be of equal length, but one has {} draws and another {other}",
            lengths[0]
        )),
        None => Ok((order, lengths.len().max(1))),
    }
}

/// Some names, not too many.
fn listed(names: &[&str]) -> String {
    const MOST: usize = 12;
    let shown = names.iter().take(MOST).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{shown} and {} more", names.len() - MOST) } else { shown }
}
