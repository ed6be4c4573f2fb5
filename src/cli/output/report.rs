//! Errors on stderr as `error: …` and `hint: …`; with `--json` also as a last event on stdout.

use std::{ffi::OsString, io::Write};

use clap::{Command, error::ErrorKind};

use super::suggest;
use crate::cli::resolve::stdin_video;
use specreel_record::{Event, EventKind, Failure};

pub fn failure(failure: &Failure, json: bool) -> i32 {
    let failure = &stdin_video::named(failure);
    tracing::error!(error = failure.error, "failed");
    if json {
        let event = Event::new(0, EventKind::Failed(failure.clone()));
        if let Ok(line) = serde_json::to_string(&event) {
            // stderr gets it as well, so a closed stdout is ignored.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
    let _ = std::io::stderr().write_all(lines(failure).as_bytes());
    failure.class.exit_code()
}

pub fn lines(failure: &Failure) -> String {
    let mut out = format!("error: {}\n", super::color::plain(failure.error.trim_end()));
    if let Some(hint) = &failure.hint {
        out += &format!("hint: {}\n", super::color::plain(hint.trim_end()));
    }
    out
}

/// Print clap's output for the command `root`: help and version on stdout, errors on stderr; `suggested` instead of an error, if
/// there is one.
pub fn usage(error: &clap::Error, arguments: &[OsString], root: &Command, suggested: Option<Failure>) -> i32 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            0
        }
        _ => {
            let failed = suggested.unwrap_or_else(|| {
                let (what, hint) = split(&error.render().to_string(), &suggest::help(root, arguments));
                Failure::usage(what, hint)
            });
            failure(&failed, arguments.iter().any(|argument| argument == "--json"))
        }
    }
}

/// clap's text as error and hint.
fn split(text: &str, help: &str) -> (String, String) {
    let mut what: Vec<String> = Vec::new();
    let mut hints = Vec::new();
    for line in text.lines().map(str::trim_end) {
        let bare = line.trim_start();
        let values = bare.strip_prefix("[possible values: ").and_then(|values| values.strip_suffix(']'));
        if let (Some(values), Some(last)) = (values, what.last_mut()) {
            last.push_str(&format!(": expected one of: {values}"));
            continue;
        }
        if let Some(tip) = bare.strip_prefix("tip: ") {
            // Something that looks like a flag is rarely meant as a value.
            if !tip.starts_with("to pass ") {
                hints.push(tip.to_owned());
            }
        } else if let Some(usage) = bare.strip_prefix("Usage: ") {
            hints.push(format!("usage: {}", bare_groups(usage)));
        } else if bare.starts_with("specreel") && !hints.is_empty() {
            // A second line of usage.
        } else if !bare.is_empty() && !bare.starts_with("For more information") {
            what.push(expected(bare_groups(bare.strip_prefix("error: ").unwrap_or(line))));
        }
    }
    if what.iter().any(|line| line.contains(" cannot be used with ")) {
        // The usage would take away the second one, without saying so.
        hints = vec!["leave out one of them".to_owned()];
    }
    if hints.is_empty() {
        hints.push(format!("see {help}"));
    }
    (what.join("\n"), hints.join("; "))
}

/// What a number must be, in place of Rust's words for it: `0 is not in 1..=4096`, `invalid digit found in string`.
fn expected(line: String) -> String {
    let Some((before, why)) =
        line.rsplit_once(": ").filter(|(before, _)| before.starts_with("invalid value"))
    else {
        return line;
    };
    let range = why.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
    match (range, why) {
        (Some((low, high)), _) if high.parse() == Ok(u32::MAX) => {
            format!("{before}: expected a whole number of at least {low}")
        }
        (Some((low, high)), _) => format!("{before}: expected a whole number from {low} to {high}"),
        (None, "invalid digit found in string") => format!("{before}: expected a whole number"),
        _ => line,
    }
}

/// Unwrap a group of one flag: `--save <FILE>` for `<--save <FILE>>`.
fn bare_groups(text: &str) -> String {
    let mut out = text.to_owned();
    while let Some(start) = out.find("<--") {
        let Some(end) = out[start..].find(">>").map(|at| start + at) else { break };
        out.replace_range(end..end + 2, ">");
        out.replace_range(start..start + 1, "");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    #[test]
    fn no_escape_sequence_reaches_the_terminal() {
        let failure = Failure { class: FailureClass::Input, error: "a\x1b[31mb".into(), hint: None };
        assert_eq!(lines(&failure), "error: ab\n");
    }
}
