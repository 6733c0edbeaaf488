//! Axes: where values land, how far an axis goes, and where it has ticks.
//!
//! A logarithmic axis is a linear one of exponents: values are transformed before they are drawn, so that any number of
//! decades gets a handful of ticks, and 10⁻¹⁴ is a tick like any other.

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
}

/// One axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What is written beside it.
    pub label: String,
    /// How values are spread.
    pub scale: Scale,
    /// Lower and upper end of the axis; those of the data where not given.
    pub limits: Option<(f64, f64)>,
    /// On a logarithmic axis, values below this are drawn at it; zero has to be drawn somewhere.
    pub floor: f64,
}

impl Axis {
    /// Values as they are.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, limits: None, floor: f64::MIN_POSITIVE }
    }

    /// Powers of ten at equal distances.
    pub fn log(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label) }
    }

    /// Values below `floor` are drawn at it.
    pub fn with_floor(self, floor: f64) -> Self {
        Self { floor, ..self }
    }

    /// Begins and ends there.
    pub fn with_limits(self, low: f64, high: f64) -> Self {
        Self { limits: Some((low, high)), ..self }
    }

    /// Where a value lands on the linear axis that is drawn; `None` where it has no place.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        match self.scale {
            _ if !value.is_finite() => None,
            Scale::Linear => Some(value),
            Scale::Log => Some(value.max(self.floor).log10()),
        }
    }

    /// The ends of the drawn axis and the distance between its ticks, for data that have been placed.
    pub(super) fn span(&self, placed: impl Iterator<Item = f64>) -> Span {
        let (low, high) = match self.limits {
            Some((low, high)) => (self.place(low).unwrap_or(0.0), self.place(high).unwrap_or(1.0)),
            None => extent(placed),
        };
        match self.scale {
            Scale::Log => Span::of_decades(low, high),
            Scale::Linear if self.limits.is_some() => Span { low, high, step: nice_step(high - low) },
            Scale::Linear => Span::of_numbers(low, high),
        }
    }

    /// What a tick says.
    pub(super) fn tick(scale: Scale, value: f64) -> String {
        match scale {
            Scale::Log => power_of_ten(value.round() as i32),
            Scale::Linear => {
                let rounded = (value * 1e6).round() / 1e6;
                if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
            }
        }
    }
}

/// The ends of a drawn axis and the distance between its ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) step: f64,
}

impl Span {
    /// Whole decades, and at most seven ticks.
    fn of_decades(low: f64, high: f64) -> Self {
        // A curve should not lie on the edge of its box.
        let low = (low - 0.1).floor();
        let high = (high + 0.1).ceil().max(low + 1.0);
        let step = ((high - low) / 6.0).ceil().max(1.0);
        Self { low, high, step }
    }

    /// A little room around the data.
    fn of_numbers(low: f64, high: f64) -> Self {
        let room = if high > low { 0.04 * (high - low) } else { 0.5 * low.abs().max(1.0) };
        let (low, high) = (low - room, high + room);
        Self { low, high, step: nice_step(high - low) }
    }
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// 1, 2, 2.5 or 5 times a power of ten, of which three to eight fit.
fn nice_step(range: f64) -> f64 {
    let rough = (range / 5.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|nice| nice * power >= rough * 0.9);
    nice.unwrap_or(10.0) * power
}

/// 10⁻³ and the like; 1 and 10 as they are.
fn power_of_ten(exponent: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    match exponent {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        _ => {
            let sign = if exponent < 0 { "⁻" } else { "" };
            let digits = exponent.unsigned_abs().to_string();
            let raised: String = digits.bytes().map(|digit| DIGITS[usize::from(digit - b'0')]).collect();
            format!("10{sign}{raised}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten() {
        for (exponent, text) in [(0, "1"), (1, "10"), (2, "10²"), (-14, "10⁻¹⁴")] {
            assert_eq!(power_of_ten(exponent), text);
        }
        assert_eq!(Axis::tick(Scale::Linear, -0.0), "0");
        assert_eq!(Axis::tick(Scale::Linear, 0.1 + 0.2), "0.3");
    }

    #[test]
    fn spans_hold_the_data_and_have_few_ticks() {
        let log = Axis::log("x").with_floor(1e-14);
        for (low, high) in [(1e-30, 1e4), (0.2, 0.9), (3.0, 3.0), (0.0, 1e-3)] {
            let placed: Vec<f64> = [low, high].into_iter().filter_map(|x| log.place(x)).collect();
            let span = log.span(placed.iter().copied());
            assert!(placed.iter().all(|&x| span.low <= x && x <= span.high), "{span:?}");
            assert!((span.high - span.low) / span.step <= 6.0 + 1e-9, "{span:?}");
        }
        for (low, high) in [(0.0, 100.0), (-3.2, 1e-3), (5.0, 5.0)] {
            let span = Axis::linear("x").span([low, high].into_iter());
            let ticks = (span.high - span.low) / span.step;
            assert!(span.low < low && span.high > high && (3.0..9.0).contains(&ticks), "{span:?}");
        }
        assert_eq!(log.place(f64::NAN), None);
    }
}
