//! `--rest`: a Gaussian beside the rows, or in their place, from `build` to files and back.

use crate::common::{Place, place_with_data, stderr};

const DATA: &str = "data.csv --model logistic --features a,b,kind --target late";

/// A file with a Gaussian alone is judged, sampled and predicted from; as Parquet and as JSON.
#[test]
fn a_gaussian_alone_is_a_coreset() {
    let place = place_with_data(3000);
    for core in ["core.parquet", "core.json"] {
        let said = place.succeed(&format!(
            "build {DATA} -k 0 --rest gaussian -o {core} --json built.json --report r.html"
        ));
        assert!(said.starts_with("a Gaussian factor stands for all 3 000 rows"), "{said}");
        let built = place.json("built.json");
        assert_eq!((&built["points"], &built["rest"]), (&0.into(), &"gaussian".into()), "{built}");
        let nats = built["heldout_nats"].as_f64().unwrap();
        assert!(nats > 0.0 && nats < 0.01, "{nats}");
        place.succeed(&format!("evaluate {DATA} --coreset {core} --json judged.json --test data.csv"));
        let judged = place.json("judged.json");
        let again = judged["heldout_nats"].as_f64().unwrap();
        assert!((again / nats - 1.0).abs() < 0.5, "{nats} {again}");
        assert!(judged["test"]["difference"]["mean"].as_f64().unwrap().abs() < 1e-3);
        let said = place.succeed(&format!("sample {DATA} --coreset {core} -o draws.csv --json sampled.json"));
        assert!(said.starts_with('A'), "{said}");
        assert_eq!(place.json("sampled.json")["sampling"]["gradients"], 0);
        place.succeed(&format!("predict {core} data.csv -o predicted.csv"));
    }
    place.succeed(&format!("sample {DATA} --full -o full.csv --json full.json"));
    let mean = |file: &str, j: usize| place.json(file)["parameters"][j]["mean"].as_f64().unwrap();
    let sd = |j: usize| place.json("full.json")["parameters"][j]["sd"].as_f64().unwrap();
    for j in 0..5 {
        assert!((mean("sampled.json", j) - mean("full.json", j)).abs() < 0.15 * sd(j), "{j}");
    }
}

/// The weighted rows of a file with a Gaussian part, and the part, are what `sample` reads back.
#[test]
fn rows_beside_a_gaussian_read_back() {
    let place = place_with_data(200);
    let counts = "data.csv --model poisson --features a,b,kind --target count";
    place.succeed(&format!("build {counts} -k 60 --rest gaussian -o core.parquet --json built.json"));
    let built = place.json("built.json");
    let rounds = built["rounds"].as_array().unwrap();
    let variance = |at: usize| rounds[at]["variance"].as_f64().unwrap();
    assert!(rounds.len() == 2 && variance(1) < variance(0), "{built}");
    assert!(built["points"].as_u64().unwrap() > 0);
    place.succeed(&format!("sample {counts} --coreset core.parquet -o draws.csv --json sampled.json"));
    let judged = place.json("sampled.json")["verdict"]["variance"].as_f64().unwrap();
    assert!(judged < 0.5 * variance(0), "{judged} {}", variance(0));
}

#[test]
fn what_does_not_go_with_a_gaussian_is_refused() {
    let place = place_with_data(300);
    let refused = |line: &str, said: &str| {
        let output = place.run(line);
        assert!(!output.status.success() && stderr(&output).contains(said), "{line}: {}", stderr(&output));
    };
    refused(
        &format!("build {DATA} -k 10 --rest gaussian -o core.csv"),
        "CSV has no place for the Gaussian part",
    );
    refused(
        &format!("build {DATA} -k 10 --rest gaussian --method giga -o c.json"),
        "--rest is for --method pursuit",
    );
    refused(&format!("build {DATA} --max-kl 0.1 --rest gaussian -o c.json"), "--max-kl and --rest gaussian");
    refused(&format!("build {DATA} -k 0 -o c.json"), "-k is 0");
    let output = place.run(&format!("fit {DATA} -k 10 -o draws.csv --coreset core.csv"));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    assert!(place.read("core.csv").lines().count() > 2);
    // A file without rows is no coreset unless it has a Gaussian part.
    place.write("empty.json", r#"{"metadata": {}, "rows": []}"#);
    refused(&format!("evaluate {DATA} --coreset empty.json"), "it has no row");
    damaged(&place);
}

fn damaged(place: &Place) {
    let note = r#"{\"centre\": [0], \"gradient\": [0, 1], \"curvature\": [1]}"#;
    place.write("bad.json", format!(r#"{{"metadata": {{"corelet.rest": "{note}"}}, "rows": []}}"#));
    let output = place.run(&format!("evaluate {DATA} --coreset bad.json"));
    assert!(stderr(&output).contains("a Gaussian part of 1 parameters has 2 numbers"), "{}", stderr(&output));
}
