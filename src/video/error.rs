//! What can be wrong with a video, in words.

use std::path::{Path, PathBuf};

use super::{sampling::SamplingError, segments::MAX_SEGMENTS};
use crate::record::{Failure, FailureClass, Span, clock};

/// Why a video cannot be used. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is there.
    #[error("{}: no such file", .0.display())]
    NotFound(PathBuf),
    /// A directory, a pipe or a device.
    #[error("{}: not a file but a {what}", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file of zero bytes.
    #[error("{}: the file is empty", .0.display())]
    Empty(PathBuf),
    /// The system refuses to read it.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is no video container.
    #[error("{}: not a video file ({detail})", .path.display())]
    NotVideo {
        /// The path.
        path: PathBuf,
        /// What it seems to be, or what the reader said.
        detail: String,
    },
    /// It begins like a video, but the part that says where everything is does not follow.
    #[error("{}: the video file is damaged or cut short ({detail})", .path.display())]
    Damaged {
        /// The path.
        path: PathBuf,
        /// What the reader said.
        detail: String,
    },
    /// A container without pictures that move.
    #[error("{}: there is no video in this file, only {found}", .path.display())]
    NoVideoStream {
        /// The path.
        path: PathBuf,
        /// What the container holds instead.
        found: String,
    },
    /// A codec that this FFmpeg cannot decode.
    #[error("{}: this FFmpeg cannot decode {codec} video ({detail})", .path.display())]
    NoDecoder {
        /// The path.
        path: PathBuf,
        /// FFmpeg's name of the codec.
        codec: String,
        /// What the decoder said.
        detail: String,
    },
    /// A frame size that nobody can mean.
    #[error("{}: a frame size of {width} x {height} pixels cannot be used", .path.display())]
    Dimensions {
        /// The path.
        path: PathBuf,
        /// Pixels per row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// No single frame came out.
    #[error("{}: not one frame could be decoded ({detail})", .path.display())]
    NothingDecoded {
        /// The path.
        path: PathBuf,
        /// What the decoder said last.
        detail: String,
    },
    /// A pixel format that cannot be converted.
    #[error("{}: its {format} pixels cannot be converted ({detail})", .path.display())]
    Convert {
        /// The path.
        path: PathBuf,
        /// FFmpeg's name of the pixel format.
        format: String,
        /// What the converter said.
        detail: String,
    },
    /// A part that ends before it begins.
    #[error("a part of a video cannot begin at {} s and end at {} s", .0.start, .0.end)]
    Span(Span),
    /// A part that the video does not have.
    #[error("{}", outside(path, *span, *length_s, *promised_s))]
    Outside {
        /// The path.
        path: PathBuf,
        /// The part.
        span: Span,
        /// Length of the video in seconds.
        length_s: f64,
        /// The length that its header promises, where less than that could be read.
        promised_s: Option<f64>,
    },
    /// A part in which nothing can move.
    #[error("{}: from {} s to {} s {}; a part needs at least two", .path.display(), .span.start, .span.end, match .frames {
        0 => "no frame begins".to_owned(),
        n => format!("there is only {n} frame"),
    })]
    TooShort {
        /// The path.
        path: PathBuf,
        /// The part.
        span: Span,
        /// Frames in it.
        frames: usize,
    },
    /// So many pieces that nobody reads them.
    #[error("{}: {seconds} s at a time are {pieces} pieces; at most {MAX_SEGMENTS} are captioned", .path.display())]
    Segments {
        /// The path.
        path: PathBuf,
        /// The length of a piece.
        seconds: f64,
        /// How many they are.
        pieces: usize,
    },
    /// The wanted frames make no sense.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
}

fn outside(path: &Path, span: Span, length_s: f64, promised_s: Option<f64>) -> String {
    let (begins, ends) = (clock(span.start), clock(span.end));
    let which = match span.start >= length_s {
        true => format!("{begins} lies behind the end of the video"),
        false => format!("{ends} lies behind the end of the video"),
    };
    let length = match promised_s {
        None => format!("it ends at {}", clock(length_s)),
        Some(s) => format!("it is cut short: of {} only {} could be read", clock(s), clock(length_s)),
    };
    format!("{}: {which}; {length}", path.display())
}

impl Error {
    /// The way out, where there is one to tell.
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Error::NotFound(_) => "check the spelling, or quote the path if it has spaces",
            Error::NotAFile { .. } => "give the path of one video file",
            Error::Empty(_) | Error::Damaged { .. } | Error::NothingDecoded { .. } => {
                "copy or download the file again; it may have been cut short on its way"
            }
            Error::Unreadable { source, .. }
                if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) =>
            {
                "a link there leads back to itself; name the file itself"
            }
            Error::Unreadable { .. } => "check the file's permissions",
            Error::NotVideo { .. } => "give a video file, such as mp4, mkv, webm, mov or avi",
            Error::NoVideoStream { .. } => "give a file with a picture track",
            Error::NoDecoder { .. } | Error::Convert { .. } => {
                "convert it first, for example with: ffmpeg -i IN -c:v libx264 -pix_fmt yuv420p OUT.mp4"
            }
            Error::Dimensions { .. } => {
                "scale it first, for example with: ffmpeg -i IN -vf scale=1920:-2 OUT.mp4"
            }
            Error::Span(_) => "begin it at 0 or later, and end it after it began",
            Error::Outside { .. } => {
                "choose --start and --end within the video; without --end it goes to its end"
            }
            Error::TooShort { .. } => "choose a longer part; a second or more",
            Error::Segments { .. } => "choose longer pieces, or a part with --start and --end",
            Error::Sampling(SamplingError::Fps(_) | SamplingError::Frames(_)) => {
                "leave out --fps and --frames to use the model's own rule"
            }
            Error::Sampling(_) => return None,
        })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let class = match &error {
            Error::Span(_) | Error::Sampling(SamplingError::Fps(_) | SamplingError::Frames(_)) => {
                FailureClass::Usage
            }
            Error::Sampling(SamplingError::Rule(_)) => FailureClass::Internal,
            _ => FailureClass::Input,
        };
        Failure { class, error: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_asked_is_usage_and_what_the_file_is_is_input() {
        let failure = Failure::from(Error::from(SamplingError::Frames(0)));
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.error.contains("0 frames"), "{}", failure.error);

        let failure = Failure::from(Error::NotFound("clip.mp4".into()));
        assert_eq!((failure.class, failure.error.as_str()), (FailureClass::Input, "clip.mp4: no such file"));
        assert!(failure.hint.is_some());
    }
}
