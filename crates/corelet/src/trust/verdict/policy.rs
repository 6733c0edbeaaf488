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

/// The same over all directions together: 0.045 nats.
pub const TOLERATED_TOTAL: f64 = 0.3;

/// The same for a variance, as a factor away from 1, in one direction (0.005 nats) and on average over all of them.
pub const TOLERATED_SCALE: f64 = 0.15;
/// See [`TOLERATED_SCALE`].
pub const TOLERATED_MEAN_SCALE: f64 = 0.05;

/// The same for the third of Stein's identities in one direction, in which it is the third derivative that the draws have not: 0.04 nats².
pub const TOLERATED_SKEW: f64 = 0.5;

/// Effective draws below which the score test is no proof: with fewer it does not see a mean that is off by a third of a standard
/// deviation, which costs 0.054 nats.
pub const PROVING_DRAWS: f64 = 500.0;

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
/// A slope or curvature whose standard error is larger says too little about the draws, and so does a regression that leaves more of the
/// log-likelihood unexplained: they are taken on trust.
pub const BLUNT: f64 = 0.15;
/// See [`BLUNT`].
pub const UNEXPLAINED: f64 = 0.2;
/// Draws a parameter below which they are, too: of 120 parameters, one that is twice as wide hides in the noise of 4000 draws.
pub const TESTED_DRAWS: usize = 50;
