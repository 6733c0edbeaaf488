//! The priors that were used, as a summary says them.

use serde::{Deserialize, Serialize};

use super::numbers::number;
use crate::posterior::Density;

/// Parameters with one prior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriorGroup {
    /// The name or the pattern that they go by.
    pub parameters: String,
    /// Number of these parameters.
    pub count: usize,
    /// Their prior, on the scale that it was given on.
    pub prior: Density,
    /// Which that is; none for what belongs to no feature.
    pub scale: Option<String>,
}

impl PriorGroup {
    /// A line of a summary.
    pub fn line(&self) -> String {
        let scale = self.scale.as_ref().map_or_else(String::new, |scale| format!(" on the {scale} scale"));
        let count = if self.count == 1 { String::new() } else { format!(" ({})", self.count) };
        format!("{}{count} ~ {}{scale}", self.parameters, self.prior.worded(number))
    }
}
