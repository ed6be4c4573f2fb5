//! Decoding the frames that sampling asks for, one at a time.

use std::{ops::ControlFlow, path::Path};

use super::{
    Error, Frame, Plan, Probe, Rule, Sampling, picture::Converter, probe, sampling, segments, source::Source,
    thumbnail, timeline::Timeline, walk::Walk,
};
use crate::record::{Span, clock};

/// A file that holds less than it promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Frames that the header promised, or that the plan wanted.
    pub promised: usize,
    /// Frames that there were.
    pub found: usize,
}

impl std::fmt::Display for Truncated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the file promises {} frames, but only {} could be read", self.promised, self.found)
    }
}

/// How a decode ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// What was to be decoded.
    pub plan: Plan,
    /// Frames handed over; fewer than planned where the file is damaged or somebody cancelled.
    pub delivered: usize,
    /// True if a callback broke off.
    pub cancelled: bool,
    /// The header promises more frames than the file has (the plan then covers what is there).
    pub truncated: Option<Truncated>,
    /// Planned frames that could not be decoded. Each was left out, or the next good frame stood in under its own index.
    pub missing: Option<Truncated>,
    /// Frames that were decoded with errors or not at all, also such as were not planned: others refer to them.
    pub damaged: usize,
    /// Length in seconds that the header promises, and that of what there is, where `truncated`.
    pub lengths_s: Option<[f64; 2]>,
}

impl Decoded {
    /// What people should know about what was read, in sentences; empty for a sound file.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(short) = self.truncated {
            let lengths = self.lengths_s.map(|[promised, found]| {
                format!(" ({} of {})", clock_or_seconds(found), clock_or_seconds(promised))
            });
            notes.push(format!("the video is cut short: {short}{}", lengths.unwrap_or_default()));
        }
        match self.damaged {
            0 => {}
            1 => notes.push(
                "the video is damaged: one frame had errors, and what it shows is in part a guess".into(),
            ),
            n => notes.push(format!(
                "the video is damaged: {n} frames had errors, and what they show is in part a guess"
            )),
        }
        if let Some(missing) = self.missing {
            notes.push(format!(
                "{} of the {} frames that were to be looked at could not be decoded",
                missing.promised - missing.found,
                missing.promised
            ));
        }
        notes
    }
}

/// A length for people: `7.9 s`, `12:07`.
fn clock_or_seconds(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.1} s") } else { clock(seconds) }
}

/// Decode the frames of a video that `sampling` (under the family's `rule`) asks for.
///
/// `on_start` is called once, with the size of the frames to come and the plan, before anything is decoded. `on_frame` is
/// called with each frame in order; it should make the frame small at once. Either may break off, which is no error. At any
/// time at most one converted frame is alive here.
///
/// Frame n is the n-th in presentation order; under a variable rate the time stamps are the real ones, which are not n / fps.
///
/// # Errors
/// Those of [`probe`](fn@super::probe), a sampling that makes no sense, a file of which not one frame could be decoded.
pub fn decode(
    path: &Path,
    rule: &Rule,
    sampling: Sampling,
    on_start: &mut dyn FnMut(&Probe, &Plan) -> ControlFlow<()>,
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    run(path, None, rule, sampling, None, on_start, on_frame)
}

/// [`decode`] of a part of the video: it is sampled as a clip of its own, and only it is decoded (from the keyframe before it
/// on). Indices and time stamps are those of the whole video.
///
/// # Errors
/// Those of [`decode`], a part that lies outside the video or holds fewer than two frames.
pub fn decode_part(
    path: &Path,
    span: Option<Span>,
    rule: &Rule,
    sampling: Sampling,
    on_start: &mut dyn FnMut(&Probe, &Plan) -> ControlFlow<()>,
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    run(path, span, rule, sampling, None, on_start, on_frame)
}

/// Decode `count` frames (or all, where there are fewer), evenly spread from the first to the last, each scaled down to fit
/// `max` pixels (width, height) and never enlarged. `on_frame` gets them in order and may break off.
///
/// # Errors
/// As [`decode`].
pub fn stills(
    path: &Path,
    count: usize,
    max: (u32, u32),
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    let all = &mut |_: &Probe, _: &Plan| ControlFlow::Continue(());
    run(path, None, &Rule::ANY, Sampling::Frames(count), Some(max), all, on_frame)
}

fn run(
    path: &Path,
    span: Option<Span>,
    rule: &Rule,
    sampling: Sampling,
    max: Option<(u32, u32)>,
    on_start: &mut dyn FnMut(&Probe, &Plan) -> ControlFlow<()>,
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    sampling::check(sampling)?;
    let mut source = Source::open(path)?;
    let mut probe = probe::of(&source)?;
    let timeline = Timeline::of(&mut source)?;
    if timeline.total == 0 {
        return Err(nothing(path, "it holds no picture data"));
    }
    probe.frame_count = probe::FrameCount::Exact(timeline.total);
    probe.fps = timeline.fps;
    let part = match span {
        Some(span) => segments::frames_of(path, &timeline, span)?,
        None => 0..timeline.total,
    };
    let mut plan = sampling::plan(part.len(), timeline.fps_of(&part), rule, sampling)?;
    plan.indices.iter_mut().for_each(|index| *index += part.start);
    plan.timestamps_s = plan.indices.iter().map(|&i| timeline.seconds(i)).collect();

    let truncated = truncation(&source, &timeline);
    let lengths_s = truncated.and_then(|_| Some([source.duration_s()?, timeline.length()]));
    let mut decoded =
        Decoded { plan, delivered: 0, cancelled: false, truncated, missing: None, damaged: 0, lengths_s };
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
    let complaint = walk.complaint.take();
    decoded.damaged = walk.damaged();
    decoded.delivered = delivered;
    decoded.cancelled = flow.is_break();
    if decoded.cancelled {
        return Ok(decoded);
    }
    if delivered == 0 {
        return Err(nothing(path, &complaint.map_or("no reason given".to_owned(), |e| e.to_string())));
    }
    let wanted = decoded.plan.indices.len();
    decoded.missing = (exact < wanted).then_some(Truncated { promised: wanted, found: exact });
    for note in decoded.notes() {
        tracing::warn!(path = %path.display(), "{note}");
    }
    Ok(decoded)
}

/// The note for a header that promises more than what is there. AVI headers count chunks that only repeat a frame; their
/// stated rate is not the real one, and their count is as little believed.
pub(super) fn truncation(source: &Source, timeline: &Timeline) -> Option<Truncated> {
    let (promised, found) = (source.promised_frames()?, timeline.total);
    let short = promised > found + timeline.silent + 2;
    let believed = source.promise_is_consistent() && source.fps() == Some(timeline.fps);
    (believed && short).then_some(Truncated { promised, found })
}

fn nothing(path: &Path, detail: &str) -> Error {
    Error::NothingDecoded { path: path.into(), detail: detail.to_owned() }
}
