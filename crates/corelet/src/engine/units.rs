//! What is chosen: rows, or groups of rows, whose log-likelihoods are added.

use super::Rows;

/// Rows, or groups of them.
#[derive(Debug, Clone)]
pub struct Units {
    rows: usize,
    groups: Option<Groups>,
}

#[derive(Debug, Clone)]
struct Groups {
    /// The rows, group by group.
    order: Vec<usize>,
    /// Where each group begins among them, and the end.
    ends: Vec<usize>,
    /// Whether the groups stand one after the other already.
    in_order: bool,
}

impl Units {
    /// Each row by itself.
    pub fn of_rows(rows: usize) -> Self {
        Self { rows, groups: None }
    }

    /// Groups by the number of each row's group, from 0; every group has a row.
    pub fn of_groups(codes: &[usize]) -> Self {
        let count = codes.iter().max().map_or(0, |last| last + 1);
        let mut ends = vec![0; count + 1];
        codes.iter().for_each(|code| ends[code + 1] += 1);
        (0..count).for_each(|group| ends[group + 1] += ends[group]);
        let mut order: Vec<usize> = (0..codes.len()).collect();
        order.sort_by_key(|&row| codes[row]);
        let in_order = order.iter().enumerate().all(|(at, &row)| at == row);
        Self { rows: codes.len(), groups: Some(Groups { order, ends, in_order }) }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of units.
    pub fn len(&self) -> usize {
        self.groups.as_ref().map_or(self.rows, |groups| groups.ends.len() - 1)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether units are groups.
    pub fn are_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Consecutive units with at most about `most` rows each.
    pub fn blocks(&self, most: usize) -> Vec<std::ops::Range<usize>> {
        let Some(Groups { ends, .. }) = &self.groups else {
            return crate::parallel::parts(self.rows, most.max(1)).collect();
        };
        let (mut blocks, mut start) = (Vec::new(), 0);
        while start < self.len() {
            let fits = ends.partition_point(|&end| end <= ends[start] + most);
            let stop = (fits - 1).clamp(start + 1, self.len());
            blocks.push(start..stop);
            start = stop;
        }
        blocks
    }

    /// The rows of these units, unit by unit.
    pub fn rows_of(&self, units: &Rows) -> Rows {
        let Some(Groups { order, ends, in_order }) = &self.groups else { return units.clone() };
        match units {
            Rows::Range(range) => {
                let span = ends[range.start]..ends[range.end];
                if *in_order { Rows::Range(span) } else { Rows::Some(order[span].to_vec()) }
            }
            Rows::Some(ids) => {
                Rows::Some(ids.iter().flat_map(|&unit| &order[ends[unit]..ends[unit + 1]]).copied().collect())
            }
        }
    }

    /// Log-likelihoods of the rows of these units, draws × rows as [`rows_of`](Self::rows_of) has them, as draws × units.
    pub fn add<'v>(&self, values: &'v [f64], units: &Rows) -> std::borrow::Cow<'v, [f64]> {
        let Some(Groups { ends, .. }) = &self.groups else { return values.into() };
        let size = |unit: usize| ends[unit + 1] - ends[unit];
        let sizes: Vec<usize> = match units {
            Rows::Range(range) => range.clone().map(size).collect(),
            Rows::Some(ids) => ids.iter().map(|&unit| size(unit)).collect(),
        };
        let width = sizes.iter().sum::<usize>().max(1);
        let of_draw = |draw: &[f64]| {
            let mut left = draw;
            let sum = |&size: &usize| {
                let (own, others) = left.split_at(size);
                left = others;
                own.iter().sum::<f64>()
            };
            sizes.iter().map(sum).collect::<Vec<f64>>()
        };
        values.chunks_exact(width).flat_map(of_draw).collect::<Vec<f64>>().into()
    }

    /// The rows of weighted units, ascending, each with the weight of its unit.
    pub fn expand(&self, ids: &[usize], weights: &[f64]) -> (Vec<usize>, Vec<f64>) {
        let Some(Groups { order, ends, .. }) = &self.groups else { return (ids.to_vec(), weights.to_vec()) };
        let of = |(&unit, &weight): (&usize, &f64)| -> Vec<(usize, f64)> {
            order[ends[unit]..ends[unit + 1]].iter().map(|&row| (row, weight)).collect()
        };
        let mut rows: Vec<(usize, f64)> = ids.iter().zip(weights).flat_map(of).collect();
        rows.sort_by_key(|&(row, _)| row);
        rows.into_iter().unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups that do not stand together: their rows, sums and blocks, by hand.
    #[test]
    fn groups_of_rows_in_any_order() {
        let units = Units::of_groups(&[1, 0, 1, 2, 0, 1]);
        assert_eq!((units.rows(), units.len()), (6, 3));
        assert_eq!(units.rows_of(&Rows::Range(0..2)), Rows::Some(vec![1, 4, 0, 2, 5]));
        assert_eq!(units.rows_of(&Rows::Some(vec![0, 2])), Rows::Some(vec![1, 4, 3]));
        let sums = units.add(&[1.0, 2.0, 3.0, 10.0, 20.0, 30.0], &Rows::Some(vec![0, 2]));
        assert_eq!(&sums[..], [3.0, 3.0, 30.0, 30.0]);
        assert_eq!(units.expand(&[0, 1], &[2.0, 3.0]), (vec![0, 1, 2, 4, 5], vec![3.0, 2.0, 3.0, 2.0, 3.0]));
        assert_eq!(units.blocks(3), [0..1, 1..2, 2..3]);
        assert_eq!(units.blocks(5), [0..2, 2..3]);
        assert_eq!(Units::of_rows(5).blocks(2), [0..2, 2..4, 4..5]);
    }
}
