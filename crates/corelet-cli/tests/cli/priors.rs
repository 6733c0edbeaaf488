//! `--priors`: a file, a word, what is said of them, and what is refused.

use crate::common::{place_with_data, stderr};

const MODEL: &str = "--target late --features a,b,kind";

const FILE: &str = r#"
default = "normal(0, 2.5)"
scale = "original"
intercept = "student_t(4, 0, 10)"

[coefficients]
"kind*" = "laplace(0, 1)"
a = { normal = [0, 0.5], scale = "standardised" }
"#;

#[test]
fn a_file_of_priors_is_used_said_and_remembered() {
    let place = place_with_data(400);
    place.write("priors.toml", FILE);
    let shown = place
        .succeed(&format!("build data.csv {MODEL} -k 40 --priors priors.toml -o core.parquet --json s.json"));
    for line in [
        "  prior          a ~ normal(0, 0.5) on the standardised scale\n",
        "                 other coefficients ~ normal(0, 2.5) on the original scale\n",
        "                 kind* (2) ~ laplace(0, 1) on the original scale\n",
        "                 (intercept) ~ student_t(4, 0, 10)\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let priors = place.json("s.json")["priors"].clone();
    assert_eq!(priors[2]["parameters"], "kind*");
    assert_eq!((&priors[2]["prior"], &priors[2]["count"]), (&"laplace(0, 1)".into(), &2.into()));

    let evaluate = format!("evaluate data.csv {MODEL} --coreset core.parquet");
    let same = place.run(&format!("{evaluate} --priors priors.toml --json e.json"));
    assert!(same.status.success() && !stderr(&same).contains("priors"), "{}", stderr(&same));
    assert!(place.json("e.json")["kl_forward"].as_f64().unwrap() < 0.01);
    // Those of the file where none are given, and a warning where others are.
    let kept = place.run(&format!("{evaluate} --json k.json"));
    assert!(stderr(&kept).contains("no priors are given") && stderr(&kept).contains("its own are taken"));
    assert_eq!(place.json("k.json")["priors"], priors);
    assert_eq!(place.json("k.json")["kl_forward"], place.json("e.json")["kl_forward"]);
    for given in ["--priors auto", "--prior-sd 1"] {
        let other = place.run(&format!("{evaluate} {given} --json o.json"));
        assert!(stderr(&other).contains("built under other priors"), "{}", stderr(&other));
        assert_ne!(place.json("o.json")["priors"], priors);
    }

    let sample = format!("sample data.csv {MODEL} --coreset core.parquet --warmup 100 --draws 250");
    place.succeed(&format!("{sample} --priors priors.toml -o draws.csv --json d.json"));
    assert_eq!(place.json("d.json")["priors"], priors);
    place.succeed(&format!("{sample} -o again.csv --json d.json"));
    assert_eq!(
        (place.json("d.json")["priors"].clone(), place.read("again.csv")),
        (priors, place.read("draws.csv"))
    );
}

#[test]
fn the_word_auto_and_a_number_are_priors_too() {
    let place = place_with_data(400);
    let line = format!("build data.csv {MODEL} -k 40 -o core.csv");
    let shown = place.succeed(&format!("{line} --priors auto"));
    assert!(shown.contains("0/1 features (2) ~ normal(0, 2.5) on the original scale"), "{shown}");
    let shown = place.succeed(&format!("{line} --prior-sd 1"));
    assert!(shown.contains("coefficients (4) ~ normal(0, 1) on the standardised scale"), "{shown}");
}

#[test]
fn what_is_wrong_with_a_file_of_priors_is_named() {
    let place = place_with_data(60);
    for (text, why) in [
        ("default = \"normal(0)\"", "'normal(0)' is no prior: it must be normal(mean, sd)"),
        ("scale = \"original\"\ndefault = normal", "line 2: "),
        ("[coefficients]\nbb = \"normal(0, 1)\"", "'bb', which is no coefficient (did you mean 'b'?)"),
        ("log_sigma = \"normal(0, 1)\"", "'log_sigma', which is no parameter beside the coefficients"),
    ] {
        place.write("priors.toml", text);
        let output = place.run(&format!("build data.csv {MODEL} --priors priors.toml -o core.csv"));
        assert!(!output.status.success() && stderr(&output).contains(why), "{text}: {}", stderr(&output));
    }
    for (flags, why) in [
        ("--priors missing.toml", "it cannot be read"),
        ("--priors auto --prior-sd 2", "--priors and --prior-sd do not go together"),
    ] {
        let output = place.run(&format!("build data.csv {MODEL} {flags} -o core.csv"));
        assert!(!output.status.success() && stderr(&output).contains(why), "{flags}: {}", stderr(&output));
    }
}
