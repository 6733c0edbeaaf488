//! Gaussian fits of a density whose gradient is known: Newton steps with curvatures by differences, or by scores of groups.

use crate::linalg::{Cholesky, LinalgError, dot, row_major};
use crate::posterior::Gaussian;

/// The step of the differences, on standardised parameters.
const STEP: f64 = 1e-4;
/// Steps, at most.
const STEPS: usize = 60;

/// −∇² of what has this gradient, by central differences, row-major and symmetric. `gradient` adds to what it is handed.
pub(super) fn negative_hessian(theta: &[f64], gradient: &mut dyn FnMut(&[f64], &mut [f64])) -> Vec<f64> {
    let dim = theta.len();
    let mut at = theta.to_vec();
    let mut lines = vec![0.0; dim * dim];
    for (j, line) in lines.chunks_exact_mut(dim.max(1)).enumerate() {
        let (mut above, mut below) = (vec![0.0; dim], vec![0.0; dim]);
        at[j] = theta[j] + STEP;
        gradient(&at, &mut above);
        at[j] = theta[j] - STEP;
        gradient(&at, &mut below);
        at[j] = theta[j];
        line.iter_mut().zip(below.iter().zip(&above)).for_each(|(out, (b, a))| *out = (b - a) / (2.0 * STEP));
    }
    row_major(dim, |i, j| 0.5 * (lines[i * dim + j] + lines[j * dim + i]))
}

/// A density to climb.
pub(super) trait Hill {
    /// log p(θ) and its gradient.
    fn at(&self, theta: &[f64]) -> (f64, Vec<f64>);

    /// −∇² log p(θ), or what stands for it.
    fn precision(&self, theta: &[f64]) -> Vec<f64>;

    /// Parameters that stay where they are: a density of effects and their standard deviation has no mode in both.
    fn held(&self) -> &[usize] {
        &[]
    }
}

/// The same with the held parameters apart from all others.
fn without(held: &[usize], (mut precision, mut gradient): (Vec<f64>, Vec<f64>)) -> (Vec<f64>, Vec<f64>) {
    let dim = gradient.len();
    for &at in held {
        gradient[at] = 0.0;
        for j in 0..dim {
            precision[at * dim + j] = f64::from(u8::from(at == j));
            precision[j * dim + at] = f64::from(u8::from(at == j));
        }
    }
    (precision, gradient)
}

/// The covariance about a place given the held parameters, row-major.
pub(super) fn covariance_given(hill: &dyn Hill, theta: &[f64]) -> Result<Vec<f64>, LinalgError> {
    let (precision, _) = without(hill.held(), (hill.precision(theta), vec![0.0; theta.len()]));
    Ok(Gaussian::from_precision(theta.to_vec(), lifted(&precision, theta.len())?)?.covariance)
}

/// The Gaussian fit about the mode, to which `theta` is so many standard deviations near at the end.
pub(super) fn climb(hill: &dyn Hill, start: &[f64], near: f64) -> Result<Gaussian, LinalgError> {
    let dim = start.len();
    let mut theta = start.to_vec();
    let (mut value, mut gradient) = hill.at(&theta);
    for _ in 0..STEPS {
        let (precision, slope) = without(hill.held(), (hill.precision(&theta), gradient.clone()));
        let (step, norm) = newton_step(&precision, &slope)?;
        let mut length = 1.0;
        let mut moved = false;
        // What rounding may do to the log posterior.
        let noise = 1e-11 * (1.0 + value.abs());
        while length > 1e-6 {
            let there: Vec<f64> = theta.iter().zip(&step).map(|(t, s)| t + length * s).collect();
            let (next, slope) = hill.at(&there);
            let finite = next.is_finite() && slope.iter().all(|x| x.is_finite());
            if finite && next >= value - noise {
                (theta, value, gradient, moved) = (there, next, slope, true);
                break;
            }
            length *= 0.5;
        }
        if !moved || (length == 1.0 && norm <= near) {
            break;
        }
    }
    let precision = lifted(&hill.precision(&theta), dim)?;
    Gaussian::from_precision(theta, precision)
}

/// P with as much of its diagonal added as makes it positive definite.
fn lifted(precision: &[f64], dim: usize) -> Result<Vec<f64>, LinalgError> {
    let mut damping = 0.0;
    loop {
        let damped = row_major(dim, |i, j| {
            let entry = precision[i * dim + j];
            if i == j { entry + damping * entry.abs().max(1e-3) } else { entry }
        });
        match Cholesky::new(&damped, dim) {
            Ok(_) => return Ok(damped),
            Err(error) if damping > 1e12 => return Err(error),
            Err(_) => damping = if damping == 0.0 { 1e-3 } else { 10.0 * damping },
        }
    }
}

/// P⁻¹g and √(gᵀP⁻¹g), of at most 3 in any parameter: log sds and correlations saturate.
fn newton_step(precision: &[f64], gradient: &[f64]) -> Result<(Vec<f64>, f64), LinalgError> {
    let dim = gradient.len();
    let cholesky = Cholesky::new(&lifted(precision, dim)?, dim)?;
    let mut step = gradient.to_vec();
    cholesky.solve(&mut step);
    let norm = dot(&step, gradient).max(0.0).sqrt();
    let longest = step.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    if longest > 3.0 {
        step.iter_mut().for_each(|x| *x *= 3.0 / longest);
    }
    Ok((step, norm))
}
