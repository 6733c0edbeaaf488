//! Restricted isometry by brute force, and the constants of Theorem 1 that follow from it.

use corelet::linalg::{dot, symmetric_eigenvalues};
use sparse_nnls::{Dictionary, Error};

/// The most supports that are looked at.
const MOST_SUPPORTS: f64 = 2e6;

/// α and β with α‖w‖² ≤ ‖Φw‖² ≤ β‖w‖² for every w of at most `sparsity` non-zeros: the paper's Assumption 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RestrictedIsometry {
    /// Most non-zeros of w.
    pub(crate) sparsity: usize,
    /// The smallest eigenvalue of ΦₛᵀΦₛ over all supports of that size.
    pub(crate) alpha: f64,
    /// The largest.
    pub(crate) beta: f64,
}

impl RestrictedIsometry {
    /// From the eigenvalues of ΦₛᵀΦₛ for every support of `sparsity` columns, or of all where there are fewer.
    ///
    /// Smaller supports need no look: their eigenvalues lie between those of any support that holds them.
    ///
    /// # Errors
    /// [`Error::Setting`] where the sparsity is zero or there are more than two million supports.
    pub(super) fn brute_force(gram: &Gram, sparsity: usize) -> anyhow::Result<Self> {
        let size = sparsity.min(gram.n);
        let supports = (0..size).fold(1.0, |count, i| count * (gram.n - i) as f64 / (i + 1) as f64);
        if size == 0 || supports > MOST_SUPPORTS {
            let expected = "supports of that size must be at least one and at most two million";
            return Err(Error::Setting { name: "sparsity", value: sparsity as f64, expected }.into());
        }
        let (mut alpha, mut beta) = (f64::INFINITY, 0.0_f64);
        let mut support: Vec<usize> = (0..size).collect();
        loop {
            for eigenvalue in symmetric_eigenvalues(&gram.restricted(&support), size)? {
                alpha = alpha.min(eigenvalue);
                beta = beta.max(eigenvalue);
            }
            if !advance(&mut support, gram.n) {
                return Ok(Self { sparsity, alpha, beta });
            }
        }
    }
}

/// The constants of Theorem 1 for k-sparse weights.
///
/// > ρ = 2·max{β₂ₖ/α₃ₖ − 1, 1 − α₂ₖ/β₃ₖ} + (β₄ₖ − α₄ₖ)/α₃ₖ
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Contraction {
    /// Number of points, k.
    pub(crate) k: usize,
    /// αⱼₖ and βⱼₖ for j = 1, 2, 3, 4.
    pub(crate) isometry: [RestrictedIsometry; 4],
    /// ρ.
    pub(crate) rho: f64,
    /// What ‖ε‖ = ‖y − Φw*‖ is multiplied by, (2/α₃ₖ)√β₂ₖ: what the proof shows.
    pub(crate) noise: f64,
    /// What the paper prints in its place, 2β₃ₖ√β₂ₖ, which is no bound (`docs/errata.md`).
    pub(crate) printed_noise: f64,
}

impl Contraction {
    /// By brute force over all supports of up to 4k columns.
    ///
    /// # Errors
    /// As [`RestrictedIsometry::brute_force`], and whatever the dictionary fails with.
    pub(crate) fn brute_force(dictionary: &dyn Dictionary, k: usize) -> anyhow::Result<Self> {
        let gram = Gram::new(dictionary)?;
        let of = |multiple: usize| RestrictedIsometry::brute_force(&gram, multiple * k);
        let [one, two, three, four] = [of(1)?, of(2)?, of(3)?, of(4)?];
        let spread = (two.beta / three.alpha - 1.0).max(1.0 - two.alpha / three.beta);
        Ok(Self {
            k,
            isometry: [one, two, three, four],
            rho: 2.0 * spread + (four.beta - four.alpha) / three.alpha,
            noise: 2.0 / three.alpha * two.beta.sqrt(),
            printed_noise: 2.0 * three.beta * two.beta.sqrt(),
        })
    }

    /// Theorem 1: ‖wₜ₊₁ − w*‖ ≤ ρ|1 + τₜ|·‖wₜ − w*‖ + ρ|τₜ|·‖wₜ₋₁ − w*‖ + (2/α₃ₖ)√β₂ₖ·‖ε‖.
    pub(crate) fn invariant(&self, tau: f64, distance: f64, distance_before: f64, epsilon: f64) -> f64 {
        self.rho * ((1.0 + tau).abs() * distance + tau.abs() * distance_before) + self.noise * epsilon
    }

    /// φ = (ρ(1 + τ) + √(ρ²(1 + τ)² + 4ρτ))/2 of Corollary 1, for τ = max |τᵢ|; below 1 just where ρ < 1/(1 + 2τ).
    pub(crate) fn rate(&self, tau: f64) -> f64 {
        let linear = self.rho * (1.0 + tau);
        0.5 * (linear + (linear * linear + 4.0 * self.rho * tau).sqrt())
    }

    /// ρτ/φ, the share that the iterate before has in Corollary 1.
    pub(super) fn memory(&self, tau: f64) -> f64 {
        let rate = self.rate(tau);
        if rate > 0.0 { self.rho * tau / rate } else { 0.0 }
    }
}

/// The columns one after the other.
pub(super) fn all_columns(dictionary: &dyn Dictionary) -> anyhow::Result<Vec<f64>> {
    let ids: Vec<usize> = (0..dictionary.len()).collect();
    let mut entries = vec![0.0; ids.len() * dictionary.coordinates()];
    dictionary.columns(&ids, &mut entries)?;
    Ok(entries)
}

/// ΦᵀΦ.
pub(super) struct Gram {
    n: usize,
    entries: Vec<f64>,
}

impl Gram {
    pub(super) fn new(dictionary: &dyn Dictionary) -> anyhow::Result<Self> {
        let (n, coordinates) = (dictionary.len(), dictionary.coordinates());
        if n == 0 || coordinates == 0 {
            return Err(Error::EmptyDictionary { columns: n, coordinates }.into());
        }
        let columns = all_columns(dictionary)?;
        let column = |i: usize| &columns[i * coordinates..][..coordinates];
        let entries = (0..n * n).map(|at| dot(column(at / n), column(at % n))).collect();
        Ok(Self { n, entries })
    }

    /// ΦₛᵀΦₛ, row-major.
    fn restricted(&self, support: &[usize]) -> Vec<f64> {
        support.iter().flat_map(|i| support.iter().map(move |j| self.entries[i * self.n + j])).collect()
    }
}

/// The next support of that size in lexicographic order; `false` after the last.
fn advance(support: &mut [usize], n: usize) -> bool {
    let size = support.len();
    let Some(at) = (0..size).rev().find(|&at| support[at] < n - size + at) else { return false };
    let first = support[at] + 1;
    support[at..].iter_mut().enumerate().for_each(|(step, id)| *id = first + step);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supports_are_all_there_once() {
        let mut support = vec![0, 1, 2];
        let mut seen = vec![support.clone()];
        while advance(&mut support, 6) {
            seen.push(support.clone());
        }
        assert_eq!(seen.len(), 20);
        assert!(seen.is_sorted() && seen.iter().all(|s| s.is_sorted() && s[2] < 6));
    }
}
