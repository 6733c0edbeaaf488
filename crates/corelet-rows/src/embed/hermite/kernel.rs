//! The inner loop of a pass: the forms of a query, in f32, over blocks of rows that fill two vector registers.

use corelet_kernels::simd::instruction_set;
use pulp::{Simd, WithSimd};

use super::forms::{Forms, HEIGHT};
use super::tensor::pairs;

/// Two registers of rows.
type Pair<S> = [<S as Simd>::f32s; 2];

/// Rows in a block: as many as two registers of this processor hold.
pub(super) fn block_rows() -> usize {
    struct Rows;
    impl WithSimd for Rows {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) -> usize {
            2 * size_of::<S::f32s>() / size_of::<f32>()
        }
    }
    instruction_set().dispatch(Rows)
}

/// ⟨φ, u⟩/(‖φ‖‖u‖) for the rows of some blocks.
///
/// A row's answer is that of its own lane, so it does not depend on what else is in the block.
pub(super) struct Cosines<'a> {
    /// Whole blocks: `dim` features of unit directions, then `order` coefficients, each for all rows of the block.
    pub(super) blocks: &'a [f32],
    pub(super) dim: usize,
    pub(super) order: usize,
    /// u, and perhaps v.
    pub(super) forms: &'a [Forms],
    /// Room for the products of pairs of features, at order 3.
    pub(super) products: &'a mut Vec<f32>,
    /// One slice a form, of as many numbers as there are rows.
    pub(super) out: [&'a mut [f32]; 2],
}

impl Cosines<'_> {
    /// Fills `out`.
    pub(super) fn compute(self) {
        instruction_set().dispatch(self);
    }
}

impl WithSimd for Cosines<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Cosines { blocks, dim, order, forms, products, out: [first, second] } = self;
        let (blocks, _) = registers::<S>(blocks);
        products.resize(
            if order == 3 { pairs(dim) * 2 * size_of::<S::f32s>() / size_of::<f32>() } else { 0 },
            0.0,
        );
        let products = S::as_mut_simd_f32s(products).0.as_chunks_mut::<2>().0;
        let firsts = S::as_mut_simd_f32s(first).0.as_chunks_mut::<2>().0;
        let mut seconds = S::as_mut_simd_f32s(second).0.as_chunks_mut::<2>().0.iter_mut();
        for (block, first) in blocks.chunks_exact(dim + order).zip(firsts) {
            let (v, c) = block.split_at(dim);
            block.iter().for_each(prefetch);
            multiply_pairs(simd, v, products);
            if let Some(form) = forms.first() {
                *first = evaluate(simd, v, c, products, form);
            }
            if let (Some(form), Some(second)) = (forms.get(1), seconds.next()) {
                *second = evaluate(simd, v, c, products, form);
            }
        }
    }
}

/// How far ahead memory is asked for, in bytes: far enough that it is there when its turn comes, and that it goes on coming while a tile is
/// ranked.
const AHEAD: usize = 16 << 10;

/// Asks for the memory that lies behind some numbers that are read in passing.
#[inline(always)]
fn prefetch<T>(read: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<T>()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let ahead = std::ptr::from_ref(read).cast::<i8>().wrapping_add(AHEAD + line);
        #[allow(unsafe_code, reason = "a hint: it reads nothing, and no address is wrong")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(ahead);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = read;
}

#[inline(always)]
fn registers<S: Simd>(slice: &[f32]) -> (&[Pair<S>], &[S::f32s]) {
    S::as_simd_f32s(slice).0.as_chunks::<2>()
}

/// vⱼvₖ for j ≤ k, by j; nothing where there is no room for them.
#[inline(always)]
fn multiply_pairs<S: Simd>(simd: S, v: &[Pair<S>], products: &mut [Pair<S>]) {
    let mut left = products;
    if left.is_empty() {
        return;
    }
    for (j, a) in v.iter().enumerate() {
        let (row, after) = left.split_at_mut(v.len() - j);
        for (product, b) in row.iter_mut().zip(&v[j..]) {
            *product = [simd.mul_f32s(a[0], b[0]), simd.mul_f32s(a[1], b[1])];
        }
        left = after;
    }
}

/// Σₘ cₘTₘ(v, …, v).
#[inline(always)]
fn evaluate<S: Simd>(simd: S, v: &[Pair<S>], c: &[Pair<S>], products: &[Pair<S>], forms: &Forms) -> Pair<S> {
    let zero = [simd.splat_f32s(0.0); 2];
    let (mut linear, mut below, mut highest) = (zero, zero, zero);
    for (t, v) in forms.linear.iter().zip(v) {
        linear = add_product(simd, [simd.splat_f32s(*t); 2], *v, linear);
    }
    let base = if c.len() == 3 { products } else { v };
    let mut entries = forms.entries.as_slice();
    for band in &forms.bands {
        let base = &base[band.starts[0]..];
        let (mine, after) = entries.split_at(base.len());
        entries = after;
        let rows = multiply_band(simd, mine, base, band.starts);
        for (r, sum) in rows.iter().enumerate() {
            let i = band.first + r as isize;
            if i < 0 {
                below = *sum;
            } else if let Some(v) = v.get(i as usize) {
                highest = add_product(simd, *v, *sum, highest);
            }
        }
    }
    match c {
        [one] => add_product(simd, *one, linear, zero),
        [one, two] => add_product(simd, *two, highest, add_product(simd, *one, below, zero)),
        [one, two, three] => {
            let sum = add_product(simd, *two, below, add_product(simd, *one, linear, zero));
            add_product(simd, *three, highest, sum)
        }
        _ => zero,
    }
}

/// Four rows of the table times b: eight independent sums, enough to hide the latency of a multiply-add. The rows join
/// in where their b start, so that the zeros before are not multiplied.
#[inline(always)]
fn multiply_band<S: Simd>(
    simd: S,
    entries: &[[f32; HEIGHT]],
    base: &[Pair<S>],
    starts: [usize; HEIGHT],
) -> [Pair<S>; HEIGHT] {
    let lengths = [starts[1] - starts[0], starts[2] - starts[1], starts[3] - starts[2]];
    let mut sums = [[simd.splat_f32s(0.0); 2]; HEIGHT];
    let (mine, entries) = entries.split_at(lengths[0]);
    let (b, base) = base.split_at(lengths[0]);
    sums = multiply_rows::<S, 1>(simd, mine, b, sums);
    let (mine, entries) = entries.split_at(lengths[1]);
    let (b, base) = base.split_at(lengths[1]);
    sums = multiply_rows::<S, 2>(simd, mine, b, sums);
    let (mine, entries) = entries.split_at(lengths[2]);
    let (b, base) = base.split_at(lengths[2]);
    sums = multiply_rows::<S, 3>(simd, mine, b, sums);
    multiply_rows::<S, HEIGHT>(simd, entries, base, sums)
}

/// Adds the first `R` rows of the table times b.
#[inline(always)]
fn multiply_rows<S: Simd, const R: usize>(
    simd: S,
    entries: &[[f32; HEIGHT]],
    base: &[Pair<S>],
    mut sums: [Pair<S>; HEIGHT],
) -> [Pair<S>; HEIGHT] {
    for (t, b) in entries.iter().zip(base) {
        for r in 0..R {
            sums[r] = add_product(simd, [simd.splat_f32s(t[r]); 2], *b, sums[r]);
        }
    }
    sums
}

#[inline(always)]
fn add_product<S: Simd>(simd: S, a: Pair<S>, b: Pair<S>, sum: Pair<S>) -> Pair<S> {
    [simd.mul_add_e_f32s(a[0], b[0], sum[0]), simd.mul_add_e_f32s(a[1], b[1], sum[1])]
}

/// Turns cosines into correlations in f64: out ← cosine·‖u‖, or where there are norms cosine·‖u‖·‖φ‖.
pub(super) struct Widen<'a> {
    pub(super) cosines: &'a [f32],
    pub(super) length: f64,
    /// 1/‖φ‖, and 0 for a zero column, whose cosine is 0.
    pub(super) inverse_norms: Option<&'a [f64]>,
    pub(super) out: &'a mut [f64],
}

impl Widen<'_> {
    /// Fills `out`.
    pub(super) fn compute(self) {
        instruction_set().dispatch(self);
    }
}

impl WithSimd for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Widen { cosines, length, inverse_norms, out } = self;
        match inverse_norms {
            None => out.iter_mut().zip(cosines).for_each(|(out, cosine)| *out = f64::from(*cosine) * length),
            Some(inverse_norms) => {
                for ((out, cosine), inverse) in out.iter_mut().zip(cosines).zip(inverse_norms) {
                    let divisor = if *inverse > 0.0 { *inverse } else { 1.0 };
                    *out = f64::from(*cosine) * length / divisor;
                }
            }
        }
    }
}
