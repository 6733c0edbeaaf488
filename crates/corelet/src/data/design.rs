//! From a table to what models are built on: features, target and exposure, all finite.

use serde::{Deserialize, Serialize};

use super::collinear::{ScaledColumns, dependent_columns};
use super::encode::{Cells, Feature, TextLevels, encode, unsupported};
use super::error::{DataError, list, list_all_names, list_names};
use super::moments::{Moments, moments};
use super::standardise::{Standardisation, covariance_factor};
use super::table::Table;
use super::target::Used;
use super::view::{ColumnView, TableView, ValuesView};
use crate::rows::Observations;

/// The name of an intercept that was added.
const INTERCEPT: &str = "(intercept)";

/// What the target is, and so how it is checked and coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// The mean of a Gaussian: no target, no intercept.
    Gaussian,
    /// A number.
    Linear,
    /// Two classes, coded −1 and +1.
    #[default]
    Logistic,
    /// A count, perhaps with an exposure.
    Poisson,
}

/// What is done to the features other than the intercept.
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

/// Which columns are used, and how.
///
/// | name | default | purpose |
/// | --- | --- | --- |
/// | `task` | `logistic` | how the target is checked and coded |
/// | `target` | the file's own | the column to predict; LIBSVM and NPZ files carry their own, `y` |
/// | `features` | all other columns | the columns to predict from |
/// | `exposure` | none | the exposure of each row, for Poisson |
/// | `positive` | none | the level of the target that is coded +1; needed where the target is text |
/// | `intercept` | true | add a column of ones, unless a feature is constant already |
/// | `standardise` | `scale` | what is done to the features |
/// | `drop_missing` | false | leave out rows with missing values instead of refusing them |
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DesignOptions {
    /// How the target is checked and coded.
    pub task: Task,
    /// The column to predict.
    pub target: Option<String>,
    /// The columns to predict from.
    pub features: Option<Vec<String>>,
    /// The exposure of each row.
    pub exposure: Option<String>,
    /// The level of the target that is coded +1.
    pub positive: Option<String>,
    /// Whether to add a column of ones.
    pub intercept: bool,
    /// What is done to the features.
    pub standardise: Standardise,
    /// Whether rows with missing values are left out.
    pub drop_missing: bool,
}

impl Default for DesignOptions {
    fn default() -> Self {
        Self {
            task: Task::default(),
            target: None,
            features: None,
            exposure: None,
            positive: None,
            intercept: true,
            standardise: Standardise::default(),
            drop_missing: false,
        }
    }
}

/// Observations with names and the way back to the file.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// What models are built on.
    pub observations: Observations,
    /// The name of each feature, and so of each parameter.
    pub names: Vec<String>,
    /// The row of the input file, from 0, that each observation came from.
    pub rows: Vec<usize>,
    /// How text columns became indicators.
    pub levels: Vec<TextLevels>,
    /// What was done to the features.
    pub standardisation: Standardisation,
    /// Rows left out for missing values.
    pub dropped: usize,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// The column that is the target.
    pub target_name: Option<String>,
}

/// Turns `table` into a [`Dataset`].
///
/// Text becomes indicators with the most frequent level as base; an intercept, called `(intercept)`, is added as the
/// last feature unless some numeric feature is a constant other than 0, which then is the intercept and is left as it
/// is. A regression without an intercept is scaled but not shifted. Features that are linear combinations of others
/// get a warning, or an error under whitening.
pub fn design(table: &Table, options: &DesignOptions) -> Result<Dataset, DataError> {
    design_view(&table.view(), options)
}

/// [`design`] of columns that belong to someone else: the features of the result are the only copy that is made.
pub fn design_view(table: &TableView<'_>, options: &DesignOptions) -> Result<Dataset, DataError> {
    let roles = Roles::assign(table, options)?;
    let rows = roles.usable_rows(table, options.drop_missing)?;
    let used = |column| Used { table, column, rows: &rows };
    let target = roles.target.map_or(Ok(Vec::new()), |column| used(column).target(options))?;
    let exposure = roles.exposure.map(|column| used(column).exposure()).transpose()?;
    let (mut features, levels) = encode(table, &roles.features, &rows)?;
    check_width(table, &features, &levels, rows.len())?;
    let mut warnings = Vec::new();
    let plan = Plan::new(table, &mut features, &rows, options, &mut warnings)?;
    check_width(table, &features, &levels, rows.len())?;
    let mut matrix = fill(&features, &rows);
    let standardisation = plan.standardise(table, &features, &mut matrix, &mut warnings)?;
    Ok(Dataset {
        observations: Observations { exposure, ..Observations::new(&matrix, features.len(), target) },
        names: features.into_iter().map(|feature| feature.name).collect(),
        dropped: table.rows - rows.len(),
        rows,
        levels,
        standardisation,
        warnings,
        target_name: roles.target.map(|column| column.name.to_owned()),
    })
}

/// Which column does what.
struct Roles<'a> {
    target: Option<ColumnView<'a>>,
    exposure: Option<ColumnView<'a>>,
    features: Vec<ColumnView<'a>>,
}

impl<'a> Roles<'a> {
    fn assign(table: &TableView<'a>, options: &DesignOptions) -> Result<Self, DataError> {
        let target = match (options.task, options.target.as_deref().or(table.own_target)) {
            (Task::Gaussian, None) => None,
            (_, Some(name)) => Some(table.column(name)?),
            (_, None) => {
                let (file, known) = (table.source.to_owned(), table.known_columns());
                return Err(DataError::NoTarget { file, known });
            }
        };
        let exposure = options.exposure.as_ref().map(|name| table.column(name)).transpose()?;
        let taken = |column: &ColumnView<'_>| {
            [target, exposure].iter().flatten().any(|used| used.name == column.name)
        };
        let features = match &options.features {
            Some(names) => names.iter().map(|name| table.column(name)).collect::<Result<Vec<_>, _>>()?,
            None => table.columns.iter().copied().filter(|column| !taken(column)).collect(),
        };
        let roles = Self { target, exposure, features };
        roles.check(table)?;
        Ok(roles)
    }

    fn check(&self, table: &TableView<'_>) -> Result<(), DataError> {
        let named = self.target.map(|column| (column, "the target"));
        let named = named.into_iter().chain(self.exposure.map(|column| (column, "the exposure")));
        let named = named.chain(self.features.iter().map(|&column| (column, "a feature")));
        let mut seen: Vec<(ColumnView<'_>, &'static str)> = Vec::new();
        for (column, second) in named {
            if let Some(&(_, first)) = seen.iter().find(|(other, _)| other.name == column.name) {
                let (file, column) = (table.source.to_owned(), column.name.to_owned());
                return Err(DataError::TwoRoles { file, column, first, second });
            }
            if matches!(column.values, ValuesView::Other(_)) {
                return Err(unsupported(table, &column));
            }
            seen.push((column, second));
        }
        if self.features.is_empty() {
            return Err(DataError::NoFeatures { file: table.source.to_owned() });
        }
        Ok(())
    }

    /// The rows without a missing value; an error where there are others that may not be dropped.
    fn usable_rows(&self, table: &TableView<'_>, drop_missing: bool) -> Result<Vec<usize>, DataError> {
        let mut complete = vec![true; table.rows];
        let mut counts = Vec::new();
        for column in self.features.iter().copied().chain(self.target).chain(self.exposure) {
            let missing: Vec<usize> = (0..table.rows).filter(|&row| column.values.is_missing(row)).collect();
            missing.iter().for_each(|&row| complete[row] = false);
            if !missing.is_empty() {
                counts.push(format!("{} in '{}'", missing.len(), column.name));
            }
        }
        let rows: Vec<usize> = (0..table.rows).filter(|&row| complete[row]).collect();
        let file = table.source.to_owned();
        if !counts.is_empty() && !drop_missing {
            let affected = table.rows - rows.len();
            return Err(DataError::Missing {
                file,
                affected,
                rows: table.rows,
                columns: list(counts.into_iter()),
            });
        }
        if rows.len() < 2 {
            return Err(DataError::TooFewRows { file, rows: rows.len() });
        }
        Ok(rows)
    }
}

/// The features' moments and which of them is the intercept.
struct Plan {
    moments: Vec<Moments>,
    intercept: Option<(usize, f64)>,
    kind: Standardise,
    /// Whether features are shifted to mean 0.
    centred: bool,
}

impl Plan {
    fn new(
        table: &TableView<'_>,
        features: &mut Vec<Feature<'_>>,
        rows: &[usize],
        options: &DesignOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Self, DataError> {
        let gaussian = options.task == Task::Gaussian;
        let mut moments = moments(features, rows);
        let mut intercept = if gaussian { None } else { find_intercept(features, &moments) };
        if let Some((j, value)) = intercept.filter(|&(_, value)| value != 1.0) {
            let name = &features[j].name;
            warnings.push(format!("column '{name}' is {value} in every row and serves as the intercept"));
        }
        check_varying(table, features, &moments, intercept)?;
        if intercept.is_none() && options.intercept && !gaussian {
            intercept = Some((features.len(), 1.0));
            features.push(Feature { name: INTERCEPT.to_owned(), cells: Cells::Ones });
            moments.push(Moments { mean: 1.0, sd: 0.0, rms: 1.0, min: 1.0, max: 1.0 });
        }
        let centred = intercept.is_some() || gaussian;
        Ok(Self { moments, intercept, kind: options.standardise, centred })
    }

    /// Standardises `matrix`, after looking for features that depend on others.
    fn standardise(
        &self,
        table: &TableView<'_>,
        features: &[Feature<'_>],
        matrix: &mut [f64],
        warnings: &mut Vec<String>,
    ) -> Result<Standardisation, DataError> {
        let dim = features.len();
        let columns: Vec<usize> =
            (0..dim).filter(|&j| self.intercept.is_none_or(|(intercept, _)| intercept != j)).collect();
        let correlation = self.correlation(matrix, dim, &columns);
        let dependent = dependent_columns(&correlation, columns.len());
        let names: Vec<&str> = dependent.iter().map(|&i| features[columns[i]].name.as_str()).collect();
        if !names.is_empty() && self.kind == Standardise::Whiten {
            return Err(DataError::Collinear {
                file: table.source.to_owned(),
                columns: list_all_names(&names),
            });
        }
        if !names.is_empty() {
            let independent = columns.len() - names.len();
            warnings.push(format!(
                "{independent} of {} features are independent; these are linear combinations of the others, so that \
                 only the prior tells them apart: {}",
                columns.len(),
                list_names(&names)
            ));
        }
        let standardisation = self.standardisation(columns, &correlation);
        standardisation.apply_to_all(matrix, dim);
        Ok(standardisation)
    }

    /// Correlations of `columns`; about zero where the model cannot shift them.
    fn correlation(&self, matrix: &[f64], dim: usize, columns: &[usize]) -> Vec<f64> {
        let about_mean = self.centred || self.kind != Standardise::None;
        let of = |f: fn(&Moments) -> f64| columns.iter().map(|&j| f(&self.moments[j])).collect::<Vec<f64>>();
        let n = (matrix.len() / dim) as f64;
        let (centre, scale, freedom) = if about_mean {
            (of(|m| m.mean), of(|m| m.sd), n - 1.0)
        } else {
            (vec![0.0; columns.len()], of(|m| m.rms), n)
        };
        let mut gram = ScaledColumns { matrix, dim, columns, centre: &centre, scale: &scale }.gram();
        gram.iter_mut().for_each(|value| *value /= freedom);
        gram
    }

    fn standardisation(&self, columns: Vec<usize>, correlation: &[f64]) -> Standardisation {
        let sd: Vec<f64> = columns.iter().map(|&j| self.moments[j].sd).collect();
        let means = match self.kind {
            Standardise::Scale | Standardise::Whiten if self.centred => {
                columns.iter().map(|&j| self.moments[j].mean).collect()
            }
            _ => vec![0.0; columns.len()],
        };
        let (scale, factor) = match self.kind {
            Standardise::None => (vec![1.0; sd.len()], Vec::new()),
            Standardise::Scale => (sd, Vec::new()),
            Standardise::Whiten => (vec![1.0; sd.len()], covariance_factor(correlation, &sd)),
        };
        Standardisation { kind: self.kind, columns, intercept: self.intercept, means, scale, factor }
    }
}

fn check_width(
    table: &TableView<'_>,
    features: &[Feature<'_>],
    levels: &[TextLevels],
    rows: usize,
) -> Result<(), DataError> {
    if features.len() <= rows {
        return Ok(());
    }
    let widest = levels.iter().max_by_key(|text| text.levels.len());
    let hint = widest.map_or_else(String::new, |text| {
        format!(", {} of them from text column '{}'", text.levels.len(), text.column)
    });
    Err(DataError::MoreFeaturesThanRows {
        file: table.source.to_owned(),
        features: features.len(),
        rows,
        hint,
    })
}

/// A numeric feature that is constant and not 0, one of ones before any other.
fn find_intercept(features: &[Feature<'_>], moments: &[Moments]) -> Option<(usize, f64)> {
    let constant = |j: &usize| {
        let numeric = matches!(features[*j].cells, Cells::Number(_));
        numeric && moments[*j].min == moments[*j].max && moments[*j].min != 0.0
    };
    let constants: Vec<usize> = (0..features.len()).filter(constant).collect();
    let ones = constants.iter().find(|&&j| moments[j].min == 1.0);
    ones.or(constants.first()).map(|&j| (j, moments[j].min))
}

fn check_varying(
    table: &TableView<'_>,
    features: &[Feature<'_>],
    moments: &[Moments],
    intercept: Option<(usize, f64)>,
) -> Result<(), DataError> {
    for (j, (feature, moments)) in features.iter().zip(moments).enumerate() {
        let (file, column) = (table.source.to_owned(), feature.name.clone());
        if !moments.sd.is_finite() || !moments.rms.is_finite() {
            return Err(DataError::Overflow { file, column });
        }
        if moments.is_constant() && intercept.is_none_or(|(intercept, _)| intercept != j) {
            return Err(DataError::Constant { file, column, value: moments.min.to_string() });
        }
    }
    Ok(())
}

/// The features on `rows`, row-major.
fn fill(features: &[Feature<'_>], rows: &[usize]) -> Vec<f64> {
    use rayon::prelude::*;
    const BLOCK_ROWS: usize = 1024;
    let dim = features.len();
    let mut matrix = vec![0.0; rows.len() * dim];
    matrix.par_chunks_mut(BLOCK_ROWS * dim).zip(rows.par_chunks(BLOCK_ROWS)).for_each(|(block, rows)| {
        for (j, feature) in features.iter().enumerate() {
            feature.cells.for_each(rows, |i, value| block[i * dim + j] = value);
        }
    });
    matrix
}
