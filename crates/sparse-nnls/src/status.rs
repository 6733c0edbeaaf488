//! Why a run stopped.

use serde::{Deserialize, Serialize};

/// Why a run stopped. Every result carries one; a limit is never a silent success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// The method did all that it does: k points chosen, or its refinement came to rest.
    Completed,
    /// The method's own stopping rule was met (hard thresholding: ‖wₜ − wₜ₋₁‖ ≤ tolerance·‖wₜ‖).
    Converged,
    /// The residual reached the requested target, with the fewest points found.
    TargetReached,
    /// The residual is as small as floating point can make it, or a millionth of y and nearly as small as it gets; further points
    /// would fit rounding errors.
    NumericalFloor,
    /// No column makes an acute angle with the residual: this is the minimum over *all* non-negative weights.
    Optimal,
    /// The method's own iteration limit (the paper's 300), or the driver's, came first.
    IterationLimit,
    /// The limit on passes over the dictionary came first.
    PassLimit,
    /// The time limit came first.
    TimeLimit,
    /// The callback asked to stop.
    Stopped,
}

impl Status {
    /// True if the method ended by its own rule, false where something cut it short.
    pub fn is_natural(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Converged | Self::TargetReached | Self::NumericalFloor | Self::Optimal
        )
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Completed => "completed",
            Self::Converged => "converged",
            Self::TargetReached => "target reached",
            Self::NumericalFloor => "numerical floor",
            Self::Optimal => "optimal",
            Self::IterationLimit => "iteration limit",
            Self::PassLimit => "pass limit",
            Self::TimeLimit => "time limit",
            Self::Stopped => "stopped",
        })
    }
}
