//! `specreel doctor`: checks the build, the machine, the terminal and the models, and reports problems.

mod checks;

use super::*;
use crate::cli::args::{VERSION, doctor::DoctorArgs, run::ColorChoice};
use crate::cli::config;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not there, and nothing depends on it.
    Absent,
    Good,
    Warn,
    Bad,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub area: &'static str,
    pub name: String,
    pub state: State,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    fn new(area: &'static str, name: impl Into<String>, state: State, found: impl Into<String>) -> Self {
        Self { area, name: name.into(), state, found: found.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Run all checks. Exit code 0 if captioning works, 3 if something that it needs does not.
pub fn run(args: &DoctorArgs) -> Result<i32, End> {
    let config = config::load();
    let mut findings = checks::build();
    findings.extend(checks::ffmpeg());
    findings.extend(checks::terminal());
    findings.extend(checks::directories());
    findings.extend(checks::configuration(&config));
    findings.extend(checks::models(args, &config.unwrap_or_default()));
    let text = if args.json {
        let line = serde_json::to_string(&serde_json::json!({ "version": VERSION, "findings": findings }));
        line.map_err(std::io::Error::from)? + "\n"
    } else {
        table(&findings, terminal::color_stdout(ColorChoice::Auto), terminal::columns())
    };
    std::io::stdout().write_all(text.as_bytes())?;
    let bad = findings.iter().any(|f| f.state == State::Bad);
    Ok(if bad { 3 } else { 0 })
}

fn table(findings: &[Finding], colored: bool, columns: Option<usize>) -> String {
    let mut out = format!("specreel {}\n", VERSION);
    let width = findings.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
    let mut area = "";
    for f in findings {
        if f.area != area {
            area = f.area;
            out += &format!("\n{area}\n");
        }
        let (word, sgr) = match f.state {
            State::Absent => ("-   ", "2"),
            State::Good => ("ok  ", "32"),
            State::Warn => ("warn", "33"),
            State::Bad => ("FAIL", "1;31"),
        };
        let word = if colored { format!("\x1b[{sgr}m{word}\x1b[0m") } else { word.to_owned() };
        out += &format!("  {word}  {:width$}  {}\n", f.name, color::plain(&f.found));
        if let Some(hint) = &f.hint {
            out += &format!("        {:width$}  hint: {}\n", "", color::plain(hint));
        }
    }
    hang(&out, columns, width + 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_visible_without_color() {
        let findings = [
            Finding::new("Build", "cpu", State::Good, "yes"),
            Finding::new("Build", "cuda", State::Absent, "not in this build"),
            Finding::new("FFmpeg", "h264", State::Bad, "no decoder").hint("install it"),
        ];
        let text = table(&findings, false, None);
        assert!(text.contains("\nBuild\n  ok    cpu   yes\n  -     cuda  not in this build\n"), "{text}");
        assert!(text.contains("  FAIL  h264  no decoder\n") && text.contains("hint: install it"), "{text}");
    }

    #[test]
    fn decoders_of_sound_that_are_missing_are_named() {
        use ffmpeg_next::codec::Id;
        let whole = checks::sound(|_| true);
        assert!(
            matches!(whole.state, State::Good) && whole.found.contains("aac, mp3, opus"),
            "{}",
            whole.found
        );
        let part = checks::sound(|id| !matches!(id, Id::OPUS | Id::AC3));
        assert!(matches!(part.state, State::Warn), "{}", part.found);
        assert_eq!(part.found, "no decoder for opus, ac3");
    }
}
