//! `corelet-paper` as a user runs it: cells, tables, figures and the report; resumed, interrupted, and without data.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod common;

use std::process::Output;

use common::{Place, real_data, stderr};

/// A small run of the Gaussian experiment, whose data are generated.
const GAUSSIAN: &str =
    "gaussian --quick --out out --trials 1 --methods uniform,giga,a-iht-2,pursuit,pursuit-exact";

fn run(place: &Place, line: &str) -> Output {
    let output = place.command(line).output().unwrap();
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    output
}

fn column<'t>(table: &'t str, name: &str) -> Vec<&'t str> {
    let at = table.lines().next().unwrap().split(',').position(|field| field == name).unwrap();
    table.lines().skip(1).map(|line| line.split(',').nth(at).unwrap()).collect()
}

/// Every element that is opened is closed, in order, and attributes are quoted.
fn assert_well_formed(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in text.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("<{piece} does not end"));
        if tag.starts_with(['!', '?']) {
            continue;
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "<{tag}>");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "</{closed}> closes another");
        } else if !tag.ends_with('/') && !["meta", "br", "hr"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn an_experiment_end_to_end() {
    let place = Place::new();
    let output = run(&place, GAUSSIAN);
    assert!(String::from_utf8(output.stdout).unwrap().contains("50 cells of 1 experiments, 3 figures"));

    let cells = place.read("out/cells.csv");
    assert_eq!(cells.lines().count(), 1 + 5 * 10);
    let divergences = column(&cells, "kl_reverse");
    assert!(divergences.iter().all(|kl| kl.parse::<f64>().is_ok_and(|kl| kl > -1e-9)), "{divergences:?}");
    assert_eq!(column(&place.read("out/summary.csv"), "trials"), vec!["1"; 50]);

    for figure in ["gaussian", "gaussian-convergence", "gaussian-projections"] {
        let svg = place.read(&format!("out/figures/{figure}.svg"));
        assert!(svg.starts_with("<svg viewBox="), "{figure}");
        assert_well_formed(&svg);
        let png = std::fs::read(place.path(&format!("out/figures/{figure}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{figure}");
    }
    let report = place.read("out/report.html");
    assert_well_formed(&report);
    assert!(report.contains(r#"http-equiv="Content-Security-Policy" content="default-src 'none';"#));
    assert!(!report.contains("<script") && !report.contains("src="));
    for text in ["The mean of a Gaussian", "A-IHT II", "pursuit has the lowest reverse KL", "holds"] {
        assert!(report.contains(text), "{text}");
    }
}

#[test]
fn finished_cells_are_not_run_again() {
    let place = Place::new();
    run(&place, GAUSSIAN);
    let first = place.read("out/cells/gaussian.jsonl");
    let table = place.read("out/cells.csv");
    run(&place, GAUSSIAN);
    assert_eq!(place.read("out/cells/gaussian.jsonl"), first);

    // Killed in the middle of a line: that cell alone is made again, with the same result.
    place.write("out/cells/gaussian.jsonl", &first[..first.len() - 20]);
    run(&place, GAUSSIAN);
    let again = place.read("out/cells.csv");
    assert_eq!(column(&again, "kl_reverse"), column(&table, "kl_reverse"));

    // A method more adds its cells to those that are there.
    run(&place, &GAUSSIAN.replace("uniform,", "uniform,omp,"));
    assert_eq!(place.read("out/cells.csv").lines().count(), 1 + 6 * 10);

    // Another seed is another experiment; the old cells are set aside.
    let other = run(&place, &format!("{GAUSSIAN} --seed 7"));
    assert!(stderr(&other).contains("cells of other settings"), "{}", stderr(&other));
    assert!(place.exists("out/cells/gaussian.old"));
}

#[test]
fn the_same_numbers_for_any_number_of_threads() {
    let tables = [1, 3].map(|threads| {
        let place = Place::new();
        let line = "gaussian --quick --out out --methods a-iht,pursuit";
        run(&place, &format!("{line} --threads {threads}"));
        let cells = place.read("out/cells.csv");
        ["kl_reverse", "residual", "trial"].map(|name| column(&cells, name).join(" "))
    });
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn missing_data_are_named_and_the_rest_is_run() {
    let place = Place::new();
    std::fs::create_dir(place.path("data")).unwrap();
    let line = "map-distance --quick --out out --data data --trials 1 --methods uniform,giga";
    let output = run(&place, line);
    let message = stderr(&output);
    for file in ["phishing.npz", "ds1.npz", "biketrips.npz", "airportdelays.npz"] {
        assert!(message.contains(&format!("{file} is not there")), "{message}");
    }
    assert!(message.contains("bayesian-coresets"), "{message}");
    let cells = place.read("out/cells.csv");
    let mut data = column(&cells, "data");
    data.dedup();
    assert_eq!(data, ["synth_lr", "synth_poiss"]);
    assert_eq!(column(&cells, "source"), vec!["generated"; 2 * 2 * 5]);
    let report = place.read("out/report.html");
    assert!(report.contains("Not run: phishing") && place.exists("out/figures/map-distance.png"));
}

#[test]
fn the_theory_holds() {
    let place = Place::new();
    run(&place, "theory --quick --out out");
    assert_well_formed(&place.read("out/figures/theory.svg"));
    let table = place.read("out/theory.csv");
    for (distance, bound) in column(&table, "distance").iter().zip(column(&table, "theorem_1")) {
        let distance: f64 = distance.parse().unwrap();
        assert!(bound.is_empty() || distance <= bound.parse::<f64>().unwrap() + 1e-10);
    }
    assert!(!place.read("out/report.html").contains("does not hold"));
}

#[test]
fn bad_usage_is_refused() {
    let place = Place::new();
    for (line, hint) in [
        ("nothing", "gaussian"),
        ("gaussian --methods a-iht-3", "a-iht-2"),
        ("gaussian --trials 0", "--trials"),
    ] {
        let output = place.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(hint), "{}", stderr(&output));
    }
    place.write("out", "a file");
    let output = place.command(GAUSSIAN).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("out"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn an_interruption_keeps_what_is_finished() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let place = Place::new();
    let line = "gaussian --out out --trials 4 --methods uniform,giga,a-iht --data .";
    let child = place.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines =
        || std::fs::read_to_string(place.path("out/cells/gaussian.jsonl")).map_or(0, |t| t.lines().count());
    let start = Instant::now();
    while lines() < 4 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("are kept in"), "{}", stderr(&output));
    let kept = place.read("out/cells/gaussian.jsonl");
    assert!((4..1 + 4 * 3 * 18).contains(&kept.lines().count()), "{} lines", kept.lines().count());
    assert!(kept.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(!place.exists("out/report.html"));
}

#[test]
fn weights_that_descend_have_no_larger_divergence() {
    let place = Place::new();
    run(&place, "gaussian --quick --out out --trials 1 --methods pursuit-exact,pursuit-descent");
    let cells = place.read("out/cells.csv");
    let of = |method: &str| -> Vec<f64> {
        let rows = column(&cells, "method").into_iter().zip(column(&cells, "kl_reverse"));
        rows.filter(|row| row.0 == method).map(|row| row.1.parse().unwrap()).collect()
    };
    let pairs: Vec<(f64, f64)> = of("pursuit-exact").into_iter().zip(of("pursuit-descent")).collect();
    assert_eq!(pairs.len(), 10);
    assert!(pairs.iter().all(|(before, after)| after <= before), "{pairs:?}");
    assert!(pairs.iter().filter(|(before, after)| *after < 0.95 * before).count() >= 2, "{pairs:?}");
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn radial_basis_functions_on_real_data() {
    let folder = real_data();
    let place = Place::new();
    let line = format!(
        "rbf --quick --out out --trials 1 --methods giga,a-iht-2,pursuit,pursuit-exact --data {}",
        folder.display()
    );
    run(&place, &line);
    assert_well_formed(&place.read("out/figures/rbf-maps.svg"));
    let cells = place.read("out/cells.csv");
    let (methods, sizes, divergences) =
        (column(&cells, "method"), column(&cells, "k"), column(&cells, "kl_forward"));
    let at = |method: &str| -> f64 {
        let row = (0..methods.len()).find(|&i| methods[i] == method && sizes[i] == "60").unwrap();
        divergences[row].parse().unwrap()
    };
    // With 60 of 200 rows and 61 basis functions the truncation is what limits pursuit, not the search.
    assert!(at("pursuit-exact") < at("pursuit") && at("pursuit") < at("giga"), "{cells}");
}
