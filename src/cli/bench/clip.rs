//! `--suite clip`: a whole clip in the shape of a known model, from its frames' patches to tokens.

use crate::cli::interrupt;
use specreel_bench::clip_time::{ClipTimes, ClipWork, ShapeModel};
use std::{io::Write, ops::ControlFlow};

use serde::Serialize;

use super::{args::BenchArgs, output::Lines};
use crate::cli::{End, grid::columns, interrupt::Interrupt, interrupted, progress::Progress};
use specreel_client::present::formats::rate;
use specreel_engine as engine;
use specreel_model::{ModelSpec, processor::FrameLimits, shapes};
use specreel_record::{Failure, FailureClass, Stage};
use specreel_tensor::ComputeDevice;
use specreel_video::{Sampling, sampling};

/// Length of the clip in seconds, size of its frames, frames a second.
const SECONDS: u32 = 10;
const SIZE: (usize, usize) = (1280, 720);
const FPS: f64 = 30.0;
/// Tokens after the first.
const TOKENS: u32 = 32;

/// The result, as a JSON line.
#[derive(Debug, Serialize)]
struct ClipResult {
    model: String,
    family: &'static str,
    dtype: &'static str,
    tower_dtype: &'static str,
    device: String,
    seconds: u32,
    frames: usize,
    width: usize,
    height: usize,
    visual_tokens: usize,
    prompt_tokens: usize,
    tower_ms: f64,
    prefill_ms: f64,
    first_token_ms: f64,
    token_ms: f64,
    tokens: usize,
}

/// Measure a clip.
///
/// # Errors
/// No shape is given, the clip does not fit the model, or the output cannot be written.
pub fn run(args: &BenchArgs, models: &ModelSpec, lines: &mut Lines) -> Result<i32, End> {
    let name = args.shape.as_deref().ok_or_else(|| Failure {
        class: FailureClass::Usage,
        error: "--suite clip needs --shape NAME".into(),
        hint: Some(format!("shapes: {}", shapes::names().join(", "))),
    })?;
    let config = shapes::config(name).ok_or_else(|| Failure {
        class: FailureClass::Usage,
        error: format!("unknown shape `{name}`"),
        hint: Some(format!("expected one of: {}", shapes::names().join(", "))),
    })?;
    let place = models.open_target_device()?;
    let interrupt = Interrupt::default();
    interrupt::listen(&interrupt, || {})?;
    let mut progress = Progress::new(true);
    let model = ShapeModel::load(config, &place, &mut |done, total| {
        progress.stage(Stage::Load, done as u64, total as u64);
    })
    .map_err(Failure::from)?;
    let work = work(args, &model)?;
    let times = model.time(&work, &mut |stage, done, total| {
        if interrupt.asked() {
            return ControlFlow::Break(());
        }
        progress.stage(stage, done as u64, total as u64);
        ControlFlow::Continue(())
    });
    progress.clear();
    let Some(times) = times.map_err(Failure::from)? else { return Ok(interrupted()) };
    let result = result(name, args.seconds.unwrap_or(SECONDS), &model, &place, &work, &times);
    lines.write("clip", &result)?;
    if !lines.stdout {
        std::io::stdout().write_all(text(&result).as_bytes())?;
    }
    Ok(0)
}

/// The frames that the family samples of the clip, and the tokens to write.
fn work(args: &BenchArgs, model: &ShapeModel) -> Result<ClipWork, Failure> {
    let run = &args.run;
    let asked = match (run.frames, run.fps) {
        (Some(n), _) => Sampling::Frames(n as usize),
        (None, Some(fps)) => Sampling::Fps(fps),
        (None, None) => Sampling::Auto,
    };
    let seconds = args.seconds.unwrap_or(SECONDS);
    let (width, height) = args.size.unwrap_or(SIZE);
    let limits = FrameLimits {
        pixels: run.max_pixels.map(|n| n as usize),
        tokens: run.max_visual_tokens.map(|n| n as usize),
    };
    let rule = engine::frames(model.family(), model.processor().config());
    let total = (f64::from(seconds) * FPS) as usize;
    let sampled = |asked| {
        sampling::plan(total, FPS, &rule, asked).map_err(|error| Failure {
            class: FailureClass::Usage,
            error: error.to_string(),
            hint: Some("omit --frames and --fps for the model's own sampling".into()),
        })
    };
    let mut sample = sampled(asked)?;
    let plan = model.processor().plan((height, width), sample.indices.len(), limits)?;
    if plan.frames < sample.indices.len() {
        sample = sampled(Sampling::Frames(plan.frames))?;
    }
    let tokens = run.max_new_tokens.unwrap_or(TOKENS) as usize;
    Ok(ClipWork {
        size: plan.size,
        timestamps_s: sample.timestamps_s,
        duration_s: f64::from(seconds),
        tokens,
    })
}

fn result(
    name: &str,
    seconds: u32,
    model: &ShapeModel,
    place: &ComputeDevice,
    work: &ClipWork,
    times: &ClipTimes,
) -> ClipResult {
    ClipResult {
        model: format!("{name} (random weights)"),
        family: model.family().model_type(),
        dtype: place.dtype().name(),
        tower_dtype: place.tower().name(),
        device: place.name().into(),
        seconds,
        frames: work.timestamps_s.len(),
        width: work.size.1,
        height: work.size.0,
        visual_tokens: times.visual,
        prompt_tokens: times.rows,
        tower_ms: times.tower_ms,
        prefill_ms: times.prefill_ms,
        first_token_ms: times.first_ms,
        token_ms: times.token_ms,
        tokens: work.tokens,
    }
}

fn text(result: &ClipResult) -> String {
    let rows = [
        ("vision tower", format!("{:.0} ms", result.tower_ms)),
        ("prompt", format!("{:.0} ms", result.prefill_ms)),
        ("first token", format!("{:.0} ms", result.first_token_ms)),
        ("per token", format!("{:.1} ms ({} tokens/s)", result.token_ms, rate(1e3 / result.token_ms))),
    ];
    let rows: Vec<Vec<String>> = rows.map(|(name, value)| vec![name.to_owned(), value]).to_vec();
    format!(
        "{} ({}, {}, tower {})\n{} s: {} frames of {}x{}, {} visual tokens, {} tokens in the prompt\n{}",
        result.model,
        result.device,
        result.dtype,
        result.tower_dtype,
        result.seconds,
        result.frames,
        result.width,
        result.height,
        result.visual_tokens,
        result.prompt_tokens,
        columns(&rows)
    )
}
