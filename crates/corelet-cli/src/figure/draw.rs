//! From panels to ink: kuva draws each panel, the legend goes below, and the whole becomes SVG and PNG.

use std::sync::Arc;

use anyhow::anyhow;
use kuva::backend::raster::RasterBackend;
use kuva::backend::svg::SvgBackend;
use kuva::plot::colormap::ColorMap;
use kuva::plot::scatter::ScatterPlot;
use kuva::plot::{BandPlot, ContourPlot, LinePlot, LineStyle};
use kuva::render::figure::Figure;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use kuva::render::render::Scene;

use super::axis::{Axis, Scale, Span};
use super::{Contours, Curve, Dots, Drawing, Grid, Mark, Panel, dashes, legend};

/// Pixels of the PNG to one of the SVG.
const PNG_SCALE: f32 = 2.0;
const MARKER: f64 = 3.4;
/// A curve with more points than this has markers on some of them only.
const MOST_MARKERS: usize = 12;
const FONT: &str = "DejaVu Sans, Verdana, Arial, sans-serif";

impl Grid {
    /// Draws the panels row by row and the legend of all below.
    ///
    /// # Errors
    /// If the picture cannot be made.
    pub fn draw(&self) -> anyhow::Result<Drawing> {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns).max(1);
        let (plots, layouts): (Vec<Vec<Plot>>, Vec<Layout>) = self.panels.iter().map(Panel::to_plots).unzip();
        let mut scene = Figure::new(rows, columns)
            .with_plots(plots)
            .with_layouts(layouts)
            .with_cell_size(self.cell.0, self.cell.1)
            .with_spacing(10.0)
            .with_padding(8.0)
            .render();
        scene.font_family = Some(FONT.to_owned());
        legend::append(&mut scene, &legend::entries(&self.panels));
        let svg = to_svg(&scene);
        dashes::spell_out(&mut scene);
        let png = RasterBackend { scale: PNG_SCALE }.render_scene(&scene);
        Ok(Drawing { svg, png: png.map_err(|e| anyhow!("the picture cannot be made: {e}"))? })
    }
}

/// The scene as SVG that scales with the page around it.
fn to_svg(scene: &Scene) -> String {
    let svg = SvgBackend::new().render_scene(scene);
    let view = format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" ", scene.width, scene.height);
    svg.replacen("<svg ", &view, 1)
}

/// A text that holds no markup of its own: kuva sets what stands between dollar signs as mathematics.
pub(super) fn plain(text: &str) -> String {
    text.replace('$', "\\$")
}

impl Panel {
    fn to_plots(&self) -> (Vec<Plot>, Layout) {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        self.marks.iter().for_each(|mark| mark.reach(self, &mut xs, &mut ys));
        let (x, y) = (self.x.span(xs.into_iter()), self.y.span(ys.into_iter()));
        let plots = self.marks.iter().flat_map(|mark| mark.to_plots(self)).collect();
        (plots, self.layout(x, y))
    }

    fn layout(&self, x: Span, y: Span) -> Layout {
        let format = |scale: Scale| TickFormat::Custom(Arc::new(move |v| Axis::tick(scale, v)));
        let mut layout = Layout::new((x.low, x.high), (y.low, y.high))
            .with_x_axis_min(x.low)
            .with_x_axis_max(x.high)
            .with_y_axis_min(y.low)
            .with_y_axis_max(y.high)
            .with_x_tick_step(x.step)
            .with_y_tick_step(y.step)
            .with_x_tick_format(format(self.x.scale))
            .with_y_tick_format(format(self.y.scale))
            .with_x_label(plain(&self.x.label))
            .with_y_label(plain(&self.y.label))
            .with_title_size(14)
            .with_label_size(13)
            .with_tick_size(11)
            .with_axis_line_width(1.0)
            .with_tick_width(1.0)
            .with_box_axes();
        if !self.title.is_empty() {
            layout = layout.with_title(plain(&self.title));
        }
        if self.equal_aspect { layout.with_equal_aspect() } else { layout }
    }

    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        self.x.place(x).zip(self.y.place(y))
    }
}

impl Mark {
    /// Adds where the mark has ink along the two axes.
    fn reach(&self, panel: &Panel, xs: &mut Vec<f64>, ys: &mut Vec<f64>) {
        match self {
            Self::Curve(Curve { points, band, .. }) => {
                xs.extend(points.iter().filter_map(|point| panel.x.place(point.0)));
                let edges = band.iter().flat_map(|edge| [edge.0, edge.1]);
                ys.extend(points.iter().map(|p| p.1).chain(edges).filter_map(|y| panel.y.place(y)));
            }
            Self::Dots(dots) => {
                for (x, y) in dots.points.iter().filter_map(|&point| panel.place(point)) {
                    xs.push(x);
                    ys.push(y);
                }
            }
            Self::Contours(contours) => {
                xs.extend(contours.x.iter().filter_map(|&x| panel.x.place(x)));
                ys.extend(contours.y.iter().filter_map(|&y| panel.y.place(y)));
            }
        }
    }

    fn to_plots(&self, panel: &Panel) -> Vec<Plot> {
        match self {
            Self::Curve(curve) => curve_plots(curve, panel),
            Self::Dots(dots) => vec![dots_plot(dots, panel)],
            Self::Contours(contours) => vec![contour_plot(contours)],
        }
    }
}

fn curve_plots(curve: &Curve, panel: &Panel) -> Vec<Plot> {
    let Curve { points, band, style, markers, .. } = curve;
    let mut plots = Vec::new();
    let edges: Vec<(f64, f64, f64)> = points
        .iter()
        .zip(band)
        .filter_map(|(point, edge)| Some((panel.place((point.0, edge.0))?, panel.y.place(edge.1)?)))
        .map(|((x, low), high)| (x, low, high))
        .collect();
    if edges.len() > 1 {
        let column = |f: fn(&(f64, f64, f64)) -> f64| edges.iter().map(f).collect::<Vec<f64>>();
        let band = BandPlot::new(column(|e| e.0), column(|e| e.1), column(|e| e.2));
        plots.push(Plot::Band(band.with_color(style.colour).with_opacity(0.16)));
    }
    let placed: Vec<(f64, f64)> = points.iter().filter_map(|&point| panel.place(point)).collect();
    let dash = style.dash.array().map_or(LineStyle::Solid, |array| LineStyle::Custom(array.to_owned()));
    let line = LinePlot::new().with_data(placed.clone()).with_color(style.colour);
    plots.push(Plot::Line(line.with_stroke_width(style.width).with_line_style(dash)));
    if *markers {
        let every = placed.len().div_ceil(MOST_MARKERS).max(1);
        let some: Vec<(f64, f64)> = placed.into_iter().rev().step_by(every).collect();
        let scatter = ScatterPlot::new().with_data(some).with_color(style.colour);
        plots.push(Plot::Scatter(scatter.with_marker(style.marker).with_size(MARKER)));
    }
    plots
}

fn dots_plot(dots: &Dots, panel: &Panel) -> Plot {
    let placed: Vec<((f64, f64), f64)> = dots
        .points
        .iter()
        .zip(&dots.radii)
        .filter_map(|(&point, &radius)| Some((panel.place(point)?, radius)))
        .collect();
    let (points, radii): (Vec<(f64, f64)>, Vec<f64>) = placed.into_iter().unzip();
    let scatter = ScatterPlot::new().with_data(points).with_sizes(radii).with_color(dots.colour);
    Plot::Scatter(scatter.with_marker_opacity(dots.opacity))
}

/// kuva colours a level by where it lies between the surface's own extremes; ours is the same in every panel.
fn contour_plot(contours: &Contours) -> Plot {
    let Contours { heights, x, y, levels } = contours;
    let all = || heights.iter().flatten().copied();
    let (own_low, own_high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let low = levels.first().copied().unwrap_or(own_low);
    let span = (levels.last().copied().unwrap_or(own_high) - low).max(f64::MIN_POSITIVE);
    let colour = move |t: f64| {
        let height = own_low + t * (own_high - own_low);
        // The light end of the map would vanish on white paper.
        ColorMap::Viridis.map(0.85 * ((height - low) / span).clamp(0.0, 1.0))
    };
    let plot = ContourPlot::new().with_grid(heights.clone(), x.clone(), y.clone()).with_levels(levels);
    Plot::Contour(plot.with_colormap(ColorMap::Custom(Arc::new(colour))).with_line_width(1.3))
}
