//! Automated accelerated IHT, Algorithm 2 of the paper: the step of IHT taken from an extrapolated point.
//!
//! > wₜ₊₁ = Π(zₜ + μg(zₜ)), zₜ₊₁ = wₜ₊₁ + τ(wₜ₊₁ − wₜ),
//!
//! with μ and τ the exact minimisers along their directions. One pass an iteration; the residual may rise.

use crate::method::hard_thresholding::Variant;

pub(super) const VARIANT: Variant = Variant { momentum: true, debias: false };
