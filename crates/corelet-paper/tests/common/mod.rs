//! The program, run in a folder.

#[path = "../../../corelet-cli/tests/cli/place.rs"]
mod place;

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use place::{Place, stderr};

impl Place {
    /// The program, to be run in this folder, without the data files that the environment may name.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corelet-paper"));
        command.current_dir(self.folder()).args(line.split_whitespace()).env_remove("CORELET_DATA");
        command
    }
}

/// Where real data are, as `CORELET_DATA` says, for tests that are ignored unless they are asked for.
pub(crate) fn real_data() -> PathBuf {
    let folder = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty());
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    workspace.join(folder.expect("CORELET_DATA must name the folder with the data files"))
}
