//! SparseVI as the experiments run it: its settings, and one run that goes through every size.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// γₜ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepSize {
    OverT { scale: f64 },
    OverOnePlusT { scale: f64 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SparseViSettings {
    pub(crate) draws: usize,
    pub(crate) steps: usize,
    pub(crate) step_size: StepSize,
}

impl Default for SparseViSettings {
    fn default() -> Self {
        Self { draws: 500, steps: 500, step_size: StepSize::OverOnePlusT { scale: 0.5 } }
    }
}

/// The coreset after some point was added.
#[derive(Debug, Clone)]
pub(crate) struct SparseViPoint {
    pub(crate) rows: Vec<usize>,
    pub(crate) weights: Vec<f64>,
    pub(crate) seconds: f64,
    pub(crate) passes: f64,
}

/// Whether this build has SparseVI.
pub(crate) const AVAILABLE: bool = false;

/// Runs SparseVI up to the largest of `sizes` and hands back the coresets of these sizes, as far as it came.
pub(crate) fn run(
    _problem: &Problem,
    _sizes: &[usize],
    _settings: &SparseViSettings,
    _seed: u64,
    _go_on: &dyn Fn() -> ControlFlow<()>,
) -> anyhow::Result<Vec<(usize, SparseViPoint)>> {
    Ok(Vec::new())
}
