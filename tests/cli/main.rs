//! The program seen from outside: exit codes, stdout and stderr.

mod arguments;
mod methods;
mod tools;

use assert_cmd::Command;
use tempfile::TempDir;

/// The program in a home of its own.
pub struct Program {
    home: TempDir,
}

/// What a run gave.
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    pub fn command(&self) -> Command {
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

    pub fn run(&self, args: &[&str]) -> Outcome {
        let output = self.command().args(args).output().unwrap();
        Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// A file in the home.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.home().join(name), bytes).unwrap();
        name.to_owned()
    }
}
