//! Ctrl-C: before a coreset exists nothing is written; after, the best so far is.
#![cfg(unix)]

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Place, place_with_data};

fn start(place: &Place, line: &str) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("corelet"))
        .args(line.split_whitespace())
        .current_dir(place.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn before_a_coreset_exists_nothing_is_written() {
    let place = Place::new();
    // Nothing comes on its standard input, so that it waits there for ever.
    let mut child = start(&place, "build - --target y -o core.csv --json summary.json");
    // Held open: waiting would close it, and the end of the input would race with the signal.
    let input = child.stdin.take();
    sleep(Duration::from_millis(500));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn the_best_so_far_is_written() {
    let place = place_with_data(4000);
    // Orthogonal matching pursuit makes a pass for every point: many seconds of work.
    let line = "build data.csv --target late --features a,b,kind --method omp -k 1900 --embedding draws:2000 \
                -o core.csv --json summary.json";
    let start_time = Instant::now();
    let child = start(&place, line);
    sleep(Duration::from_millis(2500));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{message} after {:?}", start_time.elapsed());
    assert!(message.contains("the best coreset so far"), "{message}");
    assert_eq!(place.files(), ["core.csv", "data.csv", "summary.json"]);
    let summary = place.json("summary.json");
    assert_eq!(summary["status"], "stopped");
    assert_eq!(summary["points"].as_u64().unwrap() as usize, place.read("core.csv").lines().count() - 1);
    assert!(summary["heldout_residual"].is_null() && summary["kl_forward"].is_number());
}
