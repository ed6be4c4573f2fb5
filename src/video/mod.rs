//! Files to frames: probing, seeking, decoding and sampling through FFmpeg's libraries, in this process.
//!
//! This room turns the path of a file somebody else made into RGB frames, one at a time, and refuses with a sentence what it
//! cannot read. It owns which frames are looked at ([`sampling`]) of which part ([`segments`](mod@segments)), what a file holds ([`probe`](fn@probe)), the walk through
//! the file ([`decode`](fn@decode)) and the small picture for the library ([`thumbnail`](fn@thumbnail)). It knows nothing
//! about models: whoever consumes a frame resizes it at once, so memory stays at a few frames however long the video is.
//!
//! A file is read through Rust's own file handle, never by URL: names such as `http:…` or `concat:…` mean nothing special.

pub mod decode;
pub mod error;
pub mod orientation;
pub mod picture;
pub mod probe;
pub mod sampling;
pub mod segments;
mod source;
pub mod thumbnail;
mod timeline;
mod walk;

pub use decode::{Decoded, Truncated, decode, decode_part, stills};
pub use error::Error;
pub use picture::Frame;
pub use probe::{FrameCount, Probe, probe};
pub use sampling::{Plan, Rule, Sampling};
pub use segments::segments;
pub use thumbnail::thumbnail;

use std::sync::Once;

/// Prepare FFmpeg's libraries and silence what they would write to stderr.
///
/// Every entry point of this room calls it; calling it again costs nothing.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(error) = ffmpeg_next::init() {
            tracing::warn!(%error, "FFmpeg did not initialise");
        }
        ffmpeg_next::log::set_level(ffmpeg_next::log::Level::Quiet);
        tracing::debug!(
            libavcodec = ffmpeg_next::codec::version(),
            libavformat = ffmpeg_next::format::version(),
            "FFmpeg is ready"
        );
    });
}
