//! `corelet predict` and `evaluate --test`: new rows, by a coreset file alone and beside the data.

use crate::common::{Place, csv, place_with_data, stderr};

/// A column of a CSV file.
fn column(place: &Place, file: &str, name: &str) -> Vec<f64> {
    let text = place.read(file);
    let mut lines = text.lines();
    let at = lines.next().unwrap().split(',').position(|known| known == name).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_coreset_file_predicts_new_rows() {
    let place = place_with_data(400);
    place.write("new.csv", csv(50));
    for (flags, range) in [
        ("--model linear --features a,b,kind --target price", -10.0..10.0),
        ("--model logistic --features a,b --target late", 0.0..1.0),
        ("--model poisson --features a,b,kind --target count --exposure hours", 0.0..50.0),
        ("--model student --degrees estimated --features a,b --target price", -10.0..10.0),
    ] {
        for core in ["core.parquet", "core.json"] {
            place.succeed(&format!("build data.csv {flags} -k 60 -o {core}"));
            place.succeed(&format!("predict {core} new.csv -o out.csv --chains 2 --warmup 200 --draws 200"));
            let [mean, low, high] = ["mean", "q5", "q95"].map(|name| column(&place, "out.csv", name));
            assert_eq!(mean.len(), 50);
            for ((mean, low), high) in mean.iter().zip(&low).zip(&high) {
                assert!(low < mean && mean < high && range.contains(mean), "{flags}: {low} {mean} {high}");
            }
        }
        // Both files hold the same rows, and so the same predictions.
        let from_json = place.read("out.csv");
        place.succeed("predict core.parquet new.csv -o out.csv --chains 2 --warmup 200 --draws 200");
        assert_eq!(place.read("out.csv"), from_json, "{flags}");
    }
}

#[test]
fn classes_are_predicted_by_their_probabilities() {
    let place = place_with_data(400);
    let build = "build data.csv --features a,b --target kind -k 60 -o core.parquet";
    for model in ["softmax", "ordinal --levels blue,red,green"] {
        place.succeed(&format!("{build} --model {model}"));
        place.succeed(
            "predict core.parquet data.csv -o out.csv --chains 2 --warmup 200 --draws 200 --quantiles 0.5",
        );
        let each = ["blue:mean", "red:mean", "green:mean"].map(|name| column(&place, "out.csv", name));
        for ((blue, red), green) in each[0].iter().zip(&each[1]).zip(&each[2]) {
            assert!((blue + red + green - 1.0).abs() < 1e-9 && *blue > 0.0, "{model}");
        }
        assert_eq!(column(&place, "out.csv", "red:q50").len(), 400);
    }
}

#[test]
fn new_rows_that_do_not_suit_are_refused_by_name() {
    let place = place_with_data(300);
    place.succeed("build data.csv --features a,kind --target late -k 40 -o core.parquet");
    place.succeed("build data.csv --features a,kind --target late -k 40 -o core.csv");
    for (rows, said) in [
        ("a\n1\n", "no column 'kind'"),
        ("a,kind\n1,red\n2,pink\n", "'kind', row 1 (line 3): 'pink' is an unseen level"),
        ("a,kind\n1,red\n,red\n", "1 of 2 rows have missing values (1 in 'a')"),
        ("a,kind\none,red\ntwo,red\n", "'a' was numbers"),
    ] {
        place.write("new.csv", rows);
        let output = place.run("predict core.parquet new.csv -o out.csv");
        assert_eq!(output.status.code(), Some(1), "{rows}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let output = place.run("predict core.csv data.csv -o out.csv");
    assert!(stderr(&output).contains("write the coreset as .parquet or .json"), "{}", stderr(&output));
    let output = place.run("predict core.parquet data.csv -o out.csv --quantiles 5");
    assert!(stderr(&output).contains("between 0 and 1"), "{}", stderr(&output));
}

#[test]
fn test_rows_are_scored_under_both_posteriors() {
    let place = place_with_data(900);
    let text = csv(900);
    let lines: Vec<&str> = text.lines().collect();
    place.write("train.csv", format!("{}\n", lines[..701].join("\n")));
    place.write("test.csv", format!("{}\n{}\n", lines[0], lines[701..].join("\n")));
    let flags = "train.csv --model linear --features a,b,kind --target price";
    place.succeed(&format!("build {flags} -k 60 -o core.parquet"));
    place.succeed(&format!("evaluate {flags} --coreset core.parquet --test test.csv --json judged.json"));
    let test = &place.json("judged.json")["test"];
    let of = |whose: &str, key: &str| test[whose][key].as_f64().unwrap();
    assert_eq!(test["full"]["rows"], 200);
    assert!((of("coreset", "mean") - of("full", "mean")).abs() < 0.01, "{test}");
    assert!((of("difference", "mean") - (of("coreset", "mean") - of("full", "mean"))).abs() < 1e-9);
    assert!(of("difference", "mean_se") < of("full", "mean_se"));
    // Uniform noise of width 1 has the log density 0, a normal one of its variance −0.18.
    assert!((of("full", "mean") + 0.18).abs() < 0.1, "{test}");
    place.write("other.csv", "a,b,kind\n1,1,red\n");
    let output = place.run(&format!("evaluate {flags} --coreset core.parquet --test other.csv"));
    assert!(stderr(&output).contains("no column 'price'"), "{}", stderr(&output));
}
