//! Rows that are in the partitions of a cluster, asked through whoever carries the questions there.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{Fault, Question, Reply, pack, unpack};
use super::{Carrier, CarrierError};
use crate::data::{KeptRows, locate};
use crate::model::{BuiltIn, Model, ModelError, Numbers};
use crate::rows::{
    At, Found, Gather, Gathered, Moments, Newton, Observations, Rows, RowsError, Top, Totals, add,
};

/// What a partition answers when its rows are not those of before.
const CHANGED: &str = "its rows are not those that it had before: it was computed again, with another result or in another \
                       order; persist the table, or make it deterministic";

/// n rows in partitions, whose answers are merged in their order.
pub struct Partitions {
    pub(super) carrier: Box<dyn Carrier>,
    pub(super) model: BuiltIn,
    pub(super) numbers: Numbers,
    /// Number of features.
    pub(super) features: usize,
    /// The first observation of each partition, and after the last.
    pub(super) starts: Vec<usize>,
    /// The partitions that have observations, with the fingerprint of each.
    pub(super) held: Vec<(usize, u64)>,
    /// The row that each observation came from, and the first row of each partition.
    pub(super) rows: (KeptRows, Vec<usize>),
}

impl Partitions {
    /// What tells the observations from others.
    pub(crate) fn fingerprint(&self) -> String {
        let sum = self.held.iter().fold(0, |sum: u64, (_, part)| sum.wrapping_add(*part));
        Observations::fingerprint_of(sum, self.len())
    }

    /// The first row of each partition, and after the last.
    pub fn first_rows(&self) -> &[usize] {
        &self.rows.1
    }

    /// The answers of these partitions, in their order.
    fn ask<A: DeserializeOwned>(
        &self,
        question: &impl Serialize,
        asked: &[(usize, u64)],
    ) -> Result<Vec<A>, RowsError> {
        let partitions: Vec<usize> = asked.iter().map(|(partition, _)| *partition).collect();
        let answers = self.carrier.ask(&pack(question), &partitions).map_err(|error| nobody(&error))?;
        if answers.len() != partitions.len() {
            let (got, expected) = (answers.len(), partitions.len());
            return Err(RowsError::Length { what: "the answers of the partitions", got, expected });
        }
        let read = |(bytes, &(partition, fingerprint)): (Vec<u8>, &(usize, u64))| {
            let failed =
                |reason: String| RowsError::Place { place: format!("partition {partition}"), reason };
            let reply: Reply<A> = unpack(&bytes).map_err(failed)?;
            let answer = reply.answer.map_err(|fault| self.error(partition, fault))?;
            if reply.fingerprint != fingerprint {
                return Err(failed(CHANGED.to_owned()));
            }
            Ok(answer)
        };
        answers.into_iter().zip(asked).map(read).collect()
    }

    /// The answers of all partitions, merged.
    fn merged<A: DeserializeOwned>(
        &self,
        question: &impl Serialize,
        mut merge: impl FnMut(&mut A, A),
    ) -> Result<A, RowsError> {
        let mut answers = self.ask::<A>(question, &self.held)?.into_iter();
        let mut all = answers.next().ok_or(RowsError::NoSuchRow { row: 0, rows: 0 })?;
        answers.for_each(|answer| merge(&mut all, answer));
        Ok(all)
    }

    fn error(&self, partition: usize, fault: Fault) -> RowsError {
        let place = format!("partition {partition}");
        match fault {
            Fault::Said(reason) => RowsError::Place { place, reason },
            Fault::NotFinite { row, draw, value } => {
                let (rows, starts) = &self.rows;
                let (partition, row) = locate(starts, rows.file_row(row));
                RowsError::Place {
                    place: format!("partition {partition}"),
                    reason: format!(
                        "the log-likelihood of its row {row} at draw {draw} is not finite ({value})"
                    ),
                }
            }
        }
    }
}

fn nobody(error: &CarrierError) -> RowsError {
    RowsError::Place { place: "the cluster".to_owned(), reason: error.to_string() }
}

impl Rows for Partitions {
    fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or_default()
    }

    fn dim(&self) -> usize {
        self.model.parameters(self.features, self.numbers)
    }

    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn bind(&self, rows: Observations) -> Result<Arc<dyn Model>, ModelError> {
        self.model.bind(rows, self.numbers)
    }

    fn moments(&self) -> Result<Moments, RowsError> {
        self.merged(&Question::Moments, |all: &mut Moments, part| *all = all.merge(&part))
    }

    fn newton(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        self.merged(&Question::from(question), |all: &mut Newton, part| all.add(&part))
    }

    fn gather(&self, question: &Gather) -> Result<Gathered, RowsError> {
        let count = question.count;
        self.merged(&Question::Gather(question.clone()), |all: &mut Gathered, part| all.add(part, count))
    }

    fn top(&self, question: &Top) -> Result<Found, RowsError> {
        let counts: Vec<usize> = question.rankings.iter().map(|ranking| ranking.count).collect();
        self.merged(&Question::Top(question.clone()), |all: &mut Found, part| all.merge(part, &counts))
    }

    fn totals(&self, question: &Totals<'_>) -> Result<Vec<f64>, RowsError> {
        self.merged(&Question::from(question), |all: &mut Vec<f64>, part| add(all, &part))
    }

    fn fetch(&self, ids: &[usize]) -> Result<Observations, RowsError> {
        if let Some(&row) = ids.iter().find(|&&id| id >= self.len()) {
            return Err(RowsError::NoSuchRow { row, rows: self.len() });
        }
        // Partition by partition, as the answers come, and then back into the order that was asked for.
        let homes: Vec<usize> = ids.iter().map(|&id| locate(&self.starts, id).0).collect();
        let asked: Vec<(usize, u64)> =
            self.held.iter().filter(|(partition, _)| homes.contains(partition)).copied().collect();
        let mut rows = Observations { dim: self.features, ..Observations::default() };
        for part in self.ask::<Observations>(&Question::Fetch(ids.to_vec()), &asked)? {
            rows.append(&part);
        }
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|&at| homes[at]);
        let mut places = vec![0; ids.len()];
        order.iter().enumerate().for_each(|(place, &at)| places[at] = place);
        Ok(rows.select(&places))
    }
}
