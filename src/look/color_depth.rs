//! How many colors each output stream gets. One rule for captions, help, `doctor` and the studio: `NO_COLOR`
//! (no-color.org), then `FORCE_COLOR` and `CLICOLOR_FORCE`, then `CLICOLOR=0`, then what the terminal says of itself. As in
//! clap, an empty variable counts as unset, and `NO_COLOR` wins.

use std::{env, io::IsTerminal};

use specreel_os::terminal::HAS_COLORS;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    None,
    /// The 16 of the user's palette.
    #[default]
    Ansi,
    /// 256: those, and 240 that are the same everywhere.
    Indexed,
    /// 24 bits.
    True,
}

impl ColorDepth {
    pub fn stdout() -> Self {
        Self::of(std::io::stdout())
    }

    pub fn stderr() -> Self {
        Self::of(std::io::stderr())
    }

    fn of(stream: impl IsTerminal) -> Self {
        decide(
            |name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
            stream.is_terminal(),
        )
    }
}

/// True if the user asks for no color.
pub fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn decide(variable: impl Fn(&str) -> Option<String>, is_terminal: bool) -> ColorDepth {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return ColorDepth::None;
    }
    let force = set("FORCE_COLOR");
    match force.as_deref() {
        Some("0" | "false") => return ColorDepth::None,
        Some("1") => return ColorDepth::Ansi,
        Some("2") => return ColorDepth::Indexed,
        Some("3") => return ColorDepth::True,
        _ => {}
    }
    let terminal = of_terminal(&set);
    if force.is_some() || set("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return terminal.max(ColorDepth::Ansi);
    }
    if !is_terminal || set("CLICOLOR").is_some_and(|value| value == "0") {
        return ColorDepth::None;
    }
    terminal
}

/// What a terminal says of itself in its environment.
fn of_terminal(set: &impl Fn(&str) -> Option<String>) -> ColorDepth {
    let term = set("TERM").unwrap_or_default();
    if term == "dumb" {
        return ColorDepth::None;
    }
    let program = set("TERM_PROGRAM");
    match (set("COLORTERM").as_deref(), program.as_deref()) {
        (Some("truecolor" | "24bit"), _) | (_, Some("iTerm.app")) => return ColorDepth::True,
        // Windows Terminal, also around WSL.
        _ if set("WT_SESSION").is_some() => return ColorDepth::True,
        _ if term.ends_with("direct") || term.ends_with("truecolor") => return ColorDepth::True,
        (_, Some("Apple_Terminal")) => return ColorDepth::Indexed,
        _ if term.ends_with("256") || term.ends_with("256color") => return ColorDepth::Indexed,
        _ => {}
    }
    let has_colors = !term.is_empty() || HAS_COLORS || set("COLORTERM").or(set("CLICOLOR")).is_some();
    if has_colors { ColorDepth::Ansi } else { ColorDepth::None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ColorDepth::{Ansi, Indexed, None as No, True};

    /// The depth on a terminal and in a pipe, in an environment such as `TERM=xterm NO_COLOR=`.
    fn depths(environment: &str) -> (ColorDepth, ColorDepth) {
        let variable = |name: &str| {
            let mut all = environment.split(' ').filter_map(|set| set.split_once('='));
            all.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        (decide(variable, true), decide(variable, false))
    }

    #[test]
    fn variables_decide_as_their_pages_say() {
        for (environment, expected) in [
            ("TERM=xterm", (Ansi, No)),
            ("TERM=xterm-256color", (Indexed, No)),
            ("TERM=xterm-256color COLORTERM=truecolor", (True, No)),
            ("TERM=xterm-direct", (True, No)),
            ("TERM=xterm-256color WT_SESSION=1", (True, No)),
            ("TERM=xterm TERM_PROGRAM=Apple_Terminal", (Indexed, No)),
            ("TERM=dumb COLORTERM=truecolor", (No, No)),
            ("", (if HAS_COLORS { Ansi } else { No }, No)),
            // no-color.org: any value that is not empty counts.
            ("TERM=xterm NO_COLOR=", (Ansi, No)),
            ("TERM=xterm NO_COLOR=0", (No, No)),
            ("TERM=xterm NO_COLOR=1", (No, No)),
            ("TERM=xterm NO_COLOR=1 FORCE_COLOR=3", (No, No)),
            ("TERM=xterm NO_COLOR= FORCE_COLOR=3", (True, True)),
            ("TERM=xterm NO_COLOR=1 CLICOLOR_FORCE=1", (No, No)),
            ("TERM=xterm FORCE_COLOR=", (Ansi, No)),
            ("TERM=xterm FORCE_COLOR=0", (No, No)),
            ("TERM=xterm FORCE_COLOR=false CLICOLOR_FORCE=1", (No, No)),
            ("TERM=xterm-256color FORCE_COLOR=1", (Ansi, Ansi)),
            ("TERM=xterm-256color FORCE_COLOR=true", (Indexed, Indexed)),
            ("TERM=dumb FORCE_COLOR=yes", (Ansi, Ansi)),
            ("TERM=xterm CLICOLOR_FORCE=1", (Ansi, Ansi)),
            ("TERM=xterm CLICOLOR_FORCE=0", (Ansi, No)),
            ("TERM=xterm CLICOLOR_FORCE=", (Ansi, No)),
            ("TERM=xterm CLICOLOR=0", (No, No)),
            ("TERM=xterm CLICOLOR=1", (Ansi, No)),
            ("TERM=xterm CLICOLOR=0 CLICOLOR_FORCE=1", (Ansi, Ansi)),
        ] {
            assert_eq!(depths(environment), expected, "{environment}");
        }
    }
}
