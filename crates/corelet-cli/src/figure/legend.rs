//! The legend: one row of samples below the panels, broken where the figure ends.

use kuva::plot::scatter::MarkerShape;
use kuva::render::color::Color;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor};

use super::draw::plain;
use super::{Mark, Panel, Style, ink};

const SAMPLE: f64 = 30.0;
const GAP: f64 = 18.0;
const LINE: f64 = 20.0;
const SIZE: u32 = 13;
/// The width of a letter, of the font's size: rather too wide than too narrow.
const LETTER: f64 = 0.59;

/// What one entry shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    label: String,
    style: Style,
    marker: bool,
}

impl Entry {
    fn width(&self) -> f64 {
        SAMPLE + 6.0 + LETTER * f64::from(SIZE) * self.label.chars().count() as f64
    }
}

/// One entry for each name, in the order in which the panels bring them up.
pub(super) fn entries(panels: &[Panel]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for mark in panels.iter().flat_map(|panel| &panel.marks) {
        let Mark::Curve(curve) = mark else { continue };
        if !curve.label.is_empty() && entries.iter().all(|entry| entry.label != curve.label) {
            let label = curve.label.clone();
            entries.push(Entry { label, style: curve.style, marker: curve.markers });
        }
    }
    entries
}

/// Adds the entries below all that the scene has, centred.
pub(super) fn append(scene: &mut Scene, entries: &[Entry]) {
    let mut y = scene.height + 4.0;
    for row in rows(entries, scene.width - 2.0 * GAP) {
        let width: f64 = row.iter().map(Entry::width).sum::<f64>() + GAP * (row.len() as f64 - 1.0);
        let mut x = 0.5 * (scene.width - width);
        for entry in row {
            draw(scene, entry, x, y);
            x += entry.width() + GAP;
        }
        y += LINE;
    }
    if !entries.is_empty() {
        scene.height = y;
    }
}

/// The entries, broken into rows that are not wider than `width`.
fn rows(entries: &[Entry], width: f64) -> Vec<&[Entry]> {
    let (mut rows, mut start, mut used) = (Vec::new(), 0, 0.0);
    for (i, entry) in entries.iter().enumerate() {
        if i > start && used + entry.width() > width {
            rows.push(&entries[start..i]);
            (start, used) = (i, 0.0);
        }
        used += entry.width() + GAP;
    }
    if start < entries.len() {
        rows.push(&entries[start..]);
    }
    rows
}

fn draw(scene: &mut Scene, entry: &Entry, x: f64, y: f64) {
    let Style { colour, dash, marker, width } = entry.style;
    scene.add(Primitive::Line {
        x1: x,
        y1: y,
        x2: x + SAMPLE,
        y2: y,
        stroke: Color::from(colour),
        stroke_width: width,
        stroke_dasharray: dash.array().map(str::to_owned),
    });
    if entry.marker {
        scene.add(sample(marker, colour, x + 0.5 * SAMPLE, y));
    }
    scene.add(Primitive::Text {
        x: x + SAMPLE + 6.0,
        y: y + 0.36 * f64::from(SIZE),
        content: plain(&entry.label),
        size: SIZE,
        anchor: TextAnchor::Start,
        rotate: None,
        bold: false,
        color: Some(Color::from(ink())),
    });
}

/// A marker as kuva draws it on the curves.
fn sample(marker: MarkerShape, colour: &'static str, x: f64, y: f64) -> Primitive {
    let r = 4.2;
    let open = matches!(marker, MarkerShape::Plus | MarkerShape::Cross);
    let d = match marker {
        MarkerShape::Circle => polygon(x, y, &ring(24, r, 0.0)),
        MarkerShape::Square => polygon(x, y, &ring(4, 1.25 * r, 0.125)),
        MarkerShape::Diamond => polygon(x, y, &ring(4, 1.2 * r, 0.0)),
        MarkerShape::Triangle => polygon(x, y, &ring(3, 1.2 * r, 0.75)),
        MarkerShape::TriangleDown => polygon(x, y, &ring(3, 1.2 * r, 0.25)),
        MarkerShape::Pentagon => polygon(x, y, &ring(5, 1.1 * r, 0.75)),
        MarkerShape::Hexagon => polygon(x, y, &ring(6, 1.1 * r, 0.75)),
        MarkerShape::Star => polygon(x, y, &star(1.25 * r)),
        MarkerShape::Plus => strokes(x, y, [[(-r, 0.0), (r, 0.0)], [(0.0, -r), (0.0, r)]]),
        MarkerShape::Cross => strokes(x, y, [[(-r, -r), (r, r)], [(-r, r), (r, -r)]]),
    };
    Primitive::Path(Box::new(PathData {
        d,
        fill: (!open).then(|| Color::from(colour)),
        stroke: Color::from(colour),
        stroke_width: if open { 1.6 } else { 0.5 },
        opacity: None,
        stroke_dasharray: None,
    }))
}

/// Corners of a regular polygon; `turn` is where the first lies, in turns from the right, clockwise.
fn ring(corners: u32, radius: f64, turn: f64) -> Vec<(f64, f64)> {
    let angle = |i: u32| (turn + f64::from(i) / f64::from(corners)) * std::f64::consts::TAU;
    (0..corners).map(|i| (radius * angle(i).cos(), radius * angle(i).sin())).collect()
}

fn star(radius: f64) -> Vec<(f64, f64)> {
    let (outer, inner) = (ring(5, radius, 0.75), ring(5, 0.42 * radius, 0.85));
    outer.into_iter().zip(inner).flat_map(|(a, b)| [a, b]).collect()
}

fn polygon(x: f64, y: f64, corners: &[(f64, f64)]) -> String {
    let text: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.2} {:.2}", x + dx, y + dy)).collect();
    format!("M {} Z", text.join(" L "))
}

fn strokes(x: f64, y: f64, lines: [[(f64, f64); 2]; 2]) -> String {
    let text = lines.map(|[a, b]| format!("M {:.2} {:.2} L {:.2} {:.2}", x + a.0, y + a.1, x + b.0, y + b.1));
    text.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::style_of;

    #[test]
    fn rows_break_where_the_figure_ends() {
        let entry = |label: &str| Entry { label: label.to_owned(), style: style_of("giga"), marker: true };
        let entries = [entry("one"), entry("two"), entry("three")];
        assert_eq!(rows(&entries, 1e4).len(), 1);
        assert_eq!(rows(&entries, 1.0).len(), 3);
        assert!(rows(&[], 100.0).is_empty());
    }
}
