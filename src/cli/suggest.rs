//! Command lines that are nearly right: what was meant.
//!
//! Whatever is no subcommand is a video to the studio, so the parser's own words about a mistyped subcommand are of no help.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory};

use super::Cli;
use crate::{
    record::{Failure, FailureClass},
    speculate::suggest,
};

/// The subcommands' names.
fn names() -> Vec<String> {
    Cli::command().get_subcommands().map(|sub| sub.get_name().to_owned()).collect()
}

fn usage(error: String, hint: String) -> Failure {
    Failure { class: FailureClass::Usage, error, hint: Some(hint) }
}

/// What is wrong where the studio was given a video that is not there: it may be a subcommand that stands too late, or that
/// is nearly one.
pub fn video(video: &Path) -> Option<Failure> {
    let word = video.to_str()?;
    let names = names();
    if names.iter().any(|name| name == word) {
        let hint = format!("write the subcommand first: specreel {word} …");
        return Some(usage(format!("`{word}` stands behind arguments of the studio"), hint));
    }
    let hint = suggest(word, &names, "the subcommands are");
    // A word that is like no subcommand is a file that is not there.
    (hint.starts_with("did you mean") && video.extension().is_none())
        .then(|| usage(format!("there is no subcommand and no video `{word}`"), hint))
}

/// What is wrong with arguments that the parser refused, where it is the subcommand; none leaves the parser's own words.
pub fn arguments(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    let names = names();
    let is_subcommand = |word: &&str| names.iter().any(|name| name == word);
    let first = words.first()?;
    if is_subcommand(first) || *first == "help" {
        return None;
    }
    if first.starts_with('-') {
        let at = words.iter().position(is_subcommand)?;
        let (flags, rest) = words.split_at(at);
        let (name, rest) = rest.split_first()?;
        let order = [&["specreel", name][..], rest, flags].concat().join(" ");
        return Some(usage(
            format!("`{name}` stands behind arguments of the studio"),
            format!("write the subcommand first: {order}"),
        ));
    }
    if !PathBuf::from(first).exists()
        && let Some(failure) = video(Path::new(first))
    {
        return Some(failure);
    }
    // What caption knows, and the studio does not.
    let unknown = error.get(clap::error::ContextKind::InvalidArg)?.to_string();
    let caption = Cli::command();
    let caption = caption.find_subcommand("caption")?;
    let known =
        caption.get_arguments().any(|arg| arg.get_long().is_some_and(|long| unknown == format!("--{long}")));
    known.then(|| {
        usage(
            format!("{unknown} has no meaning for the studio"),
            format!("without the studio: specreel caption {}", words.join(" ")),
        )
    })
}

/// The command whose help tells most about these arguments, as `specreel caption --help`.
pub fn help(arguments: &[OsString]) -> String {
    let root = Cli::command();
    let (mut command, mut path): (&Command, String) = (&root, "specreel".into());
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        match command.find_subcommand(word) {
            Some(sub) => {
                path += &format!(" {word}");
                command = sub;
            }
            None if word.starts_with('-') => {}
            None => break,
        }
    }
    path + " --help"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_is_that_of_the_subcommand() {
        let of = |line: &str| help(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("specreel caption --segments 0 demo"), "specreel caption --help");
        assert_eq!(of("specreel scenes render --seed -1"), "specreel scenes render --help");
        assert_eq!(of("specreel --theme nope"), "specreel --help");
        assert_eq!(of("specreel replay caption"), "specreel replay --help");
    }

    #[test]
    fn only_what_is_like_a_subcommand_is_taken_for_one() {
        assert!(video(Path::new("captoin")).is_some() && video(Path::new("methods")).is_some());
        assert!(video(Path::new("holiday")).is_none() && video(Path::new("train.mp4")).is_none());
    }
}
