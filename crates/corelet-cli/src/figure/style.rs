//! One table of method → colour, dash and marker, used in every figure.
//!
//! The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart; the dashes and the
//! markers differ too, and so does the lightness, so that a print in grey loses nothing.

use kuva::plot::scatter::MarkerShape;

/// Black that is kinder to the eye.
pub fn ink() -> &'static str {
    "#222222"
}

/// How a line is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dash {
    /// Not at all.
    Solid,
    /// Long dashes.
    Long,
    /// Short dashes.
    Short,
    /// Dots.
    Dotted,
    /// A long dash and a dot in turn.
    LongDot,
    /// A long dash and two dots in turn.
    LongDotDot,
}

impl Dash {
    /// As SVG writes it.
    pub fn array(self) -> Option<&'static str> {
        match self {
            Self::Solid => None,
            Self::Long => Some("10 4"),
            Self::Short => Some("5 3"),
            Self::Dotted => Some("1.5 3"),
            Self::LongDot => Some("8 3 1.5 3"),
            Self::LongDotDot => Some("8 3 1.5 3 1.5 3"),
        }
    }
}

/// How a line and its markers look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Style {
    /// As HTML writes it.
    pub colour: &'static str,
    /// How the line is broken.
    pub dash: Dash,
    /// The shape of the markers.
    pub marker: MarkerShape,
    /// Width of the line in pixels.
    pub width: f64,
}

impl Style {
    /// A line without a marker of its own.
    pub const fn line(colour: &'static str, dash: Dash, width: f64) -> Self {
        Self { colour, dash, marker: MarkerShape::Circle, width }
    }
}

const fn style(colour: &'static str, dash: Dash, marker: MarkerShape, width: f64) -> Style {
    Style { colour, dash, marker, width }
}

/// The look of each method, by the name a user types.
const TABLE: [(&str, Style); 16] = [
    ("uniform", style("#8C8C8C", Dash::Dotted, MarkerShape::Plus, 1.8)),
    ("uniform-nnls", style("#B3B3B3", Dash::LongDotDot, MarkerShape::Plus, 1.6)),
    ("importance", style("#A08C6E", Dash::Dotted, MarkerShape::Cross, 1.6)),
    ("importance-nnls", style("#C4B08F", Dash::LongDotDot, MarkerShape::Cross, 1.6)),
    ("frank-wolfe", style("#8C6D1F", Dash::LongDotDot, MarkerShape::Cross, 1.6)),
    ("giga", style("#E69F00", Dash::LongDot, MarkerShape::Triangle, 1.8)),
    ("omp", style("#6A3D9A", Dash::Short, MarkerShape::Pentagon, 1.6)),
    ("iht", style("#7FC8AF", Dash::LongDot, MarkerShape::Square, 1.6)),
    ("sparse-vi", style("#56B4E9", Dash::LongDotDot, MarkerShape::Diamond, 1.8)),
    ("a-iht", style("#009E73", Dash::Short, MarkerShape::Square, 1.8)),
    ("a-iht-batch", style("#CC79A7", Dash::LongDot, MarkerShape::Hexagon, 1.8)),
    ("a-iht-2", style("#D55E00", Dash::Long, MarkerShape::TriangleDown, 1.8)),
    ("pursuit", style("#0072B2", Dash::Solid, MarkerShape::Circle, 2.2)),
    ("pursuit-hermite", style("#1A1A1A", Dash::Long, MarkerShape::Star, 1.8)),
    ("pursuit-exact", style("#1A1A1A", Dash::Long, MarkerShape::Star, 1.8)),
    ("pursuit-descent", style("#882255", Dash::Short, MarkerShape::Pentagon, 1.8)),
];

/// The look of a method; a thin grey line for one that the table does not know.
pub fn style_of(method: &str) -> Style {
    let known = TABLE.iter().find(|(name, _)| *name == method);
    known.map_or(style("#666666", Dash::Solid, MarkerShape::Cross, 1.2), |(_, style)| *style)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lightness from 0 to 1, as a grey print shows it.
    fn lightness(colour: &str) -> f64 {
        let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn methods_of_the_paper_differ_without_colour() {
        let shown =
            ["uniform", "giga", "sparse-vi", "a-iht", "a-iht-batch", "a-iht-2", "pursuit", "pursuit-hermite"];
        for (i, a) in shown.iter().enumerate() {
            for b in &shown[..i] {
                let (a, b) = (style_of(a), style_of(b));
                assert!(a.marker != b.marker, "{a:?} {b:?}");
                let apart = (lightness(a.colour) - lightness(b.colour)).abs() > 0.03;
                assert!(apart || a.dash != b.dash, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn every_solver_method_has_a_style() {
        for method in sparse_nnls::Method::all() {
            assert!(TABLE.iter().any(|(name, _)| *name == method.name()), "{}", method.name());
        }
    }
}
