//! The driver's side of a design: partitions are looked at, and then make their shards.

use serde::Serialize;
use serde::de::DeserializeOwned;

use std::sync::Arc;

use super::groups::GroupsInPartitions;
use super::shards::Shards;
use super::wire::{Fault, Look, Made, Plan, Reply, pack, unpack};
use super::{Carrier, CarrierError, Partitions};
use crate::data::{
    AskPartitions, DataError, Dataset, DesignOptions, PartColumns, PartEncoding, PartSurvey, Partitioned,
    Source, Storage, WeightScale, design_partitions,
};
use crate::model::{BuiltIn, Numbers, TargetScale};
use crate::rows::add;

/// A table in partitions, designed: all but its observations, these, and the scales of its target and its weights.
pub(crate) struct Distributed {
    pub(crate) dataset: Dataset,
    pub(crate) rows: Partitions,
    pub(crate) target: TargetScale,
    pub(crate) weights: Option<WeightScale>,
}

/// Designs partitions with the columns of `schema`, and has each of them make its shard under a likelihood.
pub(crate) fn distribute(
    schema: &Source<'_>,
    (options, storage): (&DesignOptions, &Storage),
    (model, numbers): (BuiltIn, Numbers),
    carrier: Box<dyn Carrier>,
) -> Result<Distributed, DataError> {
    let held = Held::default();
    let mut driver = Driver { carrier: &*carrier, model, numbers, starts: vec![0], held };
    let Partitioned { dataset, target, weights, starts: first_rows } =
        design_partitions(schema, options, storage, &mut driver)?;
    let Driver { starts, held: Held { partitions, fingerprint, groups }, numbers, .. } = driver;
    let (features, rows) = (dataset.names.len(), dataset.rows.clone());
    let shards = Arc::new(Shards { carrier, held: partitions, rows, first_rows });
    let groups =
        options.columns.groups.as_ref().map(|_| GroupsInPartitions::new(Arc::clone(&shards), groups));
    let rows = Partitions { shards, model, numbers, features, starts, fingerprint, groups };
    Ok(Distributed { dataset, rows, target, weights })
}

struct Driver<'c> {
    carrier: &'c dyn Carrier,
    model: BuiltIn,
    numbers: Numbers,
    /// The first observation of each partition, and after the last.
    starts: Vec<usize>,
    held: Held,
}

/// What the shards said once they were made.
#[derive(Default)]
struct Held {
    /// The partitions that have observations, with the fingerprint of each.
    partitions: Vec<(usize, u64)>,
    /// The sum of those of their observations.
    fingerprint: u64,
    /// The names of the groups of each.
    groups: Vec<Vec<String>>,
}

impl Driver<'_> {
    fn look<A: DeserializeOwned>(&self, question: &impl Serialize) -> Result<Vec<A>, DataError> {
        let all: Vec<usize> = (0..self.carrier.partitions()).collect();
        let replies = replies(self.carrier.look(&pack(question)), &all)?;
        Ok(replies.into_iter().map(|(_, answer)| answer).collect())
    }
}

impl AskPartitions for Driver<'_> {
    fn survey(&mut self, columns: &PartColumns) -> Result<Vec<PartSurvey>, DataError> {
        self.look(&Look::Survey(columns.clone()))
    }

    fn gram(&mut self, encoding: &PartEncoding) -> Result<Vec<f64>, DataError> {
        Ok(sum(self.look::<Made>(&Look::Gram(Box::new(encoding.clone())))?))
    }

    fn hold(&mut self, encoding: &PartEncoding, rows: &[usize]) -> Result<Vec<f64>, DataError> {
        for rows in rows {
            self.starts.push(self.starts.last().copied().unwrap_or_default() + rows);
        }
        self.numbers.classes = encoding.classes();
        let Self { model, numbers, starts, .. } = &*self;
        let plan =
            Plan { encoding: encoding.clone(), model: *model, numbers: *numbers, starts: starts.clone() };
        let full: Vec<usize> = (0..rows.len()).filter(|&partition| rows[partition] > 0).collect();
        let mut made: Vec<(u64, Made)> = replies(self.carrier.hold(&pack(&plan), &full), &full)?;
        let each = made.iter_mut();
        self.held = Held {
            groups: each.map(|(_, made)| std::mem::take(&mut made.groups)).collect(),
            fingerprint: made.iter().fold(0, |sum, (_, made)| sum.wrapping_add(made.fingerprint)),
            partitions: full
                .into_iter()
                .zip(&made)
                .map(|(partition, (print, _))| (partition, *print))
                .collect(),
        };
        Ok(sum(made.into_iter().map(|(_, made)| made).collect()))
    }
}

fn sum(parts: Vec<Made>) -> Vec<f64> {
    let all = parts.into_iter().reduce(|mut all, part| {
        add(&mut all.gram, &part.gram);
        all
    });
    all.map(|all| all.gram).unwrap_or_default()
}

/// The answers of these partitions with the fingerprints of their rows.
fn replies<A: DeserializeOwned>(
    answers: Result<Vec<Vec<u8>>, CarrierError>,
    partitions: &[usize],
) -> Result<Vec<(u64, A)>, DataError> {
    let answers = answers.map_err(|error| DataError::Partition(format!("the cluster: {error}")))?;
    if answers.len() != partitions.len() {
        let (got, expected) = (answers.len(), partitions.len());
        return Err(DataError::Partition(format!("{expected} partitions were asked, and {got} answered")));
    }
    let read = |(bytes, partition): (Vec<u8>, &usize)| {
        let named = |reason: String| DataError::Partition(format!("partition {partition}: {reason}"));
        let Reply { fingerprint, answer } = unpack::<Reply<A>>(&bytes).map_err(named)?;
        match answer {
            Ok(answer) => Ok((fingerprint, answer)),
            Err(Fault::Said(reason)) => Err(DataError::Partition(reason)),
            Err(Fault::NotFinite { row, .. }) => Err(named(format!("row {row} is not finite"))),
        }
    };
    answers.into_iter().zip(partitions).map(read).collect()
}
