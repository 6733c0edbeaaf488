//! The limits of a grade and of everything that takes an A away, all of them, each with its reason.

/// What the search for modes applies itself, see [`modes`](crate::posterior::modes()): a mode of a smaller share of the best one's mass is
/// as good as none, two ends between which the density falls by less are one mode, and chains visit modes in proportion where the draws in
/// each are worth so many independent ones.
pub use crate::posterior::{MODE_DIP, NEGLIGIBLE_SHARE, PROPORTION_DRAWS};

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

/// A share of divergent draws and an E-BFMI each of which is common alone, and together the sign of a funnel whose neck is missed: centred
/// effects with such chains lack a tenth of the mass and more.
pub const NECK_DIVERGED: f64 = 0.001;
/// See [`NECK_DIVERGED`].
pub const NECK_E_BFMI: f64 = 0.5;

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

/// Draws without which there is no verdict, and finite ones without which there is no V.
pub const FEWEST_FINITE: usize = 100;

/// Directions beyond the parameters themselves are looked at up to this many parameters, and with so many draws for each: a covariance of
/// fewer draws has directions that are noise.
pub const MOST_DIRECTIONS: usize = 400;
/// See [`MOST_DIRECTIONS`].
pub const DRAWS_A_DIRECTION: usize = 4;
/// Directions at either end of the second moments that are looked at: the widest and the narrowest hide most from single parameters.
pub const EXTREME_DIRECTIONS: usize = 2;
/// Correlations below which the parameters themselves are as good as principal directions.
pub const UNCORRELATED: f64 = 0.3;

/// −ln [`NEGLIGIBLE_SHARE`]: a second mode with less than e⁻¹⁰ of the mass of the first is negligible, and masses by Laplace fits are good
/// to a few nats.
pub const RIVAL: f64 = 10.0;
/// A second mode at which the Gaussian in place of the rows is off by less, in nats, is one that its chains visit.
pub const KNOWN_MODE: f64 = 3.0;
/// A posterior that lacks a mode of this share of the best one's mass is off by as many nats: a fiftieth of what an A allows, as a
/// margin for masses that are those of Gaussian fits.
pub const MODE_MATTERS: f64 = 1e-3;
/// Distribution functions of a parameter that differ by more take the A away: a tenth of the mass that draws lack is 0.1 nats, what an A
/// is worth, and Laplace's approximation is good to a few hundredths.
pub const MISSED_TAIL: f64 = 0.1;

/// Parameters up to which the engine looks for modes that the draws of a model have not; beyond, places apart are too few to mean
/// anything.
pub const MOST_SEARCHED: usize = 100;
/// The same where gradients are differences of likelihoods, two passes a parameter.
pub const MOST_SEARCHED_BY_DIFFERENCES: usize = 20;
/// Modes that chains pass between must have their draws in proportion to their masses: shares that differ by more from those of Laplace's
/// approximation, which is good to a factor of two or so, are a C. Half of the draws where a quarter of the mass is costs 0.3 nats.
pub const OUT_OF_PROPORTION: f64 = 0.25;
/// Rows that are climbed on: a mode that matters shows in a sample of them, since all rows are n/m times as high there.
pub const SEARCHED_ROWS: usize = 2000;
/// Places to begin at: as far out as the draws are from 0, so many times their standard deviation about them, and with the sign of single
/// parameters changed.
pub const RANDOM_STARTS: usize = 16;
/// See [`RANDOM_STARTS`].
pub const FARTHER_STARTS: [f64; 3] = [5.0, 30.0, 200.0];
/// See [`RANDOM_STARTS`].
pub const FLIPPED_STARTS: usize = 8;
/// Draws that are climbed from too, evenly over the chains: a mode in whose basin one of them is, is one that the chains have, and R̂ tells
/// whether they pass between.
pub const DRAWN_STARTS: usize = 24;
/// Two ends of climbs nearer than this, in standard deviations of the draws, are one: far below what separates modes, far above where a
/// climb ends.
pub const SAME_END: f64 = 0.05;
/// With so many other modes, however low, climbs from some forty places cannot be said to have found the best.
pub const RUGGED: usize = 3;

/// Rows and draws at which what the rows were found to see of the parameters is compared with the model's own log-likelihoods: two
/// functions that agree on so many agree.
pub const COMPARED_ROWS: usize = 500;
/// See [`COMPARED_ROWS`].
pub const COMPARED_DRAWS: usize = 8;
/// What a difference of log-likelihoods of all rows may be by the two, in nats, and as a share of them where these are rounded to single
/// precision.
pub const TOLERATED_DISAGREEMENT: f64 = 0.1;
/// See [`TOLERATED_DISAGREEMENT`].
pub const TOLERATED_ROUNDING: f64 = 1e-6;

/// A posterior that has moved by more standard deviations of the one that a coreset was certified under, beyond what chance explains, is
/// where its certificate had next to no draw.
pub const MOST_MOVED: f64 = 3.0;
/// V, in nats², that the errors of all blocks of an updated coreset may add up to before nothing is certified: beyond it importance weights
/// of all rows would keep less than a third of the draws.
pub const HOPELESS: f64 = 1.0;

/// Integrated effects: a quadrature rule is fine enough where what it leaves over moves the posterior by less, in its standard deviations.
pub const TOLERATED_BIAS: f64 = 0.1;
/// From here on the posterior is that of another model, as where groups have several modes.
pub const USELESS_BIAS: f64 = 0.5;
/// Parameters of a model with integrated effects, at most, with which modes are looked for: with the effects of hundreds of levels among
/// them climbs take too long.
pub const MOST_PARAMETERS: usize = 60;
