//! Outputs: each to a place of its own, whole or not at all, and nothing lost without a word.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::thread;

use crate::common::{Place, csv, place_with_data, stderr};

const BUILD: &str = "build data.csv --target late --features a,b -k 10";

fn mkfifo(place: &Place, name: &str) {
    assert!(Command::new("mkfifo").arg(place.path(name)).status().unwrap().success());
}

#[test]
fn one_file_by_two_names_is_refused() {
    let place = place_with_data(60);
    fs::create_dir(place.path("real")).unwrap();
    symlink("real", place.path("link")).unwrap();
    symlink("data.csv", place.path("data-too.csv")).unwrap();
    symlink("target.json", place.path("dangling.json")).unwrap();
    let fit = "fit data.csv --target late --features a,b -k 10 --warmup 20 --draws 100 --chains 1";
    for line in [
        format!("{BUILD} -o real/x.json --json link/x.json"),
        format!("{BUILD} -o dangling.json --json target.json"),
        format!("{BUILD} -o data-too.csv"),
        format!("{fit} -o real/x.csv --coreset link/x.csv"),
        format!("{fit} -o x.csv --coreset ./x.csv"),
    ] {
        let output = place.run(&line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains("cannot be written"), "{}", stderr(&output));
    }
    assert!(fs::read_dir(place.path("real")).unwrap().next().is_none());
}

#[test]
fn links_and_permissions_stay() {
    let place = place_with_data(60);
    place.write("private.csv", "old");
    fs::set_permissions(place.path("private.csv"), Permissions::from_mode(0o600)).unwrap();
    symlink("private.csv", place.path("link.csv")).unwrap();
    place.succeed(&format!("{BUILD} -o link.csv --json new.json"));
    assert!(fs::symlink_metadata(place.path("link.csv")).unwrap().is_symlink());
    assert!(place.read("private.csv").starts_with("row,weight"));
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("private.csv"), 0o600);
    assert_eq!(mode("new.json") & 0o400, 0o400);
    assert_eq!(place.files(), ["data.csv", "link.csv", "new.json", "private.csv"]);
}

#[test]
fn pipes_and_devices_are_written_through() {
    let place = place_with_data(60);
    mkfifo(&place, "pipe.json");
    let reader = place.path("pipe.json");
    let read = thread::spawn(move || fs::read_to_string(reader).unwrap());
    place.succeed(&format!("{BUILD} -o core.csv --json pipe.json"));
    assert!(read.join().unwrap().contains("kl_forward"));
    assert!(fs::metadata(place.path("pipe.json")).unwrap().file_type().is_fifo());
    place.succeed(&format!("{BUILD} -o core.csv --json /dev/null"));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_pipe_is_read_whole() {
    let place = Place::new();
    let text = csv(15_000);
    for (name, input) in [("-", "-"), ("/dev/stdin", "/dev/stdin")] {
        let line = format!(
            "build {input} --format csv --target late --features a,b -k 10 -o core.csv --json s.json"
        );
        let output = place.run_with_input(&line, &text);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        assert_eq!(place.json("s.json")["n"], 15_000, "{name}");
    }
    mkfifo(&place, "pipe");
    let (writer, into) = (place.path("pipe"), text);
    let writing = thread::spawn(move || fs::write(writer, into).unwrap());
    place.succeed("build pipe --format csv --target late --features a,b -k 10 -o core.csv --json s.json");
    writing.join().unwrap();
    assert_eq!(place.json("s.json")["n"], 15_000);
}

#[test]
fn results_that_are_lost_are_an_error() {
    let place = place_with_data(60);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(crate::common::PROGRAM);
    command.args(format!("{BUILD} -o core.csv").split_whitespace()).current_dir(place.path("."));
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let output = place.run(&format!("{BUILD} -o core.csv --json /dev/full"));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/dev/full: cannot be written"), "{}", stderr(&output));
}

#[test]
fn an_interrupt_while_writing_is_heard() {
    let place = place_with_data(60);
    mkfifo(&place, "draws.csv");
    // Nobody outside sees when the signal was heard: a reader that comes too soon after it comes later the next time.
    let pauses = [50, 400, 3200, 25_600].map(std::time::Duration::from_millis);
    assert!(pauses.into_iter().any(|pause| interrupted_while_writing(&place, pause) == Some(130)));
}

/// The exit code of a fit that was interrupted while it waited for a reader, who came after a pause and got every draw.
fn interrupted_while_writing(place: &Place, pause: std::time::Duration) -> Option<i32> {
    let line =
        "fit data.csv --target late --features a,b -k 20 --warmup 50 --draws 100 --chains 1 -o draws.csv";
    let mut command = place.command(line);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It waits in the opening of the pipe, with the work behind it.
    while !is_waiting_for_reader(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote");
        thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    thread::sleep(pause);
    let drawn = fs::read_to_string(place.path("draws.csv")).unwrap();
    assert_eq!(drawn.lines().count(), 101);
    child.wait_with_output().unwrap().status.code()
}

/// Whether some thread of the process sleeps in the opening of a pipe that nobody reads.
fn is_waiting_for_reader(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    tasks.flatten().any(|task| {
        let waits = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        ["fifo", "pipe", "partner"].iter().any(|place| waits.contains(place))
    })
}
