//! The shards of all partitions, asked through whoever carries the questions there.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{Fault, Reply, pack, unpack};
use super::{Carrier, CarrierError};
use crate::data::{KeptRows, locate};
use crate::rows::RowsError;

/// What a partition answers when its rows are not those of before.
const CHANGED: &str = "its rows are not those that it had before: it was computed again, with another result or in another \
                       order; persist the table, or make it deterministic";

/// The shards of all partitions.
pub(super) struct Shards {
    pub(super) carrier: Box<dyn Carrier>,
    /// The partitions that have observations, with the fingerprint of each.
    pub(super) held: Vec<(usize, u64)>,
    /// The row that each observation came from.
    pub(super) rows: KeptRows,
    /// The first row of each partition, and after the last.
    pub(super) first_rows: Vec<usize>,
}

impl Shards {
    /// The answers of these partitions, in their order.
    pub(super) fn ask<A: DeserializeOwned>(
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
    pub(super) fn merged<A: DeserializeOwned>(
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
                let (partition, row) = locate(&self.first_rows, self.rows.file_row(row));
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
