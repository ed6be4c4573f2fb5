//! Arguments and plain text: everything that specreel does without the studio.
//!
//! stdout is data (captions, tables, JSON); stderr is for progress, legends, statistics and errors. Arguments become
//! [`specreel_engine::RunRequest`]s, which a [`specreel_client::Client`] sends to an engine; its events are printed.

/// Print a line to stderr. Unlike `eprintln!`, it ignores a closed stderr.
macro_rules! tell {
    ($($words:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

pub mod args;
mod batch;
mod bench;
mod candidates;
pub mod caption;
mod color;
mod compare;
mod complete;
pub mod config;
mod dataset;
pub mod dirs;
mod doctor;
mod dry_run;
mod inspect;
mod interrupt;
mod log;
mod manual;
mod methods;
mod model_args;
mod models;
mod new_file;
mod panic;
mod part;
pub mod printer;
mod progress;
mod replay;
mod report;
pub mod resolve;
mod scenes;
pub mod session;
mod settings;
mod stdin_video;
mod steps;
mod style;
mod suggest;
pub mod terminal;
mod train;
mod user_methods;
mod values;
mod weight_cache;

use std::ffi::OsString;

use clap::Parser;

pub use args::Cli;

use interrupt::{interrupted, runtime};

use specreel_client::present::{grid, wrap};
use specreel_record::{Failure, FailureClass};

/// Runs the studio and returns the exit code. A function, because this module does not know the studio's engine.
pub type RunStudio = fn(resolve::Studio) -> Result<i32, Failure>;

/// The longest wait at the end for converted weights that are still being written.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Parse the arguments, run the command, and return the process exit code. Everything has been printed when this returns.
pub fn run(arguments: impl IntoIterator<Item = OsString>, run_studio: RunStudio) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(code) = complete::answer(&arguments) {
        return code;
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return report::usage(&error, &arguments),
    };
    let json = cli.json();
    let log = log::start();
    panic::install_hook(log.is_some());
    let outcome = panic::caught(|| dispatch(cli, run_studio)).unwrap_or_else(|failure| Err(failure.into()));
    stdin_video::remove();
    if !matches!(outcome, Ok(code) if code == interrupted()) {
        specreel_checkpoint::weight_cache::wait_for_writers(LONGEST_WAIT);
    }
    outcome.unwrap_or_else(|end| match end {
        End::Failed(failure) => report::failure(&failure, json),
        End::Reported(code) => code,
        // The reader has all it wanted.
        End::PipeClosed => 0,
    })
}

fn dispatch(cli: Cli, run_studio: RunStudio) -> Result<i32, End> {
    use args::Command;
    let config = match &cli.command {
        // These do not use it, or report its errors themselves.
        Some(
            Command::Config(_)
            | Command::Completions { .. }
            | Command::Man(_)
            | Command::Methods(_)
            | Command::Scenes(_)
            | Command::Dataset(_)
            | Command::Replay(_)
            | Command::Doctor(_),
        ) => config::Config::default(),
        // This takes only folders from it, and works without.
        Some(Command::Models(_)) => config::load().unwrap_or_else(|failure| {
            tell!("warning: {}", color::plain(&failure.error));
            config::Config::default()
        }),
        _ => config::load()?,
    };
    if !matches!(cli.command, Some(Command::Completions { .. } | Command::Man(_))) {
        interrupt::descriptors()?;
    }
    match cli.command {
        None => studio(cli.studio, &config, run_studio),
        Some(Command::Caption(args)) => caption::run(&args, &config),
        Some(Command::Compare(args)) => compare::run(args, &config),
        Some(Command::Inspect(args)) => inspect::run(&args, &config),
        Some(Command::Bench(args)) => bench::run(*args, &config),
        Some(Command::Methods(args)) => methods::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Models(args)) => models::run(&args, &config),
        Some(Command::Dataset(args)) => dataset::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Scenes(args)) => scenes::run(&args),
        Some(Command::Train(args)) => train::run(&args, &config),
        Some(Command::Config(args)) => settings::run(&args),
        Some(Command::Completions { shell }) => complete::completions(shell),
        Some(Command::Man(args)) => manual::run(&args),
    }
}

/// The studio; without a terminal, a caption in plain text.
fn studio(args: args::StudioArgs, config: &config::Config, run_studio: RunStudio) -> Result<i32, End> {
    if let Some(failure) = args.video.as_deref().filter(|video| !video.exists()).and_then(suggest::video) {
        return Err(failure.into());
    }
    if terminal::can_draw() {
        let studio = resolve::studio(&args, config)?;
        return run_studio(studio).map_err(End::Failed);
    }
    let video = args.video.unwrap_or_else(|| {
        tell!("note: the studio needs a terminal; captioning the embedded clip `demo` instead");
        "demo".into()
    });
    let (part, output) = (part::PartArgs::default(), args::OutputArgs::default());
    caption::run(
        &args::CaptionArgs {
            videos: vec![video],
            batch: batch::BatchArgs::default(),
            part,
            run: args.run,
            output,
            dry_run: false,
            steps: false,
        },
        config,
    )
}

/// Why a command ended early.
#[derive(Debug)]
pub enum End {
    /// It failed; not yet reported.
    Failed(Failure),
    /// It ended with this code; everything has been printed.
    Reported(i32),
    /// The reader of stdout has gone.
    PipeClosed,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        End::Failed(failure)
    }
}

impl From<specreel_speculate::MethodError> for End {
    fn from(error: specreel_speculate::MethodError) -> Self {
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
