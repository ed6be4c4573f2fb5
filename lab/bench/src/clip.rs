//! Suite `clip`: a whole clip in the shape of a known model, from its frames' patches to tokens.

use super::*;
use crate::clip_time::{ClipTimes, ClipWork, ShapeModel};
use specreel_client::present::{formats::rate, grid::columns};
use specreel_model::{
    processor::{FrameLimits, FrameSize},
    shapes,
};
use specreel_video::{Sampling, sampling};

const FPS: f64 = 30.0;

#[derive(Clone, Debug, PartialEq)]
pub struct ClipOptions {
    pub shape: String,
    pub seconds: u32,
    /// Width and height of its frames in pixels, before they are resized.
    pub size: (usize, usize),
    pub sampling: Sampling,
    /// Limits of their size and number.
    pub limits: FrameLimits,
    /// Tokens after the first.
    pub tokens: usize,
}

impl ClipOptions {
    /// A clip of 10 seconds in 720p, sampled as the model wants it, and 32 tokens.
    pub fn new(shape: &str) -> Self {
        Self {
            shape: shape.into(),
            seconds: 10,
            size: (1280, 720),
            sampling: Sampling::Auto,
            limits: FrameLimits::default(),
            tokens: 32,
        }
    }
}

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

/// Measure a clip on the device and with the weight types of `models`. False if it was interrupted. Fails if the shape is
/// unknown, the clip does not fit the model, or the results cannot be written.
pub fn run<R: Reporter>(
    options: &ClipOptions,
    models: &ModelSpec,
    interrupt: &Interrupt,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let name = &options.shape;
    let config = shapes::config(name).ok_or_else(|| Failure {
        class: FailureClass::Usage,
        error: format!("unknown shape `{name}`"),
        hint: Some(format!("expected one of: {}", shapes::names().join(", "))),
    })?;
    let place = models.open_target_device()?;
    let model = ShapeModel::load(config, &place, &mut |done, total| {
        reporter.stage(Stage::Load, done as u64, total as u64);
    })
    .map_err(Failure::from)?;
    let work = work(options, &model)?;
    let times = model.time(&work, &mut |stage, done, total| {
        if interrupt.asked() {
            return ControlFlow::Break(());
        }
        reporter.stage(stage, done as u64, total as u64);
        ControlFlow::Continue(())
    });
    reporter.ended();
    let Some(times) = times.map_err(Failure::from)? else { return Ok(false) };
    let result = result(options, &model, &place, &work, &times);
    reporter.line("clip", &result)?;
    reporter.table(&text(&result))?;
    Ok(true)
}

/// The frames that the family samples of the clip, and the tokens to write.
fn work(options: &ClipOptions, model: &ShapeModel) -> Result<ClipWork, Failure> {
    let (width, height) = options.size;
    let duration_s = f64::from(options.seconds);
    let rule = model.family().rule(model.processor().config());
    let total = (duration_s * FPS) as usize;
    let sampled = |asked| {
        sampling::plan(total, FPS, &rule, asked).map_err(|error| Failure {
            class: FailureClass::Usage,
            error: error.to_string(),
            hint: Some("omit --frames and --fps for the model's own sampling".into()),
        })
    };
    let mut sample = sampled(options.sampling)?;
    let plan = model.processor().plan(FrameSize::new(height, width), sample.indices.len(), options.limits)?;
    if plan.frames < sample.indices.len() {
        sample = sampled(Sampling::Frames(plan.frames))?;
    }
    Ok(ClipWork { size: plan.size, timestamps_s: sample.timestamps_s, duration_s, tokens: options.tokens })
}

fn result(
    options: &ClipOptions,
    model: &ShapeModel,
    place: &ComputeDevice,
    work: &ClipWork,
    times: &ClipTimes,
) -> ClipResult {
    ClipResult {
        model: format!("{} (random weights)", options.shape),
        family: model.family().model_type,
        dtype: place.dtype().name(),
        tower_dtype: place.tower().name(),
        device: place.name().into(),
        seconds: options.seconds,
        frames: work.timestamps_s.len(),
        width: work.size.width,
        height: work.size.height,
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
