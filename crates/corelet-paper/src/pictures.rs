//! Figures of single trials: convergence, coresets in the plane, and posteriors on the map.

use std::sync::Arc;

use corelet::linalg::{dot, leading_eigenvectors, multiply};
use corelet::model::{Model, RbfMap};
use corelet::posterior::Gaussian;
use corelet::rows::Weighted;
use corelet_cli::figure::{
    Axis, Contours, Curve, Dash, Dots, Grid, Mark, Panel, Style, ellipse, ink, radii_by_area, style_of,
};

use crate::args::Experiment;
use crate::cell::{Cell, Metric};
use crate::curves::Figure;
use crate::problem::Problem;
use crate::series::{Series, Space};
use crate::study::{Study, ordered};

/// Points of the map's grid along each side.
const MAP_POINTS: usize = 60;
/// How many lines of equal height a map has.
const MAP_LEVELS: usize = 9;

/// The pictures that an experiment has.
pub(crate) fn figures(study: &Study) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if study.experiment == Experiment::Gaussian {
        figures.extend(convergence(study));
        figures.extend(projections(study)?);
    }
    if study.experiment == Experiment::Rbf {
        figures.extend(maps(study)?);
    }
    Ok(figures)
}

/// ‖y − Φw‖² by iteration for the methods that iterate, and the final value of the others, in the first trial.
fn convergence(study: &Study) -> Option<Figure> {
    let k = study.plan.keep.trace?;
    let groups = study.groups();
    let data = study.sets(&groups).first()?.set.name;
    let mut marks = Vec::new();
    let mut longest = 0;
    let squares = |cell: &Cell| cell.trace.iter().map(|r| r * r).collect::<Vec<f64>>();
    let first = |series: &Series| {
        groups.cells(data, series.name(), k).iter().copied().find(|cell| cell.key.trial == 0)
    };
    for series in ordered(&groups, data) {
        let Some(cell) = first(series).filter(|cell| !cell.trace.is_empty()) else { continue };
        let points: Vec<(f64, f64)> =
            squares(cell).into_iter().enumerate().map(|(i, f)| ((i + 1) as f64, f)).collect();
        longest = longest.max(points.len());
        marks.push(Mark::Curve(Curve {
            markers: true,
            ..Curve::line(points, style_of(series.name()), series.label())
        }));
    }
    for series in ordered(&groups, data) {
        // In another embedding the residual is another quantity.
        let Some(cell) = first(series).filter(|cell| cell.trace.is_empty() && series.space() == Space::Paper)
        else {
            continue;
        };
        let f = cell.get(Metric::Residual)?.powi(2);
        let points = vec![(1.0, f), (longest.max(2) as f64, f)];
        marks.push(Mark::Curve(Curve::line(points, style_of(series.name()), series.label())));
    }
    let panel = Panel {
        title: String::new(),
        x: Axis::linear("iteration").with_limits(0.0, 1.02 * longest.max(1) as f64),
        y: Axis::log("‖y − Φw‖²").with_floor(1e-20),
        marks,
        equal_aspect: false,
    };
    let caption = format!(
        "‖y − Φw‖² by iteration of A-IHT and A-IHT II at k = {k} in the first trial; for the other methods the value of \
         their final result, as a level line. Values below 10⁻²⁰ are drawn there."
    );
    let grid = Grid { columns: 1, cell: (560.0, 380.0), panels: vec![panel] };
    Some(Figure { name: "gaussian-convergence".to_owned(), caption, grid })
}

/// The coresets of A-IHT II and of pursuit in a plane, with 2σ ellipses of the posterior and of the coreset's.
fn projections(study: &Study) -> anyhow::Result<Vec<Figure>> {
    let Some(problem) = first_problem(study)? else { return Ok(Vec::new()) };
    let plane = Plane::new(&problem)?;
    let mut panels = Vec::new();
    for method in ["a-iht-2", "pursuit"] {
        for view in [View::Whole, View::Close] {
            for cell in kept(study, method) {
                panels.push(projection(&problem, &plane, cell, view)?);
            }
        }
    }
    let columns = study.plan.keep.sizes.len();
    let caption = "Coreset points in the plane of the two leading principal components of the data, their areas as their \
                   weights, and the 2σ ellipses of the posterior of all data and of the coreset's, in the first trial; \
                   below each the ellipses close up, for they are small among the data. Grey: the rows that were not chosen."
        .to_owned();
    let grid = Grid { columns, cell: (260.0, 240.0), panels };
    let figure = Figure { name: "gaussian-projections".to_owned(), caption, grid };
    Ok(if figure.grid.panels.is_empty() { Vec::new() } else { vec![figure] })
}

/// What of the plane a panel shows: all rows, or what is around the ellipses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Whole,
    Close,
}

/// The rectangle around some points, with a margin.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn around(points: &[(f64, f64)]) -> Self {
        let span = |value: fn(&(f64, f64)) -> f64| {
            let ends = |(low, high): (f64, f64), x: f64| (low.min(x), high.max(x));
            let (low, high) = points.iter().map(value).fold((f64::INFINITY, f64::NEG_INFINITY), ends);
            let margin = 0.08 * (high - low);
            (low - margin, high + margin)
        };
        Self { x: span(|point| point.0), y: span(|point| point.1) }
    }

    fn holds(&self, point: (f64, f64)) -> bool {
        (self.x.0..=self.x.1).contains(&point.0) && (self.y.0..=self.y.1).contains(&point.1)
    }
}

/// Two orthonormal directions, and the rows in their plane.
struct Plane {
    axes: Vec<f64>,
    dim: usize,
    rows: Vec<(f64, f64)>,
}

impl Plane {
    fn new(problem: &Problem) -> anyhow::Result<Self> {
        let model = problem.model().gaussian_mean();
        let observations =
            model.ok_or_else(|| anyhow::anyhow!("the plane is for Gaussian data"))?.observations();
        let (n, dim) = (observations.len(), observations.dim);
        let features: Vec<f64> = observations.features.iter().copied().map(f64::from).collect();
        let mut mean = vec![0.0; dim];
        features.chunks_exact(dim).for_each(|x| add(&mut mean, x, 1.0 / n as f64));
        let mut scatter = vec![0.0; dim * dim];
        for x in features.chunks_exact(dim) {
            let centred: Vec<f64> = x.iter().zip(&mean).map(|(x, m)| x - m).collect();
            scatter.chunks_exact_mut(dim).zip(&centred).for_each(|(row, c)| add(row, &centred, *c));
        }
        let axes = leading_eigenvectors(&scatter, dim, 2)?;
        let mut plane = Self { axes, dim, rows: Vec::new() };
        plane.rows = features.chunks_exact(dim).map(|x| plane.project(x)).collect();
        Ok(plane)
    }

    fn project(&self, x: &[f64]) -> (f64, f64) {
        (dot(&self.axes[..self.dim], x), dot(&self.axes[self.dim..], x))
    }

    /// The outline of two standard deviations of a Gaussian, seen in the plane.
    fn outline(&self, gaussian: &Gaussian) -> Vec<(f64, f64)> {
        let (first, second) = self.axes.split_at(self.dim);
        let mut image = vec![0.0; self.dim];
        multiply(&gaussian.covariance, first, &mut image);
        let (xx, xy) = (dot(first, &image), dot(second, &image));
        multiply(&gaussian.covariance, second, &mut image);
        let mean = self.project(&gaussian.mean);
        ellipse([mean.0, mean.1], [xx, xy, dot(second, &image)], 2.0)
    }
}

fn projection(problem: &Problem, plane: &Plane, cell: &Cell, view: View) -> anyhow::Result<Panel> {
    let (rows, weights) = cell.coreset.as_ref().ok_or_else(|| anyhow::anyhow!("a coreset was not kept"))?;
    let outlines =
        [plane.outline(&problem.full.posterior), plane.outline(&coreset_posterior(problem, rows, weights)?)];
    let frame = match view {
        View::Whole => Frame::around(&plane.rows),
        View::Close => Frame::around(&outlines.concat()),
    };
    let top = weights.iter().copied().fold(0.0, f64::max);
    let all: Vec<(f64, f64)> = plane.rows.iter().copied().filter(|&point| frame.holds(point)).collect();
    let all = Dots { radii: vec![1.0; all.len()], points: all, colour: "#c8c8c8", opacity: 1.0 };
    let radii = radii_by_area(weights, top, 4.0);
    let chosen = rows.iter().map(|&i| plane.rows[i]).zip(radii).filter(|pair| frame.holds(pair.0));
    let (points, radii) = chosen.unzip();
    let chosen = Dots { points, radii, colour: ink(), opacity: 0.85 };
    let title = match view {
        View::Whole => format!("{}, k = {}", cell.key.method.label(), cell.key.k),
        View::Close => "close up".to_owned(),
    };
    let [full, own] = outlines;
    let full_style = Style::line("#0072B2", Dash::Solid, 2.4);
    let own_style = Style::line("#D55E00", Dash::Short, 2.0);
    Ok(Panel {
        title,
        x: Axis::linear("").with_limits(frame.x.0, frame.x.1),
        y: Axis::linear("").with_limits(frame.y.0, frame.y.1),
        marks: vec![
            Mark::Dots(all),
            Mark::Dots(chosen),
            Mark::Curve(Curve::line(full, full_style, "posterior of all data")),
            Mark::Curve(Curve::line(own, own_style, "posterior of the coreset")),
        ],
        equal_aspect: true,
    })
}

/// The posterior mean of the log price over the map: of all data, and of the coresets, a row for each size.
fn maps(study: &Study) -> anyhow::Result<Vec<Figure>> {
    let Some(problem) = first_problem(study)? else { return Ok(Vec::new()) };
    let Some((places, basis)) = &problem.map else { return Ok(Vec::new()) };
    let surface = Surface::new(places, basis);
    let truth = surface.heights(&problem.full.posterior.mean);
    let levels = levels(&truth);
    let methods: Vec<&str> = ["a-iht-2", "sparse-vi", "pursuit", "pursuit-exact"]
        .into_iter()
        .filter(|method| !kept(study, method).is_empty())
        .collect();
    let draw = |title: String, heights: Vec<Vec<f64>>, dots: Dots| Panel {
        title,
        x: Axis::linear("longitude").with_limits(surface.x[0], surface.x[MAP_POINTS - 1]),
        y: Axis::linear("latitude").with_limits(surface.y[0], surface.y[MAP_POINTS - 1]),
        marks: vec![
            Mark::Dots(dots),
            Mark::Contours(Contours {
                heights,
                x: surface.x.clone(),
                y: surface.y.clone(),
                levels: levels.clone(),
            }),
        ],
        equal_aspect: false,
    };
    let mut panels = Vec::new();
    for &k in study.plan.keep.sizes.iter().rev() {
        let rows: Vec<usize> = (0..places.len() / 2).collect();
        let dots = surface.dots(places, &rows, &vec![1.0; rows.len()], 1.2, "#9a9a9a");
        panels.push(draw("all data".to_owned(), truth.clone(), dots));
        for method in &methods {
            let Some(cell) = kept(study, method).into_iter().find(|cell| cell.key.k == k) else { continue };
            let Some((rows, weights)) = &cell.coreset else { continue };
            let own = coreset_posterior(&problem, rows, weights)?;
            let title = format!("{}, k = {k}", cell.key.method.label());
            let dots = surface.dots(places, rows, weights, 6.0, ink());
            panels.push(draw(title, surface.heights(&own.mean), dots));
        }
    }
    let caption = "Contours of the posterior mean of the log price over latitude and longitude, at the same heights in \
                   every panel: of all data, and of coresets in the first trial. Dots are the sales: all of them, or \
                   those of the coreset with areas as their weights."
        .to_owned();
    let grid = Grid { columns: 1 + methods.len(), cell: (250.0, 320.0), panels };
    Ok(vec![Figure { name: "rbf-maps".to_owned(), caption, grid }])
}

/// A grid over the middle of the data and the basis functions on it.
struct Surface {
    x: Vec<f64>,
    y: Vec<f64>,
    /// One row of basis functions for each point, latitude by latitude.
    features: Vec<f64>,
    dim: usize,
}

impl Surface {
    fn new(places: &[f64], basis: &RbfMap) -> Self {
        let side = |at: usize| {
            let values = || places.iter().skip(at).step_by(2).copied();
            let (low, high) =
                (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
            let step = (high - low) / (MAP_POINTS - 1) as f64;
            (0..MAP_POINTS).map(|i| low + step * i as f64).collect::<Vec<f64>>()
        };
        let (y, x) = (side(0), side(1));
        let points: Vec<f64> = y.iter().flat_map(|&y| x.iter().flat_map(move |&x| [y, x])).collect();
        Self { features: basis.apply(&points), dim: basis.features(), x, y }
    }

    fn heights(&self, mean: &[f64]) -> Vec<Vec<f64>> {
        let values: Vec<f64> = self.features.chunks_exact(self.dim).map(|b| dot(b, mean)).collect();
        values.chunks_exact(MAP_POINTS).map(<[f64]>::to_vec).collect()
    }

    fn dots(
        &self,
        places: &[f64],
        rows: &[usize],
        weights: &[f64],
        largest: f64,
        colour: &'static str,
    ) -> Dots {
        let top = weights.iter().copied().fold(0.0, f64::max);
        Dots {
            points: rows.iter().map(|&i| (places[2 * i + 1], places[2 * i])).collect(),
            radii: radii_by_area(weights, top, largest),
            colour,
            opacity: 0.6,
        }
    }
}

/// Evenly spaced heights between the 2nd and the 98th percentile.
fn levels(heights: &[Vec<f64>]) -> Vec<f64> {
    let mut sorted: Vec<f64> = heights.iter().flatten().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| sorted.get((share * (sorted.len() - 1) as f64) as usize).copied().unwrap_or(0.0);
    let (low, high) = (at(0.02), at(0.98));
    (0..MAP_LEVELS).map(|i| low + (high - low) * i as f64 / (MAP_LEVELS - 1) as f64).collect()
}

fn coreset_posterior(problem: &Problem, rows: &[usize], weights: &[f64]) -> anyhow::Result<Gaussian> {
    let coreset = Weighted::fetch(problem.rows(), rows, weights)?;
    Ok(coreset.fit(&problem.prior)?.posterior)
}

/// The problem of the first trial of the first data set that has cells.
fn first_problem(study: &Study) -> anyhow::Result<Option<Arc<Problem>>> {
    let groups = study.groups();
    let sets = study.sets(&groups);
    let material = sets.first().and_then(|shown| shown.material.as_ref());
    material.map(|material| material.problem(&study.plan.cell, study.seed)).transpose()
}

/// The kept coresets of a method in the first trial, by size.
fn kept<'s>(study: &'s Study, method: &str) -> Vec<&'s Cell> {
    let of = |cell: &&Cell| cell.key.method.name() == method && cell.key.trial == 0 && cell.coreset.is_some();
    let mut cells: Vec<&Cell> = study.cells.iter().filter(of).collect();
    cells.sort_by_key(|cell| cell.key.k);
    cells
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}
