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

/// Sections of the main page on environment and files, as roff.
const ENVIRONMENT: &str = r#".SH ENVIRONMENT
.TP
SPECREEL_THREADS
number of compute threads (default: all processors)
.TP
SPECREEL_LOG
log level: error, warn, info or debug (default: info)
.TP
XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME
replace ~/.config, ~/.local/share, ~/.local/state and ~/.cache
.TP
HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN
as in the Hugging Face tools
.TP
NO_COLOR
disables colour
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

/// Print the manual: the main page, then one page for each subcommand.
pub fn man() -> Result<i32, End> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    page.extend_from_slice(ENVIRONMENT.as_bytes());
    for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
        clap_mangen::Man::new(sub.clone()).render(&mut page)?;
    }
    std::io::stdout().write_all(&page)?;
    Ok(0)
}
