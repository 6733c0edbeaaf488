//! Loops compiled for every instruction set.

use pulp::{Simd, WithSimd};

use crate::simd::instruction_set;

/// A computation compiled once for every instruction set, and run with the best one available.
pub trait Kernel {
    /// The result.
    type Output;

    /// The computation. An implementation must be `#[inline(always)]`, or it is compiled for the oldest processor.
    fn run<const FMA: bool>(self) -> Self::Output;
}

struct Dispatched<K>(K);

impl<K: Kernel> WithSimd for Dispatched<K> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> K::Output {
        if S::IS_SCALAR { self.0.run::<false>() } else { self.0.run::<true>() }
    }
}

/// Runs `kernel` with the best instruction set of this processor.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    instruction_set().dispatch(Dispatched(kernel))
}
