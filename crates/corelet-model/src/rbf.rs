//! Gaussian radial-basis features exp(−‖x − c‖²/(2s²)), which make a linear model curved.

use super::ModelError;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The feature map x ↦ (exp(−‖x − cⱼ‖²/(2sⱼ²)))ⱼ, with a constant 1 last where `intercept`.
///
/// The paper's second experiment has 50 centres at each of 6 scales over latitude and longitude, and the constant:
/// `RbfMap::random(points, 2, &scales, 50, seed)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RbfMap {
    /// Centres cⱼ, one after the other.
    pub centres: Vec<f64>,
    /// Number of coordinates of a point.
    pub dim: usize,
    /// Scales sⱼ > 0, one a centre.
    pub scales: Vec<f64>,
    /// Whether a constant 1 comes last.
    pub intercept: bool,
}

impl RbfMap {
    /// `per_scale` centres for each scale, drawn without replacement among `points` (row-major, `dim` columns), and
    /// the constant.
    pub fn random(
        points: &[f64],
        dim: usize,
        scales: &[f64],
        per_scale: usize,
        seed: u64,
    ) -> Result<RbfMap, ModelError> {
        let rows = points.len() / dim.max(1);
        if rows < per_scale || dim == 0 {
            let purpose = "for that many distinct centres";
            return Err(ModelError::TooFewRows { rows, needed: per_scale, purpose });
        }
        if let Some(&value) = scales.iter().find(|&&s| !(s > 0.0 && s.is_finite())) {
            return Err(ModelError::NotPositive { what: "a scale", value });
        }
        let mut centres = Vec::with_capacity(scales.len() * per_scale * dim);
        for stream in 0..scales.len() as u64 {
            // A stream for each scale, so that a scale more leaves the others' centres as they were.
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(stream);
            for i in rand::seq::index::sample(&mut random, rows, per_scale) {
                centres.extend_from_slice(&points[i * dim..][..dim]);
            }
        }
        let scales = scales.iter().flat_map(|&s| std::iter::repeat_n(s, per_scale)).collect();
        Ok(RbfMap { centres, dim, scales, intercept: true })
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.scales.len() + usize::from(self.intercept)
    }

    /// The features of `points` (row-major, `dim` columns), row-major.
    pub fn apply(&self, points: &[f64]) -> Vec<f64> {
        let dim = self.dim.max(1);
        let mut out = Vec::with_capacity(points.len() / dim * self.features());
        for point in points.chunks_exact(dim) {
            out.extend(self.centres.chunks_exact(dim).zip(&self.scales).map(|(centre, scale)| {
                let square: f64 = point.iter().zip(centre).map(|(x, c)| (x - c) * (x - c)).sum();
                (-0.5 * square / (scale * scale)).exp()
            }));
            if self.intercept {
                out.push(1.0);
            }
        }
        out
    }
}
