//! Rows with several predictors side by side: what [`JointColumns::fill`] does for one row, for many at a time.

use super::build::careful_length;
use super::joint_row::{DEPENDENT, JointColumns, LARGEST};
use super::lanes::Powers;
use crate::model::cubature::Nodes;
use crate::model::{Inputs, JointJets, JointPredictors};
use crate::rows::{Held, add};
use crate::vector_math::{Kernel, Planes, WIDTH, dispatch};

/// A number a row.
type Column = Vec<f64>;

/// Up to [`WIDTH`] rows.
pub(super) struct JointLanes {
    /// The features, and along each axis the unit direction of every row.
    features: Planes,
    directions: Vec<Planes>,
    /// C of every row: of predictor a along axis b at a·r + b.
    factor: Vec<Column>,
    /// ζ̂ of the predictors with features, targets and exposures, and what is asked at a node.
    rows: JointJets,
    asked: JointJets,
    /// E[∇ℓ], then the pairs of E[∇²ℓ].
    means: Vec<Column>,
    /// The coefficients of each direction, of both orders.
    pub(super) c: Vec<[Column; 2]>,
}

impl JointLanes {
    pub(super) fn new(columns: &JointColumns) -> Self {
        let inputs = columns.model.layout.inputs();
        let (r, rows) = (inputs.len(), JointJets::new(inputs));
        let means = rows.gradient.len() + rows.hessian.len();
        let column = vec![0.0; WIDTH];
        JointLanes {
            features: Planes::default(),
            directions: (0..r).map(|_| Planes::default()).collect(),
            factor: vec![column.clone(); r * r],
            asked: rows.clone().without_values(),
            rows,
            means: vec![column; means],
            c: vec![[Vec::new(), Vec::new()]; r],
        }
    }

    /// Computes `count` rows from `first` on.
    pub(super) fn load(&mut self, columns: &JointColumns, first: usize, count: usize) {
        self.predict(columns, first, count);
        self.whiten(columns, count);
        self.expect(columns, first);
        self.rotate();
    }

    /// Features, ζ̂, targets and exposures.
    fn predict(&mut self, columns: &JointColumns, first: usize, count: usize) {
        let JointPredictors { observations, layout, .. } = &columns.model;
        let (dim, range) = (observations.dim, first..first + count);
        self.features.load(&observations.features[first * dim..(first + count) * dim], dim);
        let JointJets { zeta, constants, y, exposure, .. } = &mut self.rows;
        let (mut zetas, mut constants) = (zeta.iter_mut(), constants.iter_mut());
        for (input, block) in layout.blocks() {
            let mean = &columns.posterior.mean[block];
            match input {
                Inputs::Features => {
                    zetas.by_ref().take(1).for_each(|zeta| self.features.products(mean, zeta));
                }
                Inputs::Constant => constants.by_ref().take(1).for_each(|zeta| *zeta = mean[0]),
            }
        }
        if let (Some(offset), Some(zeta)) = (&observations.offset, zeta.first_mut()) {
            zeta.iter_mut().zip(&offset[range.clone()]).for_each(|(zeta, offset)| *zeta += offset);
        }
        let column = |from: Option<&Held<f64>>, without: f64, to: &mut Column| {
            to.clear();
            match from.filter(|column| !column.is_empty()) {
                Some(column) => to.extend_from_slice(&column[range.clone()]),
                None => to.resize(range.len(), without),
            }
        };
        column(Some(&observations.target), 0.0, y);
        column(observations.exposure.as_ref(), 1.0, exposure);
    }

    /// AᵢL = CO by Gram and Schmidt, twice over, predictors with a constant input first.
    fn whiten(&mut self, columns: &JointColumns, count: usize) {
        let (r, dim) = (columns.sequence.len(), columns.posterior.dim());
        let blocks: Vec<_> = columns.model.layout.blocks().collect();
        self.factor.iter_mut().for_each(|column| column.fill(0.0));
        let mut share = vec![0.0; WIDTH];
        for (axis, &a) in columns.sequence.iter().enumerate() {
            let (before, rest) = self.directions.split_at_mut(axis);
            let Some(own) = rest.first_mut() else { return };
            let (input, block) = &blocks[a];
            let lower = &columns.posterior.factor[block.start * dim..block.end * dim];
            own.clear(dim, count);
            match input {
                Inputs::Features => self.features.multiply(lower, block.start, own),
                Inputs::Constant => {
                    let numbers = lower.iter().take(block.end);
                    own.planes_mut().zip(numbers).for_each(|(plane, l)| plane[..count].fill(*l));
                }
            }
            let mut whole = vec![0.0; WIDTH];
            dispatch(Dot(own, own, &mut whole));
            for _ in 0..2 {
                for (b, other) in before.iter().enumerate() {
                    share.fill(0.0);
                    dispatch(Dot(own, other, &mut share));
                    dispatch(Subtract(own, other, &share));
                    add(&mut self.factor[a * r + b], &share);
                }
            }
            let length = &mut self.factor[a * r + axis];
            if before.is_empty() {
                length.copy_from_slice(&whole);
            } else {
                dispatch(Dot(own, own, length));
            }
            for (length, (share, whole)) in length.iter_mut().zip(share.iter_mut().zip(&whole)) {
                let root = length.sqrt();
                let is_own = root > DEPENDENT * whole.sqrt() && root.is_normal();
                (*length, *share) = if is_own { (root, 1.0 / root) } else { (0.0, 0.0) };
            }
            own.planes_mut().for_each(|plane| dispatch(Multiply(plane, &share)));
        }
    }

    /// E[∇ℓ] and E[∇²ℓ]: rows with the same nodes take one of them together.
    fn expect(&mut self, columns: &JointColumns, first: usize) {
        let count = self.rows.y.len();
        self.means.iter_mut().for_each(|mean| mean.fill(0.0));
        let r = columns.sequence.len();
        let rung = |i: usize| columns.nodes.rung(|a, axis| self.factor[a * r + axis][i]);
        let rungs: Vec<usize> = (0..count).map(rung).collect();
        let mut distinct = rungs.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for rung in distinct {
            let picked: Vec<usize> = (0..count).filter(|&i| rungs[i] == rung).collect();
            self.expect_picked(columns.nodes.of_rung(rung), &picked, columns);
        }
        if let Some(weights) = &columns.model.observations.weights {
            let weights = &weights[first..first + count];
            self.means.iter_mut().for_each(|mean| dispatch(Multiply(&mut mean[..count], weights)));
        }
    }

    fn expect_picked(&mut self, nodes: &Nodes, picked: &[usize], columns: &JointColumns) {
        let Self { rows, asked, means, factor, .. } = self;
        let inputs = columns.model.layout.inputs();
        let r = inputs.len();
        let gather = |from: &[f64]| picked.iter().map(|&i| from[i]).collect::<Column>();
        (asked.y, asked.exposure) = (gather(&rows.y), gather(&rows.exposure));
        let centres: Vec<Column> = rows.zeta.iter().map(|zeta| gather(zeta)).collect();
        let factor: Vec<Column> = factor.iter().map(|column| gather(column)).collect();
        let mut sums = vec![vec![0.0; picked.len()]; means.len()];
        for (z, &weight) in nodes.points.chunks_exact(r).zip(&nodes.weights) {
            let (mut zetas, mut constants) =
                (asked.zeta.iter_mut().zip(&centres), asked.constants.iter_mut().zip(&rows.constants));
            for (a, input) in inputs.iter().enumerate() {
                let steps = z.iter().zip(&factor[a * r..]).filter(|(z, _)| **z != 0.0);
                match input {
                    Inputs::Features => {
                        let Some((zeta, centre)) = zetas.next() else { continue };
                        zeta.clone_from(centre);
                        steps.for_each(|(z, column)| dispatch(AddScaled(zeta, *z, column)));
                    }
                    Inputs::Constant => {
                        let Some((zeta, centre)) = constants.next() else { continue };
                        *zeta = centre + steps.map(|(z, column)| z * column[0]).sum::<f64>();
                    }
                }
            }
            columns.model.family.jets(asked.asked());
            let derivatives = asked.gradient.iter().chain(&asked.hessian);
            sums.iter_mut().zip(derivatives).for_each(|(sum, x)| dispatch(AddScaled(sum, weight, x)));
        }
        for (mean, sum) in means.iter_mut().zip(sums) {
            picked.iter().zip(sum).for_each(|(&i, sum)| mean[i] = sum);
        }
    }

    /// CᵀE[∇²ℓ]C = QΛQᵀ: the coefficients, and the directions turned by Q.
    fn rotate(&mut self) {
        let r = self.directions.len();
        let zeros = || vec![vec![0.0; WIDTH]; r * r];
        let pair = |a: usize, b: usize| r + a.max(b) * (a.max(b) + 1) / 2 + a.min(b);
        let (mut half, mut spread) = (zeros(), zeros());
        for (a, b) in (0..r).flat_map(|a| (0..r).map(move |b| (a, b))) {
            for i in 0..r {
                dispatch(AddProduct(&mut half[a * r + b], &self.means[pair(a, i)], &self.factor[i * r + b]));
            }
        }
        for (a, b) in (0..r).flat_map(|a| (0..r).map(move |b| (a, b))) {
            for i in 0..r {
                dispatch(AddProduct(&mut spread[a * r + b], &self.factor[i * r + a], &half[i * r + b]));
            }
        }
        let mut slopes = vec![vec![0.0; WIDTH]; r];
        for (a, slope) in slopes.iter_mut().enumerate() {
            (0..r).for_each(|i| dispatch(AddProduct(slope, &self.factor[i * r + a], &self.means[i])));
        }
        let rotation = diagonalise(&mut spread, r);
        let count = self.rows.y.len();
        for (a, [first, second]) in self.c.iter_mut().enumerate() {
            first.clear();
            first.resize(WIDTH, 0.0);
            (0..r).for_each(|b| dispatch(AddProduct(first, &rotation[b * r + a], &slopes[b])));
            second.clear();
            second.extend(spread[a * r + a].iter().map(|x| x * std::f64::consts::FRAC_1_SQRT_2));
            for c in [first, second] {
                c.truncate(count);
                c.iter_mut().for_each(|c| *c = if c.is_nan() { 0.0 } else { c.clamp(-LARGEST, LARGEST) });
            }
        }
        dispatch(Turn { directions: &mut self.directions, rotation: &rotation });
    }

    /// ‖φ‖ of a row, since directions are orthonormal.
    pub(super) fn norm(&self, row: usize, order: usize) -> f64 {
        let c = self.c.iter().flat_map(|c| &c[..order]).map(|c| c[row]);
        let squares: f64 = c.clone().map(|c| c * c).sum();
        if squares.is_normal() { squares.sqrt() } else { careful_length(c) }
    }

    /// Adds the columns of the rows to a sum.
    pub(super) fn add_to(&mut self, powers: &mut Powers) {
        for (directions, c) in self.directions.iter_mut().zip(&self.c) {
            powers.add_squares(directions, c);
        }
    }

    /// Puts directions and cₘ/‖φ‖ into blocks of rows, which begin with the first row.
    pub(super) fn pack(&self, blocks: &mut [f32], block: usize, inverse_norms: &[f64], order: usize) {
        let dim = self.directions.first().map_or(0, |directions| directions.planes().count());
        let width = (dim + order) * block;
        for (at, blocks) in blocks.chunks_mut(self.c.len() * width).enumerate() {
            let rows = at * block..inverse_norms.len().min((at + 1) * block);
            let directions = self.directions.iter().zip(&self.c);
            for ((directions, c), blocks) in directions.zip(blocks.chunks_exact_mut(width)) {
                let (places, coefficients) = blocks.split_at_mut(dim * block);
                for (plane, to) in directions.planes().zip(places.chunks_exact_mut(block)) {
                    to.iter_mut().zip(&plane[rows.clone()]).for_each(|(to, v)| *to = *v as f32);
                }
                for (c, to) in c.iter().zip(coefficients.chunks_exact_mut(block)) {
                    let numbers = c[rows.clone()].iter().zip(&inverse_norms[rows.clone()]);
                    to.iter_mut().zip(numbers).for_each(|(to, (c, inverse))| *to = (c * inverse) as f32);
                }
            }
        }
    }
}

/// Makes the symmetric matrix of every row diagonal by Jacobi's rotations, and returns Q with A = QΛQᵀ; the plain twin is that of
/// `joint_row`. A row that has come to rest is left as it is while others turn.
fn diagonalise(a: &mut [Column], r: usize) -> Vec<Column> {
    const SWEEPS: usize = 30;
    let identity = |at: usize| vec![if at / r == at % r { 1.0 } else { 0.0 }; WIDTH];
    let mut q: Vec<Column> = (0..r * r).map(identity).collect();
    // NaN where a number of the row is none: nothing compares to it, and the row is left alone.
    let mut finite = vec![0.0; WIDTH];
    a.iter().for_each(|column| finite.iter_mut().zip(column).for_each(|(sum, x)| *sum += 0.0 * x));
    let (mut cosine, mut sine) = (vec![0.0; WIDTH], vec![0.0; WIDTH]);
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for (i, j) in (0..r).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let entries = [i * r + j, j * r + j, i * r + i].map(|at| a[at].as_slice());
            if !dispatch(Angles { entries, finite: &finite, cosine: &mut cosine, sine: &mut sine }) {
                continue;
            }
            rotated = true;
            let turn = (&cosine[..], &sine[..]);
            (0..r).for_each(|k| rotate(a, (k * r + j, k * r + i), turn));
            (0..r).for_each(|k| rotate(a, (j * r + k, i * r + k), turn));
            (0..r).for_each(|k| rotate(&mut q, (k * r + j, k * r + i), turn));
        }
        if !rotated {
            break;
        }
    }
    q
}

/// The rotation that makes the entry off the diagonal zero, of every row, and whether there is any.
struct Angles<'a> {
    /// Off the diagonal, and the two on it.
    entries: [&'a [f64]; 3],
    finite: &'a [f64],
    cosine: &'a mut [f64],
    sine: &'a mut [f64],
}

impl Kernel for Angles<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        let Angles { entries: [off, first, second], finite, cosine, sine } = self;
        let mut largest = 0.0;
        let entries = off.iter().zip(first).zip(second.iter().zip(finite));
        for (((off, first), (second, finite)), (cosine, sine)) in entries.zip(cosine.iter_mut().zip(sine)) {
            let turns = off.abs() + finite > f64::EPSILON * (first.abs() + second.abs()) * 0.25;
            let ratio = (second - first) / (2.0 * off);
            let tangent = ratio.signum() / (ratio.abs() + (ratio * ratio + 1.0).sqrt());
            let tangent = if turns { tangent } else { 0.0 };
            let c = 1.0 / (tangent * tangent + 1.0).sqrt();
            (*cosine, *sine) = (c, tangent * c);
            largest = if turns { 1.0 } else { largest };
        }
        largest > 0.0
    }
}

fn rotate(a: &mut [Column], (i, j): (usize, usize), (cosine, sine): (&[f64], &[f64])) {
    let (low, high) = a.split_at_mut(i.max(j));
    let (x, y) = if i < j { (&mut low[i], &mut high[0]) } else { (&mut high[0], &mut low[j]) };
    dispatch(Rotate { pair: [x, y], cosine, sine });
}

struct Rotate<'a> {
    pair: [&'a mut [f64]; 2],
    cosine: &'a [f64],
    sine: &'a [f64],
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Rotate { pair: [x, y], cosine, sine } = self;
        for ((x, y), (cosine, sine)) in x.iter_mut().zip(y).zip(cosine.iter().zip(sine)) {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    }
}

/// Directions uₐ = Σ_b Q_{ba}o_b in the place of o.
struct Turn<'a> {
    directions: &'a mut [Planes],
    rotation: &'a [Column],
}

impl Kernel for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Turn { directions, rotation } = self;
        let r = directions.len();
        let mut planes: Vec<_> = directions.iter_mut().map(Planes::planes_mut).collect();
        let mut before = vec![[0.0; WIDTH]; r];
        loop {
            let mut now: Vec<&mut [f64]> = planes.iter_mut().filter_map(Iterator::next).collect();
            if now.len() < r || r == 0 {
                break;
            }
            before.iter_mut().zip(&now).for_each(|(to, plane)| to.copy_from_slice(plane));
            for (a, plane) in now.iter_mut().enumerate() {
                plane.fill(0.0);
                for (b, before) in before.iter().enumerate() {
                    let numbers = rotation[b * r + a].iter().zip(before);
                    plane.iter_mut().zip(numbers).for_each(|(to, (q, x))| *to += q * x);
                }
            }
        }
    }
}

/// Adds Σⱼ xⱼyⱼ of each row.
struct Dot<'a>(&'a Planes, &'a Planes, &'a mut [f64]);

impl Kernel for Dot<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (x, y) in self.0.planes().zip(self.1.planes()) {
            self.2.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum += x * y);
        }
    }
}

/// Subtracts sy from the x of each row.
struct Subtract<'a>(&'a mut Planes, &'a Planes, &'a [f64]);

impl Kernel for Subtract<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (x, y) in self.0.planes_mut().zip(self.1.planes()) {
            x.iter_mut().zip(y.iter().zip(self.2)).for_each(|(x, (y, share))| *x -= share * y);
        }
    }
}

/// Multiplies each number by the one beside it.
struct Multiply<'a>(&'a mut [f64], &'a [f64]);

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.0.iter_mut().zip(self.1).for_each(|(x, factor)| *x *= factor);
    }
}

/// Adds a multiple of a column.
struct AddScaled<'a>(&'a mut [f64], f64, &'a [f64]);

impl Kernel for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AddScaled(sum, scale, column) = self;
        sum.iter_mut().zip(column).for_each(|(sum, x)| *sum += scale * x);
    }
}

/// Adds the product of two columns.
struct AddProduct<'a>(&'a mut [f64], &'a [f64], &'a [f64]);

impl Kernel for AddProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.0.iter_mut().zip(self.1.iter().zip(self.2)).for_each(|(sum, (x, y))| *sum += x * y);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tensor::add_powers;
    use super::*;
    use crate::model::{Gamma, Model, Normal, Ordinal, Softmax, StudentDegrees};
    use crate::posterior::Gaussian;
    use crate::rows::Observations;
    use std::sync::Arc;

    /// Rows, some of them so long that they take more nodes, with targets of a number of a row.
    fn rows(target: impl Fn(usize) -> f64) -> Observations {
        let (n, dim) = (300, 3);
        let size = |i: usize| if i % 9 == 4 { 6.0 } else { 0.3 };
        let features: Vec<f64> = (0..n * dim).map(|at| size(at / dim) * (1.3 * at as f64).sin()).collect();
        let weights = (0..n).map(|i| 0.5 + (i % 3) as f64).collect();
        Observations::new(&features, dim, (0..n).map(target).collect()).with_weights(weights)
    }

    #[test]
    fn many_rows_are_those_one_by_one() {
        let number = |i: usize| (0.7 * i as f64).cos();
        let class = |classes: usize| move |i: usize| (i * 7 % classes) as f64;
        let models: [Arc<dyn Model>; 5] = [
            Arc::new(Normal::model(rows(number)).expect("numbers")),
            Arc::new(StudentDegrees::model(rows(number)).expect("numbers")),
            Arc::new(Gamma::model(rows(|i| 1.5 + number(i))).expect("positive numbers")),
            Arc::new(Softmax::model(rows(class(3)), 3).expect("classes")),
            Arc::new(Ordinal::model(rows(class(6)), 6).expect("levels")),
        ];
        for model in models {
            let dim = model.dim();
            let precision =
                crate::linalg::row_major(dim, |i, j| if i == j { 90.0 + 40.0 * i as f64 } else { 5.0 });
            let posterior = Arc::new(Gaussian::from_precision(vec![0.2; dim], precision).expect("positive"));
            let columns = JointColumns::new(model.joint().expect("joint"), posterior, 2).expect("order 2");
            let (mut lanes, mut row) = (JointLanes::new(&columns), columns.row());
            let (mut want, mut one) = (vec![0.0; columns.coordinates], vec![0.0; columns.coordinates]);
            for first in [0, 128, 256] {
                let count = WIDTH.min(model.len() - first);
                lanes.load(&columns, first, count);
                for at in 0..count {
                    columns.column(first + at, &mut row, &mut want);
                    one.fill(0.0);
                    for (directions, c) in lanes.directions.iter().zip(&lanes.c) {
                        let direction: Vec<f64> = directions.planes().map(|plane| plane[at]).collect();
                        add_powers(&[c[0][at], c[1][at]], &direction, &mut one);
                    }
                    columns.scale(&mut one);
                    let size = want.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                    let near = one.iter().zip(&want).all(|(got, want)| (got - want).abs() <= 1e-12 * size);
                    assert!(near, "{} {first} {at}: {one:?} {want:?}", model.name());
                    let (got, want) = (lanes.norm(at, 2), crate::linalg::dot(&want, &want).sqrt());
                    assert!((got - want).abs() <= 1e-12 * want, "{} {got} {want}", model.name());
                }
            }
        }
    }
}
