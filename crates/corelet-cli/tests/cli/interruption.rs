//! Ctrl-C: before a coreset exists nothing is written; after, the best so far is.
#![cfg(unix)]

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Place, place_with_data};

fn start(place: &Place, line: &str) -> Child {
    Command::new(crate::common::PROGRAM)
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

/// Whether the process has taken over Ctrl-C: bit 1 of the signals that it catches.
#[cfg(target_os = "linux")]
fn hears_interrupts(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
}

#[cfg(target_os = "linux")]
#[test]
fn before_a_coreset_exists_nothing_is_written() {
    let place = Place::new();
    // Nothing comes on its standard input, so that it waits there for ever.
    let mut child = start(&place, "build - --target y -o core.csv --json summary.json");
    // Held open: waiting would close it, and the end of the input would race with the signal.
    let input = child.stdin.take();
    while !hears_interrupts(&child) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        sleep(Duration::from_millis(5));
    }
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
    // An interrupt that comes too early leaves nothing, and the next comes later.
    let mut pause = Duration::from_millis(500);
    let message = loop {
        let child = start(&place, line);
        sleep(pause);
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_ne!(output.status.code(), Some(0), "it ended before it was interrupted");
        if place.exists("core.csv") {
            assert_eq!(output.status.code(), Some(130), "{message}");
            break message;
        }
        assert!(pause < Duration::from_secs(60), "{message}");
        pause *= 2;
    };
    assert!(message.contains("the best coreset so far"), "{message}");
    assert_eq!(place.files(), ["core.csv", "data.csv", "summary.json"]);
    let summary = place.json("summary.json");
    assert_eq!(summary["status"], "stopped");
    assert_eq!(summary["points"].as_u64().unwrap() as usize, place.read("core.csv").lines().count() - 1);
    assert!(summary["heldout_residual"].is_null() && summary["kl_forward"].is_number());
}
