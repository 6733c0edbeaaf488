//! Medians and percentiles over trials.

use std::collections::BTreeMap;

use corelet_cli::output::{csv_line, csv_number};
use corelet_cli::percentile::percentile;

use crate::args::Experiment;
use crate::cell::{Cell, Metric};
use crate::series::Series;

/// A metric over the trials of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) trials: usize,
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Of the values that are there.
    pub(crate) fn new(mut values: Vec<f64>, band: [f64; 2]) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        Some(Self {
            trials: values.len(),
            low: percentile(&values, band[0])?,
            median: percentile(&values, 50.0)?,
            high: percentile(&values, band[1])?,
        })
    }
}

/// The cells of one experiment, grouped by data set, method and size.
pub(crate) struct Groups<'c> {
    groups: BTreeMap<(&'c str, &'c Series), BTreeMap<usize, Vec<&'c Cell>>>,
    band: [f64; 2],
}

impl<'c> Groups<'c> {
    pub(crate) fn new(cells: impl IntoIterator<Item = &'c Cell>, band: [f64; 2]) -> Self {
        let mut groups: BTreeMap<_, BTreeMap<usize, Vec<&'c Cell>>> = BTreeMap::new();
        for cell in cells {
            let group = groups.entry((cell.key.data.as_str(), &cell.key.method)).or_default();
            group.entry(cell.key.k).or_default().push(cell);
        }
        Self { groups, band }
    }

    /// Whether a data set has any cells.
    pub(crate) fn has(&self, data: &str) -> bool {
        self.groups.keys().any(|key| key.0 == data)
    }

    /// The methods that a data set has cells of, in the order of their names.
    pub(crate) fn methods(&self, data: &str) -> Vec<&'c Series> {
        self.groups.keys().filter(|key| key.0 == data).map(|key| key.1).collect()
    }

    /// The cells of one size.
    pub(crate) fn cells(&self, data: &str, method: &str, k: usize) -> &[&'c Cell] {
        self.sizes_of(data, method).and_then(|sizes| sizes.get(&k)).map_or(&[], Vec::as_slice)
    }

    /// The sizes of a method, ascending.
    pub(crate) fn sizes(&self, data: &str, method: &str) -> Vec<usize> {
        self.sizes_of(data, method).map_or_else(Vec::new, |sizes| sizes.keys().copied().collect())
    }

    /// The spread at one size.
    pub(crate) fn spread(&self, data: &str, method: &str, k: usize, metric: Metric) -> Option<Spread> {
        let values = self.cells(data, method, k).iter().filter_map(|cell| cell.get(metric));
        Spread::new(values.collect(), self.band)
    }

    /// The median at one size.
    pub(crate) fn median(&self, data: &str, method: &str, k: usize, metric: Metric) -> Option<f64> {
        self.spread(data, method, k, metric).map(|spread| spread.median)
    }

    /// The spread at every size.
    pub(crate) fn curve(&self, data: &str, method: &str, metric: Metric) -> Vec<(usize, Spread)> {
        let sizes = self.sizes(data, method).into_iter();
        sizes.filter_map(|k| Some((k, self.spread(data, method, k, metric)?))).collect()
    }

    fn sizes_of(&self, data: &str, method: &str) -> Option<&BTreeMap<usize, Vec<&'c Cell>>> {
        self.groups.iter().find(|((d, m), _)| *d == data && m.name() == method).map(|(_, sizes)| sizes)
    }

    /// One line for each data set, method and size, with the median and the band of every metric.
    pub(crate) fn to_csv(&self, experiment: Experiment, out: &mut String) {
        for ((data, method), sizes) in &self.groups {
            for (&k, cells) in sizes {
                let embedding = cells.first().map_or_else(String::new, |cell| cell.embedding.clone());
                let leading = [
                    experiment.name().to_owned(),
                    (*data).to_owned(),
                    method.to_string(),
                    embedding,
                    k.to_string(),
                    cells.len().to_string(),
                ];
                let numbers = Metric::ALL.iter().flat_map(|&metric| {
                    let spread = self.spread(data, method.name(), k, metric);
                    [spread.map(|s| s.low), spread.map(|s| s.median), spread.map(|s| s.high)].map(csv_number)
                });
                out.push_str(&csv_line(leading.into_iter().chain(numbers)));
            }
        }
    }
}

/// The first line of `summary.csv`.
pub(crate) fn csv_header() -> String {
    let leading = ["experiment", "data", "method", "embedding", "k", "trials"].map(str::to_owned);
    let metrics = Metric::ALL.iter().flat_map(|metric| {
        let name = metric.name();
        [format!("{name}_low"), format!("{name}_median"), format!("{name}_high")]
    });
    csv_line(leading.into_iter().chain(metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_percentiles() {
        let spread = Spread::new(vec![3.0, 1.0, 2.0], [25.0, 75.0]).unwrap();
        assert_eq!((spread.low, spread.median, spread.high, spread.trials), (1.5, 2.0, 2.5, 3));
    }
}
