//! A forecast in words: what a fit will take, and whether it pays.

use super::numbers::{count, duration, plural};

/// Seconds by the clock that a fit is expected to take, before it is begun.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// Number of parameters.
    pub parameters: usize,
    /// Rows, or groups, that there are.
    pub units: usize,
    /// Whether they are groups.
    pub groups: bool,
    /// Points to begin with.
    pub k: usize,
    /// Points that they may be doubled to.
    pub max_k: usize,
    /// Seconds of one round with k points.
    pub round: f64,
    /// Of the rounds that are to be expected.
    pub call: f64,
    /// Of the tool's own sampler on all rows; none if it is not known.
    pub full: Option<f64>,
}

/// What is about to be done, before a long call begins.
pub fn expected(forecast: &Forecast) -> String {
    let Forecast { parameters, k, max_k, round, call, full, .. } = *forecast;
    let points = match k {
        0 => "a Gaussian in place of all rows".to_owned(),
        _ if max_k > k => format!("k = {} points, at most {}", count(k), count(max_k)),
        _ => format!("k = {} points", count(k)),
    };
    let all = full.map_or_else(String::new, |full| {
        format!("; a fit of all {} would take about {}", units(forecast), duration(full))
    });
    format!(
        "{}, {}: {points}; about {} a round, {} in all{all}",
        plural(parameters, "parameter"),
        units(forecast),
        duration(round),
        duration(call)
    )
}

/// That a fit does not pay.
pub fn does_not_pay(forecast: &Forecast) -> String {
    let full = forecast.full.map_or_else(|| "less".to_owned(), |full| format!("about {}", duration(full)));
    format!(
        "a coreset does not pay here: with {} and {} this fit would take about {}, and the sampler on all of them {full}",
        plural(forecast.parameters, "parameter"),
        units(forecast),
        duration(forecast.call),
    )
}

fn units(forecast: &Forecast) -> String {
    plural(forecast.units, if forecast.groups { "group" } else { "row" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_and_what_does_not_pay() {
        let slow = Forecast {
            parameters: 520,
            units: 2400,
            groups: false,
            k: 300,
            max_k: 1200,
            round: 20.0,
            call: 200.0,
            full: Some(12.0),
        };
        assert_eq!(
            expected(&slow),
            "520 parameters, 2 400 rows: k = 300 points, at most 1 200; about 20 s a round, 3 min in all; a fit of all 2 400 rows would take about 12 s"
        );
        assert_eq!(
            does_not_pay(&slow),
            "a coreset does not pay here: with 520 parameters and 2 400 rows this fit would take about 3 min, and the sampler on all of them about 12 s"
        );
        let quick = Forecast { k: 0, max_k: 0, call: 3.0, full: None, ..slow };
        assert_eq!(
            expected(&quick),
            "520 parameters, 2 400 rows: a Gaussian in place of all rows; about 20 s a round, 3.0 s in all"
        );
    }
}
