//! Dashes for pictures made of pixels: kuva's raster starts a pattern anew at every segment and does not scale it, so that
//! a fine curve comes out solid. Here the pattern runs along the whole line, and each dash becomes a line of its own.

use kuva::render::render::{Primitive, Scene};

/// Replaces every dashed line of the scene by its dashes.
pub(super) fn spell_out(scene: &mut Scene) {
    let elements = std::mem::take(&mut scene.elements);
    scene.elements = elements.into_iter().flat_map(pieces).collect();
}

fn pieces(element: Primitive) -> Vec<Primitive> {
    let (points, stroke, stroke_width, pattern) = match &element {
        Primitive::PolyLine { points, stroke, stroke_width, stroke_dasharray: Some(pattern) } => {
            (points.clone(), stroke.clone(), *stroke_width, lengths(pattern))
        }
        Primitive::Line { x1, y1, x2, y2, stroke, stroke_width, stroke_dasharray: Some(pattern) } => {
            (vec![(*x1, *y1), (*x2, *y2)], stroke.clone(), *stroke_width, lengths(pattern))
        }
        _ => return vec![element],
    };
    let line =
        |points| Primitive::PolyLine { points, stroke: stroke.clone(), stroke_width, stroke_dasharray: None };
    dashes(&points, &pattern, stroke_width).into_iter().map(line).collect()
}

fn lengths(pattern: &str) -> Vec<f64> {
    pattern.split([' ', ',']).filter_map(|length| length.parse().ok()).filter(|&x: &f64| x > 0.0).collect()
}

/// The dashes along a line: lengths on and off in turn. Round ends add the width of the stroke to each, which is taken
/// off beforehand.
fn dashes(points: &[(f64, f64)], pattern: &[f64], width: f64) -> Vec<Vec<(f64, f64)>> {
    if pattern.is_empty() {
        return vec![points.to_vec()];
    }
    let length_of = |i: usize| {
        let length = pattern[i % pattern.len()];
        if i.is_multiple_of(2) { (length - width).max(0.1) } else { length + width.min(length) }
    };
    let (mut dashes, mut current, mut index) = (Vec::new(), points[..1].to_vec(), 0_usize);
    let mut left = length_of(0);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let distance = (to.0 - from.0).hypot(to.1 - from.1);
            if distance < left || distance == 0.0 {
                left -= distance;
                current.push(to);
                break;
            }
            let share = left / distance;
            from = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            current.push(from);
            if index.is_multiple_of(2) {
                dashes.push(std::mem::take(&mut current));
            }
            current = vec![from];
            index += 1;
            left = length_of(index);
        }
    }
    if index.is_multiple_of(2) && current.len() > 1 {
        dashes.push(current);
    }
    dashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_runs_along_the_whole_line() {
        // Nine units in steps of one, dashes of 3 and gaps of 2, a stroke without width.
        let points: Vec<(f64, f64)> = (0..=9).map(|i| (f64::from(i), 0.0)).collect();
        let ends: Vec<(f64, f64)> = dashes(&points, &[3.0, 2.0], 0.0)
            .iter()
            .map(|dash| (dash.first().unwrap().0, dash.last().unwrap().0))
            .collect();
        assert_eq!(ends, [(0.0, 3.0), (5.0, 8.0)]);
        assert_eq!(dashes(&points, &[], 1.0), [points]);
    }
}
