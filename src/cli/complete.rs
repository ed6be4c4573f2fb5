//! Completion scripts and the manual page.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, End};

/// Print a completion script.
pub fn completions(shell: Shell) -> Result<i32, End> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "specreel", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(0)
}

/// What the main page says of the world around the program, as roff.
const PLACES: &str = r#".SH ENVIRONMENT
.TP
SPECREEL_THREADS
threads that compute; all processors unless told
.TP
SPECREEL_LOG
what goes to the log: error, warn, info or debug; info unless told
.TP
XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME
in place of ~/.config, ~/.local/share, ~/.local/state and ~/.cache
.TP
HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN
as the tools of the Hugging Face hub take them
.TP
NO_COLOR
no colour
.SH FILES
.TP
~/.config/specreel/config.toml
defaults; `specreel config example` prints one
.TP
~/.config/specreel/keymap.toml, themes/*.toml, methods/*.toml
keys and themes of the studio, methods of your own
.TP
~/.local/share/specreel/sessions
runs that the studio keeps
.TP
~/.local/state/specreel/specreel.log
the log
"#;

/// Print the manual: the main page, then one page for each subcommand.
pub fn man() -> Result<i32, End> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    page.extend_from_slice(PLACES.as_bytes());
    for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
        clap_mangen::Man::new(sub.clone()).render(&mut page)?;
    }
    std::io::stdout().write_all(&page)?;
    Ok(0)
}
