//! The coreset of all rows, for data of so few distinct ones that nothing has to be left out.

use sparse_nnls::Status;

use super::{BuildError, BuildOptions, Built, Coreset, EmbeddedFit, Round};
use crate::embed::Description;
use crate::rows::Rows;

/// All rows, once each: L_w = L.
///
/// # Errors
/// See [`BuildOptions::check`].
pub fn build_of_all(rows: &dyn Rows, options: &BuildOptions) -> Result<Built, BuildError> {
    options.check(rows.len())?;
    let n = rows.len();
    let embedding = Description { name: "exact".to_owned(), coordinates: 0, tail: 0.0 };
    let coreset = Coreset {
        rows: (0..n).collect(),
        weights: vec![1.0; n].into(),
        k: options.k,
        method: "collapse".to_owned(),
        fit: EmbeddedFit { embedding, residual: 0.0, target_norm: 0.0, path: Vec::new() },
        status: Status::Optimal,
        iterations: 0,
        passes: 0.0,
        reached: None,
        too_few: None,
        groups: None,
        rest: None,
        undetermined: 0,
    };
    let rounds = vec![Round { points: n, variance: None }];
    Ok(Built { coreset, groups: None, posterior: None, estimate: None, rounds, chosen: 0 })
}
