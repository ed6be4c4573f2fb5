//! Arguments and plain text: everything that specreel does without the studio.
//!
//! stdout is data (captions, tables, JSON), stderr is talk (progress, legends, statistics, errors). The room knows no model:
//! it turns arguments into [`crate::engine::RunRequest`]s, sends them through [`EnginePort`] and prints the events that
//! come back.

/// A line on stderr. Unlike with `eprintln!`, nobody listening (a closed terminal) is no reason to stop.
macro_rules! tell {
    ($($words:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

pub mod args;
mod bench;
pub mod caption;
mod color;
mod compare;
mod complete;
pub mod config;
pub mod dirs;
mod doctor;
mod grid;
mod inspect;
mod interrupt;
mod log;
mod memory_check;
mod methods;
mod model_args;
mod models;
mod new_file;
mod panic;
mod part;
pub mod ports;
pub mod printer;
mod progress;
mod replay;
mod report;
pub mod resolve;
mod scenes;
pub mod session;
mod settings;
mod suggest;
pub mod terminal;
mod train;
mod user_methods;

use std::ffi::OsString;

use clap::Parser;

pub use args::Cli;
pub use ports::{EnginePort, Ports};

use interrupt::{interrupted, runtime};

use crate::record::{Failure, FailureClass};

/// Parse, do, and give the process exit code. Everything has been printed when this returns.
pub fn run(arguments: impl IntoIterator<Item = OsString>, ports: &Ports) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return report::usage(&error, &arguments),
    };
    let json = cli.json();
    let log = log::start();
    panic::watch(log.is_some());
    let outcome = panic::caught(|| dispatch(cli, ports)).unwrap_or_else(|failure| Err(failure.into()));
    outcome.unwrap_or_else(|end| match end {
        End::Failed(failure) => report::failure(&failure, json),
        End::Reported(code) => code,
        // Whoever reads has what they wanted.
        End::PipeClosed => 0,
    })
}

fn dispatch(cli: Cli, ports: &Ports) -> Result<i32, End> {
    use args::Command;
    let config = match &cli.command {
        // They take nothing from it, or tell what is wrong with it.
        Some(
            Command::Config(_)
            | Command::Completions { .. }
            | Command::Man
            | Command::Methods(_)
            | Command::Scenes(_)
            | Command::Replay(_)
            | Command::Doctor(_),
        ) => config::Config::default(),
        // It takes folders from it, and can do without.
        Some(Command::Models(_)) => config::Config::load().unwrap_or_else(|failure| {
            tell!("warning: {}", color::plain(&failure.error));
            config::Config::default()
        }),
        _ => config::Config::load()?,
    };
    if !matches!(cli.command, Some(Command::Completions { .. } | Command::Man)) {
        interrupt::descriptors()?;
    }
    match cli.command {
        None => studio(cli.studio, &config, ports),
        Some(Command::Caption(args)) => caption::run(&args, &config, ports),
        Some(Command::Compare(args)) => compare::run(args, &config, ports),
        Some(Command::Inspect(args)) => inspect::run(&args, &config, ports),
        Some(Command::Bench(args)) => bench::run(*args, &config, ports),
        Some(Command::Methods(args)) => methods::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Models(args)) => models::run(&args, &config),
        Some(Command::Doctor(args)) => doctor::run(&args, ports),
        Some(Command::Scenes(args)) => scenes::run(&args),
        Some(Command::Train(args)) => train::run(&args, &config),
        Some(Command::Config(args)) => settings::run(&args),
        Some(Command::Completions { shell }) => complete::completions(shell),
        Some(Command::Man) => complete::man(),
    }
}

/// The studio; without a terminal, a caption in plain text.
fn studio(args: args::StudioArgs, config: &config::Config, ports: &Ports) -> Result<i32, End> {
    if let Some(failure) = args.video.as_deref().filter(|video| !video.exists()).and_then(suggest::video) {
        return Err(failure.into());
    }
    if terminal::can_draw() {
        let studio = resolve::studio(&args, config)?;
        return (ports.studio)(studio).map_err(End::Failed);
    }
    let Some(video) = args.video else {
        return Err(End::Failed(Failure {
            class: FailureClass::Usage,
            error: "the studio needs a terminal, and no video was named to caption without one".into(),
            hint: Some("run it in a terminal, or name a video: specreel caption demo".into()),
        }));
    };
    let (part, output) = (part::PartArgs::default(), args::OutputArgs::default());
    caption::run(&args::CaptionArgs { video, part, run: args.run, output }, config, ports)
}

/// Why a command ended early.
#[derive(Debug)]
pub enum End {
    /// It failed; not yet reported.
    Failed(Failure),
    /// It ended with this code; everything has been said.
    Reported(i32),
    /// Nobody reads stdout any more.
    PipeClosed,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        End::Failed(failure)
    }
}

impl From<crate::speculate::MethodError> for End {
    fn from(error: crate::speculate::MethodError) -> Self {
        End::Failed(error.into())
    }
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return End::PipeClosed;
        }
        End::Failed(Failure {
            class: FailureClass::Internal,
            error: format!("cannot write the output: {error}"),
            hint: Some("is the disk full?".into()),
        })
    }
}
