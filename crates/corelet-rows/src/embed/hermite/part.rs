//! The Hermite embedding as the exact part of a stacked one, with draws for what the orders kept leave over.

use std::ops::Range;

use super::forms::Directions;
use super::kernel::{Cosines, Widen};
use super::{Filled, Hermite};
use crate::embed::RowPolynomials;
use crate::embed::tiles::{Correlations, Tiles};
use crate::rows::RowsError;

/// The buffers of one worker.
#[derive(Default)]
pub struct PartScratch {
    products: Vec<f32>,
    filled: Filled,
    cosines: [Vec<f32>; 2],
    correlations: [Vec<f64>; 2],
}

impl Tiles for Hermite {
    type Directions = Directions;
    type Scratch = PartScratch;

    fn first(&self) -> usize {
        self.first
    }

    fn directions(&self, vectors: &[&[f64]]) -> Directions {
        Directions::new(vectors, self.dim(), self.order())
    }

    fn inverse_norms(&self) -> &[f64] {
        &self.packed.inverse_norms
    }

    fn correlate(
        &self,
        tile: Range<usize>,
        ids: &[usize],
        directions: &Directions,
        scratch: &mut PartScratch,
        out: Correlations<'_>,
    ) {
        let PartScratch { products, filled, cosines, correlations } = scratch;
        let padded = tile.len().next_multiple_of(self.block);
        cosines.iter_mut().for_each(|cosines| cosines.resize(padded, 0.0));
        correlations.iter_mut().for_each(|correlations| correlations.resize(tile.len(), 0.0));
        let (dim, order, blocks) = (self.dim(), self.order(), self.blocks(&tile, filled));
        let [first, second] = &mut *cosines;
        Cosines { blocks, dim, order, forms: &directions.forms, products, out: [first, second] }.compute();
        let inverse_norms = &self.packed.inverse_norms[tile.clone()];
        for ((form, cosines), out) in directions.forms.iter().zip(cosines).zip(&mut *correlations) {
            Widen { cosines, length: form.length, inverse_norms: Some(inverse_norms), out }.compute();
        }
        let vectors: Vec<&[f64]> = directions.vectors.iter().map(Vec::as_slice).collect();
        self.refine(&tile, &vectors, inverse_norms, correlations);
        for id in ids {
            let at = id - tile.start;
            (out.u[at], out.v[at]) = (correlations[0][at], correlations[1][at]);
        }
    }
}

impl Hermite {
    /// The orders 1 and 2 of every row as a polynomial of its own predictor.
    pub(in crate::embed) fn polynomials(&self) -> Result<RowPolynomials, RowsError> {
        self.columns.polynomials()
    }
}
