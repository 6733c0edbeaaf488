//! Log predictive densities of test rows: of each row, their mean, and the difference between two posteriors.

use serde::Serialize;

/// The log predictive density of rows: the sum over rows of the log of the mean likelihood over draws.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// The sum over all rows, in nats.
    pub total: f64,
    /// The mean log predictive density of a row.
    pub mean: f64,
    /// The standard error of that average over rows.
    pub mean_se: f64,
    /// Number of rows.
    pub rows: usize,
    /// Log predictive density of each row.
    #[serde(skip)]
    pub each: Vec<f64>,
}

impl Score {
    /// Of rows with these log predictive densities.
    pub fn new(each: Vec<f64>) -> Self {
        let n = (each.len() as f64).max(1.0);
        let total = each.iter().sum::<f64>();
        let mean = total / n;
        let variance = each.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Self { total, mean, mean_se: (variance / n).sqrt(), rows: each.len(), each }
    }

    /// This score minus another for the same rows, row by row, so that the standard error is that of the difference.
    pub fn less(&self, other: &Self) -> Self {
        Self::new(self.each.iter().zip(&other.each).map(|(a, b)| a - b).collect())
    }
}

/// How two posteriors of the same data predict the same test rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestScores {
    /// How messages name the test rows.
    pub data: String,
    /// Under the coreset's posterior; none if that has no fit.
    pub coreset: Option<Score>,
    /// Under the posterior of all rows.
    pub full: Score,
    /// The first minus the second.
    pub difference: Option<Score>,
}

impl TestScores {
    /// Scores of the coreset and of all rows.
    pub fn new(data: &str, coreset: Option<Score>, full: Score) -> Self {
        let difference = coreset.as_ref().map(|coreset| coreset.less(&full));
        Self { data: data.to_owned(), coreset, full, difference }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_an_error_of_its_own() {
        let (a, b) = (Score::new(vec![-1.0, -3.0, -2.0]), Score::new(vec![-1.5, -3.5, -2.5]));
        assert_eq!((a.total, a.mean, a.rows), (-6.0, -2.0, 3));
        assert!((a.mean_se - (1.0 / 3.0_f64).sqrt()).abs() < 1e-15);
        let less = a.less(&b);
        assert_eq!((less.mean, less.mean_se), (0.5, 0.0));
    }
}
