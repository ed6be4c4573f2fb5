//! The laboratory of specreel, a program of its own: it measures methods and the tables of papers, trains draft heads and renders
//! scenes with known facts. It links the product's crates; none of them knows it.

pub mod args;
mod bench;
mod methods;
mod scenes;
mod train;

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

pub use args::Cli;
use args::Command;
use specreel::cli::{self, config, end::End, interrupt, output::report};

/// Run the command of these arguments, the program's name first, and return the exit code.
pub fn run(arguments: &[OsString]) -> i32 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return report::usage(&error, arguments, &Cli::command(), None),
    };
    cli::guarded(cli.json(), || dispatch(cli))
}

fn dispatch(cli: Cli) -> Result<i32, End> {
    interrupt::descriptors()?;
    match cli.command {
        Command::Bench(args) => bench::run(*args, &config::load()?),
        Command::Train(args) => train::run(&args, &config::load()?),
        Command::Scenes(args) => scenes::run(&args),
        Command::Methods { name } => methods::run(name.as_deref()),
    }
}
