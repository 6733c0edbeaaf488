//! What a build aims at and when it is content: every constant of a search for points, with its reason.

/// A divergence in nats that a coreset may have and be of use, estimated on held-out draws: what an A is worth.
pub(super) const FINE_NATS: f64 = 0.05;
/// The divergence that is good enough where a number of points was asked for: a fiftieth of what an A is worth, below which nobody sees a
/// difference.
pub(super) const GOOD_NATS: f64 = 1e-3;
/// The divergence that a build looks for where neither that nor a number of points is said: a fifth of what an A allows, so that
/// draws confirm it.
pub(crate) const SOUGHT_NATS: f64 = 1e-2;
/// An estimate under π̂ beyond which a coreset is of no use: its own posterior is then further off by far.
pub(super) const USELESS_NATS: f64 = 2.0;

/// Points where none are asked for and there is no search, as by another method than pursuit, and points that usually do where too few
/// were asked for: so many a parameter, of which some five to seven usually give an A.
pub(crate) const POINTS_A_PARAMETER: usize = 7;
/// Points a parameter up to which it is tried out how many would do: nearly twice as many as usually are enough.
pub(super) const TRIED_A_PARAMETER: usize = 12;
/// The number of points that the search for `max_kl` starts from; it doubles.
pub(super) const FIRST_POINTS: usize = 100;
/// The most points that a search for `max_kl` tries where nothing is said.
pub(crate) const MAX_KL_POINTS: usize = 1600;
/// Confirmations along one path, each of a pass over the data.
pub(super) const MOST_CONFIRMATIONS: usize = 8;

/// The embedding is what limits where fresh draws see so many times the divergence that it sees. From any more on, builds take up to twice as
/// long and are no better.
pub(super) const LIMITED: f64 = 2.0;
/// Share of the divergence asked for that a first embedding need not be solved beyond: what limits it then is what it drops.
pub(super) const AS_GOOD_AS_NONE: f64 = 1e-5;
/// Rows that a richer embedding samples afresh, as a multiple of the first pool: those that a poorer one has looked at lack what it
/// does not see. With as many as the first, coresets of 11 055 rows with 68 parameters were 8 % further off, in the same time.
pub(super) const FRESH: f64 = 1.5;
/// Rows for each point with which a pool is large enough to try out how many points would do.
pub(super) const ROOMY: f64 = 1.5;

/// Rounds that automatic mode makes at most.
pub const MOST_ROUNDS: usize = 4;
/// V has stalled where a round leaves more than this share of it.
pub(super) const STALLED: f64 = 0.7;
/// V beyond which it says nothing but that the coreset is of no use: of two such, draws cannot tell the better.
pub(super) const MEANINGLESS: f64 = 100.0;
/// Two values of V on the same draws that are as close as this are one.
pub(super) const NOISE: f64 = 0.03;
/// V is what π̂ said where it is at most this many times the squared residual on the held-out draws.
pub(super) const AS_EXPECTED: f64 = 1.5;
/// NUTS draws of a coreset's posterior that a round is judged on, and as many that the next sees.
#[cfg(feature = "sampling")]
pub(super) const NUTS_DRAWS: usize = 1000;

/// V of a Gaussian alone, in nats², up to which no row is looked for: a hundredth of what an A allows, and where rows alone could not
/// carry the parameters anyway, a tenth.
pub(super) const ENOUGH: f64 = 1e-3;
/// See [`ENOUGH`].
pub(super) const ENOUGH_FOR_MANY: f64 = 1e-2;
/// Parameters beyond which the orders 1 and 2 of rows alone have too many coordinates, see [`embed`](crate::embed::embed).
pub(super) const MOST_BY_ROWS: usize = 108;
/// Projections of a Gaussian at most; and the distance, in posterior standard deviations a parameter, that is as good as none.
pub(super) const MOST_PROJECTIONS: usize = 8;
/// See [`MOST_PROJECTIONS`].
pub(super) const STILL: f64 = 0.05;
/// Multiply-adds of a pass over all rows at all draws that the judge of a coreset with a Gaussian may take before it makes do with fewer
/// draws.
pub(super) const AFFORDABLE: f64 = 2e10;
/// Rows beside a Gaussian are kept where they leave less than this share of V.
pub(super) const WORTH: f64 = 0.9;
/// Weights that are multiplied by at least this stay nearly what they are. Where it is far less, a few rows of large weights may stand for
/// remainders that cancel, and fewer points may do better.
pub(super) const AS_IT_IS: f64 = 0.8;
