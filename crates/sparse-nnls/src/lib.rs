//! Sparse non-negative least squares over a dictionary that is only questioned, never held:
//!
//! > minimise ‖y − Φw‖² subject to w ≥ 0, ‖w‖₀ ≤ k (and, for hard thresholding, Σw = L if wanted).
//!
//! Φ has n columns. A method may ask three things of it, and nothing of size n comes back: the [sum](Dictionary::sum)
//! of the columns, the [best](Dictionary::top) of them by some score, and [some](Dictionary::columns) of them in full.
//! So one definition of each method runs over a matrix in memory ([`Dense`]), or one recomputed at each pass, or one
//! that lives elsewhere.
//!
//! ```
//! use sparse_nnls::{Dense, Method, Solver};
//!
//! // Four columns in the plane; y is their sum, (4, 4), and one column of weight 2 is enough.
//! let phi = Dense::new(vec![1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 1.0, 1.0], 2)?;
//! let solution = Solver::new(&phi, 2).run(&Method::default())?;
//! assert_eq!(solution.weights.ids, [2]);
//! assert!((solution.weights.values[0] - 2.0).abs() < 1e-12);
//! # Ok::<(), sparse_nnls::Error>(())
//! ```
//!
//! A [`Solver`] is the one way in: it takes k or all [`Settings`], another target and a callback, and runs whatever implements
//! [`Algorithm`]. [`Method`] is the list of those that come with the crate.

mod constraint;
mod dense;
mod dictionary;
mod driver;
mod elimination;
mod error;
mod factors;
mod kernel;
mod method;
mod nnls;
mod parallel;
mod projection;
mod random;
mod scores;
mod status;
mod top_k;

/// The instruction set that kernels run with.
pub mod simd {
    pub use corelet_kernels::simd::{INSTRUCTION_SETS, Unavailable, choose, in_use};
}

pub use constraint::Constraint;
pub use dense::Dense;
pub use dictionary::{
    Batch, Candidate, Dictionary, Gathered, Oracle, OwnedQuery, Query, Ranking, Score, Sum,
};
pub use driver::{
    Algorithm, Info, Limits, PathPoint, Problem, Settings, Solution, Solver, Start, Step, Weights,
    residual_norm,
};
pub use error::{DictionaryError, Error};
pub use kernel::Element;
pub use method::{HardThresholding, LineSearch, Method, Pursuit, Resumed, SampleWeights};
pub use nnls::{SupportFit, SupportSolution, nnls_on_support};
pub use random::race_clock;
pub use status::Status;
pub use top_k::{Tile, TopK};
