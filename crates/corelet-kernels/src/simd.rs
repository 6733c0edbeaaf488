//! The instruction set of the kernels, the best available or another one by name; and dot products.
//!
//! A caller sees names only. How kernels are dispatched (`pulp`) is the business of the crates of this workspace: what they
//! share of it is hidden from the documentation, and no part of the interface.

use std::sync::OnceLock;

use pulp::{Arch, Simd};

/// The names, from the fastest to the one that every processor has.
pub const INSTRUCTION_SETS: [&str; 3] = ["avx512", "avx2", "portable"];

static CHOSEN: OnceLock<Arch> = OnceLock::new();

/// Why an instruction set cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// No instruction set of that name, or not on this processor.
    #[error("{name:?} is no instruction set of this processor: it must be one of {}", INSTRUCTION_SETS.join(", "))]
    Unknown {
        /// The requested instruction set.
        name: String,
    },
    /// The instruction set was chosen, or kernels ran, before.
    #[error("kernels run with {in_use} already: {name} must be chosen before any work is done")]
    InUse {
        /// The requested instruction set.
        name: String,
        /// The instruction set of the kernels.
        in_use: &'static str,
    },
}

/// Makes every kernel of this process use the instruction set of that name, instead of the best one available: to test the
/// kernels for other processors, and to get their last bits. To be called before any work is done.
///
/// # Errors
/// [`Unavailable::Unknown`] where the name is none of [`INSTRUCTION_SETS`] or the processor lacks it, and
/// [`Unavailable::InUse`] where kernels have run with another one already.
pub fn choose(name: &str) -> Result<(), Unavailable> {
    let wanted = by_name(name).ok_or_else(|| Unavailable::Unknown { name: name.to_string() })?;
    CHOSEN.get_or_init(|| wanted);
    let in_use = in_use();
    if in_use == name { Ok(()) } else { Err(Unavailable::InUse { name: name.to_string(), in_use }) }
}

/// The name of the instruction set that kernels run with.
pub fn in_use() -> &'static str {
    match instruction_set() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(_) => "avx512",
        #[cfg(target_arch = "x86_64")]
        Arch::V3(_) => "avx2",
        _ => "portable",
    }
}

/// The instruction set for every kernel of this process.
#[doc(hidden)]
#[inline]
pub fn instruction_set() -> Arch {
    *CHOSEN.get_or_init(unasked)
}

/// The best that the processor has.
#[cfg(not(feature = "simd-variable"))]
fn unasked() -> Arch {
    Arch::new()
}

/// The instruction set that `CORELET_SIMD` names, so that the tests of every crate can run with each of them; else the best.
#[cfg(feature = "simd-variable")]
fn unasked() -> Arch {
    let name = std::env::var("CORELET_SIMD").unwrap_or_default();
    let known = name.is_empty() || INSTRUCTION_SETS.contains(&name.as_str());
    assert!(known, "CORELET_SIMD is {name:?}: it must be one of {}", INSTRUCTION_SETS.join(", "));
    by_name(&name).unwrap_or_default()
}

/// The instruction set of that name; `None` where there is none, or the processor lacks it.
fn by_name(name: &str) -> Option<Arch> {
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
#[doc(hidden)]
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
#[doc(hidden)]
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
    fn what_is_in_use_may_be_chosen_again_and_nothing_else() {
        let in_use = in_use();
        choose(in_use).unwrap();
        for name in INSTRUCTION_SETS.into_iter().filter(|&name| name != in_use && by_name(name).is_some()) {
            let message = choose(name).unwrap_err().to_string();
            assert!(message.contains(in_use) && message.contains(name), "{message}");
        }
        assert!(choose("abacus").unwrap_err().to_string().contains("abacus"));
    }

    #[cfg(feature = "simd-variable")]
    #[test]
    fn the_variable_is_heeded() {
        let named = std::env::var("CORELET_SIMD").unwrap_or_default();
        if by_name(&named).is_some() {
            assert_eq!(in_use(), named);
        }
    }
}
