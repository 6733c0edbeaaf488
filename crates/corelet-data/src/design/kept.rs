//! The design of other rows, taken over: the same columns, levels and scale, whatever these rows would have had by themselves.

use serde::{Deserialize, Serialize};

use crate::design::collinear::ScaledColumns;
use crate::design::dataset::FeaturePlan;
use crate::design::encoding::{Encoding, Made, Unseen};
use crate::design::examination::Examination;
use crate::design::features::{Cells, Feature, TextLevels};
use crate::design::options::{DesignOptions, Single};
use crate::design::standardise::Standardisation;
use crate::design::target::TargetCode;
use crate::error::DataError;
use crate::scan::sums::Spread;

/// How rows were encoded and on which scale, so that others become the same: those of a coreset, whose Gaussian part and whose draws
/// are on that scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptDesign {
    /// How cells became numbers.
    pub encoding: Encoding,
    /// How text columns became indicators.
    pub levels: Vec<TextLevels>,
    /// The standardisation of the features.
    pub standardisation: Standardisation,
}

impl KeptDesign {
    /// Its features of the columns that were looked at, by their names.
    ///
    /// # Errors
    /// Names the column that is no feature here, is of another kind, or has a level that it did not have there.
    pub(crate) fn plan(&self, examined: &Examination<'_>) -> Result<FeaturePlan, DataError> {
        let feature = |(name, made): (&String, &Made)| {
            let cells = match made {
                Made::Number(column) => Cells::Number(self.place(examined, column, made)?),
                Made::Bool(column) => Cells::Bool(self.place(examined, column, made)?),
                Made::Level(column, level) => {
                    Cells::Level(self.place(examined, column, made)?, level.clone())
                }
                Made::Ones => Cells::Ones,
            };
            // Nothing is to be learnt of their scale.
            let moments = Spread { mean: 0.0, sd: 1.0, rms: 1.0, min: 0.0, max: 1.0 };
            Ok(Feature { name: name.clone(), cells, moments })
        };
        let of = self.encoding.names.iter().zip(&self.encoding.features);
        let features: Vec<Feature> = of.map(feature).collect::<Result<_, DataError>>()?;
        Ok(FeaturePlan::kept(examined, features, self))
    }

    /// Where a column is among those asked for.
    fn place(&self, examined: &Examination<'_>, column: &str, made: &Made) -> Result<usize, DataError> {
        let file = examined.source.name();
        let Some((place, found)) = examined.feature(column) else {
            let features = examined.feature_names();
            return Err(DataError::NotOfDesign {
                file: file.to_owned(),
                column: column.to_owned(),
                features,
            });
        };
        made.check(found, (file, column), &self.levels, Unseen::Error).map_err(DataError::of_data)?;
        Ok(place)
    }

    /// The code of the target: its own where that is of the same column, and of the same levels.
    ///
    /// # Errors
    /// Names the level that it did not have.
    pub(crate) fn target(
        &self,
        examined: &Examination<'_>,
        code: TargetCode,
    ) -> Result<TargetCode, DataError> {
        let (own, here) = (self.encoding.target.as_ref(), examined.examined(Single::Target));
        let Some((own, here)) = own.zip(here).filter(|(own, here)| own.column == here.column) else {
            return Ok(code);
        };
        here.check_labels_known(own)?;
        Ok(own.code.clone())
    }

    /// How cells become numbers here: its features and its target, with what stands beside them as it is asked for.
    pub(crate) fn encoding(
        &self,
        examined: &Examination<'_>,
        options: &DesignOptions,
        features: &[Feature],
        code: TargetCode,
    ) -> Encoding {
        let mut encoding = examined.encoding(options, features, code);
        if let (Some(own), Some(target)) = (&self.encoding.target, &mut encoding.target)
            && own.column == target.column
        {
            target.labels.clone_from(&own.labels);
        }
        encoding
    }

    /// No column whose correlations are wanted.
    pub(crate) fn scaled(&self) -> ScaledColumns {
        let dim = self.encoding.names.len();
        ScaledColumns { dim, columns: Vec::new(), centre: Vec::new(), scale: Vec::new() }
    }
}
