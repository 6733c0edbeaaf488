//! A folder, and the program run there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder of its own for each test.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The program, to be run in this folder, without the data files that the environment may name.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corelet-paper"));
        command.current_dir(self.folder.path()).args(line.split_whitespace()).env_remove("CORELET_DATA");
        command
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Where real data are, as `CORELET_DATA` says, for tests that are ignored unless they are asked for.
pub(crate) fn real_data() -> PathBuf {
    let folder = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty());
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    workspace.join(folder.expect("CORELET_DATA must name the folder with the data files"))
}
