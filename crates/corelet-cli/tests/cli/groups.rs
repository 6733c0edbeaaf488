//! Groups of rows: whole patients are chosen, and certified.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::common::{Place, csv, stderr};

/// `data.csv` of 1200 visits of 200 patients.
fn place_with_visits() -> Place {
    let place = Place::new();
    let mut text = String::new();
    for (i, line) in csv(1200).lines().enumerate() {
        let patient = if i == 0 { "patient".to_owned() } else { format!("p{:03}", (i * 31) % 200) };
        writeln!(text, "{line},{patient}").unwrap();
    }
    place.write("data.csv", text);
    place
}

/// Rows and weights of each patient in a coreset file.
fn patients(core: &str) -> HashMap<String, Vec<(usize, String)>> {
    let mut found: HashMap<String, Vec<(usize, String)>> = HashMap::new();
    for line in core.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (row, weight, patient) = (fields[0], fields[1], fields[fields.len() - 1]);
        found.entry(patient.to_owned()).or_default().push((row.parse().unwrap(), weight.to_owned()));
    }
    found
}

#[test]
fn chosen_patients_come_with_all_their_visits() {
    let place = place_with_visits();
    let flags = "data.csv --target late --features a,b,kind --groups patient";
    let shown = place.succeed(&format!(
        "fit {flags} -k 50 -o draws.csv --coreset core.csv --json summary.json --report report.html"
    ));
    assert!(shown.contains("of 200 groups") && shown.contains("A"), "{shown}");
    let chosen = patients(&place.read("core.csv"));
    assert!((10..=50).contains(&chosen.len()), "{}", chosen.len());
    for (patient, visits) in &chosen {
        let rows: Vec<usize> = visits.iter().map(|(row, _)| *row).collect();
        let all: Vec<usize> =
            (0..1200).filter(|row| format!("p{:03}", ((row + 1) * 31) % 200) == *patient).collect();
        assert_eq!(rows, all, "{patient}");
        assert!(visits.iter().all(|(_, weight)| *weight == visits[0].1), "{patient}");
    }
    let summary = place.json("summary.json");
    assert_eq!(summary["verdict"]["grade"], "A", "{}", summary["verdict"]);
    let coreset = &summary["coreset"];
    assert_eq!((&coreset["groups"], &coreset["k"]), (&200.into(), &50.into()));
    assert_eq!(coreset["groups_chosen"].as_u64().unwrap() as usize, chosen.len());

    place.succeed(&format!("build {flags} -k 50 -o again.csv --threads 1"));
    assert_eq!(place.read("again.csv"), place.read("core.csv"));
    place.succeed(&format!("evaluate {flags} --coreset core.csv"));
}

#[test]
fn what_groups_cannot_be_is_refused() {
    let place = place_with_visits();
    let refused = |line: &str, code: i32, words: &str| {
        let output = place.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{line}: {}", stderr(&output));
    };
    let data = "data.csv --target late --features a,b,kind";
    refused(&format!("build {data} --groups doctor -o core.csv"), 1, "there is no column 'doctor'");
    refused(&format!("build {data} --groups a -o core.csv"), 1, "'a' is a feature and the group at once");
    refused(&format!("build {data} --groups patient -k 201 -o core.csv"), 1, "from 200 groups of rows");
    let apart = "do not go together";
    refused(&format!("build {data} --groups patient --max-kl 0.1 -o core.csv"), 2, "--groups and --max-kl");
    refused(&format!("build {data} --groups patient --rounds 2 -o core.csv"), 2, apart);
    refused(
        &format!("fit {data} --groups patient --method sparse-vi -o draws.csv"),
        2,
        "--method sparse-vi do",
    );
    refused(&format!("path {data} --groups patient"), 1, "a path works on rows, not on groups of rows");
    refused(&format!("compare {data} --groups patient"), 1, "a comparison works on rows");
    assert_eq!(place.files(), ["data.csv"]);
}
