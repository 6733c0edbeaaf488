//! From a table to what models are built on: features, target and exposure, all finite.

use crate::design::collinear::{ScaledColumns, dependent_columns};
use crate::design::encoding::Encoding;
use crate::design::examination::{Examination, check_width};
use crate::design::features::{Cells, Feature, Features, TextLevels};
use crate::design::fill::{Encoder, Filled};
use crate::design::groups::{Groups, NamedGroups};
use crate::design::kept::KeptDesign;
use crate::design::options::{DesignOptions, Outcome, Standardise};
use crate::design::roles::Roles;
use crate::design::standardise::{Standardisation, covariance_factor};
use crate::design::target::TargetCode;
use crate::error::DataError;
use crate::listing::{list_all_names, list_names};
use crate::observations::Observations;
use crate::scan::blocks::{Wanted, Watch};
use crate::scan::kept_rows::KeptRows;
use crate::scan::source::Source;
use crate::scan::storage::Storage;
use crate::scan::sums::{Size, Spread};
use crate::scan::survey::{Survey, survey};
use crate::scan::text_cells::Markers;

/// The name of an intercept that was added.
const INTERCEPT: &str = "(intercept)";

/// The size of a feature that is not shifted, in its standard deviations, at which rounding to single precision moves its
/// values by a thousandth of one.
const MOST_SIZE: f64 = 1e-3 / (f32::EPSILON as f64 / 2.0);

/// Where single precision has all its digits, with room for products.
const RANGE: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Observations with names and the way back to the file.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The rows for models.
    pub observations: Observations,
    /// The name of each feature, and so of each parameter.
    pub names: Vec<String>,
    /// The row of the input that each observation came from.
    pub rows: KeptRows,
    /// How text columns became indicators.
    pub levels: Vec<TextLevels>,
    /// The standardisation of the features.
    pub standardisation: Standardisation,
    /// Rows left out for missing values.
    pub dropped: usize,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The column that is the target.
    pub target_name: Option<String>,
    /// Which observations belong together, where a column says it.
    pub groups: Option<Groups>,
    /// The labels of the groups.
    pub group_names: Vec<String>,
    /// The groups by each of the further columns of groups.
    pub factors: Vec<NamedGroups>,
    /// How cells became numbers, for rows that are to become the same.
    pub encoding: Encoding,
}

/// Turns a table into a [`Dataset`], in two looks, or three where it is whitened.
///
/// Text becomes indicators with the level that most rows have as base, by their weights; an intercept, called `(intercept)`, is added as the
/// last feature unless some numeric feature is a constant other than 0, which then is the intercept and is left as it
/// is. Other columns that are the same in every row are left out, with a warning. A regression without an intercept is
/// scaled but not shifted. Features that are linear combinations of others get a warning, or an error under whitening.
pub(crate) fn design(
    source: &Source<'_>,
    options: &DesignOptions,
    storage: &Storage,
    watch: &mut Watch<'_>,
) -> Result<Dataset, DataError> {
    let roles = Roles::assign(source, options)?;
    let asked = roles.asked(source);
    let markers = Markers::new(&options.missing);
    let survey = survey(source.reader(), &asked, &markers, watch)?;
    let planned = Planned::new(source, &roles, &survey, options)?;
    let Planned { target, features: plan, encoding, mut warnings } = planned;
    let kinds = asked.iter().zip(&survey.columns);
    let wanted: Vec<Wanted> =
        kinds.map(|(asked, found)| Wanted { column: asked.column, kind: found.values.kind() }).collect();
    let encoder = Encoder {
        reader: source.reader(),
        file: source.name(),
        wanted: &wanted,
        markers: &markers,
        kept: &survey.kept,
        features: &plan.features,
        storage,
        target,
        beside: options.columns.beside().map(|(_, what)| what),
        singles: roles.single_positions(),
        groupings: roles.grouping_positions(),
    };
    let mut here = Here { encoder: &encoder, looks: survey.looks, watch };
    let (filled, standardisation) = plan.fill(&mut here, &mut warnings)?;
    let Filled { observations, mut groups, .. } = filled;
    let factors = groups.split_off(usize::from(roles.groups.is_some()));
    let target_name = roles.target().map(|column| source.reader().columns()[column].name.clone());
    let dataset = plan.dataset(survey.rows, standardisation, encoding, target_name, warnings);
    let (groups, group_names) = groups.pop().map(|named| (named.groups, named.names)).unzip();
    Ok(Dataset { observations, groups, group_names: group_names.unwrap_or_default(), factors, ..dataset })
}

/// The result of the first scan.
pub(crate) struct Planned {
    pub(crate) target: TargetCode,
    pub(crate) features: FeaturePlan,
    pub(crate) encoding: Encoding,
    pub(crate) warnings: Vec<String>,
}

impl Planned {
    pub(crate) fn new(
        source: &Source<'_>,
        roles: &Roles,
        survey: &Survey,
        options: &DesignOptions,
    ) -> Result<Self, DataError> {
        let examined = Examination { source, roles, survey };
        examined.check(options.drop_missing)?;
        let mut warnings = Vec::new();
        let target = examined.target(options, &mut warnings)?;
        examined.beside(&options.columns)?;
        if let Some(like) = &options.like {
            let (target, features) = (like.target(&examined, target)?, like.plan(&examined)?);
            let encoding = like.encoding(&examined, options, &features.features, target.clone());
            return Ok(Self { target, features, encoding, warnings });
        }
        let found = examined.features()?;
        let features = FeaturePlan::new(source, found, examined.size(), options, &mut warnings)?;
        let encoding = examined.encoding(options, &features.features, target.clone());
        Ok(Self { target, features, encoding, warnings })
    }
}

/// Whoever makes the rows that are planned: here, or where the partitions of a table are.
pub(crate) trait Fill {
    /// All rows, or where they are.
    type Rows;

    /// ZᵀZ of the scaled raw features, in a look of its own.
    fn gram(&mut self, scaled: &ScaledColumns) -> Result<Vec<f64>, DataError>;

    /// All rows, and ZᵀZ of their scaled raw features.
    fn rows(
        &mut self,
        scaled: &ScaledColumns,
        standardisation: &Standardisation,
    ) -> Result<(Self::Rows, Vec<f64>), DataError>;
}

/// Rows of a source that is here.
struct Here<'a, 'w> {
    encoder: &'a Encoder<'a>,
    looks: usize,
    watch: &'a mut Watch<'w>,
}

impl Fill for Here<'_, '_> {
    type Rows = Filled;

    fn gram(&mut self, scaled: &ScaledColumns) -> Result<Vec<f64>, DataError> {
        self.looks += 1;
        self.encoder.gram(scaled, self.looks, self.watch)
    }

    fn rows(
        &mut self,
        scaled: &ScaledColumns,
        standardisation: &Standardisation,
    ) -> Result<(Filled, Vec<f64>), DataError> {
        let mut filled = self.encoder.rows(scaled, standardisation, self.looks + 1, self.watch)?;
        let gram = std::mem::take(&mut filled.gram);
        Ok((filled, gram))
    }
}

/// The features, and which of them is the intercept.
pub(crate) struct FeaturePlan {
    file: String,
    pub(crate) features: Vec<Feature>,
    levels: Vec<TextLevels>,
    intercept: Option<(usize, f64)>,
    kind: Standardise,
    /// Whether features are shifted to mean 0.
    centred: bool,
    pub(crate) size: Size,
    /// A design that is taken over.
    kept: Option<KeptDesign>,
}

impl FeaturePlan {
    fn new(
        source: &Source<'_>,
        mut found: Features,
        size: Size,
        options: &DesignOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Self, DataError> {
        let file = source.name().to_owned();
        let targetless = options.outcome == Outcome::None;
        let mut intercept = if targetless { None } else { find_intercept(&found.features) };
        if let Some((j, value)) = intercept.filter(|&(_, value)| value != 1.0) {
            let name = &found.features[j].name;
            warnings.push(format!("column '{name}' is {value} in every row and serves as the intercept"));
        }
        check_scale(&file, &found.features)?;
        found.leave_out_constants(&mut intercept);
        if found.features.len() == usize::from(intercept.is_some()) {
            return Err(DataError::NoFeatures { file });
        }
        if intercept.is_none() && options.intercept && !targetless {
            intercept = Some((found.features.len(), 1.0));
            found.features.push(added_intercept(&found.features));
        }
        check_width(source, &found, size.rows)?;
        let Features { features, levels, warnings: left_out } = found;
        warnings.extend(left_out);
        let centred = intercept.is_some() || targetless;
        let kind = options.standardise;
        Ok(Self { file, features, levels, intercept, kind, centred, size, kept: None })
    }

    /// That of a design which is taken over.
    pub(crate) fn kept(examined: &Examination<'_>, features: Vec<Feature>, design: &KeptDesign) -> Self {
        let Standardisation { kind, intercept, .. } = design.standardisation;
        Self {
            file: examined.source.name().to_owned(),
            features,
            levels: design.levels.clone(),
            intercept,
            kind,
            centred: true,
            size: examined.size(),
            kept: Some(design.clone()),
        }
    }

    /// Makes the rows, after looking for features that depend on others where they are whitened.
    pub(crate) fn fill<F: Fill>(
        &self,
        rows: &mut F,
        warnings: &mut Vec<String>,
    ) -> Result<(F::Rows, Standardisation), DataError> {
        if let Some(kept) = &self.kept {
            let (filled, _) = rows.rows(&kept.scaled(), &kept.standardisation)?;
            return Ok((filled, kept.standardisation.clone()));
        }
        let (scaled, freedom) = self.scaled_columns();
        let correlation = |mut gram: Vec<f64>| {
            gram.iter_mut().for_each(|value| *value /= freedom);
            gram
        };
        self.check_precision()?;
        if self.kind == Standardise::Whiten {
            let correlation = correlation(rows.gram(&scaled)?);
            let dependent = self.dependent(&scaled.columns, &correlation);
            if !dependent.is_empty() {
                let (file, columns) = (self.file.clone(), list_all_names(&dependent));
                return Err(DataError::Collinear { file, columns });
            }
            let standardisation = self.standardisation(scaled.columns.clone(), &correlation);
            let (filled, _) = rows.rows(&scaled, &standardisation)?;
            return Ok((filled, standardisation));
        }
        let standardisation = self.standardisation(scaled.columns.clone(), &[]);
        let (filled, gram) = rows.rows(&scaled, &standardisation)?;
        let dependent = self.dependent(&scaled.columns, &correlation(gram));
        if !dependent.is_empty() {
            let all = scaled.columns.len();
            warnings.push(format!(
                "{} of {all} features are independent; these are linear combinations of the others, so that only the \
                 prior tells them apart: {}",
                all - dependent.len(),
                list_names(&dependent)
            ));
        }
        Ok((filled, standardisation))
    }

    /// All that is known of the rows but the rows themselves.
    pub(crate) fn dataset(
        self,
        rows: KeptRows,
        standardisation: Standardisation,
        encoding: Encoding,
        target_name: Option<String>,
        warnings: Vec<String>,
    ) -> Dataset {
        Dataset {
            observations: Observations { dim: self.features.len(), ..Observations::default() },
            names: self.features.into_iter().map(|feature| feature.name).collect(),
            dropped: rows.total() - rows.len(),
            rows,
            levels: self.levels,
            standardisation,
            warnings,
            target_name,
            groups: None,
            group_names: Vec::new(),
            factors: Vec::new(),
            encoding,
        }
    }

    /// Refuses features that single precision, in which they are kept, would blur: those that are not shifted and lie far from
    /// zero for their spread, and those beyond its range.
    fn check_precision(&self) -> Result<(), DataError> {
        let shifted = self.centred && self.kind != Standardise::None;
        let scaled = self.kind == Standardise::Scale;
        for (j, Feature { name, moments, .. }) in self.features.iter().enumerate() {
            let is_intercept = self.intercept.is_some_and(|(intercept, _)| intercept == j);
            let (size, spread) =
                if is_intercept { (moments.rms, moments.rms) } else { (moments.rms, moments.sd) };
            let blurred = !shifted && size > MOST_SIZE * spread;
            let out_of_range =
                (is_intercept || !scaled) && !(RANGE.contains(&size) && RANGE.contains(&spread));
            if blurred || out_of_range {
                let (file, column) = (self.file.clone(), name.clone());
                return Err(DataError::Precision { file, column, mean: moments.mean, sd: moments.sd });
            }
        }
        Ok(())
    }

    /// The names of features that are linear combinations of the others.
    fn dependent(&self, columns: &[usize], correlation: &[f64]) -> Vec<&str> {
        let dependent = dependent_columns(correlation, columns.len());
        dependent.iter().map(|&i| self.features[columns[i]].name.as_str()).collect()
    }

    /// All features but the intercept, scaled so that their products are correlations once they are divided by the
    /// second number; about zero where the model cannot shift them.
    fn scaled_columns(&self) -> (ScaledColumns, f64) {
        let dim = self.features.len();
        let is_intercept = |j: usize| self.intercept.is_some_and(|(intercept, _)| intercept == j);
        let columns: Vec<usize> = (0..dim).filter(|&j| !is_intercept(j)).collect();
        let of = |f: fn(&Spread) -> f64| columns.iter().map(|&j| f(&self.features[j].moments)).collect();
        let (centre, scale, freedom) = if self.centred || self.kind == Standardise::Whiten {
            (of(|m| m.mean), of(|m| m.sd), self.size.freedom)
        } else {
            (vec![0.0; columns.len()], of(|m| m.rms), self.size.weight)
        };
        (ScaledColumns { dim, columns, centre, scale }, freedom)
    }

    fn standardisation(&self, columns: Vec<usize>, correlation: &[f64]) -> Standardisation {
        let moments = |j: &usize| self.features[*j].moments;
        let sd: Vec<f64> = columns.iter().map(|j| moments(j).sd).collect();
        let means = match self.kind {
            Standardise::Scale | Standardise::Whiten if self.centred => {
                columns.iter().map(|j| moments(j).mean).collect()
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

/// A numeric feature that is constant and not 0, one of ones before any other.
fn find_intercept(features: &[Feature]) -> Option<(usize, f64)> {
    let constant = |j: &usize| {
        let Feature { cells, moments, .. } = &features[*j];
        matches!(cells, Cells::Number(_)) && moments.min == moments.max && moments.min != 0.0
    };
    let constants: Vec<usize> = (0..features.len()).filter(constant).collect();
    let ones = constants.iter().find(|&&j| features[j].moments.min == 1.0);
    ones.or(constants.first()).map(|&j| (j, features[j].moments.min))
}

/// A column of ones, by a name that no other feature has.
fn added_intercept(features: &[Feature]) -> Feature {
    let mut name = INTERCEPT.to_owned();
    while features.iter().any(|feature| feature.name == name) {
        name.insert_str(0, "added ");
    }
    let moments = Spread { mean: 1.0, sd: 0.0, rms: 1.0, min: 1.0, max: 1.0 };
    Feature { name, cells: Cells::Ones, moments }
}

/// Refuses features whose squares are beyond a double.
fn check_scale(file: &str, features: &[Feature]) -> Result<(), DataError> {
    for Feature { name, moments, .. } in features {
        let (file, column) = (file.to_owned(), name.clone());
        if !moments.sd.is_finite() || !moments.rms.is_finite() {
            return Err(DataError::Overflow { file, column });
        }
        if moments.sd == 0.0 && !moments.is_constant() {
            return Err(DataError::Underflow { file, column });
        }
    }
    Ok(())
}
