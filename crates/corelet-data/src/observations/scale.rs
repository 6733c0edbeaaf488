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
    /// Σy over Σe, where e is what stands beside a target: a rate where that is an exposure, a share of trials, a time an event. The mean
    /// where there is nothing.
    pub ratio: f64,
    /// The mean offset.
    pub offset: f64,
}

impl TargetScale {
    /// Of the targets of these rows, by their weights where they have any, in two passes: a large mean costs no digits.
    pub fn of(rows: &Observations) -> Self {
        let targets = || rows.target.iter().enumerate().map(|(i, &y)| (rows.weight(i), y));
        let n = if rows.target.is_empty() { 1.0 } else { rows.total_weight() };
        let mean = targets().map(|(weight, y)| weight * y).sum::<f64>() / n;
        let variance = targets().map(|(weight, y)| weight * (y - mean).powi(2)).sum::<f64>() / n;
        let beside = targets().enumerate().map(|(i, (weight, _))| weight * rows.target(i).1).sum::<f64>() / n;
        let offset = match rows.offset {
            Some(_) => targets().enumerate().map(|(i, (weight, _))| weight * rows.offset(i)).sum::<f64>() / n,
            None => 0.0,
        };
        let ratio = if beside > 0.0 { mean / beside } else { mean };
        Self { mean, sd: variance.sqrt(), rms: (variance + mean * mean).sqrt(), ratio, offset }
    }
}
