//! The limits of a grade, all of them, each with its reason.

/// Grade A: the 95 % upper bound of V = Var Δ stays below this. Both divergences are ½V to leading order, so that an A is worth at
/// most about 0.05 nats in each direction, a twentieth of what separates two posteriors one standard deviation apart.
pub const TRUSTED_VARIANCE: f64 = 0.1;

/// Grade A: importance weights e^Δ keep more than this share of the draws.
pub const TRUSTED_SHARE: f64 = 0.9;

/// Grade B: more than this many effective draws remain after importance weighting (Vehtari et al. 2021 ask for 400 of all chains).
pub const REWEIGHTED_DRAWS: f64 = 400.0;

/// Effective draws, bulk and tail, that every parameter and log-likelihood must have: means are then known to a tenth of a standard
/// deviation.
pub const FEWEST_DRAWS: f64 = 100.0;

/// The share of divergent draws beyond which part of the posterior may be missing.
pub const MOST_DIVERGED: f64 = 0.01;

/// V may be so much smaller than the variance that was held out in the build, and no more, unless both are tiny.
pub const DISAGREES: f64 = 1e-2;

/// Standard errors beyond which a statistic of the draws is not explained by sampling, over some hundred directions at once.
pub const SIGNIFICANT: f64 = 4.0;

/// A mean that is off by less, in posterior standard deviations, costs 0.01 nats: it takes no A away, whatever its significance.
pub const TOLERATED_SHIFT: f64 = 0.15;

/// The same over all directions together: 0.02 nats.
pub const TOLERATED_TOTAL: f64 = 0.2;

/// The same for a variance, as a factor away from 1, in one direction (0.005 nats) and on average over all of them.
pub const TOLERATED_SCALE: f64 = 0.15;
/// See [`TOLERATED_SCALE`].
pub const TOLERATED_MEAN_SCALE: f64 = 0.05;

/// Effective draws below which the score test is no proof: with fewer it does not see a mean that is off by a third of a standard
/// deviation, which costs 0.054 nats.
pub const PROVING_DRAWS: f64 = 500.0;
/// The same for a shape, in nats along one direction.
pub const TOLERATED_NATS: f64 = 0.03;
/// Standard errors beyond which a shape is not explained by sampling: six identities at once, whose own noise is known from few draws in
/// the tails.
pub const SIGNIFICANT_SHAPE: f64 = 6.0;
/// [`TOLERATED_NATS`] over all directions together: what an A is worth.
pub const TOLERATED_TOTAL_NATS: f64 = 0.1;

/// Draws at which the score test looks at most: each is a gradient of k rows, and what it does not see falls with their number.
pub const SCORED_DRAWS: usize = 4000;
/// Scored draws for each parameter, up to [`SCORED_DRAWS`], below which a tail that is missing along one of many directions hides in the
/// noise of the others.
pub const SCORED_A_PARAMETER: usize = 100;
/// The fewest that are looked at where each costs a gradient of all rows.
pub const FEWEST_SCORED: usize = 1000;

/// Draws that the score test wants of so many parameters.
pub fn scored_draws(parameters: usize) -> usize {
    (SCORED_A_PARAMETER * parameters).min(SCORED_DRAWS)
}

/// Without the prior, what it pulls cannot be told from draws that are off: up to here the prior may explain it, and the draws are
/// taken on trust.
pub const PRIOR_SHIFT: f64 = 1.0;
/// The likelihood alone may have this many times the precision of the draws in a direction, since a prior only adds to it; the rest is
/// for posteriors that are not Gaussian.
pub const WIDE: f64 = 1.5;
/// The same on average over all directions.
pub const MEAN_WIDE: f64 = 1.25;
/// Shares of the precision that are left to the prior, in one direction and on average, above which the draws are taken on trust.
pub const PRIOR_SHARE: f64 = 0.2;
/// See [`PRIOR_SHARE`].
pub const MEAN_PRIOR_SHARE: f64 = 0.05;
/// A likelihood whose share of the precision, squared and averaged over the directions, is less says nothing about the draws: that is
/// Var L_w, which is ½ a direction where the data outweigh the prior.
pub const NARROW: f64 = 0.05;
/// Without a gradient an A needs draws that are those of a Gaussian to within [`TRUSTED_VARIANCE`] by L_w alone. What sampling adds to that
/// variance is known to a tenth or so of itself: up to here, in nats², it is taken off, and beyond it the draws are taken on trust.
pub const MOST_BY_CHANCE: f64 = 0.25;
