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

/// Print the manual: the main page, then one page for each subcommand.
pub fn man() -> Result<i32, End> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
        clap_mangen::Man::new(sub.clone()).render(&mut page)?;
    }
    std::io::stdout().write_all(&page)?;
    Ok(0)
}
