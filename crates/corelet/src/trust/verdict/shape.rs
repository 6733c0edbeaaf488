//! Have the draws the shape of the density along a direction? Stein's identity, with functions that see tails and humps.
//!
//! For draws of q ∝ p eʰ and any smooth g along a unit direction u, E_q[g′(uᵀθ) uᵀ∇log p + g″(uᵀθ)] = −E_q[g′h′], which is 0 where q = p.
//! With h = Σ aⱼgⱼ this is a linear equation for a, and Var_q h is to leading order the symmetrised KL along u: a tail that is missing,
//! a hump, a Gaussian in place of a skewed density are each so many nats, as a shift or a width is.

use crate::linalg::{Cholesky, dot, row_major};

/// Steps of g, in standard deviations from the mean, and how steep they are.
const STEPS: [f64; 4] = [-1.5, -0.5, 0.5, 1.5];
const STEEPNESS: f64 = 0.75;

/// A slope, a width, and the steps.
const FUNCTIONS: usize = 2 + STEPS.len();

/// What was found along a direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    /// The symmetrised KL less what sampling adds, in nats.
    pub(super) nats: f64,
    /// The variance of that where the draws are those of p.
    pub(super) variance: f64,
    /// Standard errors that the identities are off by, all together.
    pub(super) significance: f64,
}

/// g, g′ and g″ of each function. None grows faster than |x|, so that tails without a fourth moment do no harm.
fn functions(x: f64) -> [[f64; FUNCTIONS]; 3] {
    let (mut value, mut slope, mut bend) = ([0.0; FUNCTIONS], [0.0; FUNCTIONS], [0.0; FUNCTIONS]);
    (value[0], slope[0]) = (x, 1.0);
    let half = (0.5 * x).tanh();
    // 4 log cosh(x/2), ½x² near 0.
    let log_cosh = 0.5 * x.abs() + (-x.abs()).exp().ln_1p() - std::f64::consts::LN_2;
    (value[1], slope[1], bend[1]) = (4.0 * log_cosh, 2.0 * half, 1.0 - half * half);
    for (at, step) in STEPS.iter().enumerate() {
        let t = ((x - step) / STEEPNESS).tanh();
        let rise = 1.0 - t * t;
        (value[2 + at], slope[2 + at], bend[2 + at]) = (STEEPNESS * t, rise, -2.0 * t * rise / STEEPNESS);
    }
    [value, slope, bend]
}

impl Shape {
    /// Of draws along a direction and the scores there. So many draws are worth one. None if the draws hardly vary.
    pub(super) fn along(x: &[f64], scores: &[f64], inflation: f64) -> Option<Self> {
        let count = x.len() as f64;
        let mean = x.iter().sum::<f64>() / count;
        let sd = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
        let mut moments = Moments::default();
        for (x, score) in x.iter().zip(scores) {
            moments.add(&functions((x - mean) / sd), score * sd);
        }
        moments.shape(count, inflation)
    }
}

/// Sums over draws.
struct Moments {
    /// Σ g, Σ (g′s + g″).
    values: [f64; FUNCTIONS],
    identities: [f64; FUNCTIONS],
    /// Σ ggᵀ, Σ g′g′ᵀ, and of the identities.
    squares: [[f64; FUNCTIONS * FUNCTIONS]; 3],
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            values: [0.0; FUNCTIONS],
            identities: [0.0; FUNCTIONS],
            squares: [[0.0; FUNCTIONS * FUNCTIONS]; 3],
        }
    }
}

impl Moments {
    fn add(&mut self, [value, slope, bend]: &[[f64; FUNCTIONS]; 3], score: f64) {
        let identity: [f64; FUNCTIONS] = std::array::from_fn(|j| slope[j] * score + bend[j]);
        for (square, of) in self.squares.iter_mut().zip([value, slope, &identity]) {
            for (i, j) in (0..FUNCTIONS).flat_map(|i| (0..FUNCTIONS).map(move |j| (i, j))) {
                square[i * FUNCTIONS + j] += of[i] * of[j];
            }
        }
        self.values.iter_mut().zip(value).for_each(|(sum, x)| *sum += x);
        self.identities.iter_mut().zip(identity).for_each(|(sum, x)| *sum += x);
    }

    fn shape(&self, count: f64, inflation: f64) -> Option<Shape> {
        let means = |sums: &[f64; FUNCTIONS]| sums.map(|sum| sum / count);
        let (value, b) = (means(&self.values), means(&self.identities));
        let centred = |which: usize, mean: &[f64; FUNCTIONS]| {
            row_major(FUNCTIONS, |i, j| self.squares[which][i * FUNCTIONS + j] / count - mean[i] * mean[j])
        };
        let covariance = centred(0, &value);
        let slopes = centred(1, &[0.0; FUNCTIONS]);
        let noise: Vec<f64> = centred(2, &b).iter().map(|x| x * inflation / count).collect();
        let solver = Cholesky::new(&ridged(slopes, 1e-6), FUNCTIONS).ok()?;
        let mut a = b.map(|b| -b);
        solver.solve(&mut a);
        let inverse = solver.inverse();
        // The covariance of g times that of a: its trace is what sampling adds, that of its square half the variance.
        let errors = times(&times(&inverse, &noise), &inverse);
        let spread = times(&covariance, &errors);
        let squared = times(&spread, &spread);
        let trace = |matrix: &[f64]| matrix.iter().step_by(FUNCTIONS + 1).sum::<f64>();
        let found: f64 =
            (0..FUNCTIONS).map(|i| a[i] * dot(&covariance[i * FUNCTIONS..][..FUNCTIONS], &a)).sum();
        let mut off = b;
        Cholesky::new(&ridged(noise, 1e-12), FUNCTIONS).ok()?.solve(&mut off);
        Some(Shape {
            nats: found - trace(&spread),
            variance: 2.0 * trace(&squared),
            significance: normal_of_chi_squared(dot(&b, &off)),
        })
    }
}

/// With some more on its diagonal, so that functions which are nearly a sum of others do no harm.
fn ridged(mut matrix: Vec<f64>, share: f64) -> Vec<f64> {
    let more = share * matrix.iter().step_by(FUNCTIONS + 1).sum::<f64>() / FUNCTIONS as f64;
    matrix.iter_mut().step_by(FUNCTIONS + 1).for_each(|x| *x += more);
    matrix
}

fn times(a: &[f64], b: &[f64]) -> Vec<f64> {
    row_major(FUNCTIONS, |i, j| (0..FUNCTIONS).map(|l| a[i * FUNCTIONS + l] * b[l * FUNCTIONS + j]).sum())
}

/// The normal quantile of a χ² number with as many degrees of freedom as there are functions (Wilson and Hilferty 1931).
fn normal_of_chi_squared(x: f64) -> f64 {
    let spread = 2.0 / (9.0 * FUNCTIONS as f64);
    ((x / FUNCTIONS as f64).max(0.0).cbrt() - (1.0 - spread)) / spread.sqrt()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    #[test]
    fn derivatives_are_those_of_the_functions() {
        let step = 1e-5;
        for x in [-3.0, -0.7, 0.0, 0.4, 2.2] {
            let ([low, slope_low, _], [_, slope, bend], [high, slope_high, _]) =
                (functions(x - step), functions(x), functions(x + step));
            for j in 0..FUNCTIONS {
                assert!(((high[j] - low[j]) / (2.0 * step) - slope[j]).abs() < 1e-8, "{x} {j}");
                assert!(((slope_high[j] - slope_low[j]) / (2.0 * step) - bend[j]).abs() < 1e-8, "{x} {j}");
            }
        }
    }

    /// Draws of N(0, 1), of which those below a quantile are thinned, shifted, or as they are.
    #[test]
    fn what_is_missing_is_seen_and_what_is_right_is_not() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let plain: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(8000).collect();
        let of = |draws: Vec<f64>| {
            let draws = &draws[..2000];
            Shape::along(draws, &draws.iter().map(|x| -x).collect::<Vec<f64>>(), 1.0).unwrap()
        };
        let right = of(plain.clone());
        assert!(right.nats.abs() < 0.01 && right.significance < 3.0, "{right:?}");
        // N(0.3, 1): 0.09 nats.
        let shifted = of(plain.iter().map(|x| x + 0.3).collect());
        assert!((shifted.nats - 0.09).abs() < 0.03 && shifted.significance > 5.0, "{shifted:?}");
        let thinned = of(plain.iter().copied().filter(|&x| x > -0.84 || rng.random::<f64>() < 0.1).collect());
        assert!(thinned.nats > 0.05 && thinned.significance > 10.0, "{thinned:?}");
    }
}
