//! Kernels below data, models and solver: dispatch by instruction set, loops on all threads, small dense linear algebra.
//!
//! `corelet` and `sparse-nnls` re-export [`simd::choose`] and, with the feature `linalg`, [`linalg`]. Everything else
//! is for the crates of this workspace only and may change with any release.

#[doc(hidden)]
pub mod kernel;
#[cfg(feature = "linalg")]
pub mod linalg;
#[doc(hidden)]
pub mod parallel;
pub mod simd;
