//! Suggestions for mistyped command lines.
//!
//! The studio takes any word that is not a subcommand as a video, so clap's own message about a mistyped subcommand does not
//! help.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use crate::cli::args::Cli;
use specreel_record::Failure;
use specreel_speculate::suggest;

fn names() -> Vec<String> {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    shown.map(|sub| sub.get_name().to_owned()).collect()
}

/// The failure for a subcommand after options of the studio.
fn misplaced(name: &str, order: &str) -> Failure {
    Failure::usage(
        format!("subcommand `{name}` after options of the studio"),
        format!("put the subcommand before the studio's options: {order}"),
    )
}

/// The failure for a missing video of the studio that is a subcommand after options, or a mistyped one.
pub fn video(video: &Path) -> Option<Failure> {
    let word = video.to_str()?;
    let names = names();
    if names.iter().any(|name| name == word) {
        return Some(misplaced(word, &format!("specreel {word} …")));
    }
    let hint = suggest(word, &names, "the subcommands are");
    // A word unlike any subcommand is a missing file.
    (hint.starts_with("did you mean") && video.extension().is_none())
        .then(|| Failure::usage(format!("no subcommand or video `{word}`"), hint))
}

/// The failure for arguments that clap refused, if the subcommand is the problem; none to keep clap's message.
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
        return Some(misplaced(name, &order));
    }
    if !PathBuf::from(first).exists()
        && let Some(failure) = video(Path::new(first))
    {
        return Some(failure);
    }
    // Options that caption has and the studio does not.
    let unknown = error.get(clap::error::ContextKind::InvalidArg)?.to_string();
    let caption = Cli::command();
    let caption = caption.find_subcommand("caption")?;
    let known =
        caption.get_arguments().any(|arg| arg.get_long().is_some_and(|long| unknown == format!("--{long}")));
    known.then(|| {
        Failure::usage(
            format!("{unknown} cannot be used with the studio"),
            format!("to caption without the studio, run: specreel caption {}", words.join(" ")),
        )
    })
}

/// The most specific help command for these arguments, such as `specreel caption --help`.
pub fn help(root: &Command, arguments: &[OsString]) -> String {
    let (mut command, mut path) = (root, root.get_name().to_owned());
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
        let of = |line: &str| help(&Cli::command(), &line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("specreel caption --segments 0 demo"), "specreel caption --help");
        assert_eq!(of("specreel models pull --nothing"), "specreel models pull --help");
        assert_eq!(of("specreel --theme nope"), "specreel --help");
        assert_eq!(of("specreel replay caption"), "specreel replay --help");
    }

    #[test]
    fn only_words_like_a_subcommand_are_taken_for_one() {
        assert!(video(Path::new("captoin")).is_some() && video(Path::new("methods")).is_some());
        assert!(video(Path::new("holiday")).is_none() && video(Path::new("train.mp4")).is_none());
    }
}
