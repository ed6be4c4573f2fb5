//! Metadata of a video file, without decoding it.

use std::path::Path;

use super::{
    Error,
    source::{FALLBACK_FPS, Source},
};

/// A number of frames, exact or estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameCount {
    /// From the header (consistent with length and rate) or counted.
    Exact(usize),
    /// Length times rate.
    Estimated(usize),
}

impl FrameCount {
    pub fn get(self) -> usize {
        match self {
            FrameCount::Exact(n) | FrameCount::Estimated(n) => n,
        }
    }
}

/// Metadata of a video file.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Displayed width in pixels, after rotation, with square pixels.
    pub width: u32,
    /// Displayed height in pixels, after rotation, with square pixels.
    pub height: u32,
    /// Clockwise rotation from stored to displayed: 0, 90, 180 or 270.
    pub rotation_degrees: u32,
    /// When the first frame is shown, in seconds from the beginning of the file; its sound may begin before its pictures.
    pub start_s: f64,
    /// Length in seconds; 0 if unknown.
    pub duration_s: f64,
    /// Average frames per second; 25 if unknown.
    pub fps: f64,
    pub frame_count: FrameCount,
    /// FFmpeg's name of the codec, such as `h264`.
    pub codec: String,
    /// FFmpeg's name of the pixel format, such as `yuv420p`; `unknown` if only the first frame reveals it.
    pub pixel_format: String,
    /// Whether there is a sound track.
    pub has_audio: bool,
}

impl Probe {
    /// When the last frame ends, in seconds from the beginning of the file.
    pub fn end_s(&self) -> f64 {
        self.start_s + self.duration_s
    }
}

/// Read the metadata of a video file. Costs a few milliseconds; decodes only what format detection needs. Fails for an unreadable
/// path, a file that is not a video or has no video stream (cover art does not count), a codec without decoder, and an
/// unsupported frame size.
pub fn probe(path: &Path) -> Result<Probe, Error> {
    of(&Source::open(path)?)
}

/// The probe of an opened file.
pub(super) fn of(source: &Source) -> Result<Probe, Error> {
    let decoder = source.decoder(1)?;
    let (width, height) = source.geometry.shown(decoder.video().width(), decoder.video().height());
    let fps = source.fps().unwrap_or(FALLBACK_FPS);
    let frame_count = match source.promised_frames() {
        Some(n) if source.promise_is_consistent() => FrameCount::Exact(n),
        promised => {
            let by_length = source.duration_s().map(|s| (s * fps).round() as usize);
            FrameCount::Estimated(by_length.or(promised).unwrap_or(0))
        }
    };
    let duration_s = source.duration_s().unwrap_or(frame_count.get() as f64 / fps);
    Ok(Probe {
        width,
        height,
        rotation_degrees: source.geometry.orientation.degrees(),
        start_s: source.lead_s(),
        duration_s,
        fps,
        frame_count,
        codec: decoder.video().id().name().to_owned(),
        pixel_format: decoder.video().format().descriptor().map_or("unknown", |d| d.name()).to_owned(),
        has_audio: source.has_audio,
    })
}
