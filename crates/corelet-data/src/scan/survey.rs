//! The first look: what every column in use is, which rows have nothing missing, and what is known of their values.

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::scan::blocks::{Batch, BatchColumn, Kind, Wanted, Watch, Worked, in_order};
use crate::scan::kept_rows::KeptRows;
use crate::scan::levels::Levels;
use crate::scan::place::{Extent, Place};
use crate::scan::source::{Reader, report};
use crate::scan::sums::{Size, Spread, Sums, Tally};
use crate::scan::table::MISSING;
use crate::scan::text_cells::Markers;
use crate::scan::view::ValuesView;

/// Distinct values of a numeric target that are told apart: enough to see, and to show, that there are too many.
const MAX_DISTINCT: usize = 21;

/// A column that is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) column: usize,
    /// What its cells are; to be guessed where the file does not say.
    pub(crate) kind: Option<Kind>,
    /// Whether single values matter, as they do for a target and an exposure.
    pub(crate) values: bool,
    /// Whether it has the weights of the rows.
    pub(crate) weighs: bool,
}

/// All that the first look finds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Survey {
    /// The rows in which no asked column is missing.
    pub(crate) rows: KeptRows,
    /// How many of them each block of the file has.
    pub(crate) kept: Vec<usize>,
    /// What was found of each asked column.
    pub(crate) columns: Vec<ColumnSurvey>,
    /// Looks that it took.
    pub(crate) looks: usize,
}

impl Survey {
    /// Adds what was found in the next part of the same table.
    pub(crate) fn append(&mut self, next: &Self) {
        let before = Extent { rows: self.rows.total(), lines: 0 };
        self.columns.resize_with(next.columns.len(), ColumnSurvey::default);
        self.columns.iter_mut().zip(&next.columns).for_each(|(column, next)| column.append(next, before));
        self.rows.append(&next.rows);
        self.kept.extend_from_slice(&next.kept);
        self.looks = self.looks.max(next.looks);
    }
}

/// What was found of one column; all but what is missing on the complete rows alone.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ColumnSurvey {
    pub(crate) missing: usize,
    pub(crate) values: Found,
}

/// The values of a column.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) enum Found {
    /// All missing.
    #[default]
    Nothing,
    Numbers(Box<NumberSurvey>),
    /// Those that are false, and true.
    Bools([Tally; 2]),
    Texts(Box<Levels>),
    /// Of different kinds in different blocks, and so text, which has to be looked at again.
    Mixed,
}

/// What was found of numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NumberSurvey {
    pub(crate) sums: Sums,
    /// How the values follow each other.
    #[serde(default)]
    pub(crate) order: Order,
    /// The first that is not finite.
    pub(crate) infinite: Option<(Place, f64)>,
    /// Where single values matter.
    pub(crate) single: Option<SingleValues>,
}

/// Values, and those that some model would refuse.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SingleValues {
    /// Distinct values, the rows of each and where it is first, up to a limit.
    pub(crate) distinct: Vec<(f64, Tally, Place)>,
    pub(crate) not_count: Option<(Place, f64)>,
    pub(crate) not_positive: Option<(Place, f64)>,
    /// The first that is neither 0 nor positive.
    #[serde(default)]
    pub(crate) not_exposure: Option<(Place, f64)>,
}

/// In fewer rows than this, whole numbers of their own are no wonder.
const FEW_ROWS: usize = 50;

/// How values follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The first and the last, where there are any.
    ends: Option<(f64, f64)>,
    /// Whether all are whole numbers.
    whole: bool,
    /// Whether each is larger than the one before.
    ascends: bool,
}

impl Order {
    fn of(values: &[f64]) -> Self {
        let ends = values.first().copied().zip(values.last().copied());
        let whole = values.iter().all(|value| value.fract() == 0.0);
        Self { ends, whole, ascends: whole && values.is_sorted_by(|a, b| a < b) }
    }

    /// Those of this and of a later part together.
    fn and(&self, next: &Self) -> Self {
        let (Some((first, before)), Some((after, last))) = (self.ends, next.ends) else {
            return if self.ends.is_some() { *self } else { *next };
        };
        Self {
            ends: Some((first, last)),
            whole: self.whole && next.whole,
            ascends: self.ascends && next.ascends && before < after,
        }
    }
}

/// The largest count up to which a double knows every one.
const MOST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Exposures beyond these are slips, and their rates beyond a double.
const EXPOSURES: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Looks at all rows; once more where a column proves to be text after a block of numbers.
pub(crate) fn survey(
    reader: &dyn Reader,
    asked: &[Asked],
    markers: &Markers,
    watch: &mut Watch<'_>,
) -> Result<Survey, DataError> {
    let mut wanted: Vec<Wanted> =
        asked.iter().map(|asked| Wanted { column: asked.column, kind: asked.kind }).collect();
    let mut found = look(reader, asked, &wanted, markers, 1, watch)?;
    if found.columns.iter().any(|column| matches!(column.values, Found::Mixed)) {
        for (wanted, column) in wanted.iter_mut().zip(&found.columns) {
            wanted.kind = column.values.kind();
        }
        found = look(reader, asked, &wanted, markers, 2, watch)?;
    }
    Ok(found)
}

fn look(
    reader: &dyn Reader,
    asked: &[Asked],
    wanted: &[Wanted],
    markers: &Markers,
    looks: usize,
    watch: &mut Watch<'_>,
) -> Result<Survey, DataError> {
    let columns = vec![ColumnSurvey::default(); asked.len()];
    let mut all = Survey { rows: KeptRows::default(), kept: Vec::new(), columns, looks };
    let work = |block: crate::scan::blocks::Block<'_>| {
        let upto = block.upto;
        let mut part = BlockSurvey::new(asked);
        let extent = block.read(&mut |batch| {
            part.add(batch);
            Ok(())
        })?;
        part.rows.end(extent.rows);
        Ok(Worked { result: part, extent, upto })
    };
    in_order(reader.blocks(wanted, markers)?, reader.first(), work, |before, worked| {
        let part = &worked.result;
        all.kept.push(part.rows.len());
        all.rows.append(&part.rows);
        for (column, part) in all.columns.iter_mut().zip(&part.columns) {
            column.append(part, before);
        }
        report(reader, looks, before.rows + worked.extent.rows, worked.upto, watch)
    })?;
    Ok(all)
}

/// What is found of one block, with places counted from its beginning.
struct BlockSurvey<'a> {
    asked: &'a [Asked],
    rows: KeptRows,
    columns: Vec<ColumnSurvey>,
    scratch: Vec<f64>,
}

impl<'a> BlockSurvey<'a> {
    fn new(asked: &'a [Asked]) -> Self {
        let columns = vec![ColumnSurvey::default(); asked.len()];
        Self { asked, rows: KeptRows::default(), columns, scratch: Vec::new() }
    }

    fn add(&mut self, batch: &Batch<'_>) {
        let mut complete = vec![true; batch.rows];
        for (column, cells) in self.columns.iter_mut().zip(&batch.columns) {
            column.missing += mark_missing(&cells.values, &mut complete);
        }
        let kept: Vec<usize> = (0..batch.rows).filter(|&i| complete[i]).collect();
        if kept.len() == batch.rows {
            self.rows.keep_all(batch.start..batch.start + batch.rows);
        } else {
            kept.iter().for_each(|&i| self.rows.keep(batch.start + i));
        }
        let weighs = self.asked.iter().position(|asked| asked.weighs);
        let weights = weighs.and_then(|at| batch.columns[at].values.numbers_of(&kept));
        let kept = Kept { rows: &kept, weights: weights.as_deref() };
        for ((column, cells), asked) in self.columns.iter_mut().zip(&batch.columns).zip(self.asked) {
            let found = survey_cells(batch, cells, &kept, asked.values, &mut self.scratch);
            column.values.append(&found, Extent::default());
        }
    }
}

/// The complete rows of a batch, and their weights where they have any.
struct Kept<'a> {
    rows: &'a [usize],
    weights: Option<&'a [f64]>,
}

impl Kept<'_> {
    /// The complete row that stands at this place among them.
    fn tally(&self, at: usize) -> Tally {
        Tally::of_row(self.weights.map(|weights| weights[at]))
    }

    /// Those for which something holds.
    fn tally_where(&self, holds: impl Fn(usize) -> bool) -> Tally {
        let mut found = Tally::default();
        let there = self.rows.iter().enumerate().filter(|&(_, &row)| holds(row));
        there.for_each(|(at, _)| found.merge(&self.tally(at)));
        found
    }
}

/// Notes the rows in which a cell is missing, and counts them.
pub(crate) fn mark_missing(values: &ValuesView<'_>, complete: &mut [bool]) -> usize {
    let mut count = 0;
    let mut mark = |complete: &mut bool, missing: bool| {
        *complete &= !missing;
        count += usize::from(missing);
    };
    match values {
        ValuesView::Number { values, .. } if !values.has_gaps() => {}
        ValuesView::Number { values, .. } => {
            complete
                .iter_mut()
                .zip(values.iter())
                .for_each(|(complete, value)| mark(complete, value.is_nan()));
        }
        ValuesView::Bool(values) => {
            complete.iter_mut().zip(*values).for_each(|(complete, value)| mark(complete, value.is_none()));
        }
        ValuesView::Text { codes, .. } => {
            complete.iter_mut().zip(*codes).for_each(|(complete, &code)| mark(complete, code == MISSING));
        }
    }
    count
}

fn survey_cells(
    batch: &Batch<'_>,
    cells: &BatchColumn<'_>,
    kept: &Kept<'_>,
    single: bool,
    scratch: &mut Vec<f64>,
) -> Found {
    if cells.kind.is_none() {
        return Found::Nothing;
    }
    match &cells.values {
        ValuesView::Number { values, .. } => {
            values.copy_to(scratch);
            let any = scratch.iter().fold(false, |any, value| any | value.is_infinite());
            let infinite = if any { scratch.iter().position(|value| value.is_infinite()) } else { None };
            let infinite = infinite.map(|i| (batch.place(i), scratch[i]));
            if kept.rows.len() < scratch.len() {
                kept.rows.iter().enumerate().for_each(|(to, &from)| scratch[to] = scratch[from]);
                scratch.truncate(kept.rows.len());
            }
            let single = single.then(|| SingleValues::of(scratch, kept, |row| batch.place(row)));
            let (sums, order) = (Sums::of(scratch, kept.weights), Order::of(scratch));
            Found::Numbers(Box::new(NumberSurvey { sums, order, infinite, single }))
        }
        ValuesView::Bool(values) => {
            Found::Bools([false, true].map(|value| kept.tally_where(|row| values[row] == Some(value))))
        }
        ValuesView::Text { codes, levels } => {
            let mut counts: Vec<(Tally, usize)> = vec![(Tally::default(), 0); levels.len()];
            for (at, &row) in kept.rows.iter().enumerate().rev() {
                if let Some((rows, first)) = counts.get_mut(codes[row] as usize) {
                    rows.merge(&kept.tally(at));
                    *first = row;
                }
            }
            let mut found = Levels::default();
            for (text, (rows, first)) in levels.iter().zip(counts).filter(|(_, (rows, _))| rows.rows > 0) {
                found.add(text, &rows, batch.place(first));
            }
            Found::Texts(Box::new(found))
        }
    }
}

impl ColumnSurvey {
    fn append(&mut self, next: &Self, before: Extent) {
        self.missing += next.missing;
        self.values.append(&next.values, before);
    }
}

impl Found {
    /// What the cells are taken as.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Nothing => None,
            Self::Numbers(_) => Some(Kind::Number),
            Self::Bools(_) => Some(Kind::Bool),
            Self::Texts(_) | Self::Mixed => Some(Kind::Text),
        }
    }

    /// Adds what was found in a later part, which begins after `before`.
    fn append(&mut self, next: &Self, before: Extent) {
        match (&mut *self, next) {
            (_, Self::Nothing) | (Self::Mixed, _) => {}
            (Self::Nothing, _) => {
                *self = match next {
                    Self::Numbers(next) => Self::Numbers(Box::new(next.after(before))),
                    Self::Texts(next) => {
                        let mut levels = Levels::default();
                        levels.append(next, before);
                        Self::Texts(Box::new(levels))
                    }
                    other => other.clone(),
                };
            }
            (Self::Numbers(mine), Self::Numbers(next)) => mine.append(&next.after(before)),
            (Self::Bools(mine), Self::Bools(next)) => mine.iter_mut().zip(next).for_each(|(a, b)| a.merge(b)),
            (Self::Texts(mine), Self::Texts(next)) => mine.append(next, before),
            _ => *self = Self::Mixed,
        }
    }
}

impl NumberSurvey {
    fn after(&self, before: Extent) -> Self {
        let moved = |found: Option<(Place, f64)>| found.map(|(place, value)| (place.after(before), value));
        let single = self.single.as_ref().map(|single| SingleValues {
            distinct: single
                .distinct
                .iter()
                .map(|&(value, rows, place)| (value, rows, place.after(before)))
                .collect(),
            not_count: moved(single.not_count),
            not_positive: moved(single.not_positive),
            not_exposure: moved(single.not_exposure),
        });
        Self { sums: self.sums, order: self.order, infinite: moved(self.infinite), single }
    }

    /// Whether every row has a whole number of its own, as far as order, range and moments tell: they ascend, or are those of 1 to n in
    /// any order, which have mean and variance of their own.
    pub(crate) fn is_identifier(&self, size: &Size) -> bool {
        let Spread { mean, sd, min, max, .. } = self.sums.moments(size);
        let n = size.rows as f64;
        let without_weights = size.weight == n;
        let near = |x: f64, to: f64| (x - to).abs() <= 1e-9 * to.abs();
        let all_between = without_weights
            && max - min == n - 1.0
            && (mean - 0.5 * (min + max)).abs() <= 1e-9 * n
            && near(sd * sd, n * (n + 1.0) / 12.0);
        size.rows >= FEW_ROWS && self.order.whole && (self.order.ascends || all_between)
    }

    fn append(&mut self, next: &Self) {
        self.sums.merge(&next.sums);
        self.order = self.order.and(&next.order);
        self.infinite = self.infinite.or(next.infinite);
        if let (Some(mine), Some(next)) = (&mut self.single, &next.single) {
            mine.not_count = mine.not_count.or(next.not_count);
            mine.not_positive = mine.not_positive.or(next.not_positive);
            mine.not_exposure = mine.not_exposure.or(next.not_exposure);
            next.distinct.iter().for_each(|(value, rows, place)| mine.add(*value, rows, || *place));
        }
    }
}

impl SingleValues {
    fn of(values: &[f64], kept: &Kept<'_>, place: impl Fn(usize) -> Place) -> Self {
        let mut found = Self::default();
        for (at, (&value, &row)) in values.iter().zip(kept.rows).enumerate() {
            if found.not_count.is_none() && (value < 0.0 || value.fract() != 0.0 || value > MOST_COUNT) {
                found.not_count = Some((place(row), value));
            }
            if found.not_positive.is_none() && !EXPOSURES.contains(&value) {
                found.not_positive = Some((place(row), value));
            }
            if found.not_exposure.is_none() && value != 0.0 && !EXPOSURES.contains(&value) {
                found.not_exposure = Some((place(row), value));
            }
            found.add(value, &kept.tally(at), || place(row));
        }
        found
    }

    fn add(&mut self, value: f64, rows: &Tally, place: impl FnOnce() -> Place) {
        if let Some((_, known, _)) = self.distinct.iter_mut().find(|(known, _, _)| *known == value) {
            known.merge(rows);
        } else if self.distinct.len() < MAX_DISTINCT {
            self.distinct.push((value, *rows, place()));
        }
    }
}
