//! The options of a design: the role of each column, and how its cells become numbers.

use serde::{Deserialize, Serialize};

use crate::design::kept::KeptDesign;

/// The kind of target of a model, which determines how it is checked and coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// There is none, and no intercept: the features themselves are modelled.
    None,
    /// A number.
    Number,
    /// Two classes, coded −1 and +1.
    #[default]
    Classes,
    /// A count, perhaps with an exposure.
    Count,
    /// A number above 0.
    Positive,
    /// Several classes without an order, coded 0, 1, …; the most frequent is 0.
    Several,
    /// Ordered levels, coded 0, 1, ….
    Ordered,
}

/// How the features other than the intercept are standardised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standardise {
    /// Nothing.
    None,
    /// Mean 0 and standard deviation 1.
    #[default]
    Scale,
    /// Mean 0 and identity covariance, by the Cholesky factor of the sample covariance.
    Whiten,
}

/// The role of each column.
///
/// | name | default | purpose |
/// | --- | --- | --- |
/// | `target` | the file's own | the column to predict; LIBSVM and NPZ files carry their own, `y` |
/// | `features` | all other columns | the columns to predict from |
/// | `exclude` | none | columns that are no features, where not all features are named |
/// | `exposure` | none | the exposure of each row, for counts |
/// | `trials` | none | the number of trials of each row, for successes among them |
/// | `event` | none | whether the event was seen (1, true) or not until then (0, false), for survival times |
/// | `weights` | 1 | factor of each row's log-likelihood, > 0: the number of equal rows that it represents |
/// | `offset` | 0 | what is added to the predictor of each row |
/// | `groups` | none | the column that says which rows belong together; it is no feature |
/// | `factors` | none | further columns of groups, each by itself, as those of random effects; no features |
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Columns {
    /// The column to predict.
    pub target: Option<String>,
    /// The columns to predict from.
    pub features: Option<Vec<String>>,
    /// Columns that are no features.
    pub exclude: Vec<String>,
    /// The exposure of each row.
    pub exposure: Option<String>,
    /// The number of trials of each row.
    pub trials: Option<String>,
    /// Whether the event of each row was seen.
    pub event: Option<String>,
    /// The factor of each row's log-likelihood.
    pub weights: Option<String>,
    /// A term added to the predictor of each row.
    pub offset: Option<String>,
    /// The column that says which rows belong together.
    pub groups: Option<String>,
    /// Columns of groups, each by itself.
    pub factors: Vec<String>,
}

/// The single numbers of a row besides its features, in the order in which they are read and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Single {
    Target,
    /// The exposure, or the number that takes its place.
    Beside,
    Weights,
    Offset,
}

impl Single {
    pub(crate) const ALL: [Self; 4] = [Self::Target, Self::Beside, Self::Weights, Self::Offset];
}

/// The kind of the column beside the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Beside {
    Exposure,
    Trials,
    Event,
}

impl Beside {
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::Exposure => "the exposure",
            Self::Trials => "the trials",
            Self::Event => "the event",
        }
    }
}

impl Columns {
    /// This column to predict, all others to predict from.
    pub fn predicting(target: &str) -> Self {
        Self { target: Some(target.to_owned()), ..Self::default() }
    }

    /// Such a column in words.
    pub(crate) fn role(&self, single: Single) -> &'static str {
        match single {
            Single::Target => "the target",
            Single::Beside => self.beside().map_or("", |(_, what)| what.role()),
            Single::Weights => "the weights",
            Single::Offset => "the offset",
        }
    }

    /// The column beside the target, and what it is; a model takes one at most.
    pub(crate) fn beside(&self) -> Option<(&String, Beside)> {
        let named = [
            (&self.exposure, Beside::Exposure),
            (&self.trials, Beside::Trials),
            (&self.event, Beside::Event),
        ];
        named.into_iter().find_map(|(name, what)| Some((name.as_ref()?, what)))
    }
}

/// Which columns are used, and how.
///
/// | name | default | purpose |
/// | --- | --- | --- |
/// | `outcome` | two classes | how the target is checked and coded; a model says it |
/// | `columns` | see [`Columns`] | what each column is for |
/// | `categories` | none | columns that are treated as text, whatever their cells |
/// | `missing` | none | what counts as missing besides an empty cell, `NA`, `NaN` and `null` |
/// | `positive` | none | the level of the target that is coded +1; needed where the target is text |
/// | `levels` | numbers ascend | the levels of an ordered target in their order; needed where it is text |
/// | `intercept` | true | add a column of ones, unless a feature is constant already |
/// | `standardise` | `scale` | what is done to the features |
/// | `drop_missing` | false | leave out rows with missing values instead of refusing them |
/// | `collapse` | false | take equal rows as one, with the sum of their weights |
/// | `like` | none | the design of other rows, whose columns, levels and scale are taken in place of those that these rows have |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DesignOptions {
    /// How the target is checked and coded; not a setting of its own, since a model says it.
    #[serde(skip)]
    pub outcome: Outcome,
    /// The role of each column.
    pub columns: Columns,
    /// Columns that are taken as text.
    pub categories: Vec<String>,
    /// Additional texts that mean a missing value, besides an empty cell, `NA`, `NaN` and `null`.
    pub missing: Vec<String>,
    /// The level of the target that is coded +1.
    pub positive: Option<String>,
    /// The levels of an ordered target, in their order.
    pub levels: Option<Vec<String>>,
    /// Whether to add a column of ones.
    pub intercept: bool,
    /// The standardisation of the features.
    pub standardise: Standardise,
    /// Whether rows with missing values are left out.
    pub drop_missing: bool,
    /// Whether equal rows are merged; a study merges them, once it has read all of them.
    pub collapse: bool,
    /// The design of other rows, which is taken over.
    pub like: Option<Box<KeptDesign>>,
}

impl Default for DesignOptions {
    fn default() -> Self {
        Self {
            outcome: Outcome::default(),
            columns: Columns::default(),
            categories: Vec::new(),
            missing: Vec::new(),
            positive: None,
            levels: None,
            intercept: true,
            standardise: Standardise::default(),
            drop_missing: false,
            collapse: false,
            like: None,
        }
    }
}
