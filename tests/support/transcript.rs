//! Command lines and what they printed, as the text of a snapshot.

use std::{fmt::Write as _, fs};

use clap::CommandFactory;
use regex::Regex;

use super::program::{Outcome, Program, outcome, words};
use crate::{BINARY, REPOSITORY};

/// Compare a transcript with the snapshot of the test's name, or of another one.
macro_rules! check {
    ($transcript:ident $(, $name:expr)?) => {
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!($($name,)? $transcript.text);
        })
    };
}

/// Commands and what they printed.
pub(crate) struct Transcript {
    pub(crate) program: Program,
    filters: Vec<(Regex, &'static str)>,
    pub(crate) text: String,
}

impl Transcript {
    pub(crate) fn new() -> Self {
        let program = Program::new();
        let mut transcript = Self { program, filters: Vec::new(), text: String::new() };
        let home = regex::escape(transcript.program.home().to_str().unwrap());
        transcript
            .filter(&home, "[HOME]")
            .filter(&regex::escape(REPOSITORY), "[REPOSITORY]")
            .filter(r"demo-[0-9a-f]{16}", "demo-[HASH]")
            .filter(&format!(r"{} \([^)]*\)", regex::escape(env!("CARGO_PKG_VERSION"))), "[VERSION]");
        transcript
    }

    /// Replace what differs between machines and runs.
    pub(crate) fn filter(&mut self, pattern: &str, with: &'static str) -> &mut Self {
        self.filters.push((Regex::new(pattern).unwrap(), with));
        self
    }

    /// Replace every measured number, and the spaces that its width moves.
    pub(crate) fn measured(&mut self) -> &mut Self {
        self.filter(r"(≈ )?\d+(\.\d+)?x( \([\d.]+–[\d.]+\))?", "[SPEEDUP]")
            .filter(r"\(\d+ pairs?\)", "([BASIS])")
            .filter(r"\d+(\.\d+)? tokens/s", "[N] tokens/s")
            .filter(r"\d+(\.\d+)?( ?(ms|s|MB|GB|kB|x|GB/s|tokens/s)\b)", "[N]$2")
            // A busy machine takes seconds.
            .filter(r"(?m)^(time +)\[N\] s \(", "$1[N] ms (")
            .filter(r"-?\d+\.\d+", "[N]")
            .filter(r" {2,}", "  ")
            // What could be measured, and whether other programs were noticed, depends on how busy the machine is.
            .filter(r"speedup  .*", "speedup  [SPEEDUP OR NOT]")
            .filter(r"(?m)^machine  busy.*\n", "")
            .filter(r" The machine was busy[^.]*\.", "")
            .filter(r" (\w+ is the fastest: its|No method is the fastest: the) interval[^.]*\.", "")
            .filter(r"  –  –  (identical|differs)", "  [SPEEDUP]  [SPEEDUP]  $1")
            // The speed in a row of a table has no decimals if it is high.
            .filter(r"  \d+  \[SPEEDUP\]", "  [N]  [SPEEDUP]")
    }

    /// Run a command line, see [`Program::line`].
    pub(crate) fn run(&mut self, line: &str) -> &mut Self {
        let outcome = self.program.line(line);
        self.record(line, &outcome)
    }

    /// Run each of these, separated by ` | `, after the same arguments.
    pub(crate) fn run_all(&mut self, start: &str, ends: &str) -> &mut Self {
        for end in ends.split(" | ") {
            self.run(&format!("{start} {end}"));
        }
        self
    }

    pub(crate) fn pipe(&mut self, line: &str, stdin: impl Into<Vec<u8>>) -> &mut Self {
        let outcome = outcome(self.program.command().args(words(line)).write_stdin(stdin));
        self.record(line, &outcome)
    }

    pub(crate) fn record(&mut self, line: &str, outcome: &Outcome) -> &mut Self {
        let filter = |text: &str| {
            let text = self.filters.iter().fold(text.to_owned(), |text, (pattern, with)| {
                pattern.replace_all(&text, *with).into_owned()
            });
            text.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>()
        };
        let mut block = format!("$ {}\n[exit code: {}]\n", format!("{BINARY} {line}").trim(), outcome.code);
        for (name, text) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
            if !text.is_empty() {
                let _ = write!(block, "----- {name} -----\n{}", filter(text));
            }
        }
        let _ = writeln!(self.text, "{block}");
        self
    }

    /// A file in the working directory, which is the home.
    pub(crate) fn file(&mut self, name: &str, bytes: impl AsRef<[u8]>) -> &mut Self {
        let path = self.program.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    pub(crate) fn folder(&mut self, name: &str) -> &mut Self {
        fs::create_dir_all(self.program.home().join(name)).unwrap();
        self
    }

    pub(crate) fn copy(&mut self, from: &str, to: &str) -> &mut Self {
        self.program.copy(from, to);
        self
    }

    pub(crate) fn config(&mut self, text: &str) -> &mut Self {
        self.text += &format!("# config.toml: {}\n", text.replace('\n', "; "));
        self.file(".config/specreel/config.toml", text)
    }
}

/// The path of each subcommand: "", "caption", …, "models pull".
pub(crate) fn subcommands<C: CommandFactory>() -> Vec<String> {
    fn walk(command: &clap::Command, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
            walk(sub, format!("{path} {}", sub.get_name()).trim(), all);
        }
    }
    let mut all = Vec::new();
    walk(&C::command(), "", &mut all);
    all
}

/// The long help of a subcommand, and the short one if it differs.
pub(crate) fn help(path: &str) -> Transcript {
    let mut transcript = Transcript::new();
    let of = |flag: &str| format!("{path} {flag}").trim().to_owned();
    let (long, short) = (of("--help"), of("-h"));
    transcript.run(&long);
    let short_help = transcript.program.line(&short);
    if short_help.stdout != transcript.program.line(&long).stdout {
        transcript.record(&short, &short_help);
    }
    transcript
}
