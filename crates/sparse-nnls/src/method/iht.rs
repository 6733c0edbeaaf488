//! Iterative hard thresholding, Algorithm 1 of the paper (Blumensath & Davies 2009).
//!
//! > w ← Π(w + μg), g = Φᵀ(y − Φw),
//!
//! with Π the projection onto the constraint and μ from a line search along g restricted to supp(w) ∪ {the k largest
//! |g|}, since no fixed step is safe (Blumensath & Davies 2010). One pass an iteration; the residual may rise.

use crate::method::hard_thresholding::Variant;

pub(super) const VARIANT: Variant = Variant { momentum: false, debias: false };
