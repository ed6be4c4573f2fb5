//! What a file holds, without decoding it.

use std::path::Path;

use super::{Error, source::Source};

/// A number of frames and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameCount {
    /// Stated by the header (in agreement with length and rate) or counted.
    Exact(usize),
    /// Length times rate.
    Estimated(usize),
}

impl FrameCount {
    /// The number, however well it is known.
    pub fn get(self) -> usize {
        match self {
            FrameCount::Exact(n) | FrameCount::Estimated(n) => n,
        }
    }
}

/// What a video file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Width in pixels as shown, after rotation. Pixels are taken as square, as the models' own loaders do.
    pub width: u32,
    /// Height in pixels as shown, after rotation.
    pub height: u32,
    /// Clockwise turn from stored to shown: 0, 90, 180 or 270.
    pub rotation_degrees: u32,
    /// Length in seconds; 0 where the file does not tell.
    pub duration_s: f64,
    /// Average frames per second; 25 where the file does not tell.
    pub fps: f64,
    /// Number of frames.
    pub frame_count: FrameCount,
    /// FFmpeg's name of the codec, such as `h264`.
    pub codec: String,
    /// FFmpeg's name of the pixel format, such as `yuv420p`; `unknown` before the first frame tells.
    pub pixel_format: String,
    /// Whether there is a sound track.
    pub has_audio: bool,
}

/// Look at a video file. Costs a few milliseconds; decodes nothing but what detection needs.
///
/// # Errors
/// A path that is no readable file, a file that is no video or has no moving pictures (cover art does not count), a codec that
/// this FFmpeg lacks, a size that cannot be.
pub fn probe(path: &Path) -> Result<Probe, Error> {
    of(&Source::open(path)?)
}

/// The frame rate where a file states none.
pub(super) const FALLBACK_FPS: f64 = 25.0;

/// The probe of an opened file.
pub(super) fn of(source: &Source) -> Result<Probe, Error> {
    let decoder = source.decoder(1)?;
    let (width, height) = source.orientation.size(decoder.width(), decoder.height());
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
        rotation_degrees: source.orientation.degrees(),
        duration_s,
        fps,
        frame_count,
        codec: decoder.id().name().to_owned(),
        pixel_format: decoder.format().descriptor().map_or("unknown", |d| d.name()).to_owned(),
        has_audio: source.has_audio,
    })
}
