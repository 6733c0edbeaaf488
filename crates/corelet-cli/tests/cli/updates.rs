//! `corelet update`: rows that arrive, and files that cannot be added.

use crate::common::{Place, csv, stderr};

const CHAINS: &str = "--chains 2 --warmup 300 --draws 600";

/// A month of rows each, of one long table.
fn months() -> Place {
    let place = Place::new();
    let text = csv(6000);
    let mut lines = text.lines();
    let head = lines.next().unwrap().to_owned();
    let rows: Vec<&str> = lines.collect();
    place.write("all.csv", &text);
    for (name, range) in [("one.csv", 0..3000), ("two.csv", 3000..4500), ("three.csv", 4500..6000)] {
        place.write(name, format!("{head}\n{}\n", rows[range].join("\n")));
    }
    place
}

fn grade(place: &Place, file: &str) -> String {
    place.json(file)["verdict"]["grade"].as_str().unwrap().to_owned()
}

fn mean(place: &Place, file: &str, name: &str) -> (f64, f64) {
    let parameters = place.json(file)["parameters"].as_array().unwrap().clone();
    let found = parameters.iter().find(|parameter| parameter["name"] == name).unwrap();
    (found["mean"].as_f64().unwrap(), found["sd"].as_f64().unwrap())
}

#[test]
fn months_are_added_one_by_one() {
    let place = months();
    let model = "--model poisson --features a,b,kind --target count --exposure hours";
    place.succeed(&format!("fit one.csv {model} -k 80 -o one.parquet --coreset core1.parquet {CHAINS}"));
    let said =
        place.succeed(&format!("update core1.parquet two.csv -o core2.parquet --json two.json {CHAINS}"));
    assert!(said.contains("1 500 new, added to 3 000 earlier rows in 1 block"), "{said}");
    assert!(said.contains("rest on their certificate"), "{said}");
    assert_eq!(grade(&place, "two.json"), "A");
    place.succeed(&format!(
        "update core2.parquet three.csv -o core3.json --posterior draws.csv --json three.json {CHAINS}"
    ));
    assert_eq!(grade(&place, "three.json"), "A");
    assert!(place.json("three.json")["rests_on_earlier"].as_f64().unwrap() > 0.0);
    assert_eq!(place.json("three.json")["coreset"]["n"], 6000);
    assert_eq!(place.read("draws.csv").lines().count(), 1201);
    // The same as a fit of all rows at once, to a fraction of a posterior sd. Priors scaled to data differ by that of the first month.
    place.succeed(&format!("fit all.csv {model} -k 80 -o all.parquet --json all.json {CHAINS}"));
    for name in ["a", "b", "kind=green"] {
        let ((one, sd), (two, _)) = (mean(&place, "all.json", name), mean(&place, "three.json", name));
        assert!((one - two).abs() < 0.25 * sd, "{name}: {one} {two} ± {sd}");
    }
    // With the earlier rows at hand nothing rests on older certificates.
    let said = place.succeed(&format!(
        "update core2.parquet three.csv --old one.csv two.csv -o core3b.parquet --json full.json {CHAINS}"
    ));
    assert!(said.contains("available: the verdict covers all rows"), "{said}");
    assert!(place.json("full.json")["rests_on_earlier"].is_null());
    assert_eq!(grade(&place, "full.json"), "A");
    // What is written predicts, and takes more rows.
    place.succeed(&format!("predict core3.json two.csv -o predicted.csv {CHAINS}"));
    let again = place.run("update core3.json three.csv -o core4.parquet");
    assert!(stderr(&again).contains("are in the coreset already"), "{}", stderr(&again));
    // Nothing was certified by a build alone.
    place.succeed(&format!("build one.csv {model} -k 80 -o built.parquet"));
    let output = place.run(&format!("update built.parquet two.csv -o built2.parquet {CHAINS}"));
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

/// The Gaussian part of an updated coreset is on the scale of the first month, and levels have its base: rows that it is judged on are
/// encoded so, whatever they would be by themselves.
#[test]
fn an_updated_file_is_judged_on_the_scale_of_its_first_rows() {
    let place = months();
    // Rows with another mean of `a`, and so many of other levels that `blue` is the base no longer.
    let two = place.read("two.csv");
    let (head, rows) = two.split_once('\n').unwrap();
    let keeps = |row: &&str| {
        let cells: Vec<&str> = row.split(',').collect();
        cells[0].parse::<f64>().unwrap() > 0.0 && cells[2] != "blue"
    };
    let late = rows.lines().filter(keeps).collect::<Vec<_>>().join("\n");
    place.write("moved.csv", format!("{head}\n{late}\n"));
    place.write("both.csv", format!("{}{late}\n", place.read("one.csv")));
    let model = "--model logistic --features a,b,kind --target late";
    place.succeed(&format!(
        "fit one.csv {model} -k 60 --rest gaussian -o one.parquet --coreset core1.parquet {CHAINS}"
    ));
    place.succeed(&format!("update core1.parquet moved.csv -o core2.json --json two.json {CHAINS}"));
    assert_eq!(grade(&place, "two.json"), "A");
    place.succeed(&format!(
        "sample both.csv {model} --coreset core2.json -o draws.csv --json sampled.json {CHAINS}"
    ));
    assert_eq!(grade(&place, "sampled.json"), "A");
    for name in ["a", "b", "kind=green"] {
        let ((one, sd), (two, _)) = (mean(&place, "two.json", name), mean(&place, "sampled.json", name));
        assert!((one - two).abs() < 0.25 * sd, "{name}: {one} {two} ± {sd}");
    }
    let said = place.succeed(&format!("evaluate both.csv {model} --coreset core2.json"));
    assert!(!said.contains("other observations"), "{said}");
    // Draws of the coreset have its parameters, whatever level these rows would have as base.
    let given = format!("certify draws.csv both.csv {model}");
    let refused = place.run(&given);
    assert!(stderr(&refused).contains("nothing is called"), "{}", stderr(&refused));
    place.succeed(&format!("{given} --coreset core2.json"));
    // The same rows in another order are others.
    let one = place.read("one.csv");
    let (head, rows) = one.split_once('\n').unwrap();
    place.write("turned.csv", format!("{head}\n{late}\n{rows}"));
    place.run(&format!(
        "sample turned.csv {model} --coreset core2.json -o turned_draws.csv --json turned.json {CHAINS}"
    ));
    assert!(!place.files().iter().any(|name| name == "turned.json") || grade(&place, "turned.json") != "A");
    // A Gaussian part of other parameters is refused.
    let core = place.read("core2.json");
    let at = core.find("corelet.rest").unwrap();
    let (before, after) = core.split_at(at);
    let lied = after.replacen("[\\\"a\\\",\\\"b\\\"", "[\\\"b\\\",\\\"a\\\"", 1);
    assert_ne!(lied, after);
    place.write("lied.json", format!("{before}{lied}"));
    let before = place.files();
    let refused = place.run(&format!("sample both.csv {model} --coreset lied.json -o lied.csv {CHAINS}"));
    let said = stderr(&refused);
    assert!(!refused.status.success() && said.contains("Gaussian part is of the parameters b, a"), "{said}");
    assert_eq!(place.files(), before);
}

#[test]
fn what_cannot_be_added_leaves_no_file() {
    let place = months();
    place.succeed(&format!(
        "fit one.csv --features a,kind --target late -k 60 -o draws.parquet --coreset core.parquet {CHAINS}"
    ));
    place.succeed("build one.csv --features a,kind --target late -k 60 -o core.csv");
    place.write("unseen.csv", "a,kind,late\n0.5,violet,1\n0.25,red,0\n");
    place.write("less.csv", "a,late\n0.5,1\n");
    place.write("gap.csv", "a,kind,late\n,red,1\n0.5,red,0\n");
    place.write("other.csv", csv(10));
    let before = place.files();
    for (line, wanted) in [
        ("update core.parquet one.csv -o out.parquet", "rows are in the coreset already"),
        ("update core.parquet unseen.csv -o out.parquet", "violet"),
        ("update core.parquet less.csv -o out.parquet", "'kind'"),
        ("update core.parquet gap.csv -o out.parquet", "'a'"),
        ("update core.csv two.csv -o out.parquet", "does not say how its rows were encoded"),
        ("update core.parquet two.csv -o out.csv", "CSV has no place"),
        ("update core.parquet two.csv -o core.parquet", "overwrite an input"),
        (
            "update core.parquet two.csv --old three.csv -o out.parquet",
            "1500 rows, and the coreset represents 3000",
        ),
        (
            "update core.parquet two.csv --old two.csv three.csv -o out.parquet",
            "are others than those that were added",
        ),
    ] {
        let output = place.run(line);
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(wanted), "{line}: {said}");
        assert_eq!(place.files(), before, "{line}");
    }
    let output = place.run(&format!("update core.parquet gap.csv --drop-missing -o out.parquet {CHAINS}"));
    assert!(stderr(&output).contains("1 of 2 rows have missing values"), "{}", stderr(&output));
}

/// No row of either month is needed: the two Gaussians add up.
#[test]
fn a_gaussian_alone_takes_new_rows() {
    let place = months();
    let model = "--model logistic --features a,b,kind --target late";
    place.succeed(&format!(
        "fit one.csv {model} -k 0 --rest gaussian -o one.parquet --coreset core1.parquet {CHAINS}"
    ));
    place.succeed(&format!("update core1.parquet two.csv -o core2.json --json two.json {CHAINS}"));
    assert_eq!(grade(&place, "two.json"), "A");
    assert_eq!(place.json("two.json")["coreset"]["n"], 4500);
    assert_eq!(place.json("two.json")["coreset"]["points"], 0);
    place.succeed("predict core2.json three.csv -o predicted.csv");
}
