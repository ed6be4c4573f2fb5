//! The program seen from outside: exit codes, stdout and stderr.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arguments;
mod bench;
mod broken;
mod captioning;
mod comparing;
mod damage;
mod devices;
mod families;
mod inspecting;
mod interrupts;
#[path = "../video/make.rs"]
#[expect(dead_code, reason = "the tests of the video room use the rest")]
mod make;
mod methods;
mod models;
mod own_files;
mod replaying;
mod segments;
#[path = "../hub/server.rs"]
#[expect(dead_code, reason = "the hub's own tests use the rest")]
mod server;
mod tools;
mod training;

use assert_cmd::Command;
use tempfile::TempDir;

/// The program in a home of its own.
pub(crate) struct Program {
    home: TempDir,
}

/// What a run gave.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::cargo_bin("specreel").unwrap();
        command
            .env("HOME", self.home())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("NO_COLOR")
            .current_dir(self.home());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        let output = self.command().args(args).output().unwrap();
        Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// A file in the home.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.home().join(name), bytes).unwrap();
        name.to_owned()
    }
}
