//! Divergence against the number of points: pursuit's whole path, judged on held-out draws, and where it bends.

use serde::{Deserialize, Serialize};
use sparse_nnls::{PathPoint, Status};

use crate::coreset::build::Callback;
use crate::coreset::need::{Need, Sought};
use crate::coreset::{BuildError, BuildOptions};
use crate::embed::Description;
use crate::parallel;
use crate::posterior::{Gaussian, kl_gaussian};
use crate::rows::{Problem, Weighted};
use crate::trust::{Columns, affordable_draws};

/// The best coreset of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathRow {
    /// Number of points.
    pub points: usize,
    /// ½‖y − Φw‖² in the embedding, in nats.
    pub residual_nats: f64,
    /// The same on draws that no method saw.
    pub heldout_nats: f64,
    /// KL(π‖π_w) between the Laplace fits; none if the coreset has none, or π is not known.
    pub kl_forward: Option<f64>,
}

/// Every size that pursuit passed through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathTable {
    /// Ascending in points.
    pub rows: Vec<PathRow>,
    /// The entry at which further points begin to help less; none if they help as much throughout.
    pub knee: Option<usize>,
    /// The embedding.
    pub embedding: Description,
    /// Why pursuit stopped.
    pub status: Status,
    /// Passes over the data.
    pub passes: f64,
}

/// Runs pursuit to `options.k` points and judges every size on the way.
///
/// With `full`, the Laplace fit of all rows, each size has its KL between the Laplace fits too.
///
/// # Errors
/// See [`BuildError`]; a method without a path is one.
pub fn path(
    problem: Problem<'_>,
    posterior: &Gaussian,
    full: Option<&Gaussian>,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<PathTable, BuildError> {
    options.check(problem.rows.len())?;
    let draws = affordable_draws(problem.rows.len(), problem.rows.dim());
    let need = Need::new(problem.rows, posterior, options, (options.k, draws))?;
    let Sought { solution, embedding, .. } = need.solve(&need.embedding, options.k, callback)?;
    if solution.path.is_empty() && solution.status != Status::Stopped {
        return Err(BuildError::NoPath { method: options.method.name() });
    }
    let mut columns = Columns::new(&need.judge);
    let divergences: Vec<Option<f64>> =
        parallel::map(&solution.path, |point| full.and_then(|full| divergence(problem, full, point)));
    let row = |(point, kl_forward): (&PathPoint, Option<f64>)| {
        let estimate = columns.estimate(&point.weights.ids, &point.weights.values)?;
        Ok::<PathRow, BuildError>(PathRow {
            points: point.weights.len(),
            residual_nats: 0.5 * point.residual.powi(2),
            heldout_nats: estimate.nats(),
            kl_forward,
        })
    };
    let rows = solution.path.iter().zip(divergences).map(row).collect::<Result<Vec<_>, _>>()?;
    Ok(PathTable { knee: knee(&rows), rows, embedding, status: solution.status, passes: solution.passes })
}

fn divergence(problem: Problem<'_>, full: &Gaussian, point: &PathPoint) -> Option<f64> {
    let coreset = Weighted::fetch(problem.rows, &point.weights.ids, &point.weights.values).ok()?;
    let own = coreset.fit(problem.prior).ok()?;
    kl_gaussian(full, &own.posterior).ok().filter(|kl| kl.is_finite())
}

/// Where log divergence against points lies deepest below the line from its first to its last entry, if that is deeper
/// than a twentieth of the whole fall.
fn knee(rows: &[PathRow]) -> Option<usize> {
    let height = |row: &PathRow| row.heldout_nats.max(f64::MIN_POSITIVE).ln();
    let (first, last) = (rows.first()?, rows.last()?);
    let fall = height(first) - height(last);
    let width = last.points as f64 - first.points as f64;
    let depth = |row: &PathRow| {
        let share = (row.points as f64 - first.points as f64) / width;
        height(first) - share * fall - height(row)
    };
    let at = (0..rows.len()).max_by(|&a, &b| depth(&rows[a]).total_cmp(&depth(&rows[b])))?;
    (width > 0.0 && depth(&rows[at]) > 0.05 * fall.abs()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(nats: impl Fn(usize) -> f64) -> Vec<PathRow> {
        let row =
            |points| PathRow { points, residual_nats: 0.0, heldout_nats: nats(points), kl_forward: None };
        (1..=100).map(row).collect()
    }

    #[test]
    fn the_knee_is_where_the_fall_ends() {
        let floor = rows(|k| (-0.3 * k.min(40) as f64).exp());
        assert_eq!(knee(&floor).map(|at| floor[at].points), Some(40));
        assert_eq!(knee(&rows(|k| (-0.3 * k as f64).exp())), None);
        assert_eq!(knee(&[]), None);
    }
}
