//! The certificates of a coreset by blocks of rows, one block for each update, and how far each certificate still holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::linalg::{Cholesky, dot, gram, row_major, symmetric_eigenvalues};
use crate::rows::Marks;
use crate::trust::policy::{HOPELESS, MOST_MOVED};
use crate::trust::{Draws, Grade, Reason, TRUSTED_VARIANCE, Verdict};

/// Under this name a coreset's metadata have its blocks.
pub(super) const BLOCKS: &str = "corelet.blocks";

/// Rows that came at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Number of rows.
    pub rows: usize,
    /// Their fingerprint, if known.
    pub fingerprint: Option<String>,
    /// Some of them, by which rows that come again are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
}

/// A Gaussian by its mean and the lower triangle of its Cholesky factor, line by line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    mean: Vec<f64>,
    factor: Vec<f64>,
}

/// Rows that one certificate is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Which.
    pub parts: Vec<Part>,
    /// The grade; none if draws were never judged on them.
    pub grade: Option<Grade>,
    /// sd(Δ), the square root of the upper bound of V, in nats, for the log-likelihood of these rows minus that of the points that represent them.
    pub sd: f64,
    /// The posterior that this was measured under.
    pub under: Option<Seen>,
}

/// All blocks of a coreset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Blocks {
    /// In the order in which they came.
    pub blocks: Vec<Block>,
    /// Rows of all files together, those with missing values included: the number of the next row.
    pub file_rows: usize,
    /// Weighted rows of the coreset when it was last built as a whole.
    pub points: usize,
    /// The fingerprint of all rows in the order of their arrival; none if it is unknown, or if there is one part only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
}

/// What a summary says of the rows that a coreset is of.
#[derive(Deserialize)]
struct Known {
    n: usize,
    #[serde(default)]
    rows_dropped: usize,
    fingerprint: Option<String>,
    points: usize,
}

impl Blocks {
    /// One block, as a fit of rows with this fingerprint comes to.
    pub fn of_fit(part: Part, file_rows: usize, points: usize, judged: Option<(&Verdict, &Draws)>) -> Self {
        Self { blocks: vec![Block::judged(vec![part], judged)], file_rows, points, whole: None }
    }

    /// From a coreset's metadata; of one that was never judged by draws, from its summary.
    ///
    /// # Errors
    /// Says what cannot be read.
    pub fn read(notes: &BTreeMap<String, String>) -> Result<Self, String> {
        let unreadable =
            |key: &str, error: serde_json::Error| format!("what it says under {key} cannot be read: {error}");
        if let Some(text) = notes.get(BLOCKS) {
            return serde_json::from_str(text).map_err(|error| unreadable(BLOCKS, error));
        }
        let text = notes.get("corelet").ok_or("it has no summary of the rows that it is of")?;
        let Known { n, rows_dropped, fingerprint, points } =
            serde_json::from_str(text).map_err(|error| unreadable("corelet", error))?;
        Ok(Self::of_fit(Part { rows: n, fingerprint, marks: None }, n + rows_dropped, points, None))
    }

    /// For a coreset's metadata.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn metadata(&self) -> serde_json::Result<(String, String)> {
        Ok((BLOCKS.to_owned(), serde_json::to_string(self)?))
    }

    /// The same with a block of new rows, by the grade and the bound on V of all rows: what that has beyond the blocks before is the new
    /// block's.
    #[must_use]
    pub fn then(&self, part: Part, points: usize, (grade, bound): (Grade, f64), draws: &Draws) -> Self {
        let file_rows = self.file_rows + part.rows;
        let mut block = Block::of(vec![part], grade, bound, draws);
        block.sd = (block.sd - self.carried_to(draws).0).max(0.0);
        let blocks = self.blocks.iter().cloned().chain([block]).collect();
        Self { blocks, file_rows, points, whole: None }
    }

    /// How many rows they have.
    pub fn rows(&self) -> usize {
        self.parts().map(|part| part.rows).sum()
    }

    /// The rows that came at once, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.blocks.iter().flat_map(|block| &block.parts)
    }

    /// The fingerprint of all rows in the order of their arrival, if known.
    pub fn fingerprint(&self) -> Option<&str> {
        let mut parts = self.parts();
        match (parts.next(), parts.next()) {
            (Some(only), None) => only.fingerprint.as_deref(),
            _ => self.whole.as_deref(),
        }
    }

    /// Whether rows with this fingerprint are among them.
    pub fn has(&self, fingerprint: &str) -> bool {
        self.parts().any(|part| part.fingerprint.as_deref() == Some(fingerprint))
    }

    /// What certificates of these blocks say of a posterior that they were not made for: Σ sd(Δ), each carried there, and what keeps a
    /// grade from being an A.
    pub fn carried_to(&self, draws: &Draws) -> (f64, Vec<Reason>) {
        let Some(now) = Seen::of(draws) else { return (f64::INFINITY, vec![Reason::Uncertified]) };
        let (mut total, mut found) = (0.0, Vec::new());
        for block in &self.blocks {
            match (block.grade, &block.under) {
                (Some(Grade::A | Grade::B), Some(under)) if under.mean.len() == now.mean.len() => {
                    let moved = under.moved_to(&now);
                    total += block.sd * moved.growth.max(1.0).sqrt();
                    if moved.by > MOST_MOVED {
                        found.push(Reason::Drifted);
                    }
                    if block.grade == Some(Grade::B) {
                        found.push(Reason::Inherited);
                    }
                }
                _ => found.push(Reason::Uncertified),
            }
        }
        found.dedup();
        (total, found)
    }

    /// The verdict on an update: V of the new block, whose bound becomes that of all blocks together, and what is found.
    pub fn certify(&self, step: Verdict, draws: &Draws) -> Verdict {
        let (carried, mut found) = self.carried_to(draws);
        let bound = (carried + step.divergence.variance_upper.max(0.0).sqrt()).powi(2);
        if bound.is_nan() || bound >= HOPELESS {
            found.push(Reason::Uncertified);
        } else if bound >= TRUSTED_VARIANCE && step.divergence.variance_upper < TRUSTED_VARIANCE {
            found.push(Reason::Accumulated);
        }
        let mut verdict = step.with(&found);
        verdict.divergence.variance_upper = bound;
        // Of the new block alone.
        verdict.moves = None;
        verdict
    }
}

impl Block {
    /// Rows with this grade and this bound on V, measured at these draws.
    pub fn of(parts: Vec<Part>, grade: Grade, bound: f64, draws: &Draws) -> Self {
        let (under, sd) = (Seen::of(draws), bound.max(0.0).sqrt());
        // Infinity is no number of JSON.
        let grade = Some(grade).filter(|_| under.is_some() && sd.is_finite());
        Self { parts, grade, sd: if sd.is_finite() { sd } else { 0.0 }, under }
    }

    /// Rows that these draws were judged on, or were not.
    pub(super) fn judged(parts: Vec<Part>, judged: Option<(&Verdict, &Draws)>) -> Self {
        match judged {
            Some((verdict, draws)) => {
                Self::of(parts, verdict.grade, verdict.divergence.variance_upper, draws)
            }
            None => Self { parts, grade: None, sd: 0.0, under: None },
        }
    }
}

/// How far a posterior is from another that something was certified under.
struct Moved {
    /// By how many of its standard deviations, beyond what chance explains.
    by: f64,
    /// How many times as large Var Δ may have become.
    growth: f64,
}

impl Seen {
    /// The moments of draws; none if they span no volume.
    fn of(draws: &Draws) -> Option<Self> {
        let (dim, mean) = (draws.dim, draws.mean());
        let shifts: Vec<f64> = (0..draws.len())
            .flat_map(|s| draws.row(s).iter().zip(&mean).map(|(x, m)| x - m).collect::<Vec<f64>>())
            .collect();
        let size = draws.len().max(2) as f64 - 1.0;
        let covariance: Vec<f64> = gram(&shifts, draws.len(), dim).iter().map(|x| x / size).collect();
        let factor = Cholesky::new(&covariance, dim).ok()?.factor();
        let factor: Vec<f64> = (0..dim).flat_map(|i| factor[i * dim..][..=i].to_vec()).collect();
        mean.iter().chain(&factor).all(|x| x.is_finite()).then_some(Self { mean, factor })
    }

    /// L⁻¹x.
    fn whitened(&self, x: &[f64]) -> Vec<f64> {
        let mut z: Vec<f64> = Vec::with_capacity(x.len());
        for (i, x) in x.iter().enumerate() {
            let line = &self.factor[i * (i + 1) / 2..][..=i];
            z.push((x - dot(&line[..i], &z)) / line[i]);
        }
        z
    }

    /// Column j of the factor.
    fn column(&self, j: usize) -> Vec<f64> {
        (0..self.mean.len()).map(|i| if i < j { 0.0 } else { self.factor[i * (i + 1) / 2 + j] }).collect()
    }

    /// With N(m, S) this and N(m′, S′) the other, and d = S^{−½}(m′ − m): more rows of the same kind narrow a posterior from S to λS, and
    /// its mean then moves by a d with E‖d‖² = D(1 − λ), the same in every direction. What ‖d‖² has beyond that is of one direction.
    fn moved_to(&self, now: &Self) -> Moved {
        let dim = self.mean.len();
        let shift: Vec<f64> = now.mean.iter().zip(&self.mean).map(|(a, b)| a - b).collect();
        let d = self.whitened(&shift);
        let length = dot(&d, &d).sqrt();
        let columns: Vec<Vec<f64>> = (0..dim).map(|j| self.whitened(&now.column(j))).collect();
        let mean_scale = columns.iter().map(|c| dot(c, c)).sum::<f64>() / dim.max(1) as f64;
        let along = if length > 0.0 {
            columns.iter().map(|c| (dot(c, &d) / length).powi(2)).sum()
        } else {
            mean_scale
        };
        let narrowed = (1.0 - mean_scale).max(0.0);
        let by_chance = narrowed.min(length * length);
        // Three standard deviations of ‖d‖² are chance too.
        let most = dim as f64 + 3.0 * (2.0 * dim as f64).sqrt();
        let beyond = (length * length - most * narrowed).max(0.0);
        let by = (beyond + by_chance).sqrt().min(length);
        Moved { by: beyond.sqrt(), growth: growth(by, along) }
    }
}

/// max Var f(x′)/Var f(x) over polynomials f of degree 3, x ~ N(0, 1) and x′ ~ N(shift, scale): Δ is one, to good approximation, where
/// orders 1 and 2 are matched and order 3 is what is left. The largest eigenvalue of the covariance of the orthonormal He₁, He₂, He₃ there.
fn growth(shift: f64, scale: f64) -> f64 {
    // Four nodes are exact for the squares of cubics.
    let root = 6f64.sqrt();
    let nodes = [(3.0 - root, (3.0 + root) / 12.0), (3.0 + root, (3.0 - root) / 12.0)];
    let places =
        nodes.iter().flat_map(|&(square, weight)| [(square.sqrt(), weight), (-square.sqrt(), weight)]);
    let at: Vec<([f64; 3], f64)> = places
        .map(|(node, weight)| {
            let z = shift + scale.max(0.0).sqrt() * node;
            ([z, (z * z - 1.0) / 2f64.sqrt(), (z * z * z - 3.0 * z) / root], weight)
        })
        .collect();
    let mean = |of: &dyn Fn(&[f64; 3]) -> f64| at.iter().map(|(h, weight)| weight * of(h)).sum::<f64>();
    let means: Vec<f64> = (0..3).map(|j| mean(&|h| h[j])).collect();
    let covariance = row_major(3, |i, j| mean(&|h| (h[i] - means[i]) * (h[j] - means[j])));
    symmetric_eigenvalues(&covariance, 3)
        .ok()
        .and_then(|values| values.last().copied())
        .unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound holds for cubics drawn at random, by a fine grid; where nothing moved it is 1; where all narrows it is below 1.
    #[test]
    fn growth_bounds_the_variance_of_cubics() {
        assert!((growth(0.0, 1.0) - 1.0).abs() < 1e-12);
        assert!(growth(0.0, 0.25) < 1.0);
        let variance = |f: &dyn Fn(f64) -> f64, mean: f64, sd: f64| {
            let grid: Vec<(f64, f64)> = (-4000..=4000)
                .map(|i| f64::from(i) / 500.0)
                .map(|z| (mean + sd * z, (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() / 500.0))
                .collect();
            let average: f64 = grid.iter().map(|(x, w)| w * f(*x)).sum();
            grid.iter().map(|(x, w)| w * (f(*x) - average).powi(2)).sum::<f64>()
        };
        for (shift, scale) in [(0.5, 0.8), (1.5, 0.5), (3.0, 0.9)] {
            let mut largest: f64 = 0.0;
            for i in 0..200 {
                let [a, b, c] = [1.1, 2.3, 3.7].map(|rate| (rate * f64::from(i)).sin());
                let f = |x: f64| a * x + b * x * x + c * x * x * x;
                largest = largest.max(variance(&f, shift, f64::sqrt(scale)) / variance(&f, 0.0, 1.0));
            }
            let bound = growth(shift, scale);
            assert!(largest <= bound * (1.0 + 1e-6) && largest > 0.5 * bound, "{largest} {bound}");
        }
    }

    fn normal(mean: [f64; 2], sd: f64) -> Draws {
        // A lattice has the moments of a uniform, which is all that is asked of it.
        let side = (-10..=10).map(|i| f64::from(i) / 10.0 * 3f64.sqrt() * sd);
        let theta: Vec<f64> = side
            .clone()
            .flat_map(|x| side.clone().map(move |y| (x, y)))
            .flat_map(|(x, y)| [mean[0] + x, mean[1] + 0.5 * x + y])
            .collect();
        Draws { theta, dim: 2, chains: None, log_weights: None }
    }

    /// More rows of the same kind keep the certificate; a posterior elsewhere loses it, and a block that was never judged has none.
    #[test]
    fn a_posterior_that_moves_away_loses_the_certificate() {
        let at = |mean, sd| Seen::of(&normal(mean, sd)).unwrap();
        let block = Block {
            parts: vec![Part { rows: 100, fingerprint: Some("a".to_owned()), marks: None }],
            grade: Some(Grade::A),
            sd: 0.05,
            under: Some(at([0.0, 0.0], 1.0)),
        };
        let of = |block| Blocks { blocks: vec![block], file_rows: 100, points: 10, whole: None };
        let blocks = of(block.clone());
        let (sd, found) = blocks.carried_to(&normal([0.3, 0.1], 0.8));
        assert!(found.is_empty() && (0.05..0.1).contains(&sd), "{sd} {found:?}");
        let (_, found) = blocks.carried_to(&normal([5.0, 0.0], 0.8));
        assert_eq!(found, [Reason::Drifted]);
        let never = of(Block { grade: None, ..block });
        assert_eq!(never.carried_to(&normal([0.0, 0.0], 1.0)).1, [Reason::Uncertified]);
        assert!(blocks.has("a") && !blocks.has("b") && blocks.rows() == 100);
        let (_, text) = blocks.metadata().unwrap();
        assert_eq!(Blocks::read(&BTreeMap::from([(BLOCKS.to_owned(), text)])).unwrap(), blocks);
    }
}
