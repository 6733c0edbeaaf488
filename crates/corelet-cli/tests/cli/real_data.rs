//! Real data, where `CORELET_DATA` names their folder.

use crate::common::{Place, real_data, stderr};

#[test]
fn flights() {
    let Some(folder) = real_data() else { return };
    let place = Place::new();
    let line = format!("build {}/flights.parquet --target late -k 200 -o core.parquet", folder.display());
    let refused = place.run(&line);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--drop-missing"), "{}", stderr(&refused));
    assert!(place.files().is_empty());

    let shown = place.succeed(&format!("{line} --drop-missing --json summary.json"));
    println!("{shown}");
    let summary = place.json("summary.json");
    assert!(summary["points"].as_u64().unwrap() <= 200);
    let (nats, embedding) = (summary["kl_forward"].as_f64().unwrap(), summary["embedding"].as_str().unwrap());
    assert!(nats <= 1e-3, "{nats} nats with {embedding}");
}

#[test]
fn phishing_matches_the_prototype() {
    let Some(folder) = real_data() else { return };
    let place = Place::new();
    let shown = place.succeed(&format!(
        "compare {}/phishing.npz --standardise whiten --embedding draws:500 -k 100 --seeds 3 \
         --methods pursuit,giga,uniform -o table.csv",
        folder.display()
    ));
    println!("{shown}");
    let table = place.read("table.csv");
    let at = |name: &str| table.lines().next().unwrap().split(',').position(|field| field == name).unwrap();
    let mut divergences: Vec<f64> = table
        .lines()
        .filter(|line| line.starts_with("pursuit,"))
        .map(|line| line.split(',').nth(at("kl_forward")).unwrap().parse().unwrap())
        .collect();
    divergences.sort_unstable_by(f64::total_cmp);
    assert!(divergences[1] < 5e-3, "{divergences:?}");
}
