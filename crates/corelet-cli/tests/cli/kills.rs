//! Runs that are killed at any moment: an output is the old one or the new one, whole.
#![cfg(unix)]

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Place, place_with_data};

const LINE: &str =
    "build data.csv --target late --features a,b,kind -k 20 -o core.csv --json summary.json --report r.html";

/// How many; `CORELET_KILLS` asks for more.
fn kills() -> u32 {
    std::env::var("CORELET_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

fn check_whole(place: &Place) {
    if place.exists("core.csv") {
        let text = place.read("core.csv");
        assert!(text.starts_with("row,weight,") && text.ends_with('\n'), "{text}");
        assert!(text.lines().all(|line| line.split(',').count() == 9), "{text}");
    }
    if place.exists("summary.json") {
        assert!(place.json("summary.json")["points"].is_number());
    }
    if place.exists("r.html") {
        assert!(place.read("r.html").trim_end().ends_with("</html>"));
    }
    for name in place.files() {
        let known = ["core.csv", "data.csv", "r.html", "summary.json"].contains(&name.as_str());
        assert!(known, "{name} was left behind");
    }
}

#[test]
fn kills_leave_nothing_torn() {
    let place = place_with_data(2000);
    let start = Instant::now();
    place.succeed(LINE);
    let whole = start.elapsed();
    check_whole(&place);
    let count = kills();
    let mut ended = 0;
    for i in 0..count {
        let mut child = Command::new(crate::common::PROGRAM)
            .args(LINE.split_whitespace())
            .current_dir(place.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The later part of a run is where files are written.
        sleep(
            whole.mul_f64(0.5 + 0.6 * f64::from(i) / f64::from(count)) + Duration::from_micros(u64::from(i)),
        );
        ended += u32::from(child.try_wait().unwrap().is_some());
        let _ = child.kill();
        child.wait().unwrap();
        check_whole(&place);
        // Where nothing is replaced, an output has no name before it is whole.
        for name in ["core.csv", "r.html", "summary.json"] {
            let _ = std::fs::remove_file(place.path(name));
        }
    }
    println!("{count} kills, {ended} of them after the end");
}
