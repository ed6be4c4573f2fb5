//! `specreel man`: man pages, one for each subcommand.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::*;
use crate::cli::args::manual::ManArgs;
use specreel_speculate::suggest;

const ENVIRONMENT: &str = r#".SH ENVIRONMENT
.TP
SPECREEL_THREADS
number of compute threads (default: all processors)
.TP
SPECREEL_LOG
log level: error, warn, info or debug (default: info)
.TP
SPECREEL_WEIGHT_CACHE
directory of converted weights, or off (default: ~/.cache/specreel/weights)
.TP
SPECREEL_GPU
off: do not look for GPUs; plain: no instructions that a driver may lack
.TP
XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME
replace ~/.config, ~/.local/share, ~/.local/state and ~/.cache
.TP
HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN
as in the Hugging Face tools
.TP
LLAMA_CACHE
directory of llama.cpp's GGUF files, for the list of models (default: ~/.cache/llama.cpp)
.TP
SPECREEL_API_KEY
key of serve, and of the server that --connect follows
.TP
NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, CLICOLOR=0
no color; color even in pipes (FORCE_COLOR takes a depth from 0 to 3); the same; no color. Empty variables count as unset
.SH FILES
.TP
~/.config/specreel/config.toml
defaults; `specreel config example` prints an example
.TP
~/.config/specreel/keymap.toml, themes/*.toml, methods/*.toml
key bindings and themes of the studio, your own methods
.TP
~/.local/share/specreel/sessions
runs saved by the studio
.TP
~/.local/state/specreel/specreel.log
log file
"#;

pub fn run(args: &ManArgs) -> Result<i32, End> {
    let mut root = without_help(Cli::command());
    root.build();
    if let Some(dir) = &args.dir {
        let written = write_all(&root, dir).map_err(|(path, error)| {
            Failure::input(
                format!("cannot write {}: {error}", path.display()),
                "give --dir a directory that you can write to",
            )
        })?;
        tell!("{written} man pages written to {}", dir.display());
        return Ok(0);
    }
    let mut command = &root;
    for word in &args.command {
        let known: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::usage(
                format!("{} has no subcommand `{word}`", bin_name(command)),
                match known.is_empty() {
                    true => {
                        format!(
                            "its page: specreel man {}",
                            bin_name(command).trim_start_matches("specreel ")
                        )
                    }
                    false => suggest(word, &known, "expected one of"),
                },
            )
        })?;
    }
    io::stdout().write_all(&page(command)?)?;
    Ok(0)
}

/// Without the subcommands `help`: there is a page for each subcommand instead.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Write the page of this command and those below it, and return their number.
fn write_all(command: &Command, dir: &Path) -> Result<usize, (PathBuf, io::Error)> {
    std::fs::create_dir_all(dir).map_err(|e| (dir.to_owned(), e))?;
    let path = dir.join(format!("{}.1", bin_name(command).replace(' ', "-")));
    page(command).and_then(|page| std::fs::write(&path, page)).map_err(|e| (path, e))?;
    command.get_subcommands().try_fold(1, |written, sub| Ok(written + write_all(sub, dir)?))
}

/// `specreel models pull`
fn bin_name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// A page as roff. Its synopsis is the usage line of the help: a list of all options would say less.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let version = concat!("specreel ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version).manual("specreel manual");
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    synopsis(command).to_writer(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    notes(command).to_writer(&mut out)?;
    if bin_name(command) == "specreel" {
        out.extend_from_slice(ENVIRONMENT.as_bytes());
    } else {
        see_also(command).to_writer(&mut out)?;
    }
    Ok(ascii(&String::from_utf8_lossy(&out)).into_bytes())
}

/// With roff's names for other characters, as not every formatter reads UTF-8.
fn ascii(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    for c in page.chars() {
        if c.is_ascii() { out.push(c) } else { out += &format!("\\[u{:04X}]", u32::from(c)) }
    }
    out
}

fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    let name = bin_name(command);
    for (at, line) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if at > 0 {
            roff.control("br", []);
        }
        match line.strip_prefix(name) {
            Some(rest) => roff.text([bold(name), roman(rest)]),
            None => roff.text([roman(line)]),
        };
    }
    roff
}

/// The paragraphs after the help: one that begins with a title is a section of its own.
fn notes(command: &Command) -> Roff {
    let mut roff = Roff::default();
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let (title, body) = paragraph.split_once(':').unwrap_or(("Notes", paragraph));
        // The main page has a longer section on the environment.
        if title == "Environment variables" {
            continue;
        }
        roff.control("SH", [title.to_uppercase().as_str()]);
        // Columns stay columns.
        roff.control("nf", []);
        for line in body.lines().map(|line| line.strip_prefix("  ").unwrap_or(line.trim_start())) {
            if !line.is_empty() {
                roff.text([roman(line)]);
            }
        }
        roff.control("fi", []);
    }
    roff
}

fn see_also(command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SEE ALSO"]);
    let above = bin_name(command).rsplit_once(' ').map_or("specreel", |(above, _)| above);
    roff.text([bold(above.replace(' ', "-")), roman("(1)")]);
    roff
}
