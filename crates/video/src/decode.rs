//! An opened video, and its sampled frames one at a time.

use std::{path::Path, sync::Arc};

use ffmpeg_next::frame;

use super::{
    Error, Frame, HeldFrames, Plan, Probe, Rule, Sampling, clock,
    picture::Converter,
    probe, sampling, segments,
    source::Source,
    thumbnail,
    timeline::{ROUNDING_S, Timeline, Truncated},
    walk::Walk,
};
use specreel_record::Span;

/// An opened video file: what its headers say, and when each of its frames is shown.
pub struct Video {
    pub(super) source: Source,
    pub(super) timeline: Timeline,
    pub(super) probe: Probe,
}

/// What was decoded of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub plan: Plan,
    /// Frames that were decoded; fewer than planned if the file is damaged or decoding was given up.
    pub delivered: usize,
    /// Set if the header promises more frames than the file has; the plan then covers those that exist.
    pub truncated: Option<Truncated>,
    /// Planned frames that could not be decoded. Each is skipped, or replaced by the next good frame under that frame's index.
    pub missing: Option<Truncated>,
    /// Frames with decoding errors, including reference frames that were not planned.
    pub damaged: usize,
    /// Length in seconds in the header, and of the readable part, if `truncated`.
    pub(crate) lengths_s: Option<[f64; 2]>,
    /// Where time stamps restarted or jumped, and were joined, in seconds from the beginning of the file.
    pub joined_s: Vec<f64>,
    /// The transfer curve of HDR video.
    pub hdr: Option<&'static str>,
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
        notes.extend(clock::note(&self.joined_s));
        if let Some(curve) = self.hdr {
            notes.push(format!(
                "the video is HDR ({curve}): the model sees it as a screen without HDR shows it, without tone mapping"
            ));
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
    if seconds < 60.0 { format!("{seconds:.1} s") } else { specreel_record::clock(seconds) }
}

impl Video {
    /// Open a file and read its time stamps. Fails as [`probe`](fn@super::probe).
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut source = Source::open(path)?;
        let mut probe = probe::of(&source)?;
        let timeline = Timeline::of(&mut source)?;
        probe.frame_count = probe::FrameCount::Exact(timeline.total);
        probe.fps = timeline.fps;
        probe.start_s = timeline.seconds(0);
        if !timeline.joins.is_empty() {
            // The header knows one part.
            probe.duration_s = timeline.length() - probe.start_s;
        }
        Ok(Self { source, timeline, probe })
    }

    /// Its metadata, with the exact number of frames.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// The frames that `sampling` selects under the family's `rule`. A part of the video is sampled like a separate clip; indices
    /// and time stamps refer to the whole video.
    ///
    /// Frame n is the n-th in presentation order; with a variable frame rate the time stamps are the real ones, not n / fps. Fails
    /// for an invalid sampling, for a video without frames, and for a part that is outside of the video or has fewer than two
    /// frames.
    pub fn plan(&self, span: Option<Span>, rule: &Rule, sampling: Sampling) -> Result<Plan, Error> {
        let (path, timeline) = (&self.source.path, &self.timeline);
        if timeline.total == 0 {
            return Err(nothing(path, "the video stream is empty"));
        }
        let part = match span {
            Some(span) => segments::frames_of(path, timeline, span)?,
            None => 0..timeline.total,
        };
        let mut plan = sampling::plan(part.len(), timeline.fps_of(&part), rule, sampling)?;
        plan.indices.iter_mut().for_each(|index| *index += part.start);
        plan.timestamps_s = plan.indices.iter().map(|&i| timeline.seconds(i)).collect();
        let start = timeline.seconds(part.start);
        // Both ends of an interval are rounded to ticks.
        let length = timeline.seconds(part.end - 1) - start + 1.0 / timeline.fps_of(&part);
        retime(&mut plan, start, timeline.tick + ROUNDING_S, length);
        Ok(plan)
    }

    /// Decode the frames of a plan of this video, each scaled down to fit `max` pixels (width, height) and never enlarged; without
    /// `max`, as they are. Fails if there is no decoder.
    pub fn frames(self, plan: Plan, max: Option<(u32, u32)>) -> Result<Frames, Error> {
        let Self { source, timeline, probe } = self;
        let geometry = source.geometry;
        let turned = geometry.orientation;
        let size = max.map(|(w, h)| {
            let squared = turned.size(probe.width, probe.height);
            thumbnail::fit(squared, turned.size(w, h))
        });
        let truncated = timeline.truncation(&source);
        let decoded = Decoded {
            delivered: 0,
            truncated,
            missing: None,
            damaged: 0,
            lengths_s: truncated
                .and_then(|_| Some([source.duration_s()?, timeline.length() - probe.start_s])),
            joined_s: timeline.joined_s(),
            hdr: source.hdr(),
            still: source.is_of_pictures() && timeline.total == 1,
            plan,
        };
        Ok(Frames {
            from: Pictures::Walk(Box::new(Walk::new(source, timeline, decoded.plan.indices.clone())?)),
            converter: Converter::new(geometry, size),
            picture: frame::Video::empty(),
            decoded,
            exact: 0,
            over: false,
        })
    }
}

/// Replace the even times of a plan for a part from `start` on by the real ones, where they differ by more than `rounding`.
pub(super) fn retime(plan: &mut Plan, start: f64, rounding: f64, length: f64) {
    let real: Vec<f64> = plan.timestamps_s.iter().map(|seconds| seconds - start).collect();
    if real.iter().zip(&plan.seconds).any(|(real, even)| (real - even).abs() > rounding) {
        (plan.seconds, plan.duration_s) = (real, length);
    }
}

/// Decode `count` frames (or all, where there are fewer), evenly spread from the first to the last, each scaled down to fit
/// `max` pixels (width, height). Fails as [`Video::open`], and for a count of 0.
pub fn stills(path: &Path, count: usize, max: (u32, u32)) -> Result<Frames, Error> {
    let video = Video::open(path)?;
    let plan = video.plan(None, &Rule::ANY, Sampling::Frames(count))?;
    video.frames(plan, Some(max))
}

/// The frames of a plan in order, decoded as they are asked for: each should be resized at once, so that one is in memory. The
/// last item is an error if the file cannot be read any further, or none of the frames could be decoded.
pub struct Frames {
    from: Pictures,
    converter: Converter,
    picture: frame::Video,
    decoded: Decoded,
    /// Decoded frames that were planned, and not the next good ones in their place.
    exact: usize,
    over: bool,
}

enum Pictures {
    Walk(Box<Walk>),
    Held(Arc<HeldFrames>),
}

impl Iterator for Frames {
    type Item = Result<Frame, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.over { None } else { self.decode().transpose() };
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Frames {
    /// The frames of a plan of held frames.
    pub(super) fn held(held: Arc<HeldFrames>, decoded: Decoded) -> Self {
        let converter = Converter::new(held.geometry, None);
        let picture = frame::Video::empty();
        Self { from: Pictures::Held(held), converter, picture, decoded, exact: 0, over: false }
    }

    fn decode(&mut self) -> Result<Option<Frame>, Error> {
        let frame = match &mut self.from {
            Pictures::Walk(walk) => {
                let Some(index) = walk.next(&mut self.picture)? else {
                    let why = walk.last_error.map_or("no frames".to_owned(), |error| error.to_string());
                    return if self.decoded.delivered > 0 {
                        Ok(None)
                    } else {
                        Err(nothing(walk.path(), &why))
                    };
                };
                let seconds = walk.timeline.seconds(index);
                self.converter.convert(walk.path(), index, seconds, &self.picture)?
            }
            Pictures::Held(held) => {
                let Some(&index) = self.decoded.plan.indices.get(self.decoded.delivered) else {
                    return Ok(None);
                };
                let held_frame = held.at(index);
                self.converter.convert(&held.name, index, held_frame.at, &held_frame.item.picture)?
            }
        };
        self.decoded.delivered += 1;
        self.exact += usize::from(self.decoded.plan.indices.binary_search(&frame.index).is_ok());
        Ok(Some(frame))
    }

    /// What was decoded, and what of the plan could not be.
    pub fn finish(self) -> Decoded {
        let (found, promised) = (self.exact, self.decoded.plan.indices.len());
        let missing = (found < promised).then_some(Truncated { promised, found });
        let (path, damaged) = match &self.from {
            Pictures::Walk(walk) => (walk.path(), walk.damaged()),
            Pictures::Held(held) => (held.name.as_path(), self.decoded.damaged),
        };
        let decoded = Decoded { damaged, missing, ..self.decoded };
        for note in decoded.notes().iter().filter(|_| !decoded.still) {
            tracing::warn!(path = %path.display(), "{note}");
        }
        decoded
    }
}

pub(super) fn nothing(path: &Path, detail: &str) -> Error {
    Error::NothingDecoded { path: path.into(), detail: detail.to_owned() }
}
