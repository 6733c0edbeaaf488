//! Climbing to a mode: limited-memory BFGS (Nocedal and Wright, Numerical Optimization, 2006, algorithm 7.4) with backtracking.

use crate::linalg::dot;

/// Pairs of steps and changes of the gradient that are remembered.
const MEMORY: usize = 10;
/// Share of the promised rise that a step must bring.
const SUFFICIENT: f64 = 1e-4;
/// Halvings of one step at most.
const HALVINGS: usize = 40;

/// Where a climb ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summit {
    pub(super) point: Vec<f64>,
    pub(super) value: f64,
    /// Whether the last step rose by less than the tolerance.
    pub(super) converged: bool,
}

/// Climbs from `start` in at most so many steps, until a step rises by less than `tolerance`. None if the function is not finite at
/// the start.
///
/// # Errors
/// Errors of the function.
pub(super) fn climb<E>(
    start: &[f64],
    steps: usize,
    tolerance: f64,
    mut slope: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>), E>,
) -> Result<Option<Summit>, E> {
    let finite = |value: f64, gradient: &[f64]| value.is_finite() && gradient.iter().all(|x| x.is_finite());
    let (mut value, mut gradient) = slope(start)?;
    if !finite(value, &gradient) {
        return Ok(None);
    }
    let mut point = start.to_vec();
    let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    for _ in 0..steps {
        let mut direction = uphill(&gradient, &pairs);
        let mut promised = dot(&direction, &gradient);
        if promised <= 0.0 || !promised.is_finite() {
            pairs.clear();
            direction.clone_from(&gradient);
            promised = dot(&direction, &gradient);
        }
        // Nothing is known of the scale at first: a step of length 1 at most.
        let mut length = if pairs.is_empty() { 1.0_f64.min(promised.sqrt().recip()) } else { 1.0 };
        let mut found = None;
        for _ in 0..HALVINGS {
            let next: Vec<f64> = point.iter().zip(&direction).map(|(x, d)| x + length * d).collect();
            let (there, slope_there) = slope(&next)?;
            if finite(there, &slope_there) && there >= value + SUFFICIENT * length * promised {
                found = Some((next, there, slope_there));
                break;
            }
            length *= 0.5;
        }
        let Some((next, there, slope_there)) = found else {
            return Ok(Some(Summit { point, value, converged: true }));
        };
        let step: Vec<f64> = next.iter().zip(&point).map(|(a, b)| a - b).collect();
        let change: Vec<f64> =
            gradient.iter().zip(&slope_there).map(|(before, after)| before - after).collect();
        if dot(&step, &change) > 1e-12 * dot(&change, &change).sqrt() * dot(&step, &step).sqrt() {
            pairs.push((step, change));
            if pairs.len() > MEMORY {
                pairs.remove(0);
            }
        }
        let rose = there - value;
        (point, value, gradient) = (next, there, slope_there);
        if rose < tolerance {
            return Ok(Some(Summit { point, value, converged: true }));
        }
    }
    Ok(Some(Summit { point, value, converged: false }))
}

/// The gradient times the inverse of the curvature that the last steps have seen.
pub(in super::super) fn uphill(gradient: &[f64], pairs: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let mut q = gradient.to_vec();
    let mut shares = Vec::with_capacity(pairs.len());
    for (step, change) in pairs.iter().rev() {
        let share = dot(step, &q) / dot(step, change);
        q.iter_mut().zip(change).for_each(|(q, y)| *q -= share * y);
        shares.push(share);
    }
    if let Some((step, change)) = pairs.last() {
        let scale = dot(step, change) / dot(change, change);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((step, change), share) in pairs.iter().zip(shares.into_iter().rev()) {
        let back = dot(change, &q) / dot(step, change);
        q.iter_mut().zip(step).for_each(|(q, s)| *q += (share - back) * s);
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn rosenbrock(x: &[f64]) -> Result<(f64, Vec<f64>), Infallible> {
        let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
        Ok((-a * a - 100.0 * b * b, vec![2.0 * a + 400.0 * x[0] * b, -200.0 * b]))
    }

    #[test]
    fn it_reaches_the_top_of_a_curved_ridge() {
        let Ok(Some(top)) = climb(&[-1.2, 1.0], 200, 1e-14, rosenbrock) else { panic!("no summit") };
        assert!(
            top.converged && (top.point[0] - 1.0).abs() < 1e-5 && (top.point[1] - 1.0).abs() < 1e-5,
            "{top:?}"
        );
    }

    #[test]
    fn it_says_where_it_did_not_arrive_and_where_it_cannot_begin() {
        let Ok(Some(top)) = climb(&[-1.2, 1.0], 3, 1e-14, rosenbrock) else { panic!("no summit") };
        assert!(!top.converged);
        let nowhere = climb(&[0.0], 3, 1e-9, |_| Ok::<_, Infallible>((f64::NEG_INFINITY, vec![0.0])));
        assert_eq!(nowhere, Ok(None));
    }

    /// A step into a region where the function has no value is shortened.
    #[test]
    fn it_stays_where_the_function_is_finite() {
        let log = |x: &[f64]| Ok::<_, Infallible>((x[0].ln() - x[0], vec![1.0 / x[0] - 1.0]));
        let Ok(Some(top)) = climb(&[30.0], 100, 1e-13, log) else { panic!("no summit") };
        assert!((top.point[0] - 1.0).abs() < 1e-5, "{top:?}");
    }
}
