//! `specreel-lab train`: trains draft heads locally.
//!
//! With `--json`, stdout is JSON lines. Progress goes to stderr: a live chart on a terminal, else a line for each point of the
//! curve. The first Ctrl-C saves a checkpoint and exits with 130; the same command resumes the training run.

mod board;
mod inline;
mod picture;
mod progress;

use self::progress::TrainProgress;

use crate::args::train::TrainArgs;
use specreel::cli::{
    config::Config,
    end::End,
    interrupt::{interrupted, listen},
};
use specreel_client::{catalog, dirs::Dirs};
use specreel_demo as assets;
use specreel_model::ModelSpec;
use specreel_record::Failure;
use specreel_train::{Job, Outcome, train};

pub fn run(args: &TrainArgs, config: &Config) -> Result<i32, End> {
    let (options, clips) = (args.options()?, args.clips()?);
    let target = match &args.target {
        Some(named) => catalog::directory("target", named)?,
        None => assets::demo(Dirs::find().as_ref().map(|d| d.cache.as_path())).map_err(Failure::from)?.target,
    };
    let spec = ModelSpec {
        target,
        device: args.device.unwrap_or_default(),
        dtype: args.dtype.unwrap_or_default(),
        tower_dtype: args.tower_dtype.unwrap_or_default(),
        ..ModelSpec::default()
    };
    let place = spec.open_target_device()?;
    let interrupt = listen(|| {})?;
    ffmpeg_next::log::set_level(ffmpeg_next::log::Level::Quiet);
    let job = Job {
        target: &spec.target,
        device: &place,
        clips: &clips,
        options: &options,
        out: &args.out,
        save_every: args.save_every,
    };
    let target = spec.target.file_name().unwrap_or(spec.target.as_os_str()).to_string_lossy();
    let title = format!("{} for {target}, on {}", args.what.name(), args.data);
    let mut progress = TrainProgress::new(args, &title, options.recursions > 0, config)?;
    let outcome = train(&job, &mut |news| progress.news(&news), &|| interrupt.asked());
    progress.clear();
    match outcome.map_err(Failure::from)? {
        Outcome::Finished(account) => {
            progress.finished(&args.out, &account)?;
            Ok(0)
        }
        Outcome::Stopped(account) => {
            progress.stopped(&args.out, &account)?;
            Ok(interrupted())
        }
    }
}
