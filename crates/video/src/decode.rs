//! Decodes the sampled frames, one at a time.

use std::{ops::ControlFlow, path::Path};

use super::{
    Error, Frame, Plan, Probe, Rule, Sampling,
    picture::Converter,
    probe, sampling, segments,
    source::Source,
    thumbnail,
    timeline::{ROUNDING_S, Timeline, Truncated},
    walk::Walk,
};
use specreel_record::{Span, clock};

/// Result of a decode.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The frames to decode.
    pub plan: Plan,
    /// Frames passed to the callback; fewer than planned if the file is damaged or the decode was cancelled.
    pub delivered: usize,
    /// True if a callback cancelled.
    pub cancelled: bool,
    /// Set if the header promises more frames than the file has; the plan then covers those that exist.
    pub truncated: Option<Truncated>,
    /// Planned frames that could not be decoded. Each is skipped, or replaced by the next good frame under that frame's index.
    pub missing: Option<Truncated>,
    /// Frames with decoding errors, including reference frames that were not planned.
    pub damaged: usize,
    /// Length in seconds in the header, and of the readable part, if `truncated`.
    pub(crate) lengths_s: Option<[f64; 2]>,
    /// The file is a picture, not a video.
    pub still: bool,
}

impl Decoded {
    /// Notes for the user on what could not be read; empty for an intact file.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.still {
            notes.push("the file is a picture, not a video: it is captioned as a single frame".into());
        }
        if let Some(short) = self.truncated {
            let lengths = self.lengths_s.map(|[promised, found]| {
                format!(" ({} of {})", clock_or_seconds(found), clock_or_seconds(promised))
            });
            notes.push(format!("the video is truncated: {short}{}", lengths.unwrap_or_default()));
        }
        match self.damaged {
            0 => {}
            1 => notes.push(
                "the video is damaged: one frame has decoding errors and is partly reconstructed".into(),
            ),
            n => notes.push(format!(
                "the video is damaged: {n} frames have decoding errors and are partly reconstructed"
            )),
        }
        if let Some(missing) = self.missing {
            notes.push(format!(
                "{} of the {} sampled frames could not be decoded",
                missing.promised - missing.found,
                missing.promised
            ));
        }
        notes
    }
}

/// A length as text: `7.9 s`, `12:07`.
fn clock_or_seconds(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.1} s") } else { clock(seconds) }
}

/// Decode the frames of a video that `sampling` selects under the family's `rule`.
///
/// `on_start` is called once, with the size of the frames to come and the plan, before anything is decoded. `on_frame` is
/// called with each frame in order; it should resize the frame at once. Either may cancel with `Break`, which is not an error.
/// At most one converted frame is alive at a time.
///
/// Frame n is the n-th in presentation order; with a variable frame rate the time stamps are the real ones, not n / fps. Fails as
/// [`probe`](fn@super::probe), for an invalid sampling, and for a file of which no frame could be decoded.
pub fn decode(
    path: &Path,
    rule: &Rule,
    sampling: Sampling,
    on_start: &mut dyn FnMut(&Probe, &Plan) -> ControlFlow<()>,
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    run(path, None, (rule, sampling), &|_, frames| frames, None, on_start, on_frame)
}

/// [`decode`] of a part of the video: it is sampled like a separate clip, and decoding starts at the keyframe before it. Indices and time stamps are those of the whole video.
/// `fewer` may lower the number of frames that `rule` and `sampling` give: they are spread over the same part. Fails as
/// [`decode`], and for a part that is outside of the video or has fewer than two frames.
pub fn decode_part(
    path: &Path,
    span: Option<Span>,
    (rule, sampling): (&Rule, Sampling),
    fewer: &dyn Fn(&Probe, usize) -> usize,
    on_start: &mut dyn FnMut(&Probe, &Plan) -> ControlFlow<()>,
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    run(path, span, (rule, sampling), fewer, None, on_start, on_frame)
}

/// Decode `count` frames (or all, where there are fewer), evenly spread from the first to the last, each scaled down to fit
/// `max` pixels (width, height) and never enlarged. `on_frame` gets them in order and may cancel with `Break`.
pub fn stills(
    path: &Path,
    count: usize,
    max: (u32, u32),
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    let all = &mut |_: &Probe, _: &Plan| ControlFlow::Continue(());
    let spread = (&Rule::ANY, Sampling::Frames(count));
    run(path, None, spread, &|_, frames| frames, Some(max), all, on_frame)
}

fn run(
    path: &Path,
    span: Option<Span>,
    (rule, sampling): (&Rule, Sampling),
    fewer: &dyn Fn(&Probe, usize) -> usize,
    max: Option<(u32, u32)>,
    on_start: &mut dyn FnMut(&Probe, &Plan) -> ControlFlow<()>,
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    sampling::check(sampling)?;
    let mut source = Source::open(path)?;
    let mut probe = probe::of(&source)?;
    let timeline = Timeline::of(&mut source)?;
    if timeline.total == 0 {
        return Err(nothing(path, "the video stream is empty"));
    }
    probe.frame_count = probe::FrameCount::Exact(timeline.total);
    probe.fps = timeline.fps;
    let part = match span {
        Some(span) => segments::frames_of(path, &timeline, span)?,
        None => 0..timeline.total,
    };
    let of_part = |sampling| sampling::plan(part.len(), timeline.fps_of(&part), rule, sampling);
    let mut plan = of_part(sampling)?;
    let frames = plan.indices.len();
    let wanted = fewer(&probe, frames);
    if wanted < frames {
        plan = of_part(Sampling::Frames(wanted.max(1)))?;
    }
    plan.indices.iter_mut().for_each(|index| *index += part.start);
    plan.timestamps_s = plan.indices.iter().map(|&i| timeline.seconds(i)).collect();
    let start = timeline.seconds(part.start);
    let in_part: Vec<f64> = plan.timestamps_s.iter().map(|seconds| seconds - start).collect();
    // Both ends of an interval are rounded to ticks.
    let rounding = timeline.tick + ROUNDING_S;
    if in_part.iter().zip(&plan.seconds).any(|(real, even)| (real - even).abs() > rounding) {
        plan.seconds = in_part;
        plan.duration_s = timeline.seconds(part.end - 1) - start + 1.0 / timeline.fps_of(&part);
    }

    let still = source.is_of_pictures() && timeline.total == 1;
    let truncated = timeline.truncation(&source);
    let lengths_s = truncated.and_then(|_| Some([source.duration_s()?, timeline.length()]));
    let mut decoded = Decoded {
        plan,
        delivered: 0,
        cancelled: false,
        truncated,
        missing: None,
        damaged: 0,
        lengths_s,
        still,
    };
    if on_start(&probe, &decoded.plan).is_break() {
        decoded.cancelled = true;
        return Ok(decoded);
    }

    let turned = source.orientation;
    let size = max.map(|(w, h)| {
        let stored = turned.size(probe.width, probe.height);
        thumbnail::fit(stored, turned.size(w, h))
    });
    let mut converter = Converter::new(turned, size);
    let mut delivered = 0;
    let mut exact = 0;
    let indices = &decoded.plan.indices;
    let mut walk = Walk::new(source, &timeline, indices)?;
    let flow = walk.run(&mut |index, picture| {
        let frame =
            converter.convert(index, timeline.seconds(index), picture).map_err(|e| Error::Convert {
                path: path.into(),
                format: picture.format().descriptor().map_or("unknown", |d| d.name()).to_owned(),
                detail: e.to_string(),
            })?;
        delivered += 1;
        exact += usize::from(indices.binary_search(&index).is_ok());
        Ok(on_frame(frame))
    })?;
    let last_error = walk.last_error.take();
    decoded.damaged = walk.damaged();
    decoded.delivered = delivered;
    decoded.cancelled = flow.is_break();
    if decoded.cancelled {
        return Ok(decoded);
    }
    if delivered == 0 {
        return Err(nothing(path, &last_error.map_or("no frames".to_owned(), |e| e.to_string())));
    }
    let wanted = decoded.plan.indices.len();
    decoded.missing = (exact < wanted).then_some(Truncated { promised: wanted, found: exact });
    for note in decoded.notes().iter().filter(|_| !decoded.still) {
        tracing::warn!(path = %path.display(), "{note}");
    }
    Ok(decoded)
}

fn nothing(path: &Path, detail: &str) -> Error {
    Error::NothingDecoded { path: path.into(), detail: detail.to_owned() }
}
