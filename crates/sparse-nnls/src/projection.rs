//! Taking the span of an orthonormal basis out of a vector, on all cores where the basis is large.

use rayon::prelude::*;

use crate::kernel::{accumulate, axpy, correlate};

/// Numbers in a basis from which sharing it among threads pays: it no longer fits in a cache.
const LARGE: usize = 1 << 18;

/// Vectors of the basis, and coordinates of the vector, that one worker takes.
const VECTORS: usize = 32;
const COORDINATES: usize = 256;

/// c ← Qᵀv and v ← v − Qc, for Q one column after the other. The same bits for any number of threads, and for none.
pub(crate) fn project_out(basis: &[f64], vector: &mut [f64], coefficients: &mut [f64]) {
    let dim = vector.len();
    if basis.len() < LARGE {
        correlate(basis, vector, coefficients);
        coefficients.iter_mut().for_each(|c| *c = -*c);
        accumulate(basis, coefficients, vector);
    } else {
        let blocks = basis.par_chunks(VECTORS * dim).zip(coefficients.par_chunks_mut(VECTORS));
        blocks.for_each(|(basis, coefficients)| {
            correlate(basis, vector, coefficients);
            coefficients.iter_mut().for_each(|c| *c = -*c);
        });
        vector.par_chunks_mut(COORDINATES).enumerate().for_each(|(part, out)| {
            for (q, &c) in basis.chunks_exact(dim).zip(&*coefficients) {
                axpy(c, &q[part * COORDINATES..][..out.len()], out);
            }
        });
    }
    coefficients.iter_mut().for_each(|c| *c = -*c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_or_not_the_bits_are_the_same() {
        let dim = 1000;
        let count = LARGE / dim + 40;
        let basis: Vec<f64> = (0..count * dim).map(|i| ((i * 7919) as f64 * 0.37).sin() / 30.0).collect();
        let vector: Vec<f64> = (0..dim).map(|i| (i as f64 * 0.11).cos()).collect();
        let (mut got, mut coefficients) = (vector.clone(), vec![0.0; count]);
        project_out(&basis, &mut got, &mut coefficients);

        let (mut want, mut plain) = (vector.clone(), vec![0.0; count]);
        correlate(&basis, &vector, &mut plain);
        for (q, c) in basis.chunks_exact(dim).zip(&plain) {
            axpy(-c, q, &mut want);
        }
        assert_eq!((got, coefficients), (want, plain));
    }
}
