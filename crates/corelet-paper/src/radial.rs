//! House prices over latitude and longitude by radial basis functions, as in the paper's second experiment.

use corelet::data::Table;
use corelet::generate;
use corelet::linalg::row_major;
use corelet::model::{Glm, Linear, RbfMap};
use corelet::posterior::Prior;

use crate::problem::{linear, numbers};
use crate::settings::CellSettings;

/// The scale of the basis function that is almost a constant, in degrees.
const WIDE: f64 = 100.0;

/// All sales: where, and the logarithm of the price.
pub(crate) struct Prices {
    places: Vec<f64>,
    log_prices: Vec<f64>,
}

/// The model of a sub-sample, its prior, and where the rows lie.
type Sample = (Glm<Linear>, Prior, (Vec<f64>, RbfMap));

impl Prices {
    pub(crate) fn new(table: &Table) -> anyhow::Result<Self> {
        let [latitude, longitude, price] = ["x1", "x2", "x3"].map(|name| numbers(table, name));
        let (latitude, longitude, price) = (latitude?, longitude?, price?);
        if let Some(row) = price.iter().position(|&p| !(p > 0.0 && p.is_finite())) {
            anyhow::bail!(
                "{}: the price in row {row} is {}, but it must be positive",
                table.source,
                price[row]
            );
        }
        let places = latitude.iter().zip(longitude).flat_map(|(&a, &b)| [a, b]).collect();
        Ok(Self { places, log_prices: price.iter().map(|p| p.log10()).collect() })
    }

    /// `rows` sales drawn without replacement; `centres` of them for each scale, drawn likewise, and one almost constant
    /// function at their mean. Noise and prior have the moments of all prices: σ² their variance, the coefficients
    /// N(mean, second moment).
    pub(crate) fn sample(&self, settings: &CellSettings, seed: u64) -> anyhow::Result<Sample> {
        let CellSettings { rows, centres, scales, .. } = settings;
        let n = self.log_prices.len();
        anyhow::ensure!(*rows <= n, "{rows} sales cannot be drawn from {n}");
        let chosen = generate::subsample(n, *rows, seed);
        let places: Vec<f64> = chosen.iter().flat_map(|&i| &self.places[2 * i..][..2]).copied().collect();
        let target = chosen.iter().map(|&i| self.log_prices[i]).collect();

        let mut map = RbfMap::random(&places, 2, scales, *centres, seed)?;
        map.intercept = false;
        map.scales.push(WIDE);
        let mean_of = |at: usize| places.iter().skip(at).step_by(2).sum::<f64>() / *rows as f64;
        map.centres.extend([mean_of(0), mean_of(1)]);

        let mean = self.log_prices.iter().sum::<f64>() / n as f64;
        let second_moment = self.log_prices.iter().map(|y| y * y).sum::<f64>() / n as f64;
        let dim = map.features();
        let model = linear(&map.apply(&places), dim, target, second_moment - mean * mean)?;
        let precision = row_major(dim, |i, j| if i == j { 1.0 / second_moment } else { 0.0 });
        Ok((model, Prior::new(vec![mean; dim], precision)?, (places, map)))
    }
}
