//! The measurements of `docs/trust.md`: is the verdict right, are certified posteriors calibrated, do rounds help?
//!
//! `cargo run --release -p corelet --example trust -- calibrate --threads 16 [--families | --priors] [--only NAME] [--seeds 3] [-o cases.csv]`
//! `cargo run --release -p corelet --example trust -- sbc --threads 16 [--replicates 300]`
//! `cargo run --release -p corelet --example trust -- skewed --threads 16 [--seeds 10]`
//! `cargo run --release -p corelet --example trust -- liars --threads 16 [--seeds 10]`
//! `cargo run --release -p corelet --example trust -- shapes --threads 16 [--seeds 2] [--only NAME]`
//! `cargo run --release -p corelet --example trust -- several --threads 16 [--seeds 100] [--first 0] [--only NAME]`
//! `cargo run --release -p corelet --example trust -- hierarchies --threads 16 [--seeds 4] [--only NAME]`
//! `cargo run --release -p corelet --example trust -- targets --threads 16 [--seeds 4] [--first 0] [--only NAME]`
//! `cargo run --release -p corelet --example trust -- flights --threads 16 [--draws 1000]`
//!
//! `calibrate` takes the paper's data in too where `CORELET_DATA` names their folder, and `flights` needs it.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a measurement ends where something fails, and prints its table

#[path = "../../tests/common/any_model.rs"]
mod any_model;
mod calibrate;
mod common;
mod families;
mod flights;
mod grid;
mod hierarchies;
mod liars;
mod priors;
mod sbc;
mod several;
mod shapes;
mod skewed;
mod targets;

/// The number after `flag`, or `default`.
fn number(arguments: &[String], flag: &str, default: usize) -> usize {
    let after = arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
    after.map_or(default, |text| text.parse().unwrap())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str, default| number(&arguments, flag, default);
    let threads = number("--threads", 0);
    let only = arguments.iter().position(|a| a == "--only").map_or("", |at| arguments[at + 1].as_str());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    match arguments.first().map(String::as_str) {
        Some("calibrate") => {
            let (seeds, mut cases) = (number("--seeds", 1) as u64, Vec::new());
            let asked = |flag: &str| arguments.iter().any(|a| a == flag);
            let sets = match (asked("--families"), asked("--priors")) {
                (true, _) => families::sets(),
                (_, true) => priors::sets(),
                _ => calibrate::sets(),
            };
            for set in sets.into_iter().filter(|set| set.name.contains(only)) {
                cases.extend(calibrate::run(std::slice::from_ref(&set), &calibrate::SIZES, seeds, 2500));
                println!("{}: {} cases so far", set.name, cases.len());
            }
            println!("\n{}", calibrate::to_table(&cases));
            if let Some(at) = arguments.iter().position(|a| a == "-o") {
                std::fs::write(&arguments[at + 1], calibrate::to_csv(&cases)).unwrap();
            }
        }
        Some("sbc") => {
            for k in [number("-k", 30), number("--small-k", 2)] {
                println!("{}", sbc::run(k, number("--replicates", 300)).to_table());
            }
        }
        Some("skewed") => {
            println!("{}", skewed::to_table(&skewed::run(&skewed::SIZES, number("--seeds", 5) as u64, 5000)));
        }
        Some("flights") => println!("{}", flights::run(number("-k", 500), number("--draws", 1000))),
        Some("liars") => println!("{}", liars::run(number("--seeds", 10) as u64)),
        Some("shapes") => println!("{}", shapes::run(number("--seeds", 2) as u64, only)),
        Some("hierarchies") => println!("{}", hierarchies::run(number("--seeds", 4) as u64, only)),
        Some("targets") => {
            println!("{}", targets::run(number("--seeds", 4) as u64, number("--first", 0) as u64, only));
        }
        Some("several") => {
            println!("{}", several::run(number("--seeds", 100) as u64, number("--first", 0) as u64, only));
        }
        _ => println!(
            "calibrate, sbc, skewed, liars, shapes, several or flights; see the first lines of main.rs"
        ),
    }
}
