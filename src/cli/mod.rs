//! Arguments and plain text: everything that specreel does without the studio.
//!
//! stdout is data (captions, tables, JSON); stderr is for progress, legends, statistics and errors. Arguments become
//! [`specreel_engine::RunRequest`]s, which a [`specreel_client::Client`] sends to an engine; its events are printed.

/// Print a line to stderr. Unlike `eprintln!`, it ignores a closed stderr.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

pub mod args;
mod commands;
pub mod config;
pub mod end;
pub mod interrupt;
mod log;
pub mod output;
mod panic;
pub mod resolve;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

pub use args::Cli;

use args::{Command, StudioArgs, caption::CaptionArgs, run::ColorChoice};
#[cfg(feature = "find")]
use commands::{ask, library};
use commands::{
    caption, compare, complete, dataset, doctor, inspect, manual, methods, models, replay, skills, watch,
};
#[cfg(feature = "server")]
use commands::{mcp, serve};
use config::Config;
use end::End;
pub use output::terminal;
use output::{color, report, suggest};
use resolve::stdin_video;
use specreel_client::StudioStart;
use specreel_record::Failure;

/// Runs the studio and returns the exit code. A function, because the command line does not know the studio.
pub type RunStudio = fn(StudioStart) -> Result<i32, Failure>;

/// The longest wait at the end for converted weights that are still being written.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Keep drivers from printing. Mesa's layer that sorts GPUs asks the desktop for its own, and prints an error without one; GPUs are
/// sorted here.
///
/// # Safety
///
/// It sets a variable of the environment: no other thread may run.
pub unsafe fn silence_drivers() {
    if std::env::var_os("MESA_VK_DEVICE_SELECT").is_none() {
        // SAFETY: the caller has no other thread.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

/// Parse the arguments, run the command, and return the process exit code. Everything has been printed when this returns.
pub fn run(arguments: impl IntoIterator<Item = OsString>, run_studio: RunStudio) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    specreel_os::terminal::obey_sequences();
    if let Some(code) = complete::answer(&arguments) {
        return code;
    }
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let suggested = suggest::arguments(&arguments, &error);
            return report::usage(&error, &arguments, &Cli::command(), suggested);
        }
    };
    guarded(cli.json(), || dispatch(cli, run_studio))
}

/// Do the work of a command with a log, and return the exit code: failures and panics have been printed, temporary files are
/// removed and converted weights written.
pub fn guarded(json: bool, work: impl FnOnce() -> Result<i32, End>) -> i32 {
    panic::install_hook(log::start().is_some());
    let outcome = panic::caught(work).unwrap_or_else(|failure| Err(failure.into()));
    stdin_video::remove();
    if !matches!(outcome, Ok(code) if code == interrupt::interrupted()) {
        specreel_checkpoint::weight_cache::wait_for_writers(LONGEST_WAIT);
    }
    outcome.unwrap_or_else(|end| match end {
        End::Failed(failure) => report::failure(&failure, json),
        End::Reported(code) => code,
        // The reader has all it wanted.
        End::PipeClosed => 0,
    })
}

/// As [`Cli::try_parse_from`], with help colored by the rule of all other output.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let color = match terminal::color_stdout(ColorChoice::Auto) {
        true => clap::ColorChoice::Always,
        false => clap::ColorChoice::Never,
    };
    let mut command = Cli::command().color(color);
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn dispatch(cli: Cli, run_studio: RunStudio) -> Result<i32, End> {
    let config = match &cli.command {
        // These do not use it, or report its errors themselves.
        Some(
            Command::Config(_)
            | Command::Completions { .. }
            | Command::Man(_)
            | Command::Skills(_)
            | Command::Methods(_)
            | Command::Dataset(_)
            | Command::Replay(_)
            | Command::Doctor(_)
            | Command::Bench(_)
            | Command::Train(_)
            | Command::Scenes(_),
        ) => Config::default(),
        // This takes only folders from it, and works without.
        Some(Command::Models(_)) => config::load().unwrap_or_else(|failure| {
            tell!("warning: {}", color::plain(&failure.error));
            Config::default()
        }),
        _ => config::load()?,
    };
    if !matches!(cli.command, Some(Command::Completions { .. } | Command::Man(_))) {
        interrupt::descriptors()?;
    }
    match cli.command {
        None => studio(cli.studio, &config, run_studio),
        Some(Command::Caption(mut args)) => caption::run(&mut args, &config),
        #[cfg(feature = "find")]
        Some(Command::Index(args)) => library::index(*args, &config),
        #[cfg(feature = "find")]
        Some(Command::Find(args)) => library::moments(&args, &config),
        #[cfg(feature = "find")]
        Some(Command::Ask(args)) => ask::run(&args, &config),
        #[cfg(not(feature = "find"))]
        Some(Command::Index(words) | Command::Find(words) | Command::Ask(words)) => Err(words.absent("find")),
        Some(Command::Watch(args)) => watch::run(&args, &config),
        Some(Command::Compare(args)) => compare::run(args, &config),
        Some(Command::Inspect(args)) => inspect::run(&args, &config),
        Some(Command::Methods(args)) => methods::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Models(args)) => models::run(&args, &config),
        Some(Command::Dataset(args)) => dataset::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        #[cfg(feature = "server")]
        Some(Command::Serve(args)) => serve::run(&args, &config),
        #[cfg(feature = "server")]
        Some(Command::Mcp(args)) => mcp::run(&args, &config),
        #[cfg(not(feature = "server"))]
        Some(Command::Serve(words) | Command::Mcp(words)) => Err(words.absent("server")),
        Some(Command::Bench(words)) => Err(words.moved("bench")),
        Some(Command::Train(words)) => Err(words.moved("train")),
        Some(Command::Scenes(words)) => Err(words.moved("scenes")),
        Some(Command::Config(args)) => commands::config::run(&args),
        Some(Command::Completions { shell }) => complete::completions(shell),
        Some(Command::Skills(args)) => skills::run(&args),
        Some(Command::Man(args)) => manual::run(&args),
    }
}

/// The studio; without a terminal, a caption in plain text.
fn studio(args: StudioArgs, config: &Config, run_studio: RunStudio) -> Result<i32, End> {
    if let Some(failure) = args.video.as_deref().filter(|video| !video.exists()).and_then(suggest::video) {
        return Err(failure.into());
    }
    if terminal::can_draw() {
        let studio = resolve::studio(&args, config)?;
        #[cfg(feature = "find")]
        if let Some(path) = &args.index {
            let (code, videos) = library::keeping_runs(path.as_deref(), || run_studio(studio))?;
            let videos = specreel_client::present::formats::plural(videos, "video");
            tell!("the index has the captions of this session: {videos}");
            return Ok(code);
        }
        return run_studio(studio).map_err(End::Failed);
    }
    if args.connect.is_some() {
        let hint = "to read a server's events elsewhere, see `GET /events` in docs/server.md";
        return Err(Failure::usage("--connect opens the studio, which needs a terminal", hint).into());
    }
    let video = args.video.unwrap_or_else(|| {
        tell!("note: the studio needs a terminal; captioning the embedded clip `demo` instead");
        "demo".into()
    });
    let mut caption = CaptionArgs { videos: vec![video], run: args.run, ..CaptionArgs::default() };
    #[cfg(feature = "find")]
    {
        caption.batch.index = args.index;
    }
    caption::run(&mut caption, config)
}
