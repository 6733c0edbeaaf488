//! Automated accelerated IHT with a de-biasing step, Algorithm 3 of the paper: A-IHT with one more exact gradient step
//! inside the support that the projection has just found.
//!
//! > xₜ = Π(zₜ + μg(zₜ)), wₜ₊₁ = Π(xₜ + μ′g(xₜ)|supp(xₜ)), zₜ₊₁ = wₜ₊₁ + τ(wₜ₊₁ − wₜ).
//!
//! The second gradient needs the columns of the support alone, so an iteration is still one pass; the authors' code makes
//! two. The residual may rise.

use crate::method::hard_thresholding::Variant;

pub(super) const VARIANT: Variant = Variant { momentum: true, debias: true };
