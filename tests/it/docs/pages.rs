//! The generated parts of `docs/cli.md` and `docs/config.md`: SPECREEL_UPDATE_DOCS=1 writes them.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};
use specreel::cli::Cli;

use super::{read, root};

/// The line that separates a page's own text from its generated part.
const MARK: &str =
    "<!-- Generated, do not edit: SPECREEL_UPDATE_DOCS=1 cargo nextest run -E 'test(pages)' -->\n";

/// Compare the generated part of a page, or update it.
fn check(path: &str, generated: &str) {
    let page = read(path);
    let (own, old) = page.split_once(MARK).unwrap_or_else(|| panic!("{path} has no mark"));
    if std::env::var_os("SPECREEL_UPDATE_DOCS").is_some() {
        std::fs::write(root().join(path), format!("{own}{MARK}{generated}")).unwrap();
    } else {
        assert!(old == generated, "{path} is out of date: SPECREEL_UPDATE_DOCS=1 updates it");
    }
}

/// Text for a table cell: code spans as they are, marks of Markdown and HTML elsewhere escaped.
fn cell(text: &str) -> String {
    let text = text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ");
    let escape = |(at, part): (usize, &str)| match at % 2 {
        0 => part.replace('<', "&lt;").replace('*', "\\*"),
        _ => format!("`{part}`"),
    };
    text.split('`').enumerate().map(escape).collect()
}

/// `--frames N`, `VIDEO`.
fn name(argument: &Arg) -> String {
    let values = argument.get_value_names().map(|names| names.iter().map(ToString::to_string).collect());
    let values: Vec<String> = values.unwrap_or_default();
    match (argument.get_long(), argument.get_action().takes_values()) {
        (Some(long), true) => format!("--{long} {}", values.join(" ")),
        (Some(long), false) => format!("--{long}"),
        (None, _) => values.join(" "),
    }
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let possible = argument.get_possible_values();
    // Shells are not explained, and a flag's values are not typed.
    if argument.get_action().takes_values() && !possible.is_empty() {
        let value = |value: &clap::builder::PossibleValue| {
            let help = value.get_help().map(|help| format!(" ({})", help.to_string().trim_end_matches('.')));
            format!("`{}`{}", value.get_name(), help.unwrap_or_default())
        };
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        write!(text, ": {}", shown.map(value).collect::<Vec<_>>().join(", ")).unwrap();
    }
    let defaults = argument.get_default_values();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        write!(text, " [default: {}]", defaults.join(" ")).unwrap();
    }
    cell(&text)
}

/// The rows of a command's arguments by group: first those without one.
fn groups(command: &Command) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        if ["help", "version"].contains(&argument.get_id().as_str()) {
            continue;
        }
        let group = argument.get_help_heading().unwrap_or("");
        let row = format!("| `{}` | {} |", name(argument).replace('|', "\\|"), meaning(argument));
        match groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((group.to_owned(), vec![row])),
        }
    }
    groups.sort_by_key(|(name, _)| !name.is_empty());
    groups
}

/// Of so many commands a row is shared.
const SHARED: usize = 2;

/// The rows that commands share, by group, in the order in which they are first met.
fn shared(command: &Command) -> Vec<(String, Vec<String>)> {
    fn count(command: &Command, all: &mut Vec<(String, Vec<(String, usize)>)>) {
        for (group, rows) in groups(command).into_iter().filter(|(group, _)| !group.is_empty()) {
            let at = all.iter().position(|(name, _)| *name == group).unwrap_or_else(|| {
                all.push((group, Vec::new()));
                all.len() - 1
            });
            for row in rows {
                match all[at].1.iter_mut().find(|(known, _)| *known == row) {
                    Some((_, count)) => *count += 1,
                    None => all[at].1.push((row, 1)),
                }
            }
        }
        command.get_subcommands().for_each(|command| count(command, all));
    }
    let mut all = Vec::new();
    count(command, &mut all);
    let common = |rows: Vec<(String, usize)>| -> Vec<String> {
        rows.into_iter().filter(|(_, count)| *count >= SHARED).map(|(row, _)| row).collect()
    };
    let all = all.into_iter().map(|(group, rows)| (group, common(rows)));
    all.filter(|(_, rows)| rows.len() > 1).collect()
}

/// The option of a row: `--frames`.
fn option(row: &str) -> &str {
    row.trim_start_matches("| `").split([' ', '`']).next().unwrap_or_default()
}

fn options(rows: &[&String]) -> String {
    rows.iter().map(|row| format!("`{}`", option(row))).collect::<Vec<_>>().join(", ")
}

/// A shared group in the section of a command that has these of its rows.
fn link(group: &str, shared: &[String], here: &[&String]) -> String {
    let anchor = format!("[{group}](#{})", group.to_lowercase().replace(' ', "-"));
    let others: Vec<&String> = shared.iter().filter(|row| !here.contains(row)).collect();
    match others.len() {
        0 => anchor,
        missing if missing < here.len() => format!("{anchor} without {}", options(&others)),
        _ => format!("{} of {anchor}", options(here)),
    }
}

fn table(title: &str, rows: &[&String], out: &mut String) {
    writeln!(out, "\n| {title} | |\n|---|---|").unwrap();
    rows.iter().for_each(|row| writeln!(out, "{row}").unwrap());
}

/// A section for each command and subcommand, with a table for each group of arguments of its own, and the groups that it shares.
fn commands(command: &Command, shared: &[(String, Vec<String>)], out: &mut String) {
    let called = command.get_bin_name().unwrap_or_else(|| command.get_name());
    writeln!(out, "\n### {called}\n\n{}", command.get_about().map(ToString::to_string).unwrap_or_default())
        .unwrap();
    let mut links = Vec::new();
    for (group, rows) in groups(command) {
        let common = shared.iter().find(|(name, _)| *name == group).map(|(_, rows)| rows.as_slice());
        let common = common.unwrap_or_default();
        let (here, own): (Vec<&String>, Vec<&String>) = rows.iter().partition(|row| common.contains(row));
        if !own.is_empty() {
            table(if group.is_empty() { "Argument or option" } else { &group }, &own, out);
        }
        if !here.is_empty() {
            links.push(link(&group, common, &here));
        }
    }
    if !links.is_empty() {
        writeln!(out, "\nShared options: {}.", links.join("; ")).unwrap();
    }
    for subcommand in command.get_subcommands() {
        commands(subcommand, shared, out);
    }
}

#[test]
fn the_command_line_is_that_of_the_program() {
    fn without_help(command: Command) -> Command {
        command.disable_help_subcommand(true).mut_subcommands(without_help)
    }
    let mut command = without_help(Cli::command());
    command.build();
    let shared = shared(&command);
    let mut generated = String::new();
    commands(&command, &shared, &mut generated);
    generated += "\n## Shared options\n";
    for (group, rows) in &shared {
        writeln!(generated, "\n### {group}").unwrap();
        table("Option", &rows.iter().collect::<Vec<_>>(), &mut generated);
    }
    check("docs/cli.md", &generated);
}

#[test]
fn the_configuration_is_that_of_the_example() {
    let mut generated = "\n| key | example | |\n|---|---|---|\n".to_owned();
    let mut text = Vec::new();
    let mut last = true;
    // A key is commented out, `#key = value`; sentences have a space after the mark. Keys under one text share it.
    for line in read("assets/config.toml").lines().skip_while(|line| !line.is_empty()) {
        if let Some(sentence) = line.strip_prefix("# ") {
            if last {
                text.clear();
            }
            text.push(sentence.to_owned());
            last = false;
        } else if let Some((key, value)) = line.strip_prefix('#').and_then(|line| line.split_once(" = ")) {
            let meaning = if last { "as above".to_owned() } else { cell(&text.join(" ")) };
            writeln!(generated, "| `{key}` | `{}` | {meaning} |", value.replace('|', "\\|")).unwrap();
            last = true;
        }
    }
    check("docs/config.md", &generated);
}
