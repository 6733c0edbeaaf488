//! Sparse non-negative least squares over a dictionary that is only queried and never stored:
//!
//! > minimise ‖y − Φw‖² subject to w ≥ 0, ‖w‖₀ ≤ k (and, for hard thresholding, optionally Σw = L).
//!
//! Φ has n columns. A method may send three queries, whose answers never have size n: the [sum](Dictionary::sum)
//! of the columns, the [best](Dictionary::top) columns by some score, and [given](Dictionary::columns) columns.
//! So the same method works with a matrix in memory ([`Dense`]), with one that is recomputed in each pass, and with one
//! that is stored elsewhere.
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
//! [`Solver`] is the entry point: it takes k or all [`Settings`], optionally another target and a callback, and runs any implementation of
//! [`Algorithm`]. [`Method`] lists the algorithms of this crate.

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
