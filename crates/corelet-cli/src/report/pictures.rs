//! The pictures of a coreset's report: its path, marginal posteriors, ellipses, and weights against leverage.

use corelet::posterior::Gaussian;
use corelet::review::Checked;
use corelet::study::Leverages;
use rayon::prelude::*;

use crate::figure::{
    Axis, Curve, Dash, Dots, Drawing, Grid, Mark, Panel, Style, ellipse, ink, radii_by_area, style_of,
};
use crate::page::{Key, Picture};
use crate::percentile::percentile;

/// Pixels of a picture that has a line of the page to itself: its letters can be read where the page is 400 wide.
const WIDE: (f64, f64) = (460.0, 300.0);

/// Points of a density curve.
const POINTS: usize = 161;
/// Divergences below this are drawn at it.
const FLOOR: f64 = 1e-14;

const FULL: Style = Style::line("#8C8C8C", Dash::Solid, 3.0);
const REWEIGHTED: Style = Style::line("#D55E00", Dash::Dotted, 2.2);

fn own_style() -> Style {
    Style { dash: Dash::Long, ..style_of("pursuit") }
}

/// Divergence in nats against the number of points, a curve for each estimate, with one point picked out.
pub(crate) fn path(
    curves: &[(&str, Vec<(f64, f64)>)],
    chosen: Option<(f64, f64)>,
) -> anyhow::Result<Drawing> {
    let styles = [own_style(), REWEIGHTED, FULL];
    let mut marks: Vec<Mark> = curves
        .iter()
        .zip(styles)
        .map(|((label, points), style)| Mark::Curve(Curve::line(points.clone(), style, *label)))
        .collect();
    if let Some(point) = chosen {
        marks.push(Mark::Dots(Dots { points: vec![point], radii: vec![5.0], colour: ink(), opacity: 1.0 }));
    }
    let panel = Panel {
        title: String::new(),
        x: Axis::linear("points"),
        y: Axis::log("nats").with_floor(FLOOR),
        marks,
        equal_aspect: false,
    };
    Grid { columns: 1, cell: WIDE, panels: vec![panel] }.draw()
}

/// Draws of the coreset's posterior, row-major, and weights that turn them into draws of the full one.
pub(crate) struct Sampled {
    pub(crate) theta: Vec<f64>,
    pub(crate) weights: Option<Vec<f64>>,
}

/// The posteriors whose marginals are compared.
pub(crate) struct Marginals<'a> {
    pub(crate) names: &'a [String],
    pub(crate) full: &'a Gaussian,
    pub(crate) own: &'a Gaussian,
    pub(crate) reference: &'a str,
    pub(crate) sampled: Option<&'a Sampled>,
}

impl Marginals<'_> {
    /// One picture for each of these parameters, without a legend of its own.
    pub(crate) fn densities(&self, parameters: &[usize]) -> anyhow::Result<Vec<Picture>> {
        let picture = |&j: &usize| {
            let mut panel = self.panel(j);
            for mark in &mut panel.marks {
                if let Mark::Curve(curve) = mark {
                    curve.label.clear();
                }
            }
            let drawing = Grid { columns: 1, cell: (300.0, 210.0), panels: vec![panel] }.draw()?;
            Ok(Picture { svg: drawing.svg, name: format!("Marginal posterior of {}", self.names[j]) })
        };
        parameters.iter().map(picture).collect()
    }

    /// What the lines of these pictures mean.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let key = |style: Style, label: &str| Key {
            colour: style.colour.to_owned(),
            dash: style.dash.array().unwrap_or_default().to_owned(),
            label: label.to_owned(),
        };
        let mut keys = vec![key(FULL, self.reference)];
        keys.push(key(own_style(), if self.sampled.is_some() { "coreset, sampled" } else { "coreset" }));
        if self.sampled.is_some_and(|sampled| sampled.weights.is_some()) {
            keys.push(key(REWEIGHTED, "reweighted"));
        }
        keys
    }

    fn panel(&self, j: usize) -> Panel {
        let mut marks = vec![curve(normal_density(self.full, j), FULL, self.reference)];
        match self.sampled {
            None => marks.push(curve(normal_density(self.own, j), own_style(), "coreset")),
            Some(Sampled { theta, weights }) => {
                let draws: Vec<f64> = theta.chunks_exact(self.full.dim()).map(|theta| theta[j]).collect();
                let same = vec![1.0; draws.len()];
                marks.push(curve(kernel_density(&draws, &same), own_style(), "coreset, sampled"));
                if let Some(weights) = weights {
                    marks.push(curve(kernel_density(&draws, weights), REWEIGHTED, "reweighted"));
                }
            }
        }
        Panel {
            title: self.names[j].clone(),
            x: Axis::linear(""),
            y: Axis::linear(""),
            marks,
            equal_aspect: false,
        }
    }

    /// Two standard deviations around both means, in the plane of two parameters.
    pub(crate) fn ellipses(&self, first: usize, second: usize) -> anyhow::Result<Drawing> {
        let outline = |gaussian: &Gaussian| {
            let (dim, c) = (gaussian.dim(), &gaussian.covariance);
            let part = [c[first * dim + first], c[second * dim + first], c[second * dim + second]];
            ellipse([gaussian.mean[first], gaussian.mean[second]], part, 2.0)
        };
        let panel = Panel {
            title: String::new(),
            x: Axis::linear(&self.names[first]),
            y: Axis::linear(&self.names[second]),
            marks: vec![
                curve(outline(self.full), FULL, self.reference),
                curve(outline(self.own), own_style(), "coreset"),
            ],
            equal_aspect: false,
        };
        Grid { columns: 1, cell: WIDE, panels: vec![panel] }.draw()
    }
}

/// Outcomes against those that the model predicts, and how to read it: the histogram of their places among drawn outcomes, or of
/// classes observed shares against predicted ones; none where neither is known.
pub(crate) fn outcomes(checked: &Checked) -> anyhow::Result<Option<(Drawing, String)>> {
    let band = Style::line("#8C8C8C", Dash::Short, 1.6);
    let (x, y, marks, words) = if !checked.pit.is_empty() && checked.rows > 0 {
        let bins = checked.pit.len() as f64;
        let level = checked.rows as f64 / bins;
        // Two standard deviations of a bin's rows, were the model right.
        let error = 2.0 * ((bins - 1.0) / bins / level).sqrt();
        let steps = checked.pit.iter().enumerate().flat_map(|(at, &rows)| {
            let height = rows as f64 / level;
            [(at as f64 / bins, height), ((at + 1) as f64 / bins, height)]
        });
        let flat = |height: f64, label: &str| curve(vec![(0.0, height), (1.0, height)], band, label);
        let marks = vec![
            flat(1.0 + error, "95 % of bins, were the model right"),
            flat((1.0 - error).max(0.0), ""),
            curve(steps.collect(), style_of("pursuit"), "rows"),
        ];
        let words = "Histogram of the predictive quantile of each outcome (the probability integral transform, PIT), relative to a uniform \
                     distribution. Higher at both ends: outcomes vary more than the model predicts; higher in the middle: less; a slope: \
                     the means are wrong.";
        ("predictive quantile of the outcome", "rows, relative to uniform", marks, words)
    } else if !checked.calibration.is_empty() {
        let bins = &checked.calibration;
        let of =
            |shift: f64| bins.iter().map(|bin| (bin.predicted, bin.observed + shift * bin.error)).collect();
        let mut observed = Curve::line(of(0.0), own_style(), "observed");
        observed.markers = true;
        let marks = vec![
            curve(vec![(0.0, 0.0), (1.0, 1.0)], FULL, "calibrated"),
            curve(of(2.0), band, "two standard errors"),
            curve(of(-2.0), band, ""),
            Mark::Curve(observed),
        ];
        let words = "Observed shares against predicted probabilities, in bins of 10 %. Predictions on the line are calibrated.";
        ("predicted probability", "observed share", marks, words)
    } else {
        return Ok(None);
    };
    let (title, x, y) = (String::new(), Axis::linear(x), Axis::linear(y));
    let panel = Panel { title, x, y, marks, equal_aspect: false };
    let drawing = Grid { columns: 1, cell: WIDE, panels: vec![panel] }.draw()?;
    Ok(Some((drawing, words.to_owned())))
}

fn curve(points: Vec<(f64, f64)>, style: Style, label: &str) -> Mark {
    Mark::Curve(Curve::line(points, style, label))
}

/// The density of coordinate `j` over four standard deviations to each side.
fn normal_density(gaussian: &Gaussian, j: usize) -> Vec<(f64, f64)> {
    let (mean, sd) = (gaussian.mean[j], gaussian.covariance[j * gaussian.dim() + j].sqrt());
    let height = 1.0 / (sd * std::f64::consts::TAU.sqrt());
    let at = |i: usize| 8.0 * i as f64 / (POINTS - 1) as f64 - 4.0;
    (0..POINTS).map(at).map(|z| (mean + sd * z, height * (-0.5 * z * z).exp())).collect()
}

/// A Gaussian kernel estimate with Silverman's width, of weighted draws.
fn kernel_density(draws: &[f64], weights: &[f64]) -> Vec<(f64, f64)> {
    let total: f64 = weights.iter().sum();
    let mean = draws.iter().zip(weights).map(|(x, w)| w * x).sum::<f64>() / total;
    let variance = draws.iter().zip(weights).map(|(x, w)| w * (x - mean).powi(2)).sum::<f64>() / total;
    let effective = total * total / weights.iter().map(|w| w * w).sum::<f64>();
    let (sd, width) = (variance.sqrt(), 0.9 * variance.sqrt() * effective.powf(-0.2));
    if !(width > 0.0 && width.is_finite()) {
        return Vec::new();
    }
    let height = 1.0 / (total * width * std::f64::consts::TAU.sqrt());
    let at = |i: usize| mean + sd * (9.0 * i as f64 / (POINTS - 1) as f64 - 4.5);
    let density = |x: f64| {
        let kernel = |(draw, w): (&f64, &f64)| w * (-0.5 * ((x - draw) / width).powi(2)).exp();
        height * draws.iter().zip(weights).map(kernel).sum::<f64>()
    };
    (0..POINTS).into_par_iter().map(at).map(|x| (x, density(x))).collect()
}

/// Weight against leverage of the chosen rows.
pub(crate) fn leverages(leverages: Leverages, weights: &[f64]) -> anyhow::Result<Drawing> {
    let Leverages { chosen, sample } = leverages;
    let top = weights.iter().copied().fold(0.0, f64::max);
    let bottom = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let line = |p: f64, style: Style, label: &str| {
        let x = percentile(&sample, p)?;
        Some(curve(vec![(x, bottom), (x, top)], style, label))
    };
    let dots = Dots {
        points: chosen.into_iter().zip(weights.iter().copied()).collect(),
        radii: radii_by_area(weights, top, 7.0),
        colour: style_of("pursuit").colour,
        opacity: 0.65,
    };
    let lines = [
        line(50.0, Style::line("#8C8C8C", Dash::Short, 1.4), "median of all rows"),
        line(99.0, Style::line("#8C8C8C", Dash::Dotted, 1.4), "99th percentile"),
    ];
    let panel = Panel {
        title: String::new(),
        x: Axis::log("leverage").with_floor(1e-300),
        y: Axis::log("weight"),
        marks: lines.into_iter().flatten().chain([Mark::Dots(dots)]).collect(),
        equal_aspect: false,
    };
    Grid { columns: 1, cell: WIDE, panels: vec![panel] }.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(points: &[(f64, f64)]) -> f64 {
        points.windows(2).map(|pair| 0.5 * (pair[0].1 + pair[1].1) * (pair[1].0 - pair[0].0)).sum()
    }

    #[test]
    fn densities_have_area_one() {
        let gaussian = Gaussian::from_precision(vec![1.0, 2.0], vec![4.0, 0.0, 0.0, 0.25]).unwrap();
        assert!((area(&normal_density(&gaussian, 1)) - 1.0).abs() < 1e-3);
        let draws: Vec<f64> = (0..500).map(|i| (f64::from(i) * 0.618).fract() * 3.0).collect();
        let weights: Vec<f64> = draws.iter().map(|x| 0.2 + x).collect();
        assert!((area(&kernel_density(&draws, &weights)) - 1.0).abs() < 1e-2);
        assert!(kernel_density(&[1.0, 1.0], &[1.0, 1.0]).is_empty());
    }
}
