//! The rounds of a refinement: which exchange comes next, of how many columns, and when they are at rest.

/// Four rounds that together lower the residual by less than this share bring nothing more in a pool; of a large problem, whose rounds are
/// dear, two. Two of a small one as well leave coresets up to 1.6 times as far off.
const LEAST_FALL: f64 = 0.02;
const LEAST_FALL_OF_TWO: f64 = 0.03;

/// How a round changes the best support: grow first and cut after, or drop first and refill, by so many columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    GrowThenCut(usize),
    DropThenRefill(usize),
}

/// Rounds so far.
#[derive(Debug)]
pub(super) struct Rounds {
    exchange: Exchange,
    /// Whether the other kind of exchange brought nothing when it was last tried.
    other_failed: bool,
    /// Rounds in a row that brought nothing.
    failures: usize,
    /// The best residual after each round.
    history: Vec<f64>,
    /// Whether an exchange that helps goes on for as long as it does, once the other kind has failed.
    hasty: bool,
}

impl Rounds {
    /// Begins with a growth and `exchanged` columns. Where rounds are dear, `hasty` ones leave out what is likely to fail.
    pub(super) fn new(exchanged: usize, hasty: bool) -> Self {
        let exchange = Exchange::GrowThenCut(exchanged);
        Self { exchange, other_failed: false, failures: 0, history: Vec::new(), hasty }
    }

    /// Whether no round has ended yet.
    pub(super) fn is_first(&self) -> bool {
        self.history.is_empty()
    }

    /// Whether the last rounds brought next to nothing.
    pub(super) fn are_stalled(&self) -> bool {
        match (&self.history[..], self.hasty) {
            ([.., before, _, now], true) => *now > (1.0 - LEAST_FALL_OF_TWO) * before,
            // One more is made then.
            ([.., before, _, _, _, now, _], false) => *now > (1.0 - LEAST_FALL) * before,
            _ => false,
        }
    }

    /// The round after one that was `better` or not, with the best residual now: the other exchange, of half as many columns
    /// where two in a row have failed. None if not one column is left to exchange.
    pub(super) fn next(&mut self, better: bool, residual: f64) -> Option<Exchange> {
        self.history.push(residual);
        self.failures = if better { 0 } else { self.failures + 1 };
        let halve = |count: usize| if self.failures >= 2 { count / 2 } else { count };
        if better && self.other_failed && self.hasty {
            return Some(self.exchange);
        }
        self.other_failed = !better && self.failures < 2;
        self.exchange = match self.exchange {
            Exchange::GrowThenCut(count) => Exchange::DropThenRefill(halve(count)),
            Exchange::DropThenRefill(count) => Exchange::GrowThenCut(halve(count)),
        };
        self.failures %= 2;
        match self.exchange {
            Exchange::GrowThenCut(0) | Exchange::DropThenRefill(0) => None,
            exchange => Some(exchange),
        }
    }
}
