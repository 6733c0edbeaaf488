//! A register's worth of rows side by side: what [`RowMaker::fill`](super::build::RowMaker::fill) does for one row.

use pulp::Simd;

use super::build::{Row, RowMaker, careful_length};

/// Entry d of as many rows as a register holds numbers, in one register.
pub(super) struct Lanes<S: Simd> {
    simd: S,
    /// x and v = Lᵀx/s, each D × width, row-major.
    x: Vec<f64>,
    v: Vec<f64>,
    /// c₁, c₂, c₃ of each row.
    c: Vec<f64>,
    /// s of each row, the same with 1 for 0, and η̂.
    widths: Vec<f64>,
    divisors: Vec<f64>,
    predictors: Vec<f64>,
}

impl<S: Simd> Lanes<S> {
    /// Rows in a register.
    pub(super) const COUNT: usize = size_of::<S::f64s>() / size_of::<f64>();

    pub(super) fn new(simd: S, dim: usize) -> Self {
        let zeros = |count: usize| vec![0.0; count * Self::COUNT];
        Self {
            simd,
            x: zeros(dim),
            v: zeros(dim),
            c: zeros(3),
            widths: zeros(1),
            divisors: zeros(1),
            predictors: zeros(1),
        }
    }

    /// Computes s, v and η̂ of `count` rows from `first` on. The lanes beyond them are zero.
    #[inline(always)]
    pub(super) fn load(&mut self, maker: &RowMaker, first: usize, count: usize) {
        let (simd, dim) = (self.simd, maker.posterior.dim());
        if count < Self::COUNT {
            self.x.fill(0.0);
            self.c.fill(0.0);
        }
        for lane in 0..count {
            let row = maker.model.observations.row(first + lane);
            self.x[lane..].iter_mut().step_by(Self::COUNT).zip(row).for_each(|(to, &x)| *to = x.into());
        }
        let (x, v) = (S::as_simd_f64s(&self.x).0, S::as_mut_simd_f64s(&mut self.v).0);
        let zero = simd.splat_f64s(0.0);
        let (mut squares, mut eta) = (zero, zero);
        for (column, (v, mean)) in v.iter_mut().zip(&maker.posterior.mean).enumerate() {
            *v = zero;
            for (x, row) in x.iter().zip(maker.posterior.factor.chunks_exact(dim)).skip(column) {
                *v = simd.mul_add_e_f64s(*x, simd.splat_f64s(row[column]), *v);
            }
            squares = simd.mul_add_e_f64s(*v, *v, squares);
            eta = simd.mul_add_e_f64s(x[column], simd.splat_f64s(*mean), eta);
        }
        S::as_mut_simd_f64s(&mut self.widths).0[0] = squares;
        S::as_mut_simd_f64s(&mut self.predictors).0[0] = eta;
        self.normalise();
    }

    /// From s² and Lᵀx to s and v.
    #[inline(always)]
    fn normalise(&mut self) {
        for lane in 0..Self::COUNT {
            let squares = self.widths[lane];
            let entries = self.v[lane..].iter().copied().step_by(Self::COUNT);
            let width = if squares.is_normal() { squares.sqrt() } else { careful_length(entries) };
            self.widths[lane] = width;
            self.divisors[lane] = if width > 0.0 { width } else { 1.0 };
        }
        let divisor = S::as_simd_f64s(&self.divisors).0[0];
        let v = S::as_mut_simd_f64s(&mut self.v).0;
        v.iter_mut().for_each(|v| *v = self.simd.div_f64s(*v, divisor));
    }

    /// v of one lane.
    #[inline(always)]
    pub(super) fn direction(&self, lane: usize) -> impl Iterator<Item = &f64> {
        self.v[lane..].iter().step_by(Self::COUNT)
    }

    /// The row of one lane, its coefficients computed.
    #[inline(always)]
    pub(super) fn row(&mut self, maker: &RowMaker, id: usize, lane: usize, row: &mut Row) {
        let entries = self.v[lane..].iter().step_by(Self::COUNT);
        row.direction.iter_mut().zip(entries).for_each(|(to, v)| *to = *v);
        maker.expand(id, self.predictors[lane], self.widths[lane], row);
        self.c[lane..].iter_mut().step_by(Self::COUNT).zip(row.c).for_each(|(to, c)| *to = c);
    }

    /// [`add_powers`](super::tensor::add_powers), lane by lane.
    #[inline(always)]
    pub(super) fn add_powers(&self, order: usize, out: &mut [S::f64s]) {
        let simd = self.simd;
        let (v, c) = (S::as_simd_f64s(&self.v).0, S::as_simd_f64s(&self.c).0);
        let mut out = out.iter_mut();
        let mut add_scaled = |scale: S::f64s, v: &[S::f64s]| {
            v.iter().zip(&mut out).for_each(|(v, out)| *out = simd.mul_add_e_f64s(scale, *v, *out));
        };
        add_scaled(c[0], v);
        if order >= 2 {
            for (i, x) in v.iter().enumerate() {
                add_scaled(simd.mul_f64s(c[1], *x), &v[i..]);
            }
        }
        if order >= 3 {
            for (i, x) in v.iter().enumerate() {
                let scaled = simd.mul_f64s(c[2], *x);
                for (j, y) in v.iter().enumerate().skip(i) {
                    add_scaled(simd.mul_f64s(scaled, *y), &v[j..]);
                }
            }
        }
    }
}
