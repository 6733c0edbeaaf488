//! Counter-based random numbers: a pure function of (seed, purpose, index), so that no order of work can change them.

/// What a stream of random numbers is for; streams of one seed and different purposes are unrelated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Which columns a stochastic gradient sees.
    Batch = 1,
    /// The exponential clocks of importance sampling.
    Race = 2,
    /// Which columns a pursuit shakes out.
    Shake = 3,
}

/// The finaliser of SplitMix64: a bijection whose output bits pass as independent.
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The stream of a seed and a purpose.
pub(crate) fn stream(seed: u64, purpose: Purpose) -> u64 {
    mix(seed.wrapping_add(GOLDEN.wrapping_mul(purpose as u64)))
}

/// The number of that index in a stream, (k + ½)/2⁵² of 52 random bits k: uniform on (0, 1), never 0 nor 1. Both sums are exact,
/// and without a conversion from integers many are computed at once.
#[inline(always)]
pub(crate) fn uniform_in(stream: u64, index: usize) -> f64 {
    let bits = mix(mix(stream.wrapping_add(GOLDEN.wrapping_mul(index as u64 + 1))) ^ stream);
    (f64::from_bits(1.0_f64.to_bits() | (bits >> 12)) - 1.0) + 0.5 * f64::EPSILON
}

/// A number uniform on (0, 1), never 0 nor 1.
pub(crate) fn uniform(seed: u64, purpose: Purpose, index: usize) -> f64 {
    uniform_in(stream(seed, purpose), index)
}

/// The exponential clock of a column in a [`Race`](crate::Score::Race): what its length is divided by.
pub fn race_clock(seed: u64, id: usize) -> f64 {
    clock(uniform(seed, Purpose::Race, id))
}

/// The exponential clock of a uniform number.
pub(crate) fn clock(u: f64) -> f64 {
    -u.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_has_the_moments_of_a_uniform_and_no_memory() {
        let n = 100_000;
        for seed in [0, 1, u64::MAX] {
            let u: Vec<f64> = (0..n).map(|i| uniform(seed, Purpose::Batch, i)).collect();
            let mean = u.iter().sum::<f64>() / n as f64;
            let variance = u.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let lag = u.windows(2).map(|w| (w[0] - 0.5) * (w[1] - 0.5)).sum::<f64>() / n as f64;
            assert!((mean - 0.5).abs() < 5e-3, "mean {mean}");
            assert!((variance - 1.0 / 12.0).abs() < 2e-3, "variance {variance}");
            assert!(lag.abs() < 1.5e-3, "lag {lag}");
        }
    }

    #[test]
    fn uniform_is_half_a_step_above_52_random_bits() {
        for index in 0..1000 {
            let u = uniform(5, Purpose::Race, index);
            let scaled = u * (1_u64 << 52) as f64;
            assert!(u > 0.0 && u < 1.0 && scaled.fract() == 0.5, "{u}");
        }
        // As it has always been: coresets of a seed depend on it.
        assert_eq!(uniform(1, Purpose::Race, 2), 0.41498657646304926);
    }

    #[test]
    fn purposes_and_seeds_give_unrelated_streams() {
        let same = (0..10_000)
            .filter(|&i| (uniform(7, Purpose::Batch, i) < 0.5) == (uniform(7, Purpose::Race, i) < 0.5));
        assert!((same.count() as f64 - 5_000.0).abs() < 250.0);
    }
}
