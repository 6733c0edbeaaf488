//! The iterate of the methods that scale what they have and add one column a step: Frank–Wolfe and GIGA.

use crate::dictionary::Oracle;
use crate::driver::{Problem, Weights};
use crate::error::Error;
use crate::kernel::{axpy, norm};

/// w, Φw and y − Φw.
pub(super) struct Combination {
    entries: Vec<(usize, f64)>,
    pub(super) image: Vec<f64>,
    pub(super) residual: Vec<f64>,
}

impl Combination {
    pub(super) fn new(problem: &Problem) -> Self {
        Self { entries: Vec::new(), image: vec![0.0; problem.target.len()], residual: problem.target.clone() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn progress(&self) -> (usize, f64) {
        (self.entries.iter().filter(|entry| entry.1 > 0.0).count(), norm(&self.residual))
    }

    pub(super) fn weights(&self) -> Weights {
        Weights::from_pairs(self.entries.iter().copied())
    }

    /// w ← scale·w + weight·e_id. The image is formed anew from all columns, so that rounding does not gather.
    pub(super) fn update(
        &mut self,
        problem: &Problem,
        oracle: &Oracle<'_>,
        scale: f64,
        id: usize,
        weight: f64,
    ) -> Result<(), Error> {
        self.entries.iter_mut().for_each(|entry| entry.1 *= scale);
        match self.entries.iter_mut().find(|entry| entry.0 == id) {
            Some(entry) => entry.1 += weight,
            None => self.entries.push((id, weight)),
        }
        let ids: Vec<usize> = self.entries.iter().map(|entry| entry.0).collect();
        let mut columns = vec![0.0; ids.len() * self.image.len()];
        oracle.columns(&ids, &mut columns)?;
        self.image.fill(0.0);
        for (column, entry) in columns.chunks_exact(problem.target.len()).zip(&self.entries) {
            axpy(entry.1, column, &mut self.image);
        }
        for (r, (y, z)) in self.residual.iter_mut().zip(problem.target.iter().zip(&self.image)) {
            *r = y - z;
        }
        Ok(())
    }
}
