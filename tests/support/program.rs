//! The program under test in a home of its own, and what it printed. The test crate that includes this file has `BINARY`, the
//! program's name, and `REPOSITORY`, the root of the workspace.

use std::{
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use assert_cmd::{Command, cargo::cargo_bin};
use serde_json::Value;
use tempfile::TempDir;

use crate::{BINARY, REPOSITORY};

/// Variables of the caller that would change what is printed.
const UNSET: &str = "XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME NO_COLOR CLICOLOR_FORCE \
    FORCE_COLOR COLORTERM TERM_PROGRAM LC_ALL LC_CTYPE SPECREEL_LOG SPECREEL_THREADS \
    SPECREEL_WEIGHT_CACHE LLAMA_CACHE HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_ENDPOINT HF_TOKEN \
    HF_HUB_OFFLINE HTTP_PROXY http_proxy ALL_PROXY all_proxy RUST_BACKTRACE";

/// The program with a temporary home directory, which is also the working directory.
pub(crate) struct Program {
    home: TempDir,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn command(&self) -> Command {
        self.command_of(BINARY)
    }

    /// Another program of the workspace.
    pub(crate) fn command_of(&self, binary: &str) -> Command {
        self.at_home(Command::new(cargo_bin(binary)))
    }

    /// A script for a shell that finds the program by its name, and stops at the first failure.
    pub(crate) fn script(&self, script: &str) -> Outcome {
        let program = cargo_bin(BINARY);
        let folders = program.parent().map(Path::to_owned).into_iter();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
        outcome(self.at_home(Command::new("sh")).env("PATH", path).args(["-eu", "-c", script]))
    }

    fn at_home(&self, mut command: Command) -> Command {
        for name in UNSET.split_whitespace() {
            command.env_remove(name);
        }
        command
            .env("HOME", self.home())
            // The same device on every machine.
            .env("SPECREEL_GPU", "off")
            // Compiling shaders takes the software driver seconds; tests share what it keeps.
            .env("MESA_SHADER_CACHE_DIR", env!("CARGO_TARGET_TMPDIR"))
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("COLUMNS", "100")
            .current_dir(self.home());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        outcome(self.command().args(args))
    }

    /// Run a command line: words are separated by spaces, and `'…'` is one word.
    pub(crate) fn line(&self, line: &str) -> Outcome {
        outcome(self.command().args(words(line)))
    }

    /// Start the program in the background with piped stdout and stderr.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        std::process::Command::new(cargo_bin(BINARY))
            .args(args)
            .env("HOME", self.home())
            .env("TMPDIR", self.home())
            .current_dir(self.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn copy(&self, from: &str, to: &str) -> PathBuf {
        let dir = self.home().join(to);
        std::fs::create_dir_all(&dir).unwrap();
        for entry in std::fs::read_dir(Path::new(REPOSITORY).join(from)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
        }
        dir
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.home().join(name), bytes).unwrap();
        name.to_owned()
    }
}

impl Outcome {
    /// Fails unless the run ended with this exit code.
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        self
    }

    /// Fails unless the run succeeded.
    pub(crate) fn ok(self) -> Self {
        self.ends(0)
    }

    /// Fails unless the run succeeded and wrote nothing to stderr.
    pub(crate) fn silent(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""));
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", self.stdout, self.stderr))
    }

    /// The last line of stdout as JSON.
    pub(crate) fn last(&self) -> Value {
        events(&self.stdout).pop().unwrap()
    }

    /// Fails unless stdout contains this.
    pub(crate) fn printed(&self, part: &str) -> &Self {
        assert!(self.stdout.contains(part), "no {part:?} in\n{}{}", self.stdout, self.stderr);
        self
    }

    /// Fails unless stderr contains this.
    pub(crate) fn said(&self, part: &str) -> &Self {
        assert!(self.stderr.contains(part), "no {part:?} in\n{}", self.stderr);
        self
    }
}

pub(crate) fn fixture(name: &str) -> String {
    let folder = Path::new(REPOSITORY).join("tests/parity/fixtures");
    folder.join(name).display().to_string()
}

/// The words of a command line, see [`Program::line`].
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

pub(crate) fn event<'e>(events: &'e [Value], name: &str) -> &'e Value {
    events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name}: {events:?}"))
}

/// Send a signal, such as `-INT`.
pub(crate) fn send(child: &Child, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}
