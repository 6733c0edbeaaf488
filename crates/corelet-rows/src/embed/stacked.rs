//! Two dictionaries of the same data, one on top of the other.

use std::ops::Range;

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Query, Sum};

use super::tiles::{Correlations, Tiles, Workers, top};
use crate::embed::{Description, EmbedError, Embedding};
use crate::model::BLOCK;
use crate::rows::{Held, RowsError};

/// φᵢ = [φᵢ′; φᵢ″]: the inner product of the sum of two orthogonal parts of ℓᵢ.
///
/// ⟨φᵢ, φⱼ⟩ = ⟨φᵢ′, φⱼ′⟩ + ⟨φᵢ″, φⱼ″⟩, so a pass adds two correlations a column, and coordinates, sum and columns are
/// those of the first and then those of the second. It is meant for a few orders held exactly and draws for the rest.
pub struct Stacked<A: Tiles, B: Tiles> {
    first: A,
    second: B,
    inverse_norms: Held<f64>,
    norms: f64,
    workers: Workers<Scratch<A::Scratch, B::Scratch>>,
    description: Description,
}

/// The buffers of one worker: those of both parts, and the correlations with the second.
#[derive(Debug, Default)]
pub struct Scratch<A, B> {
    first: A,
    second: B,
    u: Vec<f64>,
    v: Vec<f64>,
}

impl<A: Tiles + Embedding, B: Tiles + Embedding> Stacked<A, B> {
    /// Puts `first` above `second`.
    ///
    /// # Errors
    /// [`EmbedError::Length`] where they do not embed the same number of data.
    pub fn new(first: A, second: B) -> Result<Self, EmbedError> {
        Self::beside(&Held::default(), first, second)
    }

    /// The same, with what there is a number a row of where the rows are.
    pub(super) fn beside(rows: &Held<f32>, first: A, second: B) -> Result<Self, EmbedError> {
        let (expected, got) = (first.len(), second.len());
        if got != expected {
            return Err(EmbedError::Length { what: "the second part of the embedding", got, expected });
        }
        let mut inverse_norms = rows.beside(expected).map_err(RowsError::from)?;
        let mut norms = 0.0;
        for (upper, lower) in first.inverse_norms().chunks(BLOCK).zip(second.inverse_norms().chunks(BLOCK)) {
            let each = upper.iter().zip(lower).map(|(a, b)| norm(*a).hypot(norm(*b)));
            let each: Vec<f64> = each.collect();
            norms += each.iter().sum::<f64>();
            let inverse = each.into_iter().map(|norm| if norm > 0.0 { 1.0 / norm } else { 0.0 });
            inverse_norms.push(&inverse.collect::<Vec<f64>>()).map_err(RowsError::from)?;
        }
        let (upper, lower) = (first.description(), second.description());
        let description = Description {
            name: format!("{}+{}", upper.name, lower.name),
            coordinates: first.coordinates() + second.coordinates(),
            tail: lower.tail,
        };
        Ok(Stacked {
            norms,
            inverse_norms: inverse_norms.finish().map_err(RowsError::from)?,
            first,
            second,
            workers: Workers::default(),
            description,
        })
    }
}

fn norm(inverse: f64) -> f64 {
    if inverse > 0.0 { 1.0 / inverse } else { 0.0 }
}

impl<A: Tiles, B: Tiles> Tiles for Stacked<A, B> {
    type Directions = (A::Directions, B::Directions);
    type Scratch = Scratch<A::Scratch, B::Scratch>;

    fn directions(&self, vectors: &[&[f64]]) -> Self::Directions {
        let cut = self.first.coordinates();
        let upper: Vec<&[f64]> = vectors.iter().map(|vector| &vector[..cut]).collect();
        let lower: Vec<&[f64]> = vectors.iter().map(|vector| &vector[cut..]).collect();
        (self.first.directions(&upper), self.second.directions(&lower))
    }

    fn first(&self) -> usize {
        self.first.first()
    }

    fn inverse_norms(&self) -> &[f64] {
        &self.inverse_norms
    }

    fn correlate(
        &self,
        tile: Range<usize>,
        ids: &[usize],
        directions: &Self::Directions,
        scratch: &mut Self::Scratch,
        out: Correlations<'_>,
    ) {
        let Correlations { u: out_u, v: out_v } = out;
        let Scratch { first, second, u, v } = scratch;
        u.resize(tile.len(), 0.0);
        v.resize(tile.len(), 0.0);
        let upper = Correlations { u: &mut *out_u, v: &mut *out_v };
        self.first.correlate(tile.clone(), ids, &directions.0, first, upper);
        let lower = Correlations { u: &mut *u, v: &mut *v };
        self.second.correlate(tile, ids, &directions.1, second, lower);
        out_u.iter_mut().zip(u).for_each(|(sum, x)| *sum += *x);
        out_v.iter_mut().zip(v).for_each(|(sum, x)| *sum += *x);
    }
}

impl<A: Tiles, B: Tiles> Dictionary for Stacked<A, B> {
    fn len(&self) -> usize {
        self.inverse_norms.len()
    }

    fn coordinates(&self) -> usize {
        self.first.coordinates() + self.second.coordinates()
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        let mut vector = self.first.sum()?.vector;
        vector.extend(self.second.sum()?.vector);
        Ok(Sum { vector, norms: self.norms })
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        top(self, &self.workers, query, answers);
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        let (cut, length) = (self.first.coordinates(), self.coordinates());
        let mut part = vec![0.0; ids.len() * cut];
        self.first.columns(ids, &mut part)?;
        for (out, part) in out.chunks_exact_mut(length).zip(part.chunks_exact(cut)) {
            out[..cut].copy_from_slice(part);
        }
        part.resize(ids.len() * (length - cut), 0.0);
        self.second.columns(ids, &mut part)?;
        for (out, part) in out.chunks_exact_mut(length).zip(part.chunks_exact(length - cut)) {
            out[cut..].copy_from_slice(part);
        }
        Ok(())
    }
}

impl<A: Tiles + Send, B: Tiles + Send> Embedding for Stacked<A, B> {
    fn description(&self) -> &Description {
        &self.description
    }
}
