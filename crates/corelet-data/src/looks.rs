//! The kind of a target, for messages that suggest a model.

use std::fmt;

/// The kind of a target that does not have two classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// Two values, neither of which is known to be success.
    TwoValues,
    /// A few whole numbers, which may be classes with an order.
    Levels,
    /// Words of more than two kinds.
    Words,
    /// Whole numbers from 0 on.
    Counts,
    /// Numbers above 0.
    Positive,
    /// Numbers.
    Continuous,
}

impl Looks {
    /// The model that is for such a target.
    pub fn model(self) -> &'static str {
        match self {
            Self::TwoValues => "logistic",
            Self::Levels => "ordinal",
            Self::Words => "softmax",
            Self::Counts => "poisson",
            Self::Positive => "gamma",
            Self::Continuous => "linear",
        }
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoValues => "has two values (logistic)",
            Self::Levels => "has a few whole numbers, as levels in order, classes or counts have (ordinal, softmax, poisson)",
            Self::Words => "is text, as classes are (softmax, ordinal)",
            Self::Counts => "looks like counts (poisson, negative-binomial), or numbers of levels (ordinal, softmax)",
            Self::Positive => "is continuous and positive (gamma, linear)",
            Self::Continuous => "is continuous (linear, student)",
        })
    }
}
