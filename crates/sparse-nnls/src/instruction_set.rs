//! The instruction set that the kernels run with: the best at hand, or a lesser one by name.

use std::sync::OnceLock;

use pulp::Arch;

/// The environment variable that names one of [`INSTRUCTION_SETS`].
pub const SIMD_VARIABLE: &str = "CORELET_SIMD";

/// The names, from the fastest to the one that every processor has.
pub const INSTRUCTION_SETS: [&str; 3] = ["avx512", "avx2", "portable"];

/// The instruction set for every kernel of this process: what `CORELET_SIMD` names, where the processor has it, else
/// the best. A lesser one serves to test the kernels for other processors, and to get their last bits.
#[inline]
pub fn instruction_set() -> Arch {
    static CHOSEN: OnceLock<Arch> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let named = std::env::var(SIMD_VARIABLE).ok();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_heeded() {
        let named = std::env::var(SIMD_VARIABLE).ok().and_then(|name| by_name(&name));
        assert_eq!(format!("{:?}", instruction_set()), format!("{:?}", named.unwrap_or_default()));
        assert!(by_name("portable").is_some() && by_name("abacus").is_none());
    }
}
