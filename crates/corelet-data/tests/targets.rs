//! What a target may be under each kind of outcome, and how it is coded.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;

use common::{assert_refused, options, table};
use corelet_data::{Columns, DesignOptions, Outcome, design};

#[test]
fn a_target_of_one_and_two_says_which_is_success() {
    let dataset = design(&table("y,a\n1,3\n2,4\n2,9\n1,7\n"), &options(Outcome::Classes, "y")).unwrap();
    assert_eq!(dataset.observations.target[..], [-1.0, 1.0, 1.0, -1.0]);
    assert!(dataset.warnings[0].contains("2 is taken as success"), "{:?}", dataset.warnings);
}

#[test]
fn logistic_targets() {
    let logistic = |positive: Option<&str>| DesignOptions {
        positive: positive.map(str::to_owned),
        ..options(Outcome::Classes, "y")
    };
    let with = |cells: [&str; 4]| {
        let rows: Vec<String> = cells.iter().enumerate().map(|(i, y)| format!("{y},{}\n", i * i)).collect();
        format!("y,a\n{}", rows.concat())
    };
    let signs =
        |cells, positive| design(&table(&with(cells)), &logistic(positive)).unwrap().observations.target;
    let expected = [1.0, -1.0, -1.0, 1.0];
    assert_eq!(signs(["1", "0", "0", "1"], None)[..], expected);
    assert_eq!(signs(["1", "-1", "-1", "1"], None)[..], expected);
    assert_eq!(signs(["true", "false", "false", "true"], None)[..], expected);
    assert_eq!(signs(["yes", "no", "no", "yes"], Some("yes"))[..], expected);
    assert_eq!(signs(["2", "1", "1", "2"], Some("2"))[..], expected);
    let refused = |cells, positive, parts: &[&str]| assert_refused(&with(cells), &logistic(positive), parts);
    refused(["yes", "no", "no", "yes"], None, &["'y'", "success", "'no', 'yes'"]);
    refused(["yes", "no", "no", "yes"], Some("Yes"), &["no level 'Yes'", "'no', 'yes'"]);
    refused(["yes", "no", "maybe", "yes"], Some("yes"), &["two levels", "3"]);
    refused(["1", "0", "2", "1"], None, &["'y'", "row 2 (line 4)", "2 is neither"]);
    refused(["1", "0", "-1", "1"], None, &["'y'", "row 1 (line 3)", "0 is neither"]);
    refused(["1", "1", "1", "1"], None, &["'y' is '1' in every row", "at least two"]);
    refused(["true", "true", "true", "true"], None, &["every row"]);
    refused(["a", "a", "a", "a"], Some("a"), &["every row"]);
}

#[test]
fn counts_exposures_and_numbers() {
    let poisson = options(Outcome::Count, "y");
    assert_refused("y,a\n1,1\n-2,3\n0,5\n", &poisson, &["'y', row 1 (line 3): -2", "count"]);
    assert_refused("y,a\n1,1\n1.5,3\n0,5\n", &poisson, &["row 1 (line 3): 1.5"]);
    let exposed =
        DesignOptions { columns: Columns { exposure: Some("days".into()), ..poisson.columns }, ..poisson };
    let dataset = design(&table("y,a,days\n1,1,2\n2,3,0.5\n0,5,1\n"), &exposed).unwrap();
    assert_eq!(dataset.observations.exposure, Some(vec![2.0, 0.5, 1.0].into()));
    assert_eq!(dataset.names, ["a", "(intercept)"]);
    let nothing = design(&table("y,a,days\n1,1,2\n0,3,0\n0,5,1\n"), &exposed).unwrap();
    assert_eq!(nothing.observations.exposure, Some(vec![2.0, 0.0, 1.0].into()));
    let counted = ["'y', row 1 (line 3): 2 with an exposure of 0 in 'days'", "leave the row out"];
    assert_refused("y,a,days\n1,1,2\n2,3,0\n0,5,1\n", &exposed, &counted);
    assert_refused(
        "y,a,days\n1,1,2\n0,3,-1\n0,5,1\n",
        &exposed,
        &["'days', row 1 (line 3): -1 is neither 0"],
    );
    // Rows that are left out are counted too.
    let dropping = DesignOptions { drop_missing: true, ..exposed.clone() };
    assert_refused("y,a,days\n1,,2\n0,2,2\n2,3,0\n", &dropping, &["row 2 (line 4): 2 with"]);
    let tried = Columns { trials: Some("days".into()), exposure: None, ..exposed.columns };
    let tried = DesignOptions { columns: tried, ..exposed };
    assert!(design(&table("y,a,days\n1,1,2\n0,3,0\n0,5,1\n"), &tried).is_ok());
    assert_refused(
        "y,a,days\n1,1,2\n3,3,2\n0,5,1\n",
        &tried,
        &["row 1 (line 3): 3 successes", "2 trials in 'days'"],
    );
    let linear = options(Outcome::Number, "y");
    let late_text = "y,a\n1,1\n2,2\n\"n.\na.\",4\noops,5\n";
    assert_refused(late_text, &linear, &["'y'", "row 2 (line 4)"]);
    assert_refused("y,a\n1,1\n2,2\noops,5\n", &linear, &["numeric", "row 2 (line 4)", "'oops'"]);
    assert_refused("y,a\ntrue,1\nfalse,2\ntrue,5\n", &linear, &["numeric", "'true'"]);
}

#[test]
fn several_classes_have_the_most_frequent_one_as_base() {
    let text = "y,a\nred,1\nblue,2\nred,4\ngreen,3\nblue,7\nblue,5\n";
    let dataset = design(&table(text), &options(Outcome::Several, "y")).unwrap();
    assert_eq!(dataset.encoding.classes(), ["blue", "green", "red"]);
    assert_eq!(dataset.observations.target[..], [2.0, 0.0, 2.0, 1.0, 0.0, 0.0]);
    let numbers = "y,a\n10,1\n2,2\n10,4\n-1,3\n2,7\n";
    let dataset = design(&table(numbers), &options(Outcome::Several, "y")).unwrap();
    assert_eq!(dataset.encoding.classes(), ["2", "-1", "10"]);
    assert_eq!(dataset.observations.target[..], [2.0, 0.0, 2.0, 1.0, 0.0]);
    assert_refused("y,a\nred,1\nred,2\n", &options(Outcome::Several, "y"), &["'red'", "at least two"]);
    let many: String = (0..60).map(|i| format!("{},{}\n", i % 25, i * i % 7)).collect();
    assert_refused(
        &format!("y,a\n{many}"),
        &options(Outcome::Several, "y"),
        &["'y'", "more than 20 classes"],
    );
}

#[test]
fn ordered_levels_ascend_or_are_said() {
    let numbers = "y,a\n10,1\n2,2\n10,4\n-1,3\n2,7\n";
    let dataset = design(&table(numbers), &options(Outcome::Ordered, "y")).unwrap();
    assert_eq!(dataset.encoding.classes(), ["-1", "2", "10"]);
    assert_eq!(dataset.observations.target[..], [2.0, 1.0, 2.0, 0.0, 1.0]);
    let text = "y,a\nlow,1\nhigh,2\nmid,4\nlow,3\n";
    let plain = options(Outcome::Ordered, "y");
    assert_refused(text, &plain, &["'y'", "say the order of the levels 'high', 'low', 'mid'"]);
    assert_eq!(design(&table(text), &plain).unwrap_err().hint().unwrap().setting, "levels");
    let said = |levels: &[&str]| DesignOptions {
        levels: Some(levels.iter().map(|level| (*level).to_owned()).collect()),
        ..options(Outcome::Ordered, "y")
    };
    let dataset = design(&table(text), &said(&["low", "mid", "high"])).unwrap();
    assert_eq!(dataset.observations.target[..], [0.0, 2.0, 1.0, 0.0]);
    for wrong in [&["low", "mid"][..], &["low", "mid", "high", "top"], &["low", "low", "high"]] {
        assert_refused(text, &said(wrong), &["'high', 'low', 'mid'", "but the order given is"]);
    }
}
