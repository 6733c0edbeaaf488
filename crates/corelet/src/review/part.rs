//! A review of rows wherever they are: what is asked of them is plain data, and what parts of them answer adds up.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::at::At;
use super::{Asked, CheckedRow, Checks, Outcomes, Row, Sums};
use crate::data::Outcome;
use crate::model::{BuiltIn, Model, Numbers, Predictive, Shifts};
use crate::parallel;
use crate::random::Stream;
use crate::rows::Observations;

/// Rows whose log-likelihoods are held at once by one thread.
const TILE: usize = 32;

/// Rows whose answers are held at once.
const BLOCK: usize = 8192;

/// What a review asks of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Draws, their weights, and quantities.
    pub(crate) asked: Asked,
    /// The draws, as shifts from their mean.
    pub(crate) anchor: Vec<f64>,
    pub(crate) shifts: Arc<Shifts>,
    /// Draws at which outcomes are drawn, one after the other; empty if none are.
    pub(crate) few: Vec<f64>,
    /// The likelihood.
    pub(crate) model: BuiltIn,
    pub(crate) numbers: Numbers,
    /// Whether numbers of each row are kept.
    pub(crate) pointwise: bool,
    /// The seed of outcomes.
    pub(crate) seed: u64,
}

/// What some rows answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) sums: Sums,
    pub(crate) checks: Option<Checks>,
    /// The same by the levels of a column.
    pub(crate) by: BTreeMap<u32, Checks>,
    /// The outcome of each row, where numbers of each are kept.
    pub(crate) outcomes: Vec<f64>,
}

/// A row that cannot be used, by its number among all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unusable {
    /// A log-likelihood is not finite.
    NotFinite { row: usize, draw: usize, value: f64 },
    /// A prediction is not finite.
    Far { row: usize },
}

/// The groups and the levels of a column that rows are in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Apart<'a> {
    pub(crate) clusters: Option<&'a [usize]>,
    pub(crate) by: Option<&'a [u32]>,
}

impl Question {
    /// What outcomes are, where they are known and wanted.
    fn outcomes(&self) -> Option<Outcomes> {
        outcomes_of(self.model).filter(|_| !self.few.is_empty())
    }

    /// No row so far, in so many groups where they are in any.
    pub(crate) fn nothing(&self, clusters: Option<usize>) -> Part {
        let draws = self.few.len() / self.anchor.len().max(1);
        Part {
            sums: Sums::new(&self.asked, self.pointwise, clusters),
            checks: self.outcomes().map(|kind| Checks::new(kind, draws)),
            by: BTreeMap::new(),
            outcomes: Vec::new(),
        }
    }

    /// Adds these rows, of which the first has that number among all.
    pub(crate) fn add(
        &self,
        model: &Arc<dyn Model>,
        first: usize,
        apart: Apart<'_>,
        part: &mut Part,
    ) -> Result<(), Unusable> {
        let prepared = Arc::clone(model).prepare(&self.anchor, (*self.shifts).clone());
        let count = self.shifts.len();
        for block in parallel::parts(model.len(), BLOCK) {
            let of_tile = |rows: Range<usize>| -> Result<Vec<Row>, Unusable> {
                let ids: Vec<usize> = rows.map(|row| block.start + row).collect();
                let mut values = vec![0.0; ids.len() * count];
                prepared.wide(&ids, &mut values);
                let of_row = |(&row, values): (&usize, &mut [f64])| {
                    let here = model.log_likelihood(row, &self.anchor);
                    values.iter_mut().for_each(|value| *value += here);
                    let unusable = |(draw, value)| Unusable::NotFinite { row: first + row, draw, value };
                    self.asked.row(values).map_err(unusable)
                };
                ids.iter().zip(values.chunks_exact_mut(count.max(1))).map(of_row).collect()
            };
            let mut row = block.start;
            for tile in parallel::map(parallel::parts(block.len(), TILE), of_tile) {
                for found in tile? {
                    part.sums.add(first + row, &found, apart.clusters.map(|codes| codes[row]), count);
                    row += 1;
                }
            }
            self.check(model, first, block, apart.by, part)?;
        }
        if self.pointwise {
            let rows = model.observations();
            part.outcomes.extend((0..rows.len()).map(|row| outcome_of(self.model, rows, row)));
        }
        Ok(())
    }

    /// Adds the outcomes of a block of these rows to the sums of all, and to those of their levels.
    pub(crate) fn check(
        &self,
        model: &Arc<dyn Model>,
        first: usize,
        block: Range<usize>,
        codes: Option<&[u32]>,
        part: &mut Part,
    ) -> Result<(), Unusable> {
        let Some(checks) = &mut part.checks else { return Ok(()) };
        let rows = model.observations();
        let (theta, dim) = (&self.few[..], self.anchor.len());
        let at = At { model: self.model, numbers: self.numbers, rows, theta, dim };
        // Without a column all rows are of one level.
        let of_tile = |range: Range<usize>| -> Result<BTreeMap<u32, Checks>, Unusable> {
            let mut found = BTreeMap::new();
            for row in range.map(|row| block.start + row) {
                let level = codes.map_or(0, |codes| codes[row]);
                let sums = found.entry(level).or_insert_with(|| checks.empty());
                self.check_row(&at, row, first + row, sums)?;
            }
            Ok(found)
        };
        for tile in parallel::map(parallel::parts(block.len(), TILE), of_tile) {
            for (level, sums) in tile? {
                checks.merge(&sums);
                if codes.is_some() {
                    part.by.entry(level).or_insert_with(|| checks.empty()).merge(&sums);
                }
            }
        }
        Ok(())
    }

    fn check_row(&self, at: &At<'_>, row: usize, number: usize, checks: &mut Checks) -> Result<(), Unusable> {
        let (y, exposure) = (outcome_of(self.model, at.rows, row), at.rows.target(row).1);
        let mut rng = Stream::Checks.rng(self.seed, number as u64);
        let uniform: f64 = rng.random();
        let far = Unusable::Far { row: number };
        match self.model.predictive() {
            Predictive::Nothing => {}
            Predictive::Number { draw, moments, .. } => {
                let (mut means, mut drawn) = (Vec::new(), Vec::new());
                at.each(row, &[], &mut |_, given| {
                    means.push(moments(given));
                    drawn.push(draw(given, &mut rng));
                });
                if !drawn.iter().all(|x: &f64| x.is_finite()) {
                    return Err(far);
                }
                let censored = self.model.takes("event") && exposure == 0.0;
                checks.add(&CheckedRow { y, censored, moments: &means, drawn: &drawn, uniform });
            }
            Predictive::Classes(of) => {
                let classes = self.numbers.classes;
                let (mut one, mut mean, mut count) = (vec![0.0; classes], vec![0.0; classes], 0.0);
                at.each(row, &[], &mut |_, given| {
                    of(given, &mut one);
                    mean.iter_mut().zip(&one).for_each(|(sum, p)| *sum += p);
                    count += 1.0;
                });
                mean.iter_mut().for_each(|p| *p /= count);
                if !mean.iter().all(|x| x.is_finite()) {
                    return Err(far);
                }
                checks.add_class(y as usize, &mean);
            }
        }
        Ok(())
    }
}

impl Part {
    /// The sums of further rows, which follow those of before; `clusters` are the numbers that their groups have here.
    pub(crate) fn append(&mut self, other: Self, clusters: Option<&[usize]>) {
        self.sums.append(other.sums, clusters);
        if let (Some(checks), Some(other)) = (&mut self.checks, &other.checks) {
            checks.merge(other);
        }
        self.outcomes.extend(other.outcomes);
    }
}

/// The outcome as a number that does not depend on how the model has it: two classes are 0 and 1.
pub(crate) fn outcome_of(model: BuiltIn, rows: &Observations, row: usize) -> f64 {
    let (y, _) = rows.target(row);
    let two = model.outcome() == Outcome::Classes && !matches!(model.predictive(), Predictive::Classes(_));
    if two { f64::from(u8::from(y > 0.0)) } else { y }
}

/// What outcomes of a model are.
pub(crate) fn outcomes_of(model: BuiltIn) -> Option<Outcomes> {
    match (model, model.predictive()) {
        (_, Predictive::Nothing) => None,
        (_, Predictive::Classes(_)) => Some(Outcomes::Classes),
        (model, _) if model.outcome() == Outcome::Classes => Some(Outcomes::Binary),
        (BuiltIn::Poisson | BuiltIn::NegativeBinomial | BuiltIn::Binomial, _) => Some(Outcomes::Counts),
        _ => Some(Outcomes::Numbers),
    }
}
