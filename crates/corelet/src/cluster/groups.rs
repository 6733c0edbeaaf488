//! Groups of rows that may lie in several partitions: each sums its own rows, and the sums are added in the order of the partitions.

use std::collections::HashMap;
use std::sync::Arc;

use super::shards::Shards;
use super::wire::{NameBlock, Question};
use crate::data::Twofold;
use crate::embed::Recipe;
use crate::rows::{Grouped, Put, RowsError};

/// Bytes of sums that are asked for at a time.
const AT_ONCE: usize = 1 << 28;

/// The groups of rows in partitions.
pub(super) struct GroupsInPartitions {
    shards: Arc<Shards>,
    /// The name of each group, in the order in which they first come.
    names: Vec<String>,
    /// The groups that each partition with observations has, by its own numbers.
    numbers: Vec<Vec<usize>>,
}

impl GroupsInPartitions {
    /// From the names of the groups that each partition with observations has, in its order.
    pub(super) fn new(shards: Arc<Shards>, named: Vec<Vec<String>>) -> Self {
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut number = |name: String| {
            let next = known.len();
            *known.entry(name).or_insert(next)
        };
        let numbers: Vec<Vec<usize>> =
            named.into_iter().map(|names| names.into_iter().map(&mut number).collect()).collect();
        let mut names = vec![String::new(); known.len()];
        known.into_iter().for_each(|(name, group)| names[group] = name);
        Self { shards, names, numbers }
    }

    /// The groups that each partition with observations has, by its own numbers.
    pub(super) fn numbers(&self) -> &[Vec<usize>] {
        &self.numbers
    }

    /// The columns of all groups, in so many questions.
    fn columns_in(&self, blocks: u64, recipe: &Arc<Recipe>, put: &mut Put<'_>) -> Result<(), RowsError> {
        (0..blocks).try_for_each(|at| self.columns_of_block(recipe, NameBlock { at, of: blocks }, put))
    }

    /// Calls `put` with the columns of the groups of a block.
    fn columns_of_block(
        &self,
        recipe: &Arc<Recipe>,
        block: NameBlock,
        put: &mut Put<'_>,
    ) -> Result<(), RowsError> {
        let length = recipe.coordinates();
        let groups: Vec<usize> = (0..self.len()).filter(|&group| block.has(&self.names[group])).collect();
        let mut places = vec![None; self.len()];
        groups.iter().enumerate().for_each(|(place, &group)| places[group] = Some(place));
        let mut sums = vec![Twofold::default(); groups.len() * length];
        let question = Question::Groups { recipe: Arc::clone(recipe), block };
        let answers = self.shards.ask::<Vec<Twofold>>(&question, &self.shards.held)?;
        for (answer, numbers) in answers.iter().zip(&self.numbers) {
            let here: Vec<usize> = numbers.iter().filter_map(|&group| places[group]).collect();
            if answer.len() != here.len() * length {
                let (got, expected) = (answer.len(), here.len() * length);
                return Err(RowsError::Length {
                    what: "the sums of the groups of a partition",
                    got,
                    expected,
                });
            }
            for (place, part) in here.into_iter().zip(answer.chunks_exact(length)) {
                let sums = sums[place * length..][..length].iter_mut();
                sums.zip(part).for_each(|(sum, part)| *sum = sum.plus(*part));
            }
        }
        for (&group, sum) in groups.iter().zip(sums.chunks_exact(length)) {
            put(group, &sum.iter().map(|sum| sum.value()).collect::<Vec<f64>>());
        }
        Ok(())
    }
}

impl Grouped for GroupsInPartitions {
    fn len(&self) -> usize {
        self.names.len()
    }

    fn columns(&self, recipe: &Arc<Recipe>, put: &mut Put<'_>) -> Result<(), RowsError> {
        let sums: usize = self.numbers.iter().map(Vec::len).sum();
        let bytes = sums.saturating_mul(recipe.coordinates() * size_of::<Twofold>());
        self.columns_in(bytes.div_ceil(AT_ONCE).max(1) as u64, recipe, put)
    }

    fn members(&self, groups: &[usize]) -> Result<Vec<Vec<usize>>, RowsError> {
        let has = |numbers: &Vec<usize>| numbers.iter().any(|group| groups.contains(group));
        let asked: Vec<(usize, u64)> = self
            .shards
            .held
            .iter()
            .zip(&self.numbers)
            .filter(|(_, numbers)| has(numbers))
            .map(|(held, _)| *held)
            .collect();
        let question = Question::Members(groups.iter().map(|&group| self.names[group].clone()).collect());
        let mut members = vec![Vec::new(); groups.len()];
        for answer in self.shards.ask::<Vec<Vec<usize>>>(&question, &asked)? {
            members.iter_mut().zip(answer).for_each(|(members, here)| members.extend(here));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::cluster::{Carrier, CarrierError, Distributed, Shard, distribute, look};
    use crate::data::{Column, Columns, DesignOptions, Source, Storage, Table, Values};
    use crate::model::{BuiltIn, Numbers, Shifts};

    /// Two partitions with some groups in common.
    #[derive(Default)]
    struct Two(Mutex<Vec<Shard>>);

    fn part(partition: usize) -> Source<'static> {
        let rows = [30, 20][partition];
        let number = |of: fn(f64) -> f64| Values::Number {
            values: (0..rows).map(|i| of((partition * 30 + i) as f64)).collect(),
            integer: false,
        };
        let codes = (0..rows).map(|i| ((i * i + 5 * partition) % 9) as u32).collect();
        let levels = (0..9).map(|i| format!("group {i}")).collect();
        let columns = [
            ("x", number(|i| (1.7 * i).sin())),
            ("y", number(|i| (i * i) % 2.0)),
            ("group", Values::Text { codes, levels }),
        ];
        let columns = columns.map(|(name, values)| Column { name: name.to_owned(), values });
        let source = format!("partition {partition}");
        Source::of_table(Table { source, columns: columns.to_vec(), rows, own_target: None })
    }

    impl Carrier for Two {
        fn partitions(&self) -> usize {
            2
        }

        fn look(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, CarrierError> {
            Ok((0..2).map(|partition| look(&part(partition), question)).collect())
        }

        fn hold(&self, plan: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
            let shards: Vec<Shard> = partitions.iter().map(|&at| Shard::new(&part(at), at, plan)).collect();
            let made = shards.iter().map(Shard::made).collect();
            *self.0.lock().map_err(|error| error.to_string())? = shards;
            Ok(made)
        }

        fn ask(&self, question: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
            let shards = self.0.lock().map_err(|error| error.to_string())?;
            Ok(partitions.iter().map(|&at| shards[at].answer(question)).collect())
        }
    }

    #[test]
    fn several_questions_bring_the_columns_of_one() {
        let columns = Columns { groups: Some("group".to_owned()), ..Columns::predicting("y") };
        let options = DesignOptions { columns, ..DesignOptions::default() };
        let likelihood = (BuiltIn::Logistic, Numbers::default());
        let asked = (&options, &Storage::default());
        let Distributed { rows, .. } =
            distribute(&part(0), asked, likelihood, Box::<Two>::default()).unwrap();
        let groups = rows.groups.as_ref().unwrap();
        let shifts = Shifts::new((0..8).map(f64::from).collect(), 2);
        let recipe = Arc::new(Recipe::Draws { anchor: vec![0.1, -0.2], shifts });
        let in_blocks = |blocks| {
            let mut columns = vec![Vec::new(); groups.len()];
            let put = &mut |group: usize, column: &[f64]| columns[group].extend_from_slice(column);
            groups.columns_in(blocks, &recipe, put).unwrap();
            columns
        };
        let once = in_blocks(1);
        assert!(once.len() >= 7 && once.iter().all(|column| column.len() == 4));
        assert!((2..6).all(|blocks| in_blocks(blocks) == once));
        let members = groups.members(&(0..groups.len()).collect::<Vec<_>>()).unwrap();
        assert!(members.iter().any(|rows| rows[0] < 30 && rows[rows.len() - 1] >= 30));
        let mut all = members.concat();
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }
}
