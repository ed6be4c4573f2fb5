//! Shell completion: a small script for the shell, which asks the program for what fits whenever Tab is pressed.
//!
//! The script sets [`VARIABLE`] to the name of the shell and passes the words of the line. The program answers before it parses
//! its arguments. So completion knows the methods, themes and models that exist at that moment.

mod candidates;

use std::ffi::OsString;

use clap::ValueEnum;
use clap_complete::{CompleteEnv, Shell, env::Shells};

use super::*;

/// The variable by which the scripts ask.
const VARIABLE: &str = "SPECREEL_COMPLETE";

pub fn completions(shell: Shell) -> Result<i32, End> {
    let mut script = Vec::new();
    let name = shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    if let Some(shell) = Shells::builtins().completer(&name) {
        shell.write_registration(VARIABLE, "specreel", "specreel", "specreel", &mut script)?;
    }
    std::io::stdout().write_all(&script)?;
    Ok(0)
}

/// Answer a completion script and return the exit code; `None` if the program was not asked by one.
pub fn answer(arguments: &[OsString]) -> Option<i32> {
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(|| candidates::attach(Cli::command(), ""))
        .var(VARIABLE)
        .bin("specreel")
        .completer("specreel");
    match asked.try_complete(arguments, here.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(0),
        // Text on the screen would be in the middle of the line that is typed.
        Err(_) => Some(1),
    }
}
