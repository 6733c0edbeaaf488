//! Rows by a column: its levels, or ranges of its numbers.

use crate::data::{MISSING, Values};

/// Distinct numbers that are taken as levels; more are put into ranges with about as many rows each.
const MOST_NUMBERS: usize = 12;
const RANGES: usize = 10;

/// Levels that are told apart, by their rows; the others are one.
const MOST_LEVELS: usize = 50;

/// Which level of a column each row has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct By {
    /// The column.
    pub column: String,
    /// The levels, or ranges of numbers, in their order.
    pub labels: Vec<String>,
    /// The place of each row's level.
    pub codes: Vec<u32>,
}

impl By {
    /// Of the cells of a column; row i of the model is row `file_rows[i]` there.
    pub fn of(column: &str, cells: &Values, file_rows: &[usize]) -> Self {
        let (labels, codes) = match cells {
            Values::Number { values, .. } => {
                of_numbers(&file_rows.iter().map(|&row| values[row]).collect::<Vec<_>>())
            }
            Values::Bool(values) => {
                let code = |&row: &usize| values[row].map_or(2, u32::from);
                used(&["false", "true", "missing"].map(str::to_owned), file_rows.iter().map(code).collect())
            }
            Values::Text { codes, levels } => {
                let names: Vec<String> = levels.iter().cloned().chain(["missing".to_owned()]).collect();
                let code =
                    |&row: &usize| if codes[row] == MISSING { levels.len() as u32 } else { codes[row] };
                used(&names, file_rows.iter().map(code).collect())
            }
        };
        Self { column: column.to_owned(), labels, codes }
    }
}

/// The levels that some row has, by name; of many those of most rows.
fn used(names: &[String], codes: Vec<u32>) -> (Vec<String>, Vec<u32>) {
    let mut rows = vec![0_usize; names.len()];
    codes.iter().for_each(|&code| rows[code as usize] += 1);
    let mut order: Vec<usize> = (0..names.len()).filter(|&level| rows[level] > 0).collect();
    order.sort_by(|&a, &b| rows[b].cmp(&rows[a]).then(names[a].cmp(&names[b])));
    let others = order.split_off(order.len().min(MOST_LEVELS));
    order.sort_by(|&a, &b| names[a].cmp(&names[b]));
    let mut place = vec![order.len() as u32; names.len()];
    order.iter().enumerate().for_each(|(at, &level)| place[level] = at as u32);
    let mut labels: Vec<String> = order.iter().map(|&level| names[level].clone()).collect();
    if !others.is_empty() {
        labels.push(format!("{} others", others.len()));
    }
    (labels, codes.into_iter().map(|code| place[code as usize]).collect())
}

/// Few numbers by themselves, many in ranges between quantiles.
fn of_numbers(values: &[f64]) -> (Vec<String>, Vec<u32>) {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| !x.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    let missing = sorted.len() < values.len();
    // The last number of each level.
    let ends: Vec<f64> = if distinct.len() <= MOST_NUMBERS {
        distinct
    } else {
        let mut ends: Vec<f64> =
            (1..=RANGES).map(|part| sorted[(part * sorted.len()).div_ceil(RANGES) - 1]).collect();
        ends.dedup();
        ends
    };
    let first = |at: usize| {
        let before = if at == 0 { 0 } else { sorted.partition_point(|x| *x <= ends[at - 1]) };
        sorted[before]
    };
    let mut labels: Vec<String> = (0..ends.len())
        .map(|at| {
            if first(at) == ends[at] {
                format!("{}", ends[at])
            } else {
                format!("{} to {}", short(first(at)), short(ends[at]))
            }
        })
        .collect();
    if missing {
        labels.push("missing".to_owned());
    }
    let code = |x: &f64| if x.is_nan() { ends.len() } else { ends.partition_point(|end| end < x) } as u32;
    (labels, values.iter().map(code).collect())
}

/// Four digits, which is enough to know a range by.
fn short(x: f64) -> String {
    let digits = format!("{x:.3e}").parse::<f64>().unwrap_or(x);
    format!("{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_are_levels_and_many_are_ranges() {
        let few = Values::Number { values: vec![2.0, 1.0, f64::NAN, 2.0, 9.0], integer: false };
        let by = By::of("x", &few, &[0, 1, 2, 3]);
        assert_eq!(by.labels, ["1", "2", "missing"]);
        assert_eq!(by.codes, [1, 0, 2, 1]);
        let many = Values::Number { values: (0..1000).map(|i| f64::from(i % 250)).collect(), integer: true };
        let by = By::of("x", &many, &(0..1000).collect::<Vec<_>>());
        assert_eq!(by.labels.len(), 10);
        assert_eq!(by.labels[0], "0 to 24");
        let rows = |code: u32| by.codes.iter().filter(|c| **c == code).count();
        assert!((0..10).all(|code| rows(code) == 100));
        // Mostly one number: ranges that would be empty are none.
        let spike =
            Values::Number { values: (0..1000).map(|i| f64::from(i.max(800))).collect(), integer: true };
        let by = By::of("x", &spike, &(0..1000).collect::<Vec<_>>());
        assert_eq!((by.labels[0].as_str(), by.labels.len()), ("800", 3));
    }

    #[test]
    fn levels_are_those_of_most_rows() {
        let levels: Vec<String> = (0..60).map(|i| format!("l{i:02}")).collect();
        let codes: Vec<u32> = (0..60).flat_map(|i| vec![i; if i < 10 { 1 } else { 3 }]).collect();
        let rows: Vec<usize> = (0..codes.len()).collect();
        let by = By::of("x", &Values::Text { codes, levels }, &rows);
        assert_eq!(by.labels.len(), 51);
        assert_eq!((by.labels[0].as_str(), by.labels[50].as_str()), ("l10", "10 others"));
        assert_eq!(by.codes[0], 50);
        let bools = Values::Bool(vec![Some(true), None, Some(true)]);
        assert_eq!(By::of("x", &bools, &[0, 1, 2]).labels, ["missing", "true"]);
    }
}
