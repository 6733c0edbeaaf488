//! What every model is built on: a numeric matrix, its target and its exposure, all finite, of agreeing lengths.

/// n rows of `dim` features, row-major, with one target and possibly one exposure a row.
///
/// The coding of the target belongs to the model: ±1 for logistic, a count for Poisson, a number for linear
/// regression, empty for the mean of a Gaussian.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations {
    /// n × dim features, row-major, an intercept included as a column of ones.
    pub features: Vec<f64>,
    /// Number of features, D.
    pub dim: usize,
    /// The target of each row, or empty for a model without one.
    pub target: Vec<f64>,
    /// The exposure of each row (> 0), for Poisson models.
    pub exposure: Option<Vec<f64>>,
}

impl Observations {
    /// Number of rows, n.
    pub fn len(&self) -> usize {
        self.features.len() / self.dim.max(1)
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// The features of row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.features[i * self.dim..(i + 1) * self.dim]
    }
}
