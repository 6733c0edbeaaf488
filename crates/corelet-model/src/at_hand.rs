//! The rows that a sum goes over, a few at a time: their columns, and their features side by side.

use super::outer::{LARGE, Scratch, add_outer_products, add_scaled_rows, products};
use crate::vector_math::Planes;
use corelet_data::observations::Held;
use std::ops::Range;

/// Which rows are at hand.
pub(super) enum Picked<'a> {
    Range(Range<usize>),
    /// With what each counts.
    Weighted {
        ids: &'a [usize],
        weights: &'a [f64],
    },
}

impl Picked<'_> {
    pub(super) fn ids(&self) -> impl Iterator<Item = usize> {
        let (range, ids) = match self {
            Self::Range(range) => (range.clone(), &[][..]),
            Self::Weighted { ids, .. } => (0..0, *ids),
        };
        range.chain(ids.iter().copied())
    }

    /// Their numbers in a column, or as many times `without` where there is none.
    pub(super) fn column(&self, column: Option<&Held<f64>>, without: f64, out: &mut Vec<f64>) {
        out.clear();
        match (self, column.filter(|column| !column.is_empty())) {
            (Self::Range(range), Some(column)) => out.extend_from_slice(&column[range.clone()]),
            (Self::Weighted { ids, .. }, Some(column)) => out.extend(ids.iter().map(|&i| column[i])),
            (_, None) => out.extend(self.ids().map(|_| without)),
        }
    }

    /// What the log-likelihood of each is multiplied by: its own weight, if any, and what it counts.
    pub(super) fn factors(&self, own: Option<&Held<f64>>, out: &mut Vec<f64>) {
        self.column(own, 1.0, out);
        if let Self::Weighted { weights, .. } = self {
            out.iter_mut().zip(*weights).for_each(|(factor, weight)| *factor *= weight);
        }
    }
}

/// The features of the rows at hand: side by side where they are few.
#[derive(Default)]
pub(super) struct AtHand {
    planes: Planes,
    rows: Vec<f64>,
    scratch: Scratch,
    dim: usize,
}

impl AtHand {
    pub(super) fn load(&mut self, features: &[f32], dim: usize) {
        self.dim = dim;
        if dim < LARGE {
            return self.planes.load(features, dim);
        }
        self.rows.clear();
        self.rows.extend(features.iter().copied().map(f64::from));
    }

    pub(super) fn products(&self, theta: &[f64], out: &mut Vec<f64>) {
        if self.dim < LARGE { self.planes.products(theta, out) } else { products(&self.rows, theta, out) }
    }

    pub(super) fn add_scaled_rows(&mut self, sum: &mut [f64], scales: &[f64]) {
        if self.dim < LARGE {
            self.planes.add_scaled_rows(scales, sum);
        } else {
            add_scaled_rows(sum, scales, &self.rows);
        }
    }

    pub(super) fn add_outer_products(&mut self, sum: &mut [f64], scales: &[f64]) {
        if self.dim < LARGE {
            self.planes.add_outer_products(scales, sum);
        } else {
            add_outer_products(sum, scales, &self.rows, self.dim, &mut self.scratch);
        }
    }
}
