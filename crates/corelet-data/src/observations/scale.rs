//! The scale of the targets.

use super::Observations;

/// What a default prior takes from the targets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TargetScale {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, with n, or with the sum of the weights of rows that have some.
    pub sd: f64,
    /// Their root mean square.
    pub rms: f64,
}

impl TargetScale {
    /// Of the targets of these rows, by their weights where they have any, in two passes: a large mean costs no digits.
    pub fn of(rows: &Observations) -> Self {
        let targets = || rows.target.iter().enumerate().map(|(i, &y)| (rows.weight(i), y));
        let n = if rows.target.is_empty() { 1.0 } else { rows.total_weight() };
        let mean = targets().map(|(weight, y)| weight * y).sum::<f64>() / n;
        let variance = targets().map(|(weight, y)| weight * (y - mean).powi(2)).sum::<f64>() / n;
        Self { mean, sd: variance.sqrt(), rms: (variance + mean * mean).sqrt() }
    }
}
