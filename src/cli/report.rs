//! Errors on stderr as `error: …` and `hint: …`; with `--json` also as a last event on stdout.

use std::io::Write;

use clap::error::ErrorKind;

use crate::record::{Event, EventKind, Failure, FailureClass};

/// Report a failure and give its exit code.
pub fn failure(failure: &Failure, json: bool) -> i32 {
    tracing::error!(error = failure.error, "failed");
    if json {
        let event = Event::new(0, EventKind::Failed(failure.clone()));
        if let Ok(line) = serde_json::to_string(&event) {
            // stderr says it as well; a closed stdout changes nothing.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
    let _ = std::io::stderr().write_all(words(failure).as_bytes());
    failure.class.exit_code()
}

/// The lines for people.
pub fn words(failure: &Failure) -> String {
    let mut out = format!("error: {}\n", super::color::plain(failure.error.trim_end()));
    if let Some(hint) = &failure.hint {
        out += &format!("hint: {}\n", super::color::plain(hint.trim_end()));
    }
    out
}

/// Report what clap has to say: help and version on stdout, mistakes on stderr.
pub fn usage(error: &clap::Error, json: bool) -> i32 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            0
        }
        _ => {
            let (what, hint) = split(&error.render().to_string());
            failure(&Failure { class: FailureClass::Usage, error: what, hint: Some(hint) }, json)
        }
    }
}

/// clap's text as what is wrong and the way out.
fn split(text: &str) -> (String, String) {
    let mut what = Vec::new();
    let mut hints = Vec::new();
    for line in text.lines().map(str::trim_end) {
        let bare = line.trim_start();
        if let Some(tip) = bare.strip_prefix("tip: ") {
            hints.push(tip.to_owned());
        } else if let Some(usage) = bare.strip_prefix("Usage: ") {
            hints.push(format!("usage: {usage}"));
        } else if !bare.is_empty() && !bare.starts_with("For more information") {
            what.push(bare.strip_prefix("error: ").unwrap_or(line).to_owned());
        }
    }
    if hints.is_empty() {
        hints.push("see specreel --help".into());
    }
    (what.join("\n"), hints.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claps_words_become_ours() {
        let text = "error: unexpected argument '--metod' found\n\n  tip: a similar argument exists: '--method'\n\n\
                    Usage: specreel caption <VIDEO>\n\nFor more information, try '--help'.\n";
        let (what, hint) = split(text);
        assert_eq!(what, "unexpected argument '--metod' found");
        assert_eq!(hint, "a similar argument exists: '--method'; usage: specreel caption <VIDEO>");
    }

    #[test]
    fn no_escape_sequence_reaches_the_terminal() {
        let failure = Failure { class: FailureClass::Input, error: "a\x1b[31mb".into(), hint: None };
        assert_eq!(words(&failure), "error: a\u{fffd}[31mb\n");
    }
}
