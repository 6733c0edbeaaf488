//! Data, and the command run on them in a folder.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) use super::place::{Place, stderr};

/// The command as it was built with these tests.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_corelet");

impl Place {
    /// Everything in the folder, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    /// The command, to be run in this folder.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.folder()).args(line.split_whitespace());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs it with `text` on standard input.
    pub(crate) fn run_with_input(&self, line: &str, text: &str) -> Output {
        let mut command = self.command(line);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails before it has read everything closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Runs it, and fails where it fails. Standard output.
    pub(crate) fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }
}

/// n rows of two numbers, a text column and targets for every model.
pub(crate) fn csv(n: usize) -> String {
    let mut text = String::from("a,b,kind,late,count,hours,price\n");
    let mut state = 12345_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for i in 0..n {
        let (a, b) = (4.0 * uniform() - 2.0, uniform() + uniform() + uniform());
        let kind = ["red", "green", "blue"][i % 3];
        let late = u8::from(uniform() < 1.0 / (1.0 + (-a).exp()));
        let count = (3.0 * uniform() * (1.0 + b)) as u32;
        let price = 2.0 * a - b + uniform();
        writeln!(text, "{a},{b},{kind},{late},{count},{},{price}", 1.0 + uniform()).unwrap();
    }
    text
}

/// A place with `data.csv` in it.
pub(crate) fn place_with_data(n: usize) -> Place {
    let place = Place::new();
    place.write("data.csv", csv(n));
    place
}

/// Where real data are, as `CORELET_DATA` says, for tests that are ignored unless they are asked for.
pub(crate) fn real_data() -> PathBuf {
    let folder = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty());
    workspace().join(folder.expect("CORELET_DATA must name the folder with the data files"))
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
