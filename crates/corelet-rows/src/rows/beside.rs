//! Rows with a Gaussian factor beside them: what they answer is of both.

use std::sync::Arc;

use super::{
    At, Found, Gather, Gathered, Grouped, Moments, Newton, Observations, Rest, Rows, RowsError, Top, Totals,
    Under, add,
};
use crate::model::{Model, ModelError};

/// L(θ) = Σℓᵢ(θ) + bᵀ(θ − c) + ½(θ − c)ᵀA(θ − c): rows, and one Gaussian observation of θ for others that are no longer there.
///
/// The Gaussian belongs to every log-likelihood and to its derivatives. It is no row: embeddings, whose columns are rows, do not see it.
pub struct Beside {
    rows: Box<dyn Rows>,
    rest: Arc<Rest>,
}

impl Beside {
    /// These rows and this Gaussian.
    ///
    /// # Errors
    /// If the two are of different numbers of parameters.
    pub fn new(rows: Box<dyn Rows>, rest: Arc<Rest>) -> Result<Self, RowsError> {
        let (got, expected) = (rest.dim(), rows.dim());
        if got != expected {
            return Err(RowsError::Length { what: "the Gaussian part", got, expected });
        }
        Ok(Self { rows, rest })
    }
}

impl Rows for Beside {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn name(&self) -> &'static str {
        self.rows.name()
    }

    fn bind(&self, rows: Observations) -> Result<Arc<dyn Model>, ModelError> {
        self.rows.bind(rows)
    }

    fn moments(&self) -> Result<Moments, RowsError> {
        self.rows.moments()
    }

    fn newton(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        let mut newton = self.rows.newton(question)?;
        self.rest.add_to(question.theta, &mut newton);
        Ok(newton)
    }

    fn expect(&self, question: &Under<'_>) -> Result<Newton, RowsError> {
        let mut newton = self.rows.expect(question)?;
        // Means of a quadratic function: its derivatives at the mean, and half the trace of AΣ more than its value there.
        self.rest.add_to(question.mean, &mut newton);
        newton.value += 0.5 * self.rest.trace_under(question.factor);
        Ok(newton)
    }

    fn gather(&self, question: &Gather) -> Result<Gathered, RowsError> {
        self.rows.gather(question)
    }

    fn top(&self, question: &Top) -> Result<Found, RowsError> {
        self.rows.top(question)
    }

    fn totals(&self, question: &Totals<'_>) -> Result<Vec<f64>, RowsError> {
        let mut totals = self.rows.totals(question)?;
        add(&mut totals, &self.rest.differences(question.anchor, question.shifts));
        Ok(totals)
    }

    fn fetch(&self, ids: &[usize]) -> Result<Observations, RowsError> {
        self.rows.fetch(ids)
    }

    fn is_log_concave(&self) -> Result<bool, RowsError> {
        self.rows.is_log_concave()
    }

    fn groups(&self) -> Option<&dyn Grouped> {
        self.rows.groups()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Logistic;
    use crate::rows::Memory;

    /// Every answer is that of the rows plus that of the quadratic function, by differences of its value.
    #[test]
    fn answers_are_of_rows_and_gaussian() {
        let features: Vec<f64> = (0..40).map(|i| f64::from(i % 7) - 3.0).collect();
        let target: Vec<f64> = (0..20).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
        let bare = || {
            let rows = Observations::new(&features, 2, target.clone());
            Memory::new(Arc::new(Logistic::model(rows).unwrap()))
        };
        let rest =
            Rest { centre: vec![0.2, -0.1], gradient: vec![0.5, 1.0], curvature: vec![-3.0, 0.5, 0.5, -2.0] };
        let both = Beside::new(Box::new(bare()), Arc::new(rest.clone())).unwrap();
        let theta = [0.4, 0.3];
        let (with, without) = (
            both.newton(&At { theta: &theta, derivatives: 2 }).unwrap(),
            bare().newton(&At { theta: &theta, derivatives: 2 }).unwrap(),
        );
        assert!((with.value - without.value - rest.value(&theta)).abs() < 1e-12);
        let factor = [0.3, 0.0, 0.1, 0.2];
        let under = Under { mean: &theta, factor: &factor };
        let means = both.expect(&under).unwrap().value - bare().expect(&under).unwrap().value;
        // θ = μ ± Lz√2 along each axis: a cubature that is exact for a quadratic function.
        let step = |axis: usize, sign: f64| {
            let at = |i: usize| theta[i] + sign * 2f64.sqrt() * factor[2 * i + axis];
            rest.value(&[at(0), at(1)])
        };
        let cubature: f64 = (0..2).flat_map(|axis| [step(axis, 1.0), step(axis, -1.0)]).sum::<f64>() / 4.0;
        assert!((means - cubature).abs() < 1e-12, "{means} {cubature}");
    }
}
