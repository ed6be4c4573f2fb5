//! Files to frames: probing, seeking, decoding and sampling through FFmpeg's libraries, in this process.
//!
//! The module turns the path of an untrusted file into RGB frames, one at a time, and returns an [`Error`] for files that it cannot
//! read. A [`Video`] is opened once; it plans which frames are sampled ([`sampling`]) and decodes them with seeks ([`Frames`]).
//! Parts of a video ([`segments`](mod@segments)), metadata alone ([`probe`](fn@probe)) and the library's thumbnails
//! ([`thumbnail`](fn@thumbnail)) take a path, and [`extract`](fn@extract) copies a part into a file. It knows nothing about models: consumers resize each frame at once, so memory stays at a few
//! frames however long the video is.
//!
//! A file is read through a Rust file handle, never by URL: names such as `http:…` or `concat:…` have no special meaning. Only a
//! [`Stream`] that is opened as a URL is one. [`follow`](fn@follow) divides streams into segments while they come.
//!
//! ```
//! use specreel_scenes::{Scene, encode};
//!
//! let dir = tempfile::tempdir()?;
//! let path = dir.path().join("clip.mp4");
//! encode::mp4(&Scene::from_seed(7), &path, 64, 48)?;
//! let probe = specreel_video::probe(&path)?;
//! assert!(probe.duration_s > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod container;
pub mod cuts;
pub mod decode;
mod decoder;
pub mod error;
mod extract;
pub mod folder;
mod follow;
mod held;
pub mod orientation;
mod packet;
pub mod picture;
pub mod probe;
pub mod sampling;
mod segmenter;
pub mod segments;
mod sound;
mod source;
mod still;
mod stream;
pub mod thumbnail;
mod timeline;
mod walk;

pub use cuts::Scenes;
pub use decode::{Decoded, Frames, Video, stills};
pub use error::Error;
pub use extract::extract;
pub use follow::{Options, Watcher, follow};
pub use held::{Footage, HeldFrames};
pub use picture::Frame;
pub use probe::{FrameCount, Probe, probe};
pub use sampling::{Plan, Rule, Sampling, Spacing};
pub use segments::{Division, segments, segments_with};
pub use sound::{SAMPLE_RATE, Sound};
pub use stream::{Stop, Stream, is_url, shown_url};
pub use thumbnail::thumbnail;
pub use timeline::Truncated;

use std::sync::Once;

/// Initialize FFmpeg's libraries and silence their messages on stderr.
///
/// Every entry point of this module calls it; calling it again costs nothing.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(error) = ffmpeg_next::init() {
            tracing::warn!(%error, "FFmpeg did not initialize");
        }
        ffmpeg_next::log::set_level(ffmpeg_next::log::Level::Quiet);
        tracing::debug!(
            libavcodec = ffmpeg_next::codec::version(),
            libavformat = ffmpeg_next::format::version(),
            "FFmpeg is ready"
        );
    });
}
