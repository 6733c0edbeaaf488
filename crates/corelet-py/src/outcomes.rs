//! Outcomes that a model in Python drew, against those that were observed: a block of rows at a time.

use corelet::review::{Checked, CheckedRow, Checks, Outcomes};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::refuse;

/// Sums over rows so far.
#[pyclass]
pub(crate) struct OutcomeChecks {
    checks: Checks,
    draws: usize,
}

#[pymethods]
impl OutcomeChecks {
    #[new]
    fn new(kind: &str, draws: usize) -> PyResult<Self> {
        let checks = match kind {
            "binary" => Checks::new(Outcomes::Binary, draws),
            "counts" => Checks::estimated(Outcomes::Counts, draws),
            "numbers" => Checks::estimated(Outcomes::Numbers, draws),
            _ => return Err(refuse(format!("outcomes are of kind '{kind}', which is not known"))),
        };
        Ok(Self { checks, draws })
    }

    /// Rows: what was observed, what was drawn (draws × rows), and a uniform number each. Of two classes also their probabilities.
    #[pyo3(signature = (y, drawn, uniform, probabilities=None))]
    fn add(
        &mut self,
        y: PyReadonlyArray1<'_, f64>,
        drawn: PyReadonlyArray2<'_, f64>,
        uniform: PyReadonlyArray1<'_, f64>,
        probabilities: Option<PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<()> {
        let (y, rows) = (y.as_slice()?, drawn.shape()[1]);
        let asked = probabilities.as_ref().map_or(drawn.shape(), |p| p.shape());
        if y.len() != rows || uniform.len() != rows || [drawn.shape(), asked] != [&[self.draws, rows]; 2] {
            return Err(refuse(format!(
                "outcomes that were drawn have shape {:?}; they must be {} draws × {} rows",
                drawn.shape(),
                self.draws,
                y.len()
            )));
        }
        let (drawn, uniform) = (drawn.as_slice()?, uniform.as_slice()?);
        let columns: Vec<Vec<f64>> = (0..rows).map(|at| column(drawn, at, rows)).collect();
        let chances = probabilities.as_ref().map(|p| p.as_slice()).transpose()?;
        let known: Vec<(f64, f64)> = columns.iter().map(|drawn| moments(drawn)).collect();
        // Of rows that hardly vary the variance of some draws may be 0: each has at least that of a typical row.
        let typical = known.iter().map(|(_, variance)| variance).sum::<f64>() / rows.max(1) as f64;
        for (at, drawn) in columns.iter().enumerate() {
            let moments: Vec<(f64, f64)> = match chances {
                Some(chances) => column(chances, at, rows).into_iter().map(|p| (p, p * (1.0 - p))).collect(),
                None => vec![(known[at].0, known[at].1 + typical); self.draws],
            };
            let uniform = uniform[at];
            self.checks.add(&CheckedRow { y: y[at], censored: false, moments: &moments, drawn, uniform });
        }
        Ok(())
    }
}

impl OutcomeChecks {
    /// All rows have been.
    pub(crate) fn finish(&self, parameters: usize) -> Checked {
        self.checks.clone().finish(parameters)
    }
}

fn column(values: &[f64], at: usize, width: usize) -> Vec<f64> {
    values.iter().skip(at).step_by(width).copied().collect()
}

fn moments(drawn: &[f64]) -> (f64, f64) {
    let count = drawn.len() as f64;
    let mean = drawn.iter().sum::<f64>() / count;
    (mean, drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
}
