//! Rows that are in the partitions of a cluster, asked through whoever carries the questions there.

use std::sync::Arc;

use super::groups::GroupsInPartitions;
use super::reviewed::Reviewed;
use super::shards::Shards;
use super::wire::Question;
use crate::data::{available, locate};
use crate::model::{BuiltIn, Model, ModelError, Numbers};
use crate::rows::{
    At, Distinct, Found, Gather, Gathered, Grouped, Moments, Newton, Observations, Rows, RowsError, Top,
    Totals, Under, add,
};

/// n rows in partitions, whose answers are merged in their order.
pub struct Partitions {
    pub(super) shards: Arc<Shards>,
    pub(super) model: BuiltIn,
    pub(super) numbers: Numbers,
    /// Number of features.
    pub(super) features: usize,
    /// The first observation of each partition, and after the last.
    pub(super) starts: Vec<usize>,
    /// The sum of the fingerprints of their observations.
    pub(super) fingerprint: u64,
    /// Which of them belong together.
    pub(super) groups: Option<GroupsInPartitions>,
}

impl Partitions {
    /// What tells the observations from others.
    pub(crate) fn fingerprint(&self) -> String {
        Observations::fingerprint_of(self.fingerprint, self.len())
    }

    /// The same as a review asks them.
    pub(crate) fn reviewed(&self) -> Reviewed {
        let groups = self.groups.as_ref().map(|groups| (groups.len(), groups.numbers().to_vec()));
        Reviewed { shards: Arc::clone(&self.shards), groups }
    }

    /// The first row of each partition, and after the last.
    pub fn first_rows(&self) -> &[usize] {
        &self.shards.first_rows
    }
}

/// Partitions that are asked for their distinct rows at a time.
const AT_ONCE: usize = 16;

impl Partitions {
    /// The distinct rows of all partitions, each with the sum of the weights of all rows equal to it, and where each stands first.
    ///
    /// # Errors
    /// If there are so many that they do not fit here, and see [`RowsError`].
    pub(crate) fn distinct(&self) -> Result<(Observations, Vec<usize>), RowsError> {
        let mut all = Distinct::default();
        for asked in self.shards.held.chunks(AT_ONCE) {
            let room = available().map_or(u64::MAX, |available| available / (2 * AT_ONCE as u64));
            for part in self.shards.ask::<Distinct>(&Question::Distinct { room }, asked)? {
                all.append(part);
            }
        }
        Ok(all.into_observations())
    }
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
        self.shards.merged(&Question::Moments, |all: &mut Moments, part| *all = all.merge(&part))
    }

    fn newton(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        self.shards.merged(&Question::from(question), |all: &mut Newton, part| all.add(&part))
    }

    fn scores(&self, draws: &[&[f64]]) -> Result<Vec<Newton>, RowsError> {
        let question = Question::Scores { theta: draws.concat(), dim: self.dim() };
        self.shards.merged(&question, |all: &mut Vec<Newton>, part| {
            all.iter_mut().zip(&part).for_each(|(sum, part)| sum.add(part));
        })
    }

    fn expect(&self, question: &Under<'_>) -> Result<Newton, RowsError> {
        self.shards.merged(&Question::from(question), |all: &mut Newton, part| all.add(&part))
    }

    fn gather(&self, question: &Gather) -> Result<Gathered, RowsError> {
        self.shards
            .merged(&Question::Gather(question.clone()), |all: &mut Gathered, part| all.add(part, question))
    }

    fn top(&self, question: &Top) -> Result<Found, RowsError> {
        let counts: Vec<usize> = question.rankings.iter().map(|ranking| ranking.count).collect();
        self.shards.merged(&Question::Top(question.clone()), |all: &mut Found, part| all.merge(part, &counts))
    }

    fn totals(&self, question: &Totals<'_>) -> Result<Vec<f64>, RowsError> {
        self.shards.merged(&Question::from(question), |all: &mut Vec<f64>, part| add(all, &part))
    }

    fn fetch(&self, ids: &[usize]) -> Result<Observations, RowsError> {
        if let Some(&row) = ids.iter().find(|&&id| id >= self.len()) {
            return Err(RowsError::NoSuchRow { row, rows: self.len() });
        }
        // Partition by partition, as the answers come, and then back into the order that was asked for.
        let homes: Vec<usize> = ids.iter().map(|&id| locate(&self.starts, id).0).collect();
        let asked: Vec<(usize, u64)> =
            self.shards.held.iter().filter(|(partition, _)| homes.contains(partition)).copied().collect();
        let mut rows = Observations { dim: self.features, ..Observations::default() };
        for part in self.shards.ask::<Observations>(&Question::Fetch(ids.to_vec()), &asked)? {
            rows.append(&part);
        }
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|&at| homes[at]);
        let mut places = vec![0; ids.len()];
        order.iter().enumerate().for_each(|(place, &at)| places[at] = place);
        Ok(rows.select(&places))
    }

    fn groups(&self) -> Option<&dyn Grouped> {
        self.groups.as_ref().map(|groups| groups as &dyn Grouped)
    }
}
