//! The dense inner loops: dots and updates written for the vectoriser, compiled for every instruction set and
//! chosen at run time.
//!
//! Every sum runs over [`LANES`] independent accumulators, whatever the width of a register, and every product is
//! fused with its addition, by hardware or not: the result has the same bits on every machine, and each column's
//! answer does not depend on which tile or thread computed it.

use pulp::Arch;

/// Independent accumulators of a dot product: four AVX-512 registers of f64.
const LANES: usize = 32;

/// A number as a dictionary stores it: `f32` or `f64`.
pub trait Element: Copy + Send + Sync + private::Sealed {
    /// The stored number in f64.
    fn wide(self) -> f64;
}

impl Element for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Adds the lanes in a fixed order, halving.
#[inline(always)]
fn fold(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Σ aᵢbᵢ, to be inlined into a dispatched loop.
#[inline(always)]
fn dot_lanes<E: Element>(a: &[E], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (a_body, a_tail) = a.as_chunks::<LANES>();
    let (b_body, b_tail) = b.as_chunks::<LANES>();
    for (x, z) in a_body.iter().zip(b_body) {
        for lane in 0..LANES {
            lanes[lane] = x[lane].wide().mul_add(z[lane], lanes[lane]);
        }
    }
    for (lane, (x, z)) in lanes.iter_mut().zip(a_tail.iter().zip(b_tail)) {
        *lane = x.wide().mul_add(*z, *lane);
    }
    fold(lanes)
}

/// ⟨a, b⟩.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    Arch::new().dispatch(
        #[inline(always)]
        || dot_lanes(a, b),
    )
}

/// ‖a‖₂, safe from overflow for any finite input a dictionary admits.
pub(crate) fn norm(a: &[f64]) -> f64 {
    let squares = dot(a, a);
    if squares.is_normal() {
        return squares.sqrt();
    }
    let largest = a.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    largest * a.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt()
}

/// y ← y + s·x.
pub(crate) fn axpy(s: f64, x: &[f64], y: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (y, x) in y.iter_mut().zip(x) {
                *y = x.mul_add(s, *y);
            }
        },
    );
}

/// out[j] ← ⟨column j, v⟩ over the columns of a contiguous block.
pub(crate) fn correlate<E: Element>(columns: &[E], v: &[f64], out: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (column, out) in columns.chunks_exact(v.len()).zip(out) {
                *out = dot_lanes(column, v);
            }
        },
    );
}

/// out ← out + Σⱼ coefficients[j] · column j, over the columns of a contiguous block.
pub(crate) fn accumulate<E: Element>(columns: &[E], coefficients: &[f64], out: &mut [f64]) {
    let dim = out.len();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (column, &s) in columns.chunks_exact(dim).zip(coefficients) {
                for (out, x) in out.iter_mut().zip(column) {
                    *out = x.wide().mul_add(s, *out);
                }
            }
        },
    );
}

/// Rotates the pair of vectors: (a, b) ← (c·a + s·b, c·b − s·a).
pub(crate) fn rotate(c: f64, s: f64, a: &mut [f64], b: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (c.mul_add(*a, s * *b), c.mul_add(*b, -s * *a));
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain_dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    proptest! {
        #[test]
        fn kernels_match_their_plain_twins(pairs in prop::collection::vec((-1e3..1e3, -1e3..1e3), 0..200), s in -2.0..2.0) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let scale = 1.0 + plain_dot(&a, &a).sqrt() * plain_dot(&b, &b).sqrt();
            prop_assert!((dot(&a, &b) - plain_dot(&a, &b)).abs() <= 1e-13 * scale);
            prop_assert!((norm(&a) - plain_dot(&a, &a).sqrt()).abs() <= 1e-13 * scale);
            let mut y = b.clone();
            axpy(s, &a, &mut y);
            let narrow: Vec<f32> = a.iter().map(|x| *x as f32).collect();
            let mut z = b.clone();
            if !a.is_empty() {
                accumulate(&narrow, &[s], &mut z);
            }
            for i in 0..a.len() {
                prop_assert_eq!(y[i], a[i].mul_add(s, b[i]));
                prop_assert_eq!(z[i], f64::from(narrow[i]).mul_add(s, b[i]));
            }
        }

        #[test]
        fn rotation_keeps_lengths(pairs in prop::collection::vec((-1e3..1e3, -1e3..1e3), 1..100), angle in 0.0..6.3_f64) {
            let (mut a, mut b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let before = dot(&a, &a) + dot(&b, &b);
            rotate(angle.cos(), angle.sin(), &mut a, &mut b);
            prop_assert!((dot(&a, &a) + dot(&b, &b) - before).abs() <= 1e-12 * before);
        }
    }

    #[test]
    fn norm_survives_squares_that_underflow_and_overflow() {
        assert_eq!(norm(&[3e-200, 4e-200]), 5e-200);
        assert_eq!(norm(&[3e200, 4e200]), 5e200);
        assert_eq!(norm(&[0.0, 0.0]), 0.0);
    }
}
