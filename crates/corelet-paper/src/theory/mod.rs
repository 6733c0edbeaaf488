//! The paper's convergence theory on problems small enough to know all of its constants: restricted isometry by brute
//! force, the contraction of Theorem 1, the rate of Corollary 1, and the iterates of A-IHT beside their bounds.

pub(crate) mod experiment;
mod isometry;
#[cfg(test)]
mod tests;
mod trace;

/// ‖x‖.
fn length(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}
