//! Groups of rows in place of rows: all visits of a patient are chosen, or none, with one weight.

use sparse_nnls::{Method, Solution, Solver, Status};

use crate::coreset::build::Callback;
use crate::coreset::need::Need;
use crate::coreset::policy::LIMITED;
use crate::coreset::{BuildError, BuildOptions, Built, Coreset, Round, Selector};
use crate::embed::{Choice, Description, Embedded, Embedding, richer};
use crate::posterior::Gaussian;
use crate::rows::{Grouped, Rows, RowsError};
use crate::trust::{Estimate, HeldOut};

/// Chooses at most `options.k` groups under π̂, once; each brings all of its rows with its weight. `auto` goes on with a richer
/// embedding where that is what limits, as it does for rows.
///
/// # Errors
/// See [`BuildError`]; SparseVI and `options.max_kl` are refused.
pub fn build_of_groups(
    rows: &dyn Rows,
    groups: &dyn Grouped,
    posterior: &Gaussian,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<Built, BuildError> {
    options.check_groups(groups.len())?;
    let draws = options.rest.held_out_draws(rows.len(), rows.dim());
    let Need { embedding, judge, .. } = Need::new(rows, posterior, options, (options.k, draws))?;
    let search = Search { groups, judge: &judge, options };
    let mut found = search.choose(&embedding, callback)?;
    let pursuit = matches!(options.method, Selector::Embedded(Method::Pursuit(_)));
    if pursuit
        && options.embedding == Choice::Auto
        && found.solution.status.is_natural()
        && let Some(nats) = found.estimate.map(|estimate| estimate.nats())
        && nats > LIMITED * 0.5 * found.solution.residual.powi(2)
        && let Some(recipe) = richer(&embedding, posterior, options.k, options.seed)?
    {
        let further = search.choose(&Embedded::new(rows, recipe)?, callback)?;
        if !further.solution.status.is_natural() {
            found.solution.status = further.solution.status;
        } else if further.estimate.is_some_and(|estimate| estimate.nats() < nats) {
            found = further;
        }
    }
    Ok(search.built(found))
}

impl BuildOptions {
    /// Refuses, before any work is done, what cannot be done with so many groups.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn check_groups(&self, groups: usize) -> Result<(), BuildError> {
        if let Selector::SparseVi(_) = self.method {
            return Err(BuildError::RowsOnly { what: self.method.name() });
        }
        if self.max_kl.is_some() {
            return Err(BuildError::RowsOnly { what: "the search for the fewest points below a divergence" });
        }
        match self.check(groups) {
            Err(BuildError::PointsOutOfRange { k, rows }) => {
                Err(BuildError::GroupsOutOfRange { k, groups: rows })
            }
            checked => checked,
        }
    }
}

/// What is chosen from, and what judges it.
struct Search<'a> {
    groups: &'a dyn Grouped,
    judge: &'a HeldOut<'a>,
    options: &'a BuildOptions,
}

/// Weighted groups, their rows, and the embedding that they were chosen in.
struct Found {
    solution: Solution,
    members: Members,
    embedding: Description,
    /// What the held-out draws see of them; none if they were stopped.
    estimate: Option<Estimate>,
}

/// The rows of weighted groups, ascending: each has the weight of its group.
struct Members {
    rows: Vec<usize>,
    weights: Vec<f64>,
    groups: Vec<usize>,
}

impl Members {
    fn of(solution: &Solution, groups: &dyn Grouped) -> Result<Self, RowsError> {
        let (ids, weights) = (&solution.weights.ids, &solution.weights.values);
        let each = ids.iter().zip(weights).zip(groups.members(ids)?);
        let mut rows: Vec<(usize, (f64, usize))> = each
            .flat_map(|((&group, &weight), rows)| rows.into_iter().map(move |row| (row, (weight, group))))
            .collect();
        rows.sort_unstable_by_key(|&(row, _)| row);
        let (rows, (weights, groups)) = rows.into_iter().unzip();
        Ok(Self { rows, weights, groups })
    }
}

impl Search<'_> {
    fn choose(&self, embedding: &Embedded<'_>, callback: &mut Callback<'_>) -> Result<Found, BuildError> {
        let columns = embedding.grouped(self.groups)?;
        let settings = self.options.settings(self.options.k);
        let solution = Solver::new(&columns, settings).callback(callback).run(self.options.solver()?)?;
        let members = Members::of(&solution, self.groups)?;
        let estimate = match solution.status {
            Status::Stopped => None,
            _ => Some(self.judge.estimate(&members.rows, &members.weights)?),
        };
        Ok(Found { solution, members, embedding: embedding.description().clone(), estimate })
    }

    /// The groups as their rows.
    fn built(&self, found: Found) -> Built {
        let (method, k) = (self.options.method.name(), self.options.k);
        let of_groups = Coreset::new(found.solution, &found.embedding, method, k);
        let (chosen, Members { rows, weights, groups }) = (of_groups.rows.len(), found.members);
        let coreset = Coreset { rows, weights: weights.into(), groups: Some(chosen), ..of_groups };
        let rounds = vec![Round { points: chosen, variance: None }];
        let estimate = found.estimate;
        Built { coreset, groups: Some(groups), posterior: None, estimate, rounds, chosen: 0 }
    }
}
