//! Rows with weights and offsets, and equal rows taken as one.

use std::fmt::Write as _;

use crate::common::{Place, csv, stderr};

/// `data.csv` of n rows with a count of each row and an offset.
fn place_with_weights(n: usize) -> Place {
    let place = Place::new();
    let mut text = String::new();
    for (i, line) in csv(n).lines().enumerate() {
        match i {
            0 => writeln!(text, "{line},times,log_hours").unwrap(),
            _ => {
                let hours: f64 = line.split(',').nth(5).unwrap().parse().unwrap();
                writeln!(text, "{line},{},{}", 1 + i % 4, hours.ln()).unwrap();
            }
        }
    }
    place.write("data.csv", text);
    place
}

/// The weights of a coreset file.
fn weights(core: &str) -> Vec<f64> {
    core.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_coreset_of_weighted_rows_is_read_back_as_it_was_written() {
    let place = place_with_weights(1200);
    let flags =
        "data.csv --model poisson --target count --features a,b,kind --weights times --offset log_hours";
    place.succeed(&format!("build {flags} -k 60 -o core.csv --json built.json"));
    let built = place.json("built.json");
    let total: f64 = weights(&place.read("core.csv")).iter().sum();
    assert!((total / 3000.0 - 1.0).abs() < 0.2, "{total}");
    assert!((built["total_weight"].as_f64().unwrap() - total).abs() < 1e-6);
    for core in ["core.csv", "core.parquet", "core.json"] {
        place.succeed(&format!("build {flags} -k 60 -o {core}"));
        place.succeed(&format!("evaluate {flags} --coreset {core} --json read.json"));
        let read = place.json("read.json");
        for key in ["kl_forward", "kl_reverse", "heldout_nats"] {
            let (there, here) = (built[key].as_f64().unwrap(), read[key].as_f64().unwrap());
            assert!((there - here).abs() < 1e-6 * (1.0 + there), "{core} {key}: {there} {here}");
        }
        assert_eq!(read["fingerprint"], built["fingerprint"]);
    }
    let shown =
        place.succeed(&format!("sample {flags} --coreset core.csv --draws 300 --warmup 300 -o draws.csv"));
    assert!(shown.starts_with("A - "), "{shown}");
    place.succeed(&format!(
        "fit {flags} -k 60 -o draws.csv --draws 300 --warmup 300 --json fit.json --report r.html"
    ));
    assert_eq!(place.json("fit.json")["verdict"]["grade"], "A");

    // Under the log link an exposure is the offset of its logarithm.
    let exposed = flags.replace("--offset log_hours", "--exposure hours");
    place.succeed(&format!("evaluate {exposed} --coreset core.csv --json exposed.json"));
    let (one, two) = (place.json("read.json"), place.json("exposed.json"));
    let (one, two) = (one["kl_forward"].as_f64().unwrap(), two["kl_forward"].as_f64().unwrap());
    assert!((one - two).abs() < 1e-6 * (1.0 + one), "{one} {two}");
}

/// Data of few levels: 3000 rows of which 18 are distinct.
fn levels() -> String {
    let mut text = String::from("size,kind,late\n");
    for (i, line) in csv(3000).lines().skip(1).enumerate() {
        let late = line.split(',').nth(3).unwrap();
        writeln!(text, "{},{},{late}", i % 3, ["red", "green", "blue"][(i / 3) % 3]).unwrap();
    }
    text
}

#[test]
fn few_distinct_rows_are_the_coreset() {
    let place = Place::new();
    place.write("data.csv", levels());
    let flags = "data.csv --target late";
    let shown = place.succeed(&format!("build {flags} --collapse -o core.parquet --json built.json"));
    assert!(shown.contains("18 of 3 000 rows, 18 distinct, stand for all (collapse, exact)"), "{shown}");
    let built = place.json("built.json");
    assert_eq!((&built["n"], &built["distinct"], &built["points"]), (&3000.into(), &18.into(), &18.into()));
    assert!(built["kl_forward"].as_f64().unwrap() < 1e-12);
    for collapse in ["--collapse", ""] {
        let line = format!("sample {flags} {collapse} --coreset core.parquet --draws 300 --warmup 300");
        let shown = place.succeed(&format!("{line} -o draws.csv"));
        assert!(
            shown.starts_with(
                "A - exact: the posterior of these 18 weighted rows matches that of all 3 000 rows"
            ),
            "{shown}"
        );
        place.succeed(&format!("evaluate {flags} {collapse} --coreset core.parquet --json read.json"));
        assert!(place.json("read.json")["kl_forward"].as_f64().unwrap() < 1e-12);
    }
    // Fewer points than distinct rows are chosen among these.
    let shown = place.succeed(&format!("build {flags} --collapse -k 9 -o few.csv"));
    assert!(shown.contains("of 3 000 rows, 18 distinct, stand for all (pursuit"), "{shown}");
    assert!(weights(&place.read("few.csv")).len() <= 9);
    let compared = place.succeed(&format!("compare {flags} --collapse -k 9 --methods pursuit,uniform"));
    assert!(compared.contains("3 000 rows"), "{compared}");
}

#[test]
fn bad_weights_are_named() {
    let place = place_with_weights(60);
    let data = "data.csv --target late --features a,b,kind";
    let refused = |line: &str, code: i32, words: &[&str]| {
        let output = place.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{line}: {}", stderr(&output));
        }
    };
    refused(&format!("build {data} --weights a -o c.csv"), 1, &["'a' is the weights and a feature"]);
    refused(&format!("build {data} --offset kind -o c.csv"), 1, &["'kind'"]);
    refused(
        "build data.csv --model gaussian --features a,b --weights times -o c.csv",
        2,
        &["--weights is for --model"],
    );
    refused(
        "build data.csv --model gaussian --features a,b --collapse -o c.csv",
        2,
        &["--collapse is for --model"],
    );
    refused(&format!("build {data} --collapse --groups times -o c.csv"), 2, &["--groups and --collapse"]);
    let mut lines: Vec<String> = place.read("data.csv").lines().map(str::to_owned).collect();
    let fields: Vec<&str> = lines[7].split(',').collect();
    lines[7] = [&fields[..7], &["-3", fields[8]]].concat().join(",");
    place.write("data.csv", lines.join("\n"));
    refused(
        &format!("build {data} --weights times -o c.csv"),
        1,
        &["data.csv", "'times'", "row 6", "line 8", "-3", "the weights"],
    );
    lines[7] = lines[7].replace(",-3,", ",,");
    place.write("data.csv", lines.join("\n"));
    refused(&format!("build {data} --weights times -o c.csv"), 1, &["1 in 'times'"]);
    assert_eq!(place.files(), ["data.csv"]);
}
