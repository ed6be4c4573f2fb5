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
mod outputs;
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

/// Variables of the caller that would change what is printed.
const UNSET: [&str; 24] = [
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "NO_COLOR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
    "COLORTERM",
    "TERM_PROGRAM",
    "LC_ALL",
    "LC_CTYPE",
    "SPECREEL_LOG",
    "SPECREEL_THREADS",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HF_HUB_OFFLINE",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "RUST_BACKTRACE",
];

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
        for name in UNSET {
            command.env_remove(name);
        }
        command
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("COLUMNS", "100")
            .current_dir(self.home());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        outcome(self.command().args(args))
    }

    /// A file in the home.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.home().join(name), bytes).unwrap();
        name.to_owned()
    }
}

/// Run a command to its end.
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
