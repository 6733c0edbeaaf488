//! What a person who comes from other tools types, slips included: names, pipes, columns that are not what they seem.

use std::fmt::Write as _;

use crate::common::{Place, place_with_data, stderr};

const MODEL: &str = "--target late --features a,b,kind";

fn refused(place: &Place, line: &str, words: &[&str]) {
    let output = place.run(line);
    let message = stderr(&output);
    assert!(!output.status.success(), "{line}");
    for word in words {
        assert!(message.contains(word), "{line}: {word:?} is not in {message}");
    }
}

#[test]
fn names_may_be_spelled_in_other_ways() {
    let place = place_with_data(300);
    let counts = "--target count --features a,b -k 40 -o core.csv";
    place.succeed(&format!("build data.csv --model negative_binomial {counts}"));
    place.succeed(&format!("build data.csv --model poisson --method a_iht_2 {counts} --random-state 3"));
    refused(&place, &format!("build data.csv --model poison {counts}"), &["'poisson'"]);
    refused(&place, "build data.csv --target lat -o core.csv", &["no column 'lat' (did you mean 'late'?)"]);
    refused(&place, &format!("build data.csv {counts} --sede 3"), &["--seed"]);
}

#[test]
fn numbers_of_draws_that_nobody_means_are_refused() {
    let place = place_with_data(60);
    let fit = format!("fit data.csv {MODEL} -k 20 -o draws.csv");
    refused(
        &place,
        &format!("{fit} --chains 1000000"),
        &["chains = 1000000 cannot be used: it must be 1 to 1000"],
    );
    refused(&place, &format!("{fit} --draws 4000000000"), &["draws = 4000000000", "4 to 1000000"]);
    assert!(!place.exists("draws.csv"));
}

#[test]
fn a_file_is_named_once() {
    let place = place_with_data(200);
    place.succeed(&format!("build data.csv {MODEL} -k 20 -o core.parquet"));
    place.write("te.csv", "a,b,kind,late\n1,2,mauve,0\n");
    let output = place.run(&format!("evaluate data.csv {MODEL} --coreset core.parquet --test te.csv"));
    let message = stderr(&output);
    assert!(
        message.contains("error: te.csv: column 'kind'") && !message.contains("te.csv: te.csv"),
        "{message}"
    );
}

#[test]
fn a_table_goes_to_standard_output() {
    let place = place_with_data(200);
    let output = place.run(&format!("build data.csv {MODEL} -k 20 -o -"));
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success() && table.starts_with("row,weight,a,b,kind"), "{table}");
    assert!(table.lines().skip(1).all(|line| line.split(',').count() == 9), "{table}");
    assert!(
        stderr(&output).contains("of 200 rows stand for all")
            && stderr(&output).contains("written        standard output")
    );
    place.write("core.csv", &table);
    let judged = place.succeed(&format!("evaluate data.csv {MODEL} --coreset core.csv"));
    assert!(judged.contains("of 200 rows stand for all"));
    let chains = "--warmup 50 --draws 60 --chains 2";
    let draws = place.run(&format!("sample data.csv {MODEL} --coreset core.csv {chains} -o -"));
    assert_eq!(String::from_utf8_lossy(&draws.stdout).lines().count(), 121);
    place.succeed(&format!("build data.csv {MODEL} -k 20 -o core.parquet"));
    place.write("new.csv", "a,b,kind\n0.5,1,red\n");
    let predicted = place.run(&format!("predict core.parquet new.csv {chains} -o -"));
    assert!(String::from_utf8_lossy(&predicted.stdout).starts_with("row,mean,sd,q5,q50,q95,a,b,kind\n"));
    let compared = place.run(&format!("compare data.csv {MODEL} -k 5 --methods uniform,giga -o -"));
    assert_eq!(String::from_utf8_lossy(&compared.stdout).lines().count(), 3);
    refused(
        &place,
        &format!("build data.csv {MODEL} -k 20 -o - --json -"),
        &["two outputs are standard output (-)"],
    );
    refused(&place, &format!("build data.csv {MODEL} -k 20 -o - --rest gaussian"), &["CSV has no place"]);
}

#[test]
fn unseen_levels_may_be_taken_as_the_base_level() {
    let place = place_with_data(300);
    place.succeed(&format!("build data.csv {MODEL} -k 40 -o core.parquet"));
    place.write("new.csv", "a,b,kind\n1,2,mauve\n1,2,blue\n0,1,pink\n");
    place.write("base.csv", "a,b,kind\n1,2,blue\n1,2,blue\n0,1,blue\n");
    let predict = "predict core.parquet";
    refused(&place, &format!("{predict} new.csv -o p.csv"), &["'mauve'", "--unseen baseline"]);
    let output = place.run(&format!("{predict} new.csv -o p.csv --unseen baseline"));
    let (message, _) = (stderr(&output), place.succeed(&format!("{predict} base.csv -o q.csv")));
    assert!(
        message.contains(
            "column 'kind': 2 rows with unseen levels ('mauve', 'pink') taken as the base level 'blue'"
        ),
        "{message}"
    );
    let numbers = |name: &str| -> Vec<String> {
        place.read(name).lines().map(|line| line.split(',').take(6).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(numbers("p.csv"), numbers("q.csv"));
}

#[test]
fn columns_that_are_not_what_they_seem_are_told() {
    let place = Place::new();
    let mut text = String::from("id,shuffled,always,price,y,many\n");
    for i in 0..200 {
        let (shuffled, price) = (1 + i * 73 % 200, 1000 + 37 * i);
        let price = format!("\"{},{:03}\"", price / 1000, price % 1000);
        writeln!(text, "{},{shuffled},7,{price},{},{}", 1000 + 3 * i, i % 2, i % 9).unwrap();
    }
    place.write("data.csv", &text);
    refused(
        &place,
        "build data.csv --target y -o core.csv",
        &["column 'price'", "'1,000' has commas between thousands", "as 1000"],
    );
    let rows = |cell: &str| -> String { (0..200).map(|i| format!("{i},{}{cell}\n", i % 2)).collect() };
    for (cell, number, kind) in [(",12.5%", "12.5", "per cent"), (",\"$1,200.50\"", "1200.50", "a currency")]
    {
        place.write("units.csv", format!("x,y,fee\n{}", rows(cell)));
        let words = ["column 'fee', row 0 (line 2)", kind, number, "--categories fee"];
        refused(&place, "build units.csv --target y -o core.csv", &words);
        assert!(place.run("build units.csv --target y --categories fee -k 9 -o core.csv").status.success());
        refused(&place, "build units.csv --target fee --model linear -o core.csv", &words[..3]);
    }
    let output = place.run("build data.csv --target y --exclude price -k 20 -o core.csv");
    let message = stderr(&output);
    for column in ["id", "shuffled"] {
        let words =
            format!("column '{column}' holds a different whole number in every row, like an identifier");
        assert!(message.contains(&words), "{message}");
    }
    assert!(message.contains("'always'") && !message.contains("'many' holds a different"), "{message}");
    let target = |name: &str| format!("build data.csv --target {name} --features y -o core.csv");
    refused(&place, &target("id"), &["looks like counts (poisson, negative-binomial)", "--model poisson"]);
    place.write("data.csv", "x,y\n1,0.5\n2,-1.5\n3,2.25\n4,1\n");
    refused(
        &place,
        "build data.csv --target y -o core.csv",
        &["is continuous (linear, student)", "--model linear"],
    );
    place.write("data.csv", "x,y\n1,0.5\n2,1.5\n3,2.25\n4,1\n");
    refused(&place, "build data.csv --target y -o core.csv", &["continuous and positive", "--model gamma"]);
    let target =
        |name: &str, model: &str| format!("build data.csv --target {name} --model {model} -o core.csv");
    let said =
        ["0.5 is not a count (0, 1, 2, ...)", "continuous and positive (gamma, linear)", "--model gamma"];
    refused(&place, &target("y", "poisson"), &said);
    place.write("data.csv", "x,y,kind,days\n1,0,a,0\n2,1,b,5\n3,1,c,2\n4,0,a,1\n");
    let said = ["0 is not a positive number", "has two values (logistic)", "--model logistic"];
    refused(&place, &target("y", "gamma"), &said);
    let said =
        ["must be numeric", "holds 'a'", "is text, as classes are (softmax, ordinal)", "--model softmax"];
    refused(&place, &target("kind", "poisson"), &said);
    refused(
        &place,
        &target("kind", "logistic"),
        &["has 3: 'a', 'b', 'c'", "--model softmax takes several classes"],
    );
    // Times until an event may be whole numbers, and are no counts for that.
    let output = place.run("build data.csv --target days --model weibull --event y -o core.csv");
    assert!(
        stderr(&output).contains("'days', row 0 (line 2): 0 is not a positive number"),
        "{}",
        stderr(&output)
    );
    assert!(!stderr(&output).contains("suits such a target"), "{}", stderr(&output));
}

#[test]
fn dates_and_columns_of_many_levels_are_told_before_the_fit() {
    let place = Place::new();
    let mut text = String::from("day,shop,half,y\n");
    for i in 0..400 {
        let (day, shop) = (1 + i % 28, i % 60);
        writeln!(text, "2024-02-{day:02},s{shop},{},{}", ["a", "b"][i / 200], (i * 7 + i / 3) % 2).unwrap();
    }
    place.write("data.csv", &text);
    let message = stderr(&place.run("build data.csv --target y -k 20 -o core.csv"));
    assert!(message.contains("column 'day' holds dates as text, and each of its 28 values"), "{message}");
    assert!(message.contains("column 'shop' has 60 levels in 400 rows"), "{message}");
    assert!(!message.contains("'half'"), "{message}");
    let message = stderr(&place.run("build data.csv --target y --categories day,shop -k 20 -o core.csv"));
    assert!(!message.contains("holds dates") && !message.contains("60 levels"), "{message}");
    let output = place.run("build data.csv --target y --features half --model linear -k 20 -o core.csv");
    assert!(stderr(&output).contains("'y' has no other values than 0 and 1"), "{}", stderr(&output));
}

#[test]
fn semicolons_separate_cells_where_the_header_has_no_comma() {
    let place = place_with_data(300);
    let commas = place.read("data.csv");
    place.write("semicolons.csv", commas.replace(',', ";"));
    place.succeed(&format!("build data.csv {MODEL} -k 20 -o a.csv"));
    place.succeed(&format!("build semicolons.csv {MODEL} -k 20 -o b.csv"));
    assert_eq!(place.read("a.csv"), place.read("b.csv"));
    place.write("decimals.csv", "x;y\n1,5;0\n2,5;1\n0,5;1\n3,25;0\n");
    refused(
        &place,
        "build decimals.csv --target y -o core.csv",
        &["column 'x', row 0 (line 2): '1,5' has a decimal comma; write it with a point"],
    );
}

#[test]
fn a_fit_needs_no_file_to_write_to() {
    let place = place_with_data(2000);
    let said = place.succeed(&format!("fit data.csv {MODEL} -k 100"));
    assert!(said.contains("estimates") && said.contains("90 % interval"), "{said}");
    assert!(!said.contains("written"), "{said}");
    refused(
        &place,
        &format!("fit data.csv {MODEL} -k 100 -o absent/draws.csv"),
        &["its folder does not exist"],
    );
}

#[test]
fn the_number_of_points_follows_from_the_accuracy() {
    let place = place_with_data(3000);
    place.succeed(&format!("build data.csv {MODEL} -o core.csv --json s.json"));
    let summary = place.json("s.json");
    assert_eq!((&summary["max_kl"], &summary["max_kl_reached"]), (&0.01.into(), &true.into()));
    assert!(summary["heldout_nats"].as_f64().unwrap() <= 0.01, "{summary}");
    // Where points are asked for that are too few, a number is said.
    let output = place.run(&format!("build data.csv {MODEL} -k 3 -o core.csv --json s.json"));
    assert!(
        stderr(&output).contains("3 points are too few for 5 parameters: try k = "),
        "{}",
        stderr(&output)
    );
    assert!(place.json("s.json")["too_few"]["enough"].as_u64().unwrap() > 5);
    // A method without a search takes some points a parameter.
    place.succeed(&format!("build data.csv {MODEL} --method giga -o core.csv --json s.json"));
    assert_eq!(place.json("s.json")["k"], 100);
}

#[test]
fn what_a_spreadsheet_leaves_behind_is_named_with_what_to_do() {
    let place = Place::new();
    let mut text = String::from("age,,bought\n");
    for i in 0..200 {
        writeln!(text, "{},,{}", i % 60, if i * 7 % 5 < 2 { "yes" } else { "no" }).unwrap();
    }
    place.write("table.csv", &text);
    // A comma at the end of each line is a column without a cell: leaving out its rows would leave none.
    for drop in ["", " --drop-missing"] {
        refused(
            &place,
            &format!("fit table.csv --target bought{drop}"),
            &["column 'column2' is empty in every row; --exclude column2 leaves it out"],
        );
    }
    let fit = "fit table.csv --target bought --exclude column2";
    refused(
        &place,
        fit,
        &["which of 'no', 'yes' counts as success is not said; --positive yes takes this one"],
    );
    refused(&place, "fit table.csv --target column2", &["column 'column2' is empty in every row"]);
    refused(
        &place,
        "predict table.csv table.csv -o out.csv",
        &["table.csv: not a coreset file: it has no column 'row'"],
    );
}
