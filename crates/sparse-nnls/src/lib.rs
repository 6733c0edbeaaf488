//! Sparse non-negative least squares.
