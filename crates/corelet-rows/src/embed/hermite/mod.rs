//! The Hermite embedding: exact inner products of log-likelihoods of a linear predictor, recomputed at every pass.

mod build;
mod expansion;
mod forms;
mod joint;
mod joint_lanes;
mod joint_row;
mod kernel;
mod lanes;
mod part;
mod tail;
mod tensor;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sparse_nnls::{
    Batch, Candidate, Dense, Dictionary, DictionaryError, Error, Query, Ranking, Score, Sum, Tile, TopK,
};

use self::build::{FillTile, Kept, MOST_PACKED, Packed, pack};
pub(super) use self::build::{Row, RowMaker};
use self::expansion::Expansion;
use self::forms::Forms;
pub use self::joint::JointHermite;
pub(super) use self::joint_row::JointColumns;
pub use self::joint_row::JointPolynomials;
use self::kernel::{Cosines, Widen, block_rows};
use self::lanes::Lanes;
pub(super) use self::tail::Remainder;
pub(super) use self::tensor::coordinates;
use self::tensor::{add_powers, multiplicities};
use super::{Description, EmbedError, Embedding, RowPolynomials};
use crate::linalg::dot;
use crate::model::{BLOCK, LinearPredictor};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::RowsError;

/// Rows in a tile: a multiple of every block, and fixed, so that partial sums are the same for any number of threads.
const TILE: usize = 1024;

/// Tiles that a worker takes at once.
const RUN: usize = 16;

/// Below this share of the rows, a pass over a batch gathers them first instead of answering for all.
const GATHER: f64 = 0.5;

/// A column whose cosine with the second vector of a query is above this is correlated again in f64: its geodesic
/// score divides by √(1 − cos²), of which f32 leaves nothing where the two are parallel.
const NEARLY_PARALLEL: f64 = 1.0 - 1e-4;

/// The Hermite embedding of a model with a linear predictor, up to order M.
///
/// Under π̂ = N(θ̂, LLᵀ) the predictor of row i is one-dimensional Gaussian, η = η̂ᵢ + sᵢz with sᵢ = ‖Lᵀxᵢ‖. With
/// hᵢₘ = E[ℓᵢ(η̂ᵢ + sᵢz)Heₘ(z)]/m! and vᵢ = Lᵀxᵢ/sᵢ, Mehler's formula gives
///
/// > Cov(ℓᵢ, ℓⱼ) = Σ_{m≥1} m!·hᵢₘhⱼₘ(vᵢ·vⱼ)ᵐ,
///
/// the inner product of the vectors φᵢ with entries √(m!)·hᵢₘ·√(m!/α!)·vᵢ^α, one for each multi-index of |α| = m ≤ M. So
/// there is no Monte Carlo noise and no seed. Linear regression is exact at M = 2.
///
/// Φ is never stored. A row keeps vᵢ and √(m!)·hᵢₘ/‖φᵢ‖ in f32 and 1/‖φᵢ‖, and ⟨φᵢ, u⟩ is a linear, a quadratic and a
/// cubic form of vᵢ, whose error is about 10⁻⁷·‖φᵢ‖‖u‖ whatever the scale of the features. The sum and the columns are
/// computed in f64 from the data.
///
/// [`Description::tail`] is half the variance of Σᵢ Σ_{m>M} hᵢₘHeₘ(vᵢ·z), the part of the *full* log-likelihood that
/// is dropped, on 32 fixed draws of z and up to order 6; it is known to a few tens of percent. What a coreset suffers
/// is the same part of the difference L − L_w, which is smaller where the coreset matches it by chance or by number of
/// points, and can be larger at few points; fresh draws show it.
pub struct Hermite {
    first: usize,
    columns: HermiteColumns,
    packed: Packed,
    block: usize,
    /// Which tiles have a zero column.
    has_zeros: Vec<bool>,
    /// A tile of ones.
    ones: Vec<f64>,
    description: Description,
    scratch: Mutex<Vec<Scratch>>,
}

/// The columns themselves, in f64, of any rows: all of the embedding but its passes.
pub(super) struct HermiteColumns {
    pub(super) maker: RowMaker,
    coordinates: usize,
    multiplicities: Vec<f64>,
}

impl HermiteColumns {
    pub(super) fn new(
        model: LinearPredictor,
        posterior: Arc<Gaussian>,
        order: usize,
    ) -> Result<Self, EmbedError> {
        let dim = model.observations.dim;
        if !(1..=3).contains(&order) {
            return Err(EmbedError::Order { order });
        }
        if posterior.dim() != dim {
            return Err(EmbedError::Dimension { posterior: posterior.dim(), model: dim });
        }
        let maker = RowMaker { model, posterior, order, without_two: false, expansion: Expansion::new() };
        Ok(Self { maker, coordinates: coordinates(dim, order), multiplicities: multiplicities(dim, order) })
    }

    /// Order 3 alone: the coordinates of orders 1 and 2 are there, and 0.
    pub(super) fn third(model: LinearPredictor, posterior: Arc<Gaussian>) -> Result<Self, EmbedError> {
        let columns = Self::new(model, posterior, 3)?;
        Ok(Self { maker: RowMaker { without_two: true, ..columns.maker }, ..columns })
    }

    pub(super) fn write(&self, ids: &[usize], out: &mut [f64]) {
        let dim = self.maker.posterior.dim();
        parallel::map(
            ids.chunks(parallel::ROWS).zip(out.chunks_mut(parallel::ROWS * self.coordinates)),
            |(ids, out)| {
                let mut row = Row::new(dim);
                for (id, out) in ids.iter().zip(out.chunks_exact_mut(self.coordinates)) {
                    self.column(*id, &mut row, out);
                }
            },
        );
    }

    fn column(&self, id: usize, row: &mut Row, out: &mut [f64]) {
        self.maker.fill(id, row);
        out.fill(0.0);
        add_powers(&row.c[..self.maker.order], &row.direction, out);
        out.iter_mut().zip(&self.multiplicities).for_each(|(out, m)| *out *= m);
    }

    /// The orders 1 and 2 of every row as a polynomial of its own predictor.
    pub(super) fn polynomials(&self) -> Result<RowPolynomials, RowsError> {
        let (dim, rows) = (self.maker.posterior.dim(), &self.maker.model.observations);
        let (mut slope, mut curvature) =
            (rows.features.beside(rows.len())?, rows.features.beside(rows.len())?);
        for block in parallel::parts(rows.len(), BLOCK) {
            let of_part = |ids: Range<usize>| {
                let mut row = Row::new(dim);
                let of_row = |id| {
                    let width = self.maker.fill(block.start + id, &mut row);
                    [row.h[0], row.h[1], width]
                };
                ids.map(of_row).collect::<Vec<[f64; 3]>>()
            };
            let made = parallel::map(parallel::parts(block.len(), parallel::ROWS), of_part).concat();
            let part = |at: usize| made.iter().map(|row| row[at]).collect::<Vec<f64>>();
            let polynomials = RowPolynomials::from_hermite(&part(0), &part(1), &part(2));
            slope.push(&polynomials.slope)?;
            curvature.push(&polynomials.curvature)?;
        }
        Ok(RowPolynomials { slope: slope.finish()?, curvature: curvature.finish()? })
    }
}

/// What one worker needs for a pass, kept between passes.
#[derive(Default)]
struct Scratch {
    top: TopK,
    products: Vec<f32>,
    cosines: [Vec<f32>; 2],
    correlations: [Vec<f64>; 2],
    gathered: Vec<f32>,
    members: Vec<usize>,
    filled: Filled,
}

/// Rows that are packed tile by tile.
#[derive(Default)]
struct Filled {
    blocks: Vec<f32>,
    lanes: Lanes,
}

impl Hermite {
    /// Embeds a model under π̂ with the orders 1 … `order`, in one pass on all threads.
    ///
    /// # Errors
    /// [`EmbedError::Order`] unless 1 ≤ `order` ≤ 3, and [`EmbedError::Dimension`] where π̂ is of another dimension.
    pub fn new(model: LinearPredictor, posterior: &Gaussian, order: usize) -> Result<Self, EmbedError> {
        Self::starting_at(model, Arc::new(posterior.clone()), order, 0)
    }

    /// The same of rows of which the first has this id.
    ///
    /// # Errors
    /// See [`Hermite::new`].
    pub fn starting_at(
        model: LinearPredictor,
        posterior: Arc<Gaussian>,
        order: usize,
        first: usize,
    ) -> Result<Self, EmbedError> {
        Ok(Self::packed(HermiteColumns::new(model, posterior, order)?, first, MOST_PACKED)?)
    }

    /// Order 3 alone, for rows beside a Gaussian that has the orders below.
    ///
    /// # Errors
    /// See [`Hermite::new`].
    pub(super) fn third(
        model: LinearPredictor,
        posterior: Arc<Gaussian>,
        first: usize,
    ) -> Result<Self, EmbedError> {
        Ok(Self::packed(HermiteColumns::third(model, posterior)?, first, MOST_PACKED)?)
    }

    /// With at most so many bytes of packed rows.
    fn packed(columns: HermiteColumns, first: usize, most: usize) -> Result<Self, RowsError> {
        let (block, order) = (block_rows(), columns.maker.order);
        let packed = pack(&columns.maker, block, most)?;
        let (coordinates, tail) = (columns.coordinates, Remainder::nats(&packed.dropped));
        let description = Description { name: format!("hermite:{order}"), coordinates, tail };
        let has_zeros = parallel::map(packed.inverse_norms.chunks(TILE), |tile| tile.contains(&0.0));
        Ok(Self {
            first,
            columns,
            packed,
            has_zeros,
            ones: vec![1.0; TILE],
            block,
            description,
            scratch: Mutex::default(),
        })
    }

    /// The same columns, stored.
    ///
    /// # Errors
    /// If there is no row.
    pub fn to_dense(&self) -> Result<Dense<f64>, EmbedError> {
        let ids: Vec<usize> = (0..self.len()).collect();
        let mut entries = vec![0.0; self.len() * self.coordinates()];
        self.columns.write(&ids, &mut entries);
        Ok(Dense::new(entries, self.coordinates())?)
    }

    /// What truncation drops of the full log-likelihood, at fixed draws.
    pub(super) fn dropped(&self) -> &[f64] {
        &self.packed.dropped
    }

    fn dim(&self) -> usize {
        self.columns.maker.posterior.dim()
    }

    fn order(&self) -> usize {
        self.columns.maker.order
    }

    fn take_scratch(&self, query: &Query<'_>) -> Scratch {
        let mut scratch = lock(&self.scratch).pop().unwrap_or_default();
        scratch.top.reset(query.rankings);
        scratch.cosines.iter_mut().for_each(|cosines| cosines.resize(TILE, 0.0));
        scratch.correlations.iter_mut().for_each(|correlations| correlations.resize(TILE, 0.0));
        scratch
    }

    fn give_scratch(&self, scratch: Scratch) {
        lock(&self.scratch).push(scratch);
    }

    /// Correlates one tile and offers it to the rankings. With `unit`, the rankings that are left where columns are unit
    /// vectors, the norms of a tile without a zero column need not be read.
    fn visit(
        &self,
        tile: usize,
        query: &Query<'_>,
        unit: Option<&[Ranking]>,
        forms: &[Forms],
        scratch: &mut Scratch,
    ) {
        let rows = tile * TILE..self.len().min((tile + 1) * TILE);
        let width = rows.len();
        let unit = unit.filter(|_| !self.has_zeros[tile]);
        let norms = &self.packed.inverse_norms[rows.clone()];
        let (query, inverse_norms) = match unit {
            Some(rankings) => (&Query { rankings, ..*query }, &self.ones[..width]),
            None => (query, norms),
        };
        match query.batch {
            None if forms.is_empty() => {}
            Some(batch) if batch.fraction < GATHER => self.gather(&rows, batch, forms, scratch),
            _ => self.cosines(&rows, forms, scratch),
        }
        let Scratch { top, cosines, correlations, .. } = scratch;
        let raw = query.rankings.iter().all(|ranking| ranking.score == Score::Raw);
        if let ([form], [cosines, _], Some(_), true) = (forms, &*cosines, unit, raw) {
            top.offer_raw(query, self.first + rows.start, &cosines[..width], form.length);
            return;
        }
        for ((form, cosines), out) in forms.iter().zip(cosines).zip(&mut *correlations) {
            let (length, out) = (form.length, &mut out[..width]);
            Widen { cosines, length, inverse_norms: unit.is_none().then_some(norms), out }.compute();
        }
        self.refine(&rows, query.vectors, inverse_norms, correlations);
        let [u, v] = &*correlations;
        top.offer(
            query,
            Tile { first: self.first + rows.start, u: &u[..width], v: &v[..width], inverse_norms },
        );
    }

    fn cosines(&self, rows: &Range<usize>, forms: &[Forms], scratch: &mut Scratch) {
        let Scratch { products, cosines: [first, second], filled, .. } = scratch;
        let blocks = self.blocks(rows, filled);
        let (dim, order) = (self.dim(), self.order());
        Cosines { blocks, dim, order, forms, products, out: [first, second] }.compute();
    }

    /// The whole blocks that hold these rows, the first of which must be the first of a block.
    fn blocks<'b>(&'b self, rows: &Range<usize>, filled: &'b mut Filled) -> &'b [f32] {
        let (order, block) = (self.order(), self.block);
        match &self.packed.kept {
            Kept::Blocks(blocks) => {
                let stride = (self.dim() + order) * block;
                &blocks[rows.start / block * stride..rows.end.div_ceil(block) * stride]
            }
            Kept::Coefficients(all) => {
                let coefficients = &all[rows.start * order..rows.end * order];
                let (maker, first) = (&self.columns.maker, rows.start);
                let Filled { blocks, lanes } = filled;
                FillTile { maker, first, coefficients, blocks: &mut *blocks, block }.fill(lanes);
                blocks
            }
        }
    }

    /// [`cosines`](Self::cosines) for the rows of a batch alone, packed together; NaN for the others.
    fn gather(&self, rows: &Range<usize>, batch: Batch, forms: &[Forms], scratch: &mut Scratch) {
        let Scratch { products, cosines, gathered, members, filled, .. } = scratch;
        members.clear();
        members.extend(rows.clone().filter(|id| batch.contains(self.first + *id)));
        let (dim, order, block) = (self.dim(), self.order(), self.block);
        let stride = (dim + order) * block;
        gathered.clear();
        gathered.resize(members.len().div_ceil(block) * stride, 0.0);
        let tile = self.blocks(rows, filled);
        for (at, id) in members.iter().enumerate() {
            let place = id - rows.start;
            let from = tile[place / block * stride + place % block..].iter().step_by(block);
            let to = gathered[at / block * stride + at % block..].iter_mut().step_by(block);
            to.zip(from).take(dim + order).for_each(|(to, from)| *to = *from);
        }
        let [first, second] = &mut *cosines;
        Cosines { blocks: gathered, dim, order, forms, products, out: [first, second] }.compute();
        for cosines in cosines {
            // From the last one down, since a row's place is never before its place among the members.
            let mut end = rows.len();
            for (at, id) in members.iter().enumerate().rev() {
                let (cosine, place) = (cosines[at], id - rows.start);
                cosines[place + 1..end].fill(f32::NAN);
                cosines[place] = cosine;
                end = place;
            }
            cosines[..end].fill(f32::NAN);
        }
    }

    /// Correlates the columns that are nearly parallel to the second vector, where there is one, again in f64.
    fn refine(
        &self,
        rows: &Range<usize>,
        vectors: &[&[f64]],
        inverse_norms: &[f64],
        out: &mut [Vec<f64>; 2],
    ) {
        let Some(length) = vectors.get(1).map(|v| dot(v, v).sqrt()) else { return };
        let (mut row, mut column) = (Row::new(self.dim()), Vec::new());
        for (offset, (id, inverse)) in rows.clone().zip(inverse_norms).enumerate() {
            // NaN, a row outside the batch, is not above anything.
            if (out[1][offset] * inverse).abs() > NEARLY_PARALLEL * length {
                column.resize(self.coordinates(), 0.0);
                self.columns.column(id, &mut row, &mut column);
                let scale = self.packed.inverse_norms[id] / inverse;
                for (out, vector) in out.iter_mut().zip(vectors) {
                    out[offset] = dot(&column, vector) * scale;
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rankings as they are among unit columns, where the cosines alone decide them: norm-scaled is then raw.
fn among_unit_columns(rankings: &[Ranking]) -> Option<Vec<Ranking>> {
    let unit = |ranking: &Ranking| match ranking.score {
        Score::NormScaled => Some(Ranking { score: Score::Raw, ..*ranking }),
        Score::Geodesic | Score::Acute { .. } => Some(*ranking),
        _ => None,
    };
    rankings.iter().map(unit).collect()
}

/// Lᵀx for a row-major lower triangular L.
fn whiten(factor: &[f64], x: &[f32], out: &mut [f64]) {
    out.fill(0.0);
    for (i, (row, &x)) in factor.chunks_exact(x.len().max(1)).zip(x).enumerate() {
        let x = f64::from(x);
        out.iter_mut().zip(&row[..=i]).for_each(|(out, l)| *out += x * l);
    }
}

impl Dictionary for Hermite {
    fn len(&self) -> usize {
        self.packed.inverse_norms.len()
    }

    fn coordinates(&self) -> usize {
        self.columns.coordinates
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(self.packed.sum.clone())
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        let prepare = |vector: &&[f64]| {
            let mut forms = Forms::default();
            forms.prepare(vector, self.dim(), self.order());
            forms
        };
        let forms: &[Forms] = &query.vectors.iter().take(2).map(prepare).collect::<Vec<_>>();
        // As many rankings in the making as there are threads at work, not one for every piece that rayon splits off:
        // each would have to fill up again. Which rows a ranking has seen does not matter once all are merged.
        let active = Mutex::new(Vec::new());
        let unit = among_unit_columns(query.rankings);
        let tiles = self.len().div_ceil(TILE);
        parallel::each(tiles.div_ceil(RUN), &|run| {
            let idle = lock(&active).pop();
            let mut scratch = idle.unwrap_or_else(|| self.take_scratch(query));
            for tile in run * RUN..tiles.min((run + 1) * RUN) {
                self.visit(tile, query, unit.as_deref(), forms, &mut scratch);
            }
            lock(&active).push(scratch);
        });
        let mut active = active.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = active.pop().unwrap_or_else(|| self.take_scratch(query));
        for other in active {
            scratch.top.merge(&other.top);
            self.give_scratch(other);
        }
        scratch.top.write(answers);
        self.give_scratch(scratch);
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        if let Some(&id) = ids.iter().find(|id| **id >= self.len()) {
            return Err(DictionaryError::new(Error::BadColumn { id, columns: self.len() }));
        }
        self.columns.write(ids, out);
        Ok(())
    }
}

impl Embedding for Hermite {
    fn description(&self) -> &Description {
        &self.description
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use crate::model::{Logistic, Model};

    #[test]
    fn rows_packed_at_each_pass_give_the_bits_of_rows_packed_once() {
        let model = Logistic::model(generate::logistic(2500, 5, 3)).unwrap();
        let precision = crate::linalg::row_major(5, |i, j| if i == j { 40.0 + i as f64 } else { 3.0 });
        let posterior = Arc::new(Gaussian::from_precision(vec![0.2; 5], precision).unwrap());
        for order in 1..=3 {
            let of = |most| {
                let linear = model.linear().unwrap();
                let columns = HermiteColumns::new(linear, Arc::clone(&posterior), order).unwrap();
                Hermite::packed(columns, 70, most).unwrap()
            };
            let (once, each) = (of(MOST_PACKED), of(0));
            assert!(matches!(each.packed.kept, Kept::Coefficients(_)));
            let u = once.sum().unwrap().vector;
            assert_eq!(u, each.sum().unwrap().vector);
            let rankings = [Score::Raw, Score::NormScaled].map(|score| Ranking { score, count: 300 });
            for batch in
                [None, Some(Batch { seed: 1, fraction: 0.2 }), Some(Batch { seed: 1, fraction: 0.7 })]
            {
                let query = Query { vectors: &[&u], rankings: &rankings, exclude: &[80, 90], batch };
                let answer = |hermite: &Hermite| {
                    let mut answers = vec![Vec::new(); 2];
                    hermite.top(&query, &mut answers).unwrap();
                    answers
                };
                assert_eq!(answer(&once), answer(&each), "order {order}, {batch:?}");
            }
        }
    }
}
