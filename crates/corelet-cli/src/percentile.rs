//! Percentiles, as everyone else computes them.

/// The p-th percentile of ascending values, linear between them.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = (p / 100.0).clamp(0.0, 1.0) * last as f64;
    let (low, share) = (at.floor() as usize, at.fract());
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    Some(if share == 0.0 { a } else { a + share * (b - a) })
}

/// The middle of values in any order.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    percentile(&values, 50.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_numpy() {
        let values = [1.0, 2.0, 4.0, 8.0];
        // numpy.percentile([1, 2, 4, 8], [0, 35, 50, 65, 100])
        for (p, want) in [(0.0, 1.0), (35.0, 2.1), (50.0, 3.0), (65.0, 3.9), (100.0, 8.0)] {
            assert!((percentile(&values, p).unwrap() - want).abs() < 1e-12, "{p}");
        }
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&[3.0], 35.0), Some(3.0));
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
