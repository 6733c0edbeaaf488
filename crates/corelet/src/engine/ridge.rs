//! A climb by second derivatives, for where one by gradients alone stands still: along curved ridges and up even slopes, across no dip.
//!
//! Under a hierarchical prior the spread and the standardised levels trade off along a curve, whose ends no straight way joins without a
//! fall; a climb that stops halfway along it has found no mode. Each step here goes along a straight line, as far as the gradient along it
//! says that the density rises: where it arrives is joined to where it began by a way without a dip, and a true second mode stays one.

use super::TargetError;
use crate::linalg::{dot, symmetric_eigen};

/// Steps of one climb.
const STEPS: usize = 80;
/// Steps of differences.
const STEP: f64 = 1e-3;
/// Points on the way of one step, at which its rise is integrated.
const WAY: usize = 8;
/// What a step may promise, in nats, where the climb has arrived.
const ARRIVED: f64 = 1e-3;
/// Curvature, in nats per squared standard deviation of the draws, below which a direction is as good as even: a top is then one where the
/// slope promises nothing within thirty of them.
const EVEN: f64 = 1e-3;
/// A density that rises on and on for so many standard deviations has no top there.
const FARTHEST: f64 = 1e4;
/// The first step, and the shortest, in standard deviations or in widths of the ridge where these are less.
const FIRST: f64 = 1.0;
const SHORTEST: f64 = 1e-6;

/// Where a climb leads.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Climbed {
    /// To a top, where minus the Hessian has this log determinant.
    Top(Vec<f64>, f64),
    /// The density rises on and on.
    Endless,
    /// To here, in all steps that it may take, or as far as derivatives are good for.
    Until(Vec<f64>),
}

/// Gradients at points that stand one after the other; none where nothing answers.
type Gradients<'g> = dyn FnMut(&[f64]) -> Result<Option<Vec<f64>>, TargetError> + 'g;

/// Climbs on from there.
///
/// # Errors
/// Errors of the gradients.
pub(super) fn climb(start: &[f64], gradients: &mut Gradients<'_>) -> Result<Climbed, TargetError> {
    let mut point = start.to_vec();
    let mut radius = FIRST;
    for _ in 0..STEPS {
        let Some(bend) = Bend::at(&point, gradients)? else { break };
        if bend.is_top() {
            return Ok(Climbed::Top(point, bend.log_determinant()));
        }
        loop {
            let (step, length) = bend.step(radius);
            let share = rising(&point, &bend.gradient, &step, gradients)?;
            radius = if share < 1.0 { length * share.max(0.5 / WAY as f64) } else { 2.0 * radius };
            if share > 0.0 {
                point.iter_mut().zip(&step).for_each(|(x, d)| *x += share * d);
                break;
            }
            if radius < SHORTEST {
                return Ok(Climbed::Until(point));
            }
        }
        let far = point.iter().zip(start).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if far > FARTHEST {
            return Ok(Climbed::Endless);
        }
    }
    Ok(Climbed::Until(point))
}

/// The share of this step along which the density rises throughout.
fn rising(
    from: &[f64],
    gradient: &[f64],
    step: &[f64],
    gradients: &mut Gradients<'_>,
) -> Result<f64, TargetError> {
    let shares = (1..=WAY).map(|at| at as f64 / WAY as f64);
    let points: Vec<f64> =
        shares.flat_map(|share| from.iter().zip(step).map(move |(x, d)| x + share * d)).collect();
    let Some(there) = gradients(&points)? else { return Ok(0.0) };
    let mut before = dot(gradient, step);
    let mut risen = 0;
    for slope in there.chunks_exact(step.len()).map(|gradient| dot(gradient, step)) {
        // Not a number is a fall.
        let rises = before + slope > 0.0;
        if !rises {
            break;
        }
        risen += 1;
        before = slope;
    }
    Ok(risen as f64 / WAY as f64)
}

/// Gradient and curvature at a point: in coordinates in which no diagonal entry of the curvature exceeds 1, along its own axes.
struct Bend {
    gradient: Vec<f64>,
    widths: Vec<f64>,
    /// Eigenvalues of minus the Hessian in these coordinates, ascending, and the vectors.
    curvatures: Vec<f64>,
    axes: Vec<f64>,
    /// The slope along each.
    slopes: Vec<f64>,
    /// What [`EVEN`] is along each.
    even: Vec<f64>,
}

impl Bend {
    /// By central differences; none where a gradient is not finite.
    fn at(point: &[f64], gradients: &mut Gradients<'_>) -> Result<Option<Self>, TargetError> {
        let dim = point.len();
        let mut points = point.to_vec();
        for (j, side) in (0..dim).flat_map(|j| [(j, STEP), (j, -STEP)]) {
            let begin = points.len();
            points.extend_from_slice(point);
            points[begin + j] += side;
        }
        let Some(all) = gradients(&points)? else { return Ok(None) };
        if all.iter().any(|x| !x.is_finite()) {
            return Ok(None);
        }
        let (gradient, pairs) = all.split_at(dim);
        let entry =
            |i: usize, j: usize| (pairs[(2 * j + 1) * dim + i] - pairs[2 * j * dim + i]) / (2.0 * STEP);
        let widths: Vec<f64> = (0..dim).map(|j| entry(j, j).abs().max(1.0).sqrt().recip()).collect();
        let scaled: Vec<f64> = (0..dim * dim)
            .map(|at| (at / dim, at % dim))
            .map(|(i, j)| 0.5 * (entry(i, j) + entry(j, i)) * widths[i] * widths[j])
            .collect();
        let Ok((curvatures, axes)) = symmetric_eigen(&scaled, dim) else { return Ok(None) };
        let within: Vec<f64> = gradient.iter().zip(&widths).map(|(g, w)| g * w).collect();
        let slopes = axes.chunks_exact(dim).map(|axis| dot(axis, &within)).collect();
        let squared = |axis: &[f64]| axis.iter().zip(&widths).map(|(a, w)| (a * w).powi(2)).sum::<f64>();
        let even = axes.chunks_exact(dim).map(|axis| EVEN * squared(axis)).collect();
        Ok(Some(Self { gradient: gradient.to_vec(), widths, curvatures, axes, slopes, even }))
    }

    fn is_top(&self) -> bool {
        let each = self.slopes.iter().zip(&self.curvatures).zip(&self.even);
        let promised: f64 = each.map(|((g, c), even)| 0.5 * g * g / c.max(*even)).sum();
        self.curvatures.iter().zip(&self.even).all(|(c, even)| *c > -even) && promised < ARRIVED
    }

    /// Of minus the Hessian, at a top.
    fn log_determinant(&self) -> f64 {
        let along: f64 = self.curvatures.iter().zip(&self.even).map(|(c, even)| c.max(*even).ln()).sum();
        along - 2.0 * self.widths.iter().map(|w| w.ln()).sum::<f64>()
    }

    /// The step of Newton's method where it is no longer than that, else the best one of that length; and its length.
    fn step(&self, radius: f64) -> (Vec<f64>, f64) {
        // Off a saddle, where the slope along an axis that curves upwards says nothing.
        let pushed = |((g, c), even): ((&f64, &f64), &f64)| {
            if *c < -even { g.abs().max(*even).copysign(*g) } else { *g }
        };
        let slopes: Vec<f64> = self.slopes.iter().zip(&self.curvatures).zip(&self.even).map(pushed).collect();
        let along = |damping: f64| -> Vec<f64> {
            slopes.iter().zip(&self.curvatures).map(|(g, c)| g / (c + damping)).collect()
        };
        let length = |steps: &[f64]| dot(steps, steps).sqrt();
        // Even directions are gone as far along as the radius lets them.
        let short = self.curvatures.iter().zip(&self.even).map(|(c, even)| 1e-6 * even - c);
        let mut low = short.fold(0.0, f64::max);
        let mut steps = along(low);
        if length(&steps) > radius {
            // So much is enough, since every curvature with it is more than the slope over the radius.
            let mut high = low + length(&slopes) / radius;
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                if length(&along(middle)) > radius { low = middle } else { high = middle }
            }
            steps = along(high);
        }
        let mut moved = vec![0.0; self.widths.len()];
        for (axis, along) in self.axes.chunks_exact(moved.len()).zip(&steps) {
            moved.iter_mut().zip(axis).zip(&self.widths).for_each(|((x, a), w)| *x += along * a * w);
        }
        (moved, length(&steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climbed(start: &[f64], slope: impl Fn(&[f64]) -> Vec<f64>) -> Climbed {
        let mut all = |points: &[f64]| Ok(Some(points.chunks_exact(start.len()).flat_map(&slope).collect()));
        match climb(start, &mut all) {
            Ok(climbed) => climbed,
            Err(error) => panic!("{error}"),
        }
    }

    /// Six levels x = r/t under x ~ N(0, 1) and a prior of t that falls slowly: along x·e^u = r, to the top at u = 0.
    fn levels(at: &[f64]) -> Vec<f64> {
        let spread = at[0].exp();
        let mut gradient = vec![1.0 - spread * spread];
        for (x, r) in at[1..].iter().zip([0.1, -0.2, 0.05, 0.0, -0.1, 0.15]) {
            let left = 2000.0 * (r - spread * x);
            gradient[0] += left * spread * x;
            gradient.push(left * spread - x);
        }
        gradient
    }

    #[test]
    fn ends_along_a_curved_ridge_come_to_one_top() {
        let start =
            |u: f64| [&[u][..], &[0.1, -0.2, 0.05, 0.0, -0.1, 0.15].map(|r: f64| r / u.exp())].concat();
        let tops: Vec<Climbed> = [-4.0, -2.0, 1.5].map(|u| climbed(&start(u), levels)).to_vec();
        let Climbed::Top(first, log_det) = &tops[0] else { panic!("{tops:?}") };
        for top in &tops[1..] {
            let Climbed::Top(top, same) = top else { panic!("{top:?}") };
            assert!(top.iter().zip(first).all(|(a, b)| (a - b).abs() < 0.05), "{tops:?}");
            // A mass, whose logarithm has half of this, is then good to a fifth: the determinant changes along the ridge.
            assert!((same - log_det).abs() < 0.4, "{tops:?}");
        }
    }

    /// −(x² − 1)²: the top of its own side, and off the saddle between them.
    #[test]
    fn it_crosses_no_dip() {
        let two = |x: &[f64]| vec![-4.0 * x[0] * (x[0] * x[0] - 1.0), -400.0 * x[1]];
        for (start, side) in [(0.2, 1.0), (-0.2, -1.0), (30.0, 1.0), (-30.0, -1.0), (0.0, 1.0)] {
            let Climbed::Top(top, _) = climbed(&[start, 1.0], two) else { panic!("no top from {start}") };
            assert!(
                (top[0] - side).abs() < 0.05 || start == 0.0 && (top[0].abs() - 1.0).abs() < 0.05,
                "{top:?}"
            );
        }
    }

    /// Beside a steep direction; and one that never ends.
    #[test]
    fn it_goes_to_the_end_of_an_even_slope() {
        let slope = |x: &[f64]| vec![0.02 - 0.04 / (1.0 + (-x[0] - 300.0).exp()), -1e9 * x[1]];
        let Climbed::Top(top, _) = climbed(&[0.0, 0.1], slope) else { panic!("no top") };
        assert!((top[0] + 300.0).abs() < 5.0, "{top:?}");
        assert_eq!(climbed(&[0.0, 0.1], |x| vec![0.02, -1e9 * x[1]]), Climbed::Endless);
        assert_eq!(climbed(&[0.0], |_| vec![f64::NAN]), Climbed::Until(vec![0.0]));
    }
}
