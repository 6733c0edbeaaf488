//! Small versions of the measurements of `docs/trust.md`; the full ones are in `examples/trust`.

#![allow(dead_code, clippy::unwrap_used, clippy::print_stdout)] // the measurements hold more than is tested

#[path = "../examples/trust/calibrate.rs"]
mod calibrate;
#[path = "../examples/trust/common.rs"]
mod common;
#[path = "../examples/trust/sbc.rs"]
mod sbc;
#[path = "../examples/trust/skewed.rs"]
mod skewed;

use corelet::trust::Grade;

#[test]
fn no_a_is_wrong() {
    let cases = calibrate::run(&calibrate::small_sets()[1..], &[10, 25], 1, 600);
    let trusted = cases.iter().filter(|case| case.grade == Grade::A).count();
    assert!(trusted >= 8 && trusted < cases.len(), "{}", calibrate::to_table(&cases));
    assert!(!cases.iter().any(calibrate::is_wrong), "{}", calibrate::to_table(&cases));
}

#[test]
fn ranks_are_uniform_where_certified_and_not_where_not() {
    let good = sbc::run(12, 42);
    assert_eq!(good.grades[0], 42, "{}", good.to_table());
    assert!(good.p_values().iter().all(|&p| p > 0.001), "{}", good.to_table());
    let bad = sbc::run(2, 126);
    assert!(bad.grades[2] > 105 && bad.p_values().iter().any(|&p| p < 1e-5), "{}", bad.to_table());
}

#[test]
fn rounds_by_nuts_beat_the_laplace_embedding_on_a_skewed_posterior() {
    let lines = skewed::run(&[30], 1, 1000);
    let skewed::Line { hermite, draws, nuts, .. } = &lines[0];
    assert!(3.0 * nuts < hermite.min(*draws), "{}", skewed::to_table(&lines));
}
