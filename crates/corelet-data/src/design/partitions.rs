//! The design of a table whose rows are in partitions elsewhere: the queries to each partition, and how the answers are combined.

use serde::{Deserialize, Serialize};

use crate::design::collinear::ScaledColumns;
use crate::design::dataset::{Dataset, Fill, Planned};
use crate::design::features::Feature;
use crate::design::fill::{Encoder, Filled};
use crate::design::groups::NamedGroups;
use crate::design::options::{Beside, DesignOptions, Single};
use crate::design::roles::Roles;
use crate::design::standardise::Standardisation;
use crate::design::target::TargetCode;
use crate::error::DataError;
#[cfg(feature = "files")]
use crate::files::cells::CellColumn;
use crate::observations::Observations;
use crate::observations::TargetScale;
use crate::scan::blocks::{Blocks, ColumnInfo, Declared, Kind, Wanted, Worked, in_order};
use crate::scan::place::Place;
use crate::scan::source::{Reader, Source};
use crate::scan::storage::{Bytes, Storage};
use crate::scan::sums::{Size, Spread};
use crate::scan::survey::{Asked, Found, Survey, mark_missing, survey};
use crate::scan::text_cells::Markers;

/// The columns of a partition to read, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartColumns {
    columns: Vec<Named>,
    missing: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Named {
    name: String,
    kind: Kind,
    /// Whether single values matter.
    values: bool,
    /// Whether it has the weights of the rows.
    weighs: bool,
}

/// The findings of the first scan of one partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartSurvey(Survey);

/// How rows of a partition become rows of the design.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartEncoding {
    columns: PartColumns,
    features: Vec<Feature>,
    target: TargetCode,
    /// What the numbers beside the target are.
    beside: Option<Beside>,
    /// Where the single numbers and the groups are among the columns.
    singles: [Option<usize>; Single::ALL.len()],
    groupings: Vec<usize>,
    scaled: ScaledColumns,
    /// None where only products are wanted.
    standardisation: Option<Standardisation>,
    /// The budget of a shard in bytes, and its folder of scratch files.
    storage: (Option<u64>, Option<std::path::PathBuf>),
}

impl PartEncoding {
    /// Number of classes of a target that has several; 0 of any other.
    pub fn classes(&self) -> usize {
        self.target.classes().len()
    }
}

/// The encoded rows of a partition.
#[derive(Debug, Default)]
pub struct PartRows {
    /// The rows; none where only products are wanted.
    pub observations: Observations,
    /// ZᵀZ of their scaled raw features.
    pub gram: Vec<f64>,
    /// The groups that rows belong to, if requested.
    pub groups: Option<NamedGroups>,
}

/// A partition, seen from its own location.
impl Source<'_> {
    /// The first look.
    pub fn survey(&self, asked: &PartColumns) -> Result<PartSurvey, DataError> {
        let wanted = self.wanted(asked)?;
        let kinds = wanted.iter().zip(&asked.columns);
        let columns: Vec<Asked> = kinds
            .map(|(&Wanted { column, kind }, &Named { values, weighs, .. })| Asked {
                column,
                kind,
                values,
                weighs,
            })
            .collect();
        let markers = Markers::new(&asked.missing);
        survey(self.reader(), &columns, &markers, &mut |_| std::ops::ControlFlow::Continue(()))
            .map(PartSurvey)
    }

    /// The second look, or one for products alone.
    pub fn encode(&self, encoding: &PartEncoding) -> Result<PartRows, DataError> {
        let wanted = self.wanted(&encoding.columns)?;
        let markers = Markers::new(&encoding.columns.missing);
        let kept = self.complete(&wanted, &markers)?;
        let (memory, scratch) = &encoding.storage;
        let storage = Storage { memory: memory.map(Bytes), scratch: scratch.clone() };
        let encoder = Encoder {
            reader: self.reader(),
            file: self.name(),
            wanted: &wanted,
            markers: &markers,
            kept: &kept,
            features: &encoding.features,
            storage: &storage,
            target: encoding.target.clone(),
            beside: encoding.beside,
            singles: encoding.singles,
            groupings: encoding.groupings.clone(),
        };
        let watch = &mut |_: &crate::Reading| std::ops::ControlFlow::Continue(());
        match &encoding.standardisation {
            None => {
                let gram = encoder.gram(&encoding.scaled, 1, watch)?;
                Ok(PartRows { gram, ..PartRows::default() })
            }
            Some(standardisation) => {
                let filled = encoder.rows(&encoding.scaled, standardisation, 1, watch)?;
                let Filled { observations, gram, mut groups } = filled;
                Ok(PartRows { observations, gram, groups: groups.pop() })
            }
        }
    }

    /// The columns by their positions here. One in which every cell is missing may be of any kind.
    fn wanted(&self, asked: &PartColumns) -> Result<Vec<Wanted>, DataError> {
        let known = self.reader().columns();
        let differs = |reason: String| DataError::PartColumns {
            file: self.name().to_owned(),
            first: "the table".to_owned(),
            reason,
        };
        let find = |named: &Named| {
            let column = known.iter().position(|column| column.name == named.name);
            let column = column.ok_or_else(|| differs(format!("it has no column '{}'", named.name)))?;
            let kind = match known[column].declared {
                Declared::Kind(kind) => Some(kind),
                _ => None,
            };
            let agrees = named.kind == Kind::Text || kind == Some(named.kind);
            if !agrees && !self.is_all_missing(Wanted { column, kind })? {
                return Err(differs(format!("its column '{}' is of another type", named.name)));
            }
            Ok(Wanted { column, kind: Some(named.kind) })
        };
        asked.columns.iter().map(find).collect()
    }

    fn is_all_missing(&self, wanted: Wanted) -> Result<bool, DataError> {
        Ok(self.complete(&[wanted], &Markers::default())?.iter().all(|&rows| rows == 0))
    }

    /// The rows of each block in which none of these columns is missing.
    fn complete(&self, wanted: &[Wanted], markers: &Markers) -> Result<Vec<usize>, DataError> {
        let mut kept = Vec::new();
        let work = |block: crate::scan::blocks::Block<'_>| {
            let (upto, mut count) = (block.upto, 0);
            let extent = block.read(&mut |batch| {
                let mut complete = vec![true; batch.rows];
                for column in &batch.columns {
                    mark_missing(&column.values, &mut complete);
                }
                count += complete.iter().filter(|&&complete| complete).count();
                Ok(())
            })?;
            Ok(Worked { result: count, extent, upto })
        };
        let blocks = self.reader().blocks(wanted, markers)?;
        in_order(blocks, self.reader().first(), work, |_, worked| {
            kept.push(worked.result);
            Ok(())
        })?;
        Ok(kept)
    }
}

/// Whoever asks all partitions, and merges what they say in their order where it is a sum.
pub trait AskPartitions {
    /// The findings of the first scan of each partition.
    fn survey(&mut self, columns: &PartColumns) -> Result<Vec<PartSurvey>, DataError>;

    /// ZᵀZ of their scaled raw features.
    fn gram(&mut self, encoding: &PartEncoding) -> Result<Vec<f64>, DataError>;

    /// Lets each partition encode its rows, and returns ZᵀZ of their scaled raw features.
    fn hold(&mut self, encoding: &PartEncoding, rows: &[usize]) -> Result<Vec<f64>, DataError>;
}

/// Summary of the weights of all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightScale {
    /// Σfᵢ.
    pub total: f64,
    /// Whether each is a whole number.
    pub are_counts: bool,
}

impl WeightScale {
    /// Of rows at hand; none if they have no weights.
    pub fn of(observations: &Observations) -> Option<Self> {
        let are_counts = observations.weights.as_ref()?.iter().all(|weight| weight.fract() == 0.0);
        Some(Self { total: observations.total_weight(), are_counts })
    }
}

/// A table in partitions, designed.
pub struct Partitioned {
    /// All but the observations, which are where the partitions are.
    pub dataset: Dataset,
    /// The scale of a numeric target.
    pub target: TargetScale,
    /// Where rows have weights.
    pub weights: Option<WeightScale>,
    /// The first row of each partition, and after the last.
    pub starts: Vec<usize>,
}

/// The design of partitions whose columns are those of `schema`.
pub fn design_partitions(
    schema: &Source<'_>,
    options: &DesignOptions,
    storage: &Storage,
    partitions: &mut dyn AskPartitions,
) -> Result<Partitioned, DataError> {
    let (columns, own_target) = (schema.reader().columns().to_vec(), schema.reader().own_target());
    let elsewhere = Box::new(Elsewhere { columns, own_target, starts: Vec::new() });
    let source = Source::of_reader(schema.name().to_owned(), elsewhere);
    let roles = Roles::assign(&source, options)?;
    let named = |asked: &Asked| Named {
        name: source.reader().columns()[asked.column].name.clone(),
        kind: asked.kind.unwrap_or(Kind::Text),
        values: asked.values,
        weighs: asked.weighs,
    };
    let columns = roles.asked(&source).iter().map(named).collect();
    let asked = PartColumns { columns, missing: options.missing.clone() };
    let surveys = partitions.survey(&asked)?;
    let mut survey = Survey::default();
    let mut starts = vec![0];
    for PartSurvey(part) in &surveys {
        survey.append(part);
        starts.push(survey.rows.total());
    }
    let planned = Planned::new(&source, &roles, &survey, options).map_err(|error| {
        // Which partition a row is in is known once all have been counted.
        let located = Elsewhere { columns: Vec::new(), own_target: None, starts: starts.clone() };
        Source::of_reader(source.name().to_owned(), Box::new(located)).located(error)
    })?;
    let Planned { target: code, features: plan, encoding: cells, mut warnings } = planned;
    let encoding = PartEncoding {
        columns: asked,
        features: plan.features.clone(),
        target: code.clone(),
        beside: options.columns.beside().map(|(_, what)| what),
        singles: roles.single_positions(),
        groupings: roles.grouping_positions(),
        scaled: ScaledColumns { dim: 0, columns: Vec::new(), centre: Vec::new(), scale: Vec::new() },
        standardisation: None,
        storage: (storage.memory.map(|memory| memory.0), storage.scratch.clone()),
    };
    let rows: Vec<usize> = surveys.iter().map(|PartSurvey(part)| part.rows.len()).collect();
    let ((), standardisation) = plan.fill(&mut There { partitions, encoding, rows: &rows }, &mut warnings)?;
    let target_name = roles.target().map(|column| source.reader().columns()[column].name.clone());
    let of = |single: Single| roles.single_positions()[single as usize].map(|at| &survey.columns[at].values);
    let target = of(Single::Target).map(|found| scale_of(found, &code, &plan.size)).unwrap_or_default();
    let beside = of(Single::Beside).map_or(1.0, |found| mean_of(found, &plan.size));
    let offset = of(Single::Offset).map_or(0.0, |found| mean_of(found, &plan.size));
    let ratio = if beside > 0.0 { target.mean / beside } else { target.mean };
    let target = TargetScale { ratio, offset, ..target };
    let weights = roles.single_positions()[Single::Weights as usize].map(|at| WeightScale {
        total: plan.size.weight,
        are_counts: are_counts(&survey.columns[at].values),
    });
    let dataset = plan.dataset(survey.rows, standardisation, cells, target_name, warnings);
    Ok(Partitioned { dataset, target, weights, starts })
}

/// As [`TargetScale::of`] the coded targets, less what stands beside them.
fn scale_of(found: &Found, code: &TargetCode, size: &Size) -> TargetScale {
    if let Some(successes) = successes(found, code) {
        let mean = 2.0 * successes / size.weight - 1.0;
        return TargetScale {
            mean,
            sd: (1.0 - mean * mean).max(0.0).sqrt(),
            rms: 1.0,
            ..TargetScale::default()
        };
    }
    let Found::Numbers(numbers) = found else { return TargetScale::default() };
    let Spread { mean, sd, rms, .. } = numbers.sums.moments(size);
    TargetScale { mean, sd: sd * (size.freedom / size.weight).sqrt(), rms, ..TargetScale::default() }
}

/// The weight of the rows that are coded as +1, where others are −1.
fn successes(found: &Found, code: &TargetCode) -> Option<f64> {
    Some(match (code, found) {
        (TargetCode::SignOfNumber(positive), Found::Numbers(numbers)) => {
            let distinct = &numbers.single.as_ref()?.distinct;
            distinct.iter().find(|(value, ..)| value == positive)?.1.weight()
        }
        (TargetCode::SignOfBool(positive), Found::Bools(counts)) => counts[usize::from(*positive)].weight(),
        (TargetCode::SignOfText(positive), Found::Texts(levels)) => {
            levels.sorted().into_iter().find(|level| level.text == *positive)?.rows.weight()
        }
        _ => return None,
    })
}

fn mean_of(found: &Found, size: &Size) -> f64 {
    match found {
        Found::Numbers(numbers) => numbers.sums.moments(size).mean,
        Found::Bools(counts) => counts[1].weight() / size.weight,
        _ => 0.0,
    }
}

fn are_counts(found: &Found) -> bool {
    let Found::Numbers(numbers) = found else { return false };
    numbers.single.as_ref().is_some_and(|single| single.not_count.is_none())
}

/// Rows that are made where the partitions are.
struct There<'a> {
    partitions: &'a mut dyn AskPartitions,
    encoding: PartEncoding,
    rows: &'a [usize],
}

impl Fill for There<'_> {
    type Rows = ();

    fn gram(&mut self, scaled: &ScaledColumns) -> Result<Vec<f64>, DataError> {
        self.encoding.scaled = scaled.clone();
        self.partitions.gram(&self.encoding)
    }

    fn rows(
        &mut self,
        scaled: &ScaledColumns,
        standardisation: &Standardisation,
    ) -> Result<((), Vec<f64>), DataError> {
        self.encoding.scaled = scaled.clone();
        self.encoding.standardisation = Some(standardisation.clone());
        Ok(((), self.partitions.hold(&self.encoding, self.rows)?))
    }
}

/// The columns of a table whose rows are elsewhere.
struct Elsewhere {
    columns: Vec<ColumnInfo>,
    own_target: Option<usize>,
    /// The first row of each partition, and after the last; none before they are known.
    starts: Vec<usize>,
}

impl Reader for Elsewhere {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn own_target(&self) -> Option<usize> {
        self.own_target
    }

    fn blocks<'a>(&'a self, _wanted: &'a [Wanted], _markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        Ok(Box::new(std::iter::empty()))
    }

    fn locate(&self, _file: &str, place: Place) -> Option<(String, Place)> {
        let (partition, row) = locate(&self.starts, place.row);
        (!self.starts.is_empty()).then(|| (format!("partition {partition}"), Place { row, line: None }))
    }

    #[cfg(feature = "files")]
    fn cells(&self, _rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        Ok(Vec::new())
    }
}

/// The partition, and the row in it, of a row of all; `starts` are the first rows of the partitions.
pub fn locate(starts: &[usize], row: usize) -> (usize, usize) {
    let partition = starts.partition_point(|&start| start <= row).saturating_sub(1);
    (partition, row - starts.get(partition).copied().unwrap_or_default())
}
