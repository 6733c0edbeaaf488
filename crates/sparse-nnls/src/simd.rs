//! What kernels are made of: the instruction set they run with, the best at hand or a lesser one by name, and dot products.

use std::sync::OnceLock;

use pulp::{Arch, Simd};

/// The environment variable that names one of [`INSTRUCTION_SETS`].
pub const VARIABLE: &str = "CORELET_SIMD";

/// The names, from the fastest to the one that every processor has.
pub const INSTRUCTION_SETS: [&str; 3] = ["avx512", "avx2", "portable"];

/// The instruction set for every kernel of this process: what `CORELET_SIMD` names, where the processor has it, else
/// the best. A lesser one serves to test the kernels for other processors, and to get their last bits.
#[inline]
pub fn instruction_set() -> Arch {
    static CHOSEN: OnceLock<Arch> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let named = std::env::var(VARIABLE).ok();
        named.and_then(|name| by_name(&name)).unwrap_or_default()
    })
}

/// The instruction set of that name; `None` where there is none, or the processor lacks it.
pub fn by_name(name: &str) -> Option<Arch> {
    match name {
        "portable" => Some(Arch::Scalar),
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map(Arch::V3),
        #[cfg(target_arch = "x86_64")]
        "avx512" => pulp::x86::V4::try_new().map(Arch::V4),
        _ => None,
    }
}

/// Σ aᵢbᵢ over four registers of accumulators.
#[inline(always)]
pub fn dot_f64<S: Simd>(simd: S, a: &[f64], b: &[f64]) -> f64 {
    let ((a_body, a_tail), (b_body, b_tail)) = (S::as_simd_f64s(a), S::as_simd_f64s(b));
    let ((a_quads, a_rest), (b_quads, b_rest)) = (a_body.as_chunks::<4>(), b_body.as_chunks::<4>());
    let zero = simd.splat_f64s(0.0);
    let (mut p, mut q, mut r, mut s) = (zero, zero, zero, zero);
    for (x, y) in a_quads.iter().zip(b_quads) {
        p = simd.mul_add_e_f64s(x[0], y[0], p);
        q = simd.mul_add_e_f64s(x[1], y[1], q);
        r = simd.mul_add_e_f64s(x[2], y[2], r);
        s = simd.mul_add_e_f64s(x[3], y[3], s);
    }
    for (x, y) in a_rest.iter().zip(b_rest) {
        p = simd.mul_add_e_f64s(*x, *y, p);
    }
    q = simd.mul_add_e_f64s(simd.partial_load_f64s(a_tail), simd.partial_load_f64s(b_tail), q);
    simd.reduce_sum_f64s(simd.add_f64s(simd.add_f64s(p, q), simd.add_f64s(r, s)))
}

/// [`dot_f64`] in f32.
#[inline(always)]
pub fn dot_f32<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let ((a_body, a_tail), (b_body, b_tail)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    let ((a_quads, a_rest), (b_quads, b_rest)) = (a_body.as_chunks::<4>(), b_body.as_chunks::<4>());
    let zero = simd.splat_f32s(0.0);
    let (mut p, mut q, mut r, mut s) = (zero, zero, zero, zero);
    for (x, y) in a_quads.iter().zip(b_quads) {
        p = simd.mul_add_e_f32s(x[0], y[0], p);
        q = simd.mul_add_e_f32s(x[1], y[1], q);
        r = simd.mul_add_e_f32s(x[2], y[2], r);
        s = simd.mul_add_e_f32s(x[3], y[3], s);
    }
    for (x, y) in a_rest.iter().zip(b_rest) {
        p = simd.mul_add_e_f32s(*x, *y, p);
    }
    q = simd.mul_add_e_f32s(simd.partial_load_f32s(a_tail), simd.partial_load_f32s(b_tail), q);
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(p, q), simd.add_f32s(r, s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_heeded() {
        let named = std::env::var(VARIABLE).ok().and_then(|name| by_name(&name));
        assert_eq!(format!("{:?}", instruction_set()), format!("{:?}", named.unwrap_or_default()));
        assert!(by_name("portable").is_some() && by_name("abacus").is_none());
    }
}
