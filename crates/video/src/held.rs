//! The frames of a stream's segment, held in memory: a stream is read once, so they cannot be decoded again.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ffmpeg_next::frame;

use super::{
    Decoded, Error, Frames, Plan, Probe, Rule, Sampling, Video, decode::retime, orientation::Geometry,
    sampling, timeline::ROUNDING_S,
};
use specreel_record::Span;

/// A decoded frame.
pub(super) struct Still {
    pub picture: frame::Video,
    /// It has decoding errors.
    pub is_damaged: bool,
}

/// A held frame: its index in the segment, and its time in seconds from the beginning of the stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moment<T> {
    pub index: usize,
    pub at: f64,
    pub item: T,
}

/// Evenly spread frames of a segment of a stream. More are held than a model samples, so that those that it would sample of a
/// file are among them or close by.
pub struct HeldFrames {
    /// What the stream is called.
    pub name: PathBuf,
    pub span: Span,
    /// Index of the segment's first frame in the stream.
    pub(super) first: usize,
    pub(super) total: usize,
    /// Frames per second.
    pub(super) fps: f64,
    /// Seconds per tick of the time stamps.
    pub(super) tick: f64,
    pub(super) geometry: Geometry,
    pub(super) probe: Probe,
    /// Where the stream's time stamps restarted or jumped within this segment, in seconds.
    pub(super) joined_s: Vec<f64>,
    /// The transfer curve of HDR video.
    pub(super) hdr: Option<&'static str>,
    pub(super) frames: Vec<Moment<Still>>,
}

impl HeldFrames {
    /// Number of held frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// All frames of the segment, held or not.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The metadata of the stream.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Never true: a segment has at least two frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The held frames that are closest to those which `sampling` selects under the family's `rule`. Fails for an invalid sampling.
    fn plan(&self, rule: &Rule, sampling: Sampling) -> Result<Plan, Error> {
        let mut plan = sampling::plan(self.total, self.fps, rule, sampling)?;
        let mut chosen: Vec<&Moment<Still>> =
            plan.indices.iter().map(|index| nearest(&self.frames, *index)).collect();
        chosen.dedup_by_key(|frame| frame.index);
        let (start, last) = (self.frames[0].at, self.frames[self.frames.len() - 1].at);
        plan.seconds = chosen.iter().map(|frame| frame.index as f64 / self.fps).collect();
        plan.timestamps_s = chosen.iter().map(|frame| frame.at).collect();
        plan.indices = chosen.iter().map(|frame| self.first + frame.index).collect();
        retime(&mut plan, start, self.tick + ROUNDING_S, last - start + 1.0 / self.fps);
        Ok(plan)
    }

    /// A held frame by its index in the stream.
    pub(super) fn at(&self, index: usize) -> &Moment<Still> {
        nearest(&self.frames, index.saturating_sub(self.first))
    }
}

/// The frame that is closest to an index; there is at least one.
fn nearest<T>(frames: &[Moment<T>], index: usize) -> &Moment<T> {
    let after = frames.partition_point(|frame| frame.index < index).min(frames.len() - 1);
    let before = after.saturating_sub(1);
    if index.abs_diff(frames[before].index) <= index.abs_diff(frames[after].index) {
        &frames[before]
    } else {
        &frames[after]
    }
}

impl std::fmt::Debug for HeldFrames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} frames of {}, {}", self.len(), self.total, self.name.display(), self.span)
    }
}

/// The same part of the same stream.
impl PartialEq for HeldFrames {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.span, self.total) == (&other.name, other.span, other.total)
    }
}

/// What frames are sampled from.
pub enum Footage {
    File(Box<Video>),
    Held(Arc<HeldFrames>),
}

impl Footage {
    /// The held frames, or a file. Fails as [`Video::open`].
    pub fn open(path: &Path, held: Option<&Arc<HeldFrames>>) -> Result<Self, Error> {
        match held {
            Some(held) => Ok(Self::Held(held.clone())),
            None => Video::open(path).map(|video| Self::File(Box::new(video))),
        }
    }

    pub fn probe(&self) -> &Probe {
        match self {
            Self::File(video) => video.probe(),
            Self::Held(held) => &held.probe,
        }
    }

    /// As [`Video::plan`]; held frames are a part already.
    pub fn plan(&self, span: Option<Span>, rule: &Rule, sampling: Sampling) -> Result<Plan, Error> {
        match self {
            Self::File(video) => video.plan(span, rule, sampling),
            Self::Held(held) => held.plan(rule, sampling),
        }
    }

    /// As [`Video::frames`], at their own size.
    pub fn frames(self, plan: Plan) -> Result<Frames, Error> {
        match self {
            Self::File(video) => video.frames(plan, None),
            Self::Held(held) => {
                let damaged = held.frames.iter().filter(|frame| frame.item.is_damaged).count();
                let decoded = Decoded {
                    plan,
                    delivered: 0,
                    truncated: None,
                    missing: None,
                    damaged,
                    lengths_s: None,
                    joined_s: held.joined_s.clone(),
                    hdr: held.hdr,
                    still: false,
                };
                Ok(Frames::held(held, decoded))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_frame_is_chosen_and_the_earlier_one_of_two() {
        let frames = [0, 4, 8, 9].map(|index| Moment { index, at: 0.0, item: () });
        let nearest = |index| nearest(&frames, index).index;
        assert_eq!([0, 1, 2, 3, 5, 7, 9, 50].map(nearest), [0, 0, 0, 4, 4, 8, 9, 9]);
    }
}
