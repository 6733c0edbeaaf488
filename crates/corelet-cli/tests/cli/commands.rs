//! Every subcommand on good data.

use crate::common::{Place, csv, place_with_data, stderr};

const KEYS: [&str; 19] = [
    "method",
    "k",
    "points",
    "n",
    "features",
    "embedding",
    "coordinates",
    "tail",
    "seed",
    "status",
    "passes",
    "iterations",
    "residual",
    "heldout_residual",
    "kl_forward",
    "kl_reverse",
    "map_distance",
    "seconds",
    "peak_memory_bytes",
];

#[test]
fn build_writes_rows_and_a_summary() {
    let place = place_with_data(400);
    let shown = place.succeed(
        "build data.csv --target late --features a,b,kind -k 40 -o core.csv --json summary.json --embedding draws:300",
    );
    assert!(shown.contains("of 400 rows") && shown.contains("nats") && shown.contains("core.csv"), "{shown}");
    let core = place.read("core.csv");
    let mut lines = core.lines();
    assert_eq!(lines.next(), Some("row,weight,a,b,kind,late,count,hours,price"));
    let data = csv(400);
    let rows: Vec<&str> = data.lines().skip(1).collect();
    for line in lines {
        let mut fields = line.splitn(3, ',');
        let row: usize = fields.next().unwrap().parse().unwrap();
        assert!(fields.next().unwrap().parse::<f64>().unwrap() > 0.0);
        assert_eq!(fields.next().unwrap(), rows[row]);
    }
    let summary = place.json("summary.json");
    for key in KEYS {
        assert!(summary.get(key).is_some(), "{key}");
    }
    for part in ["read", "laplace", "build", "evaluate"] {
        assert!(summary["seconds"][part].as_f64().unwrap() >= 0.0, "{part}");
    }
    assert_eq!(summary["method"], "pursuit");
    assert_eq!((&summary["k"], &summary["n"], &summary["features"]), (&40.into(), &400.into(), &5.into()));
    assert_eq!(summary["points"].as_u64().unwrap() as usize, core.lines().count() - 1);
    assert!(summary["kl_forward"].as_f64().unwrap() < 0.1);
    assert_eq!(place.files(), ["core.csv", "data.csv", "summary.json"]);
}

#[test]
fn every_model_builds() {
    let place = place_with_data(300);
    for flags in [
        "--model gaussian --features a,b",
        "--model linear --features a,b --target price",
        "--model linear --features a,b --target price --sigma 0.5 --prior-sd 10",
        "--model poisson --features a,b,kind --target count --exposure hours",
        "--model poisson --features a,b --target count --link softplus",
        "--model logistic --features a,b --target late --no-intercept --standardise none",
        "--model softmax --features a,b --target kind",
        "--model ordinal --features a,b --target kind --levels green,red,blue",
    ] {
        place.succeed(&format!("build data.csv {flags} -k 30 -o core.json --json summary.json"));
        let nats = place.json("summary.json")["kl_forward"].as_f64().unwrap();
        assert!(nats < 0.5, "{flags}: {nats}");
        let rows = place.json("core.json")["rows"].as_array().unwrap().len();
        assert!((1..=30).contains(&rows), "{flags}");
    }
}

#[test]
fn classes_are_in_the_summary_and_in_the_names() {
    let place = place_with_data(300);
    let build = "build data.csv --features a,b --target kind -k 30 -o core.csv --json summary.json";
    place.succeed(&format!("{build} --model softmax"));
    let summary = place.json("summary.json");
    assert_eq!(summary["classes"], serde_json::json!(["blue", "green", "red"]));
    let names: Vec<&str> =
        summary["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["green:a", "green:b", "green:(intercept)", "red:a", "red:b", "red:(intercept)"]);
    let output = place.run(&format!("{build} --model ordinal"));
    assert!(
        stderr(&output).contains("say the order of the levels 'blue', 'green', 'red'"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("--levels"), "{}", stderr(&output));
    place.succeed(&format!("{build} --model ordinal --levels red,blue,green"));
    assert_eq!(place.json("summary.json")["classes"], serde_json::json!(["red", "blue", "green"]));
}

#[test]
fn what_is_out_of_all_proportion_is_refused_in_words() {
    let place = place_with_data(300);
    for count in ["18446744073709551615", "1000000000000", "1"] {
        let output =
            place.run(&format!("build data.csv --target late --embedding draws:{count} -o core.csv"));
        assert!(output.status.code() == Some(2) && stderr(&output).contains("65536"), "{}", stderr(&output));
    }
    place.succeed("build data.csv --target late --features a,b -k 10 --threads 1000 -o core.csv");
    place.write("far.csv", "a,y,e\n1,0,1\n2,3,1e300\n3,1,2\n4,0,1\n");
    let output = place.run("build far.csv --model poisson --target y --exposure e -k 2 -o core.csv");
    assert!(stderr(&output).contains("exposure 'e', row 1 (line 3): "), "{}", stderr(&output));
    place.write("core.csv", "row,weight\n3,1e300\n");
    let output = place.run("evaluate data.csv --target late --features a,b --coreset core.csv");
    assert!(stderr(&output).contains("column 'weight', row 0"), "{}", stderr(&output));
}

#[test]
fn perfect_separation_gets_a_word() {
    let place = Place::new();
    let rows =
        |f: fn(i32) -> bool| (-50..50).map(|i| format!("{i},{}\n", u8::from(f(i)))).collect::<String>();
    place.write("apart.csv", format!("x,y\n{}", rows(|i| i >= 0)));
    place.write("mixed.csv", format!("x,y\n{}", rows(|i| i >= 3 || i == -7)));
    let warned = |file: &str| {
        let output = place.run(&format!("build {file} --target y -k 10 -o core.csv"));
        stderr(&output).contains("separate the classes perfectly")
    };
    assert!(warned("apart.csv") && !warned("mixed.csv"));
}

#[test]
fn a_coreset_of_other_rows_is_refused() {
    let place = place_with_data(300);
    place.succeed("build data.csv --target late --features a,b,kind -k 30 -o core.csv");
    let text = place.read("data.csv");
    let (header, rows) = text.split_once('\n').unwrap();
    let mut sorted: Vec<&str> = rows.lines().collect();
    sorted.sort_unstable();
    place.write("sorted.csv", format!("{header}\n{}\n", sorted.join("\n")));
    for line in ["evaluate", "sample -o draws.csv"] {
        let output =
            place.run(&format!("{line} sorted.csv --target late --features a,b,kind --coreset core.csv"));
        assert_eq!(output.status.code(), Some(1), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains("is not that row of sorted.csv: 'a' is"), "{}", stderr(&output));
    }
    assert!(!place.exists("draws.csv"));
}

#[test]
fn what_build_writes_evaluate_reads() {
    let place = place_with_data(300);
    let flags = "--target late --features a,b --embedding draws:200";
    for file in ["core.csv", "core.parquet", "core.json"] {
        place.succeed(&format!("build data.csv {flags} -k 20 -o {file} --json built.json"));
        let shown = place.succeed(&format!("evaluate data.csv {flags} --coreset {file} --json judged.json"));
        assert!(shown.contains("20 of 300 rows"), "{shown}");
        let (built, judged) = (place.json("built.json"), place.json("judged.json"));
        for key in ["residual", "heldout_residual", "kl_forward", "kl_reverse", "map_distance"] {
            let (a, b) = (built[key].as_f64().unwrap(), judged[key].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-9 + 1e-6 * a.abs(), "{file} {key}: {a} {b}");
        }
        for key in KEYS {
            assert!(judged.get(key).is_some(), "{key}");
        }
    }
}

#[test]
fn a_coreset_of_other_data_is_refused() {
    let place = place_with_data(50);
    place.write("core.csv", "row,weight\n3,1\n50,2\n");
    let output = place.run("evaluate data.csv --target late --coreset core.csv");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "error: core.csv: row 50 is named, but data.csv has 50 rows\n");
}

#[test]
fn compare_writes_every_cell() {
    let place = place_with_data(200);
    let line = "compare data.csv --target late --features a,b -k 5,10 --methods all --seeds 2 -o table.csv";
    let shown = place.succeed(&format!("{line} --embedding draws:100"));
    assert!(shown.contains("forward KL") && shown.contains("a-iht-2"), "{shown}");
    let table = place.read("table.csv");
    assert_eq!(table.lines().count(), 1 + 11 * 2 * 2);
    let width = table.lines().next().unwrap().split(',').count();
    assert!(table.lines().all(|line| line.split(',').count() == width));
    assert!(!table.contains("NaN") && !table.contains("inf,"));
    let few =
        place.succeed("compare data.csv --target late --features a,b -k 5 --methods pursuit,iht --reference");
    assert!(few.contains("iht") && !few.contains("giga"), "{few}");
}

#[test]
fn sparse_vi_must_be_named() {
    let place = place_with_data(120);
    let data = "data.csv --target late --features a,b --embedding draws:100";
    let all = place.succeed(&format!("compare {data} -k 3 --methods all"));
    assert!(!all.contains("sparse-vi"), "{all}");
    let named = place.succeed(&format!("compare {data} -k 2,3 --methods sparse-vi,uniform -o table.csv"));
    assert!(named.contains("sparse-vi") && named.contains("uniform"), "{named}");
    let table = place.read("table.csv");
    assert!(table.contains("\nsparse-vi,3,0,3,completed,draws:100,100,"), "{table}");

    place.succeed(&format!("build {data} -k 3 --method sparse-vi -o core.csv --json summary.json"));
    let summary: serde_json::Value = serde_json::from_str(&place.read("summary.json")).unwrap();
    assert_eq!(summary["method"], "sparse-vi");
    assert_eq!(summary["status"], "completed");
    let looks =
        summary["looks"].as_object().unwrap().values().map(|count| count.as_f64().unwrap()).sum::<f64>();
    assert_eq!(summary["passes"], 3.0 * 502.0 + looks);
    assert_eq!(summary["path"].as_array().unwrap().len(), 3);
    assert!(summary["kl_forward"].as_f64().unwrap() > 0.0);
    assert_eq!(place.read("core.csv").lines().count() as u64, 1 + summary["points"].as_u64().unwrap());
}

#[test]
fn the_demo_shows_every_method() {
    let place = Place::new();
    let shown = place.succeed("demo --n 500 --out here");
    for word in ["uniform", "importance-nnls", "frank-wolfe", "giga", "omp", "a-iht-2", "pursuit", "Try next"]
    {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    for file in ["data.csv", "core.parquet", "table.csv", "summary.json"] {
        assert!(place.exists(&format!("here/{file}")), "{file}");
    }
    let again = place.succeed("evaluate here/data.csv --target y --coreset here/core.parquet");
    assert!(again.contains("of 500 rows"), "{again}");
}

#[test]
fn standard_input_is_csv() {
    let place = Place::new();
    let line = "build - --target late --features a,b -k 10 -o core.csv";
    let output = place.run_with_input(line, &csv(100));
    assert!(output.status.success(), "{}", stderr(&output));
    let bad = place.run_with_input(line, "a,b,late\n1,2\n");
    assert!(stderr(&bad).starts_with("error: standard input: row 0 (line 2)"), "{}", stderr(&bad));
}

#[test]
fn max_kl_takes_as_few_points_as_it_needs() {
    let place = place_with_data(400);
    let line = "build data.csv --target late --features a,b -o core.csv --json summary.json --max-kl";
    let mut last = 0;
    for nats in ["0.5", "0.001"] {
        place.succeed(&format!("{line} {nats}"));
        let summary = place.json("summary.json");
        assert_eq!(summary["max_kl_reached"], true);
        assert!(summary["heldout_nats"].as_f64().unwrap() <= nats.parse().unwrap());
        let points = summary["points"].as_u64().unwrap();
        assert!(points > last, "{points}");
        last = points;
    }
    let output = place.run(&format!("{line} 1e-13 -k 2"));
    assert!(output.status.success());
    assert!(stderr(&output).contains("above 1.0e-13: try k = 4"), "{}", stderr(&output));
}

#[test]
fn quiet_prints_nothing() {
    let place = place_with_data(100);
    for line in [
        "build data.csv --target late -k 5 -o core.csv --quiet",
        "compare data.csv --target late -k 5 --methods uniform --quiet -o t.csv",
        "evaluate data.csv --target late --coreset core.csv -q",
    ] {
        let output = place.run(line);
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{line}");
    }
}

#[test]
fn the_number_of_threads_does_not_show() {
    let place = place_with_data(5000);
    for (threads, name) in [(1, "one"), (2, "two")] {
        for extension in ["csv", "parquet"] {
            place.succeed(&format!(
                "build data.csv --target late --features a,b,kind -k 20 -o {name}.{extension} --threads {threads} \
                 --embedding draws:100 --seed 5"
            ));
        }
    }
    assert_eq!(place.read("one.csv"), place.read("two.csv"));
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(bytes("one.parquet"), bytes("two.parquet"));
}

#[test]
fn every_instruction_set_gives_a_coreset_as_good() {
    let place = place_with_data(5000);
    let line = "build data.csv --target late --features a,b,kind -k 20 -o core.csv";
    let build = |simd: &str| place.command(line).env("CORELET_SIMD", simd).output().unwrap();
    for simd in ["portable", ""] {
        assert!(build(simd).status.success(), "{simd:?}");
        place.succeed("evaluate data.csv --target late --features a,b,kind --coreset core.csv --json q.json");
        let kl = place.json("q.json")["kl_forward"].as_f64().unwrap();
        assert!(kl < 1e-3, "{simd:?}: {kl}");
    }
    let refused = build("abacus");
    assert!(!refused.status.success() && stderr(&refused).contains("avx2"), "{}", stderr(&refused));
}

#[test]
fn bad_usage_exits_2() {
    let place = place_with_data(50);
    for line in [
        "",
        "nonsense",
        "build data.csv --target late",
        "build data.csv --target late -k 0 -o core.csv",
        "build data.csv --target late --method nonsense -o core.csv",
        "build data.csv --target late --embedding hermite:9 -o core.csv",
        "build data.csv --target late --max-kl -3 -o core.csv",
        "build data.csv --target late --method giga --max-kl 0.1 -o core.csv",
        "build data.csv --target late --method sparse-vi --max-kl 0.1 -o core.csv",
        "build data.csv --target late --method sparse-vi --reference -o core.csv",
        "build data.csv --target late --reference -o core.csv",
        "build data.csv --target late --link log -o core.csv",
        "build data.csv --target late --sigma 2 -o core.csv",
        "compare data.csv --target late --methods nonsense",
        "compare data.csv --target late --seeds 0",
        "evaluate data.csv --target late",
    ] {
        let output = place.run(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(!output.stderr.is_empty());
    }
    assert_eq!(place.files(), ["data.csv"]);
}

#[test]
fn help_shows_examples() {
    let place = Place::new();
    for line in ["--help", "build --help", "compare --help", "evaluate --help", "demo --help"] {
        let shown = place.succeed(line);
        assert!(shown.contains("Examples:") && shown.contains("corelet "), "{line}: {shown}");
    }
}
