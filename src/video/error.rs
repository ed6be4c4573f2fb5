//! What can be wrong with a video, in words.

use std::path::PathBuf;

use super::sampling::SamplingError;
use crate::record::{Failure, FailureClass};

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
    /// The wanted frames make no sense.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
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
            Error::Unreadable { .. } => "check the file's permissions",
            Error::NotVideo { .. } => "give a video file, such as mp4, mkv, webm, mov or avi",
            Error::NoVideoStream { .. } => {
                "give a file with a picture track; sound alone cannot be captioned"
            }
            Error::NoDecoder { .. } | Error::Convert { .. } => {
                "convert it first, for example with: ffmpeg -i IN -c:v libx264 -pix_fmt yuv420p OUT.mp4"
            }
            Error::Dimensions { .. } => {
                "scale it first, for example with: ffmpeg -i IN -vf scale=1920:-2 OUT.mp4"
            }
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
            Error::Sampling(SamplingError::Fps(_) | SamplingError::Frames(_)) => FailureClass::Usage,
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
