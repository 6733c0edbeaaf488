//! `sample`, `fit` and `path`, and rounds.

use crate::common::{place_with_data, stderr};

const MODEL: &str = "--target late --features a,b,kind";
const SHORT: &str = "--warmup 100 --draws 250 --chains 4";

#[test]
fn fit_builds_samples_and_certifies() {
    let place = place_with_data(400);
    let shown = place.succeed(&format!(
        "fit data.csv {MODEL} -k 60 {SHORT} -o draws.parquet --arviz draws.json --json s.json --coreset core.csv"
    ));
    assert!(shown.starts_with("A - trusted"), "{shown}");
    let summary = place.json("s.json");
    let verdict = &summary["verdict"];
    assert_eq!((&verdict["grade"], &verdict["certified"]), (&"A".into(), &true.into()));
    for key in [
        "variance",
        "variance_upper",
        "kl_symmetrised",
        "log_evidence_ratio",
        "ess",
        "ess_share",
        "efficiency",
        "pareto_k",
        "pareto_threshold",
        "draws",
        "reasons",
    ] {
        assert!(verdict.get(key).is_some(), "{key}");
    }
    assert!(verdict["variance_upper"].as_f64().unwrap() < 0.1);
    assert_eq!(summary["sampling"]["divergences"], 0);
    assert!(summary["sampling"]["r_hat"].as_f64().unwrap() < 1.05);
    assert_eq!(summary["parameters"].as_array().unwrap().len(), 5);
    assert!(summary["coreset"]["kl_forward"].as_f64().unwrap() < 0.05);
    let arviz = place.json("draws.json");
    assert_eq!(arviz["coords"]["parameter"].as_array().unwrap().len(), 5);
    for (group, draws) in [("posterior", 250), ("warmup_posterior", 100)] {
        for scale in ["original", "standardised"] {
            let chains = arviz[group][scale].as_array().unwrap();
            assert_eq!((chains.len(), chains[0].as_array().unwrap().len()), (4, draws), "{group} {scale}");
        }
    }
    assert_eq!(place.files(), ["core.csv", "data.csv", "draws.json", "draws.parquet", "s.json"]);
}

#[test]
fn no_a_beside_a_prior_that_holds_the_coefficients() {
    let place = place_with_data(400);
    let text = place.read("data.csv");
    let (header, rows) = text.split_once('\n').unwrap();
    let scaled = rows.lines().map(|line| {
        let (rest, price) = line.rsplit_once(',').unwrap();
        format!("{rest},{}\n", 2e5 + 1e5 * price.parse::<f64>().unwrap())
    });
    place.write("rich.csv", format!("{header}\n{}", scaled.collect::<String>()));
    let line =
        format!("fit rich.csv --model linear --target price --features a,b -k 60 {SHORT} -o draws.csv");
    assert!(place.succeed(&line).starts_with("A - "));
    let output = place.run(&format!("{line} --prior-sd 1"));
    assert!(stderr(&output).contains("holds its coefficients near 0"), "{}", stderr(&output));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(!shown.starts_with('A') && shown.contains("the prior pulls coefficients away"), "{shown}");
}

#[test]
fn a_coreset_too_small_is_not_certified() {
    let place = place_with_data(400);
    let output = place.run(&format!(
        "fit data.csv {MODEL} -k 3 --max-k 3 --rest none --rounds 1 {SHORT} -o draws.csv --json s.json"
    ));
    assert_eq!(output.status.code(), Some(3));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.starts_with("C - not certified"), "{shown}");
    assert!(shown.lines().next().unwrap().contains("not the model"), "{shown}");
    assert!(shown.contains("what to do"), "{shown}");
    assert_eq!(place.json("s.json")["verdict"]["grade"], "C");
    assert!(place.exists("draws.csv"));
}

#[test]
fn grade_b_writes_weights() {
    let place = place_with_data(400);
    // Some size between too small and good enough is trusted after reweighting.
    for (seed, k) in (0..4).flat_map(|seed| [6, 7, 5, 8, 9].map(|k| (seed, k))) {
        let line = format!(
            "fit data.csv {MODEL} --prior paper -k {k} --max-k {k} --rest none --rounds 1 --seed {seed} --warmup 200 -o draws.csv --json s.json"
        );
        place.run(&line);
        if place.json("s.json")["verdict"]["grade"] == "B" {
            let text = place.read("draws.csv");
            let weights: Vec<f64> =
                text.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
            let total: f64 = weights.iter().sum();
            assert!((total / weights.len() as f64 - 1.0).abs() < 1e-9);
            assert!(weights.iter().any(|w| (w - 1.0).abs() > 0.05));
            return;
        }
    }
    panic!("no size was graded B");
}

#[test]
fn sample_reads_what_build_writes_and_all_rows_agree() {
    let place = place_with_data(400);
    place.succeed(&format!("build data.csv {MODEL} -k 60 -o core.parquet"));
    let line = format!("sample data.csv {MODEL} --draws 1000 --warmup 200");
    let shown = place.succeed(&format!("{line} --coreset core.parquet -o draws.csv --json core.json"));
    assert!(shown.starts_with("A - trusted"), "{shown}");
    let shown = place.succeed(&format!("{line} --full -o full.csv --json full.json"));
    assert!(shown.starts_with("the posterior of all 400 rows"), "{shown}");
    let (core, full) = (place.json("core.json"), place.json("full.json"));
    assert!(full["verdict"].is_null());
    for (a, b) in core["parameters"].as_array().unwrap().iter().zip(full["parameters"].as_array().unwrap()) {
        let number = |p: &serde_json::Value, key: &str| p[key].as_f64().unwrap();
        let shift = (number(a, "mean") - number(b, "mean")) / number(b, "sd");
        assert!(shift.abs() < 0.15, "{}: {shift}", a["name"]);
        assert!((number(a, "sd") / number(b, "sd") - 1.0).abs() < 0.12);
    }
    let header = place.read("draws.csv").lines().next().unwrap().to_owned();
    assert!(
        header.starts_with("chain,draw,weight,a,b,") && header.contains("standardised.(intercept)"),
        "{header}"
    );
}

#[test]
fn a_coreset_of_other_observations_is_no_a() {
    let place = place_with_data(400);
    let rows = place.read("data.csv");
    for core in ["core.parquet", "core.json"] {
        place.write("data.csv", &rows);
        place.succeed(&format!("build data.csv {MODEL} -k 60 -o {core}"));
        place.succeed(&format!("build data.csv {MODEL} -k 60 -o chosen.csv"));
        let chosen = place.read("chosen.csv");
        let is_chosen = |row: usize| chosen.lines().any(|line| line.starts_with(&format!("{row},")));
        let other = (0..400).find(|&row| !is_chosen(row)).unwrap();
        // A row that was not chosen is now another one; the cells of the chosen rows are what they were.
        let mut lines: Vec<&str> = rows.lines().collect();
        let copied = lines[1 + (other + 7) % 400];
        lines[1 + other] = copied;
        place.write("data.csv", lines.join("\n"));
        for line in ["evaluate", "sample --draws 500 --warmup 200 -o draws.csv"] {
            let output = place.run(&format!("{line} data.csv {MODEL} --coreset {core}"));
            assert!(output.status.success(), "{}", stderr(&output));
            assert!(stderr(&output).contains("built on other observations"), "{line}: {}", stderr(&output));
            assert!(
                !String::from_utf8_lossy(&output.stdout).starts_with('A'),
                "{line}: {}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
    }
}

#[test]
fn the_same_seed_draws_the_same_bytes() {
    let place = place_with_data(200);
    for threads in [1, 3] {
        place.succeed(&format!(
            "fit data.csv {MODEL} -k 40 {SHORT} --threads {threads} -o draws{threads}.csv"
        ));
    }
    assert_eq!(place.read("draws1.csv"), place.read("draws3.csv"));
}

#[test]
fn rounds_from_a_subsample_need_no_full_fit() {
    let place = place_with_data(600);
    let shown = place
        .succeed(&format!("build data.csv {MODEL} -k 50 --start subsample:100 -o core.csv --json s.json"));
    assert!(shown.contains("rounds") && shown.contains("no fit of all rows"), "{shown}");
    let summary = place.json("s.json");
    assert_eq!(summary["start"], "subsample:100");
    assert!(summary["kl_forward"].is_null());
    let rounds = summary["rounds"].as_array().unwrap();
    assert!((2..=4).contains(&rounds.len()));
    place.succeed(&format!("evaluate data.csv {MODEL} --coreset core.csv --json e.json"));
    assert!(place.json("e.json")["kl_forward"].as_f64().unwrap() < 0.05);
}

#[test]
fn max_kl_is_confirmed() {
    let place = place_with_data(500);
    place.succeed(&format!("build data.csv {MODEL} --max-kl 0.01 -o core.csv --json s.json"));
    let summary = place.json("s.json");
    assert_eq!(summary["max_kl_reached"], true);
    place.run(&format!("sample data.csv {MODEL} --coreset core.csv -o draws.csv --json d.json"));
    let variance = place.json("d.json")["verdict"]["variance"].as_f64().unwrap();
    assert!(0.5 * variance < 0.0115, "{variance}");
}

#[test]
fn path_marks_the_knee() {
    let place = place_with_data(400);
    let shown = place.succeed(&format!("path data.csv {MODEL} -k 60 -o path.csv"));
    assert!(shown.contains("held out") && shown.contains("knee"), "{shown}");
    let text = place.read("path.csv");
    assert_eq!(text.lines().next(), Some("points,residual_nats,heldout_nats,kl_forward,knee"));
    let points: Vec<usize> =
        text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(points.is_sorted() && *points.last().unwrap() <= 60 && points.len() > 30);
}

#[test]
fn bad_usage_is_refused_before_any_work() {
    let place = place_with_data(100);
    for (line, message) in [
        ("sample data.csv --target late -o d.csv", "--coreset"),
        ("sample data.csv --target late --full --coreset core.csv -o d.csv", "cannot be used with"),
        ("fit data.csv --target late -o d.txt", ".parquet"),
        ("fit data.csv --target late -o d.csv --arviz d.csv", "two outputs"),
        ("fit data.csv --target late -o d.csv --target-accept 2", "target_accept"),
        ("build data.csv --target late -o c.csv --start few", "subsample:ROWS"),
        ("build data.csv --target late -o c.csv --max-kl 1 --rounds-by nuts", "--rounds-by laplace"),
    ] {
        let output = place.run(line);
        assert!(!output.status.success(), "{line}");
        assert!(stderr(&output).contains(message), "{line}: {}", stderr(&output));
    }
    assert_eq!(place.files(), ["data.csv"]);
}

#[test]
fn dispersions_and_cutpoints_are_shown_on_their_natural_scale() {
    let place = place_with_data(400);
    let fit = |flags: &str| {
        let shown = place
            .succeed(&format!("fit data.csv --features a,b {flags} -k 60 {SHORT} -o d.csv --json s.json"));
        let natural = place.json("s.json")["natural"].as_array().unwrap().clone();
        let names: Vec<String> = natural.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        names.iter().for_each(|name| assert!(shown.contains(name), "{shown}"));
        (names, natural.iter().map(|one| one["mean"].as_f64().unwrap()).collect::<Vec<f64>>())
    };
    // Uniform noise of width 1.
    let (names, means) = fit("--target price --model linear");
    assert!(names == ["sigma"] && (means[0] - 12f64.powf(-0.5)).abs() < 0.02, "{means:?}");
    // Chains mix as well on one scale as on the other: ranks are the same.
    let summary = place.json("s.json");
    let logs =
        summary["parameters"].as_array().unwrap().iter().find(|one| one["name"] == "log_sigma").unwrap();
    for key in ["ess_bulk", "ess_tail"] {
        let [of, of_log] = [&summary["natural"][0], logs].map(|one| one[key].as_f64().unwrap());
        assert!(of > 0.0 && (of - of_log).abs() < 1e-6 * of_log, "{key}: {of} and {of_log}");
    }
    // Three levels in turn, whatever the features are.
    let (names, means) = fit("--target kind --model ordinal --levels red,green,blue");
    assert!(names == ["cut_1", "cut_2"] && means[0] < means[1], "{means:?}");
    assert!((means[1] - means[0] - 2.0 * 2f64.ln()).abs() < 0.2, "{means:?}");
}
