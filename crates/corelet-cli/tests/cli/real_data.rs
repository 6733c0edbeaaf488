//! Real data, where `CORELET_DATA` names their folder.

use crate::common::{Place, real_data, stderr};

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn flights() {
    let folder = real_data();
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

/// `compare` on the six sets: pursuit and A-IHT II in reference mode against the figures of the prototype and of the
/// authors' code at k = 100. The medians of three seeds are within what ten seeds spread over.
#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn six_sets_match_the_figures() {
    let folder = real_data();
    let place = Place::new();
    let sets = [
        ("synth_lr", "logistic", 8e-11, 4.5e-4),
        ("phishing", "logistic", 2.4e-3, 1.6e-2),
        ("ds1", "logistic", 4.6e-3, 4.7e-2),
        ("synth_poiss", "poisson --link softplus", 4e-12, 2.4e-5),
        ("biketrips", "poisson --link softplus", 1.3e-7, 0.22),
        ("airportdelays", "poisson --link softplus", 2.8e-3, 0.37),
    ];
    for (set, model, prototype, reference) in sets {
        place.succeed(&format!(
            "compare {}/{set}.npz --model {model} --standardise whiten --embedding draws:500 -k 100 --seeds 3 \
             --methods pursuit,a-iht-2 --reference -o {set}.csv",
            folder.display()
        ));
        let table = place.read(&format!("{set}.csv"));
        let [pursuit, a_iht_2] = ["pursuit,", "a-iht-2,"].map(|method| median_divergence(&table, method));
        println!("{set}: pursuit {pursuit:.1e} ({prototype:.1e}), a-iht-2 {a_iht_2:.1e} ({reference:.1e})");
        assert!(pursuit <= prototype, "{set}: pursuit {pursuit:e}");
        assert!((reference / 3.0..reference * 3.0).contains(&a_iht_2), "{set}: a-iht-2 {a_iht_2:e}");
    }
}

/// The median of `kl_forward` over the lines of one method.
fn median_divergence(table: &str, method: &str) -> f64 {
    let at = table.lines().next().unwrap().split(',').position(|field| field == "kl_forward").unwrap();
    let lines = table.lines().filter(|line| line.starts_with(method));
    let mut divergences: Vec<f64> =
        lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect();
    divergences.sort_unstable_by(f64::total_cmp);
    divergences[divergences.len() / 2]
}
