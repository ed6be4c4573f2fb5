//! Follows a stream to its end, and gives its segments as they end.

use std::ops::ControlFlow;

use super::{
    Division, Error, HeldFrames, Probe, Rule, Sampling, Stream,
    cuts::Scores,
    decode::nothing,
    held::Still,
    sampling,
    segmenter::{Ended, Segmenter},
    timeline::near_rate,
};

/// A segment's start is rounded to milliseconds in files of subtitles.
const ROUNDED_S: f64 = 1e-3;

/// Frames that are held of a segment for each one that is sampled.
const HELD: usize = 2;

/// How a stream is followed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub division: Division,
    /// How frames are sampled, which bounds the frames that are held.
    pub rule: Rule,
    pub sampling: Sampling,
    /// The time of the stream's beginning, in seconds.
    pub origin_s: f64,
    /// Frames before this time are left out.
    pub from_s: f64,
}

/// Learns what becomes of a stream.
pub trait Watcher {
    /// A segment has ended. Break to end the whole.
    fn segment(&mut self, frames: HeldFrames) -> ControlFlow<()>;

    /// The stream broke, or could not be opened again; since its last frame it was tried `attempts` times. Return when to try, or
    /// break to give up.
    fn broken(&mut self, why: &Error, attempts: u32) -> ControlFlow<()>;

    /// It is open again. Returns for how many seconds it was not.
    fn reopened(&mut self) -> f64;
}

/// Read a stream to its end, and divide it into segments. A live stream that breaks is opened again.
///
/// At most twice the frames are held that a segment is sampled at. Fails if the stream cannot be opened, has no frames or breaks for
/// good; with [`Error::Interrupted`] if `watcher` ends it.
pub fn follow(
    open: &mut dyn FnMut() -> Result<Stream, Error>,
    options: &Options,
    watcher: &mut dyn Watcher,
) -> Result<(), Error> {
    let mut stream = open()?;
    let most = most(options, stream.probe())?;
    let mut segmenter = Segmenter::new(&options.division, options.from_s, most);
    let mut scores = None;
    // The time of this stream's beginning, and of the last frame of all.
    let (mut origin, mut last) = (options.origin_s, None);
    let mut has_begun = false;
    let mut attempts = 0;
    loop {
        match stream.next() {
            Ok(Some((at, still))) => {
                let at = origin + at;
                (last, attempts) = (Some(at), 0);
                if at < options.from_s - ROUNDED_S {
                    continue;
                }
                if !std::mem::replace(&mut has_begun, true)
                    && (at - options.from_s) * stream.probe().fps > 1.0
                {
                    // Nothing is shown before: the sound of a file may begin before its pictures.
                    segmenter = Segmenter::new(&options.division, at, most);
                }
                let score = match options.division {
                    Division::Even(_) => 0.0,
                    Division::Scenes(_) => {
                        let Probe { width, height, .. } = *stream.probe();
                        let scores =
                            scores.get_or_insert_with(|| Scores::new(stream.geometry(), (width, height)));
                        scores.push(stream.name(), 0, at, &still.picture)?
                    }
                };
                if let Some(ended) = segmenter.push(at, score, still)
                    && watcher.segment(held(ended, &stream, origin)).is_break()
                {
                    return Err(Error::Interrupted);
                }
            }
            Ok(None) => break,
            Err(error @ Error::Broken { .. }) if stream.is_live() => {
                let frame_s = 1.0 / stream.probe().fps;
                match reopen(open, error, &mut attempts, watcher) {
                    Ok((again, away_s)) => {
                        origin = last.map_or(origin, |last| last + frame_s + away_s);
                        stream = again;
                    }
                    Err(error) => {
                        finish(&mut segmenter, &stream, origin, watcher)?;
                        return Err(error);
                    }
                }
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                finish(&mut segmenter, &stream, origin, watcher)?;
                return Err(error);
            }
        }
    }
    if last.is_none() {
        return Err(nothing(stream.name(), "no frames"));
    }
    finish(&mut segmenter, &stream, origin, watcher)
}

/// Open a broken stream, and return for how long it was not open.
fn reopen(
    open: &mut dyn FnMut() -> Result<Stream, Error>,
    mut why: Error,
    attempts: &mut u32,
    watcher: &mut dyn Watcher,
) -> Result<(Stream, f64), Error> {
    while watcher.broken(&why, *attempts).is_continue() {
        *attempts += 1;
        match open() {
            Ok(stream) => return Ok((stream, watcher.reopened())),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn finish(
    segmenter: &mut Segmenter<Still>,
    stream: &Stream,
    origin: f64,
    watcher: &mut dyn Watcher,
) -> Result<(), Error> {
    let last = segmenter.finish(1.0 / stream.probe().fps).map(|ended| held(ended, stream, origin));
    match last.map(|last| watcher.segment(last)) {
        Some(ControlFlow::Break(())) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// How many frames of a segment are held.
fn most(options: &Options, probe: &Probe) -> Result<usize, Error> {
    let longest = match options.division {
        Division::Even(seconds) => seconds,
        Division::Scenes(scenes) => scenes.longest_s,
    };
    let frames = (longest * probe.fps).ceil().max(1.0) as usize;
    let plan = sampling::plan(frames, probe.fps, &options.rule, options.sampling)?;
    Ok(HELD * plan.indices.len())
}

/// The frames of a segment of a stream, which began at `origin`.
fn held(ended: Ended<Still>, stream: &Stream, origin: f64) -> HeldFrames {
    let Ended { span, first, total, frames } = ended;
    let length = frames[frames.len() - 1].at - frames[0].at;
    HeldFrames {
        name: stream.name().into(),
        span,
        first,
        total,
        fps: near_rate(stream.probe().fps, (total - 1) as f64 / length),
        tick: stream.tick(),
        geometry: stream.geometry(),
        probe: stream.probe().clone(),
        joined_s: stream
            .joined_s()
            .into_iter()
            .map(|at| origin + at)
            .filter(|at| span.contains(*at))
            .collect(),
        hdr: stream.hdr(),
        frames,
    }
}
