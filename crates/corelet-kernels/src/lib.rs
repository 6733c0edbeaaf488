//! Kernels below data, models and solver: the instruction set that loops run with, work on all threads, small dense linear algebra.
//!
//! Users of `corelet` and `sparse-nnls` meet [`simd::choose`] and, with the feature `linalg`, [`linalg`], both re-exported there; the rest
//! is for the crates of this workspace and may change with any release.

#[doc(hidden)]
pub mod kernel;
#[cfg(feature = "linalg")]
pub mod linalg;
#[doc(hidden)]
pub mod parallel;
pub mod simd;
