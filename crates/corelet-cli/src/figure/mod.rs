//! Figures as data: panels of curves, points, outlines and contours in a grid, drawn as SVG and PNG.
//!
//! A panel says what there is to see; [`Grid::draw`] decides where the ink goes. Nothing here knows what the figures are
//! about, but for the one table of method → colour, dash and marker in `style`.

mod axis;
mod dashes;
mod draw;
mod legend;
mod style;

pub use axis::{Axis, Scale};
pub use style::{Dash, Style, ink, style_of};

/// A line, perhaps with a band around it.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The points of the line, (x, y).
    pub points: Vec<(f64, f64)>,
    /// The lower and the upper edge at each point, or empty.
    pub band: Vec<(f64, f64)>,
    /// Its colour, dash, marker and width.
    pub style: Style,
    /// Whether each point has its marker.
    pub markers: bool,
    /// What the legend calls it; curves of one name share an entry, and one without a name has none.
    pub label: String,
}

/// Filled dots, each with its radius in pixels.
#[derive(Debug, Clone)]
pub struct Dots {
    /// Where they lie.
    pub points: Vec<(f64, f64)>,
    /// One for each point.
    pub radii: Vec<f64>,
    /// As HTML writes it.
    pub colour: &'static str,
    /// From 0 to 1.
    pub opacity: f64,
}

/// Lines of equal height of a surface over a grid, coloured by height from the lowest of the levels to the highest.
#[derive(Debug, Clone)]
pub struct Contours {
    /// One row of heights for each y.
    pub heights: Vec<Vec<f64>>,
    /// The columns of the grid.
    pub x: Vec<f64>,
    /// The rows of the grid.
    pub y: Vec<f64>,
    /// The heights that have a line.
    pub levels: Vec<f64>,
}

/// One thing to see in a panel; later ones lie on top.
#[derive(Debug, Clone)]
pub enum Mark {
    /// A line.
    Curve(Curve),
    /// Dots.
    Dots(Dots),
    /// Lines of equal height.
    Contours(Contours),
}

/// One pair of axes and what is drawn in it.
#[derive(Debug, Clone)]
pub struct Panel {
    /// What stands above it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What there is to see.
    pub marks: Vec<Mark>,
    /// Whether one unit of x is as long as one of y.
    pub equal_aspect: bool,
}

/// Panels row by row, with one legend below them all.
#[derive(Debug, Clone)]
pub struct Grid {
    /// Panels in a row.
    pub columns: usize,
    /// Width and height of a panel in pixels.
    pub cell: (f64, f64),
    /// What is drawn.
    pub panels: Vec<Panel>,
}

/// A finished figure.
#[derive(Debug, Clone)]
pub struct Drawing {
    /// As lines.
    pub svg: String,
    /// As pixels.
    pub png: Vec<u8>,
}

impl Curve {
    /// A plain line.
    pub fn line(points: Vec<(f64, f64)>, style: Style, label: impl Into<String>) -> Self {
        Self { points, band: Vec::new(), style, markers: false, label: label.into() }
    }
}

/// The outline of the ellipse {μ + r·L(cos t, sin t)} for a 2 × 2 covariance: r standard deviations around the mean.
pub fn ellipse(mean: [f64; 2], covariance: [f64; 3], radius: f64) -> Vec<(f64, f64)> {
    let [xx, xy, yy] = covariance;
    let a = xx.max(0.0).sqrt();
    let b = if a > 0.0 { xy / a } else { 0.0 };
    let c = (yy - b * b).max(0.0).sqrt();
    (0..=96)
        .map(|i| {
            let (sin, cos) = (f64::from(i) * std::f64::consts::TAU / 96.0).sin_cos();
            (mean[0] + radius * a * cos, mean[1] + radius * (b * cos + c * sin))
        })
        .collect()
}

/// Radii in pixels whose areas are as the weights, the largest of them `largest`; no dot is too small to see.
pub fn radii_by_area(weights: &[f64], top: f64, largest: f64) -> Vec<f64> {
    let scale = if top > 0.0 { largest / top.sqrt() } else { 0.0 };
    weights.iter().map(|w| (scale * w.max(0.0).sqrt()).max(0.6)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipse_is_so_many_standard_deviations_away() {
        let (mean, [xx, xy, yy]) = ([1.0, -2.0], [2.0, 0.6, 0.5]);
        let determinant = xx * yy - xy * xy;
        for (x, y) in ellipse(mean, [xx, xy, yy], 2.0) {
            let (dx, dy) = (x - mean[0], y - mean[1]);
            let square = (yy * dx * dx - 2.0 * xy * dx * dy + xx * dy * dy) / determinant;
            assert!((square - 4.0).abs() < 1e-10, "{square}");
        }
    }

    #[test]
    fn areas_are_as_weights() {
        let radii = radii_by_area(&[4.0, 1.0, 0.0], 4.0, 6.0);
        assert_eq!(radii, [6.0, 3.0, 0.6]);
    }
}
