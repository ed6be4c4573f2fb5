//! Errors of reading a video.

use std::path::{Path, PathBuf};

use super::{sampling::SamplingError, segments::MAX_SEGMENTS};
use specreel_record::{Failure, FailureClass, Span, clock};

/// Why a video cannot be used. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: no such file", .0.display())]
    NotFound(PathBuf),
    #[error("{}: is a {what}, not a file", .path.display())]
    NotAFile { path: PathBuf, what: &'static str },
    #[error("{}: the file is empty", .0.display())]
    Empty(PathBuf),
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: not a video file ({detail})", .path.display())]
    NotVideo {
        path: PathBuf,
        /// The kind of content, or the demuxer's error.
        detail: String,
    },
    /// It begins like an mp4 file, but has no readable index.
    #[error("{}: the file is damaged or truncated ({detail})", .path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("{}: no video stream, only {found}", .path.display())]
    NoVideoStream { path: PathBuf, found: String },
    /// A codec that this FFmpeg build cannot decode.
    #[error("{}: {} ({detail})", .path.display(), no_decoder(codec))]
    NoDecoder {
        path: PathBuf,
        /// FFmpeg's name of the codec; `none` where FFmpeg does not know it.
        codec: String,
        detail: String,
    },
    /// The number of an audio track that the video does not have.
    #[error("{}: no audio track {track}; it has {}", .path.display(), .tracks.join(", "))]
    NoTrack {
        path: PathBuf,
        /// As it was asked for, from 1.
        track: usize,
        /// Number and language of each: `1 (eng)`.
        tracks: Vec<String>,
    },
    /// A frame size beyond the limits of the reader.
    #[error("{}: unsupported frame size: {width} x {height} pixels", .path.display())]
    Dimensions {
        path: PathBuf,
        /// Pixels per row.
        width: u32,
        height: u32,
    },
    /// A file in which FFmpeg finds no picture, though its format is known.
    #[error("{}: this build's FFmpeg finds no picture in it{}", .path.display(), kind.map_or(String::new(), |kind| format!(" ({kind})")))]
    NoPicture { path: PathBuf, kind: Option<&'static str> },
    /// An animated picture that is too long to be converted.
    #[error("{}: an animation of {frames} frames of {width} x {height} pixels is too large", .path.display())]
    TooLong { path: PathBuf, frames: u32, width: u32, height: u32 },
    #[error("{}: no frame could be decoded ({detail})", .path.display())]
    NothingDecoded { path: PathBuf, detail: String },
    #[error("{}: cannot convert pixel format {format} to RGB ({detail})", .path.display())]
    Convert { path: PathBuf, format: String, detail: String },
    #[error("invalid time range: {} s to {} s", .0.start, .0.end)]
    Span(Span),
    #[error("{}", outside(path, *span, *length_s, *promised_s))]
    Outside {
        path: PathBuf,
        span: Span,
        /// Length of the video in seconds.
        length_s: f64,
        /// The length in the header, where less than that could be read.
        promised_s: Option<f64>,
    },
    #[error("{}: {} between {} s and {} s; at least 2 are needed", .path.display(), match .frames {
        0 => "no frames".to_owned(),
        n => format!("only {n} frame"),
    }, .span.start, .span.end)]
    TooShort { path: PathBuf, span: Span, frames: usize },
    /// A part of a picture, or of a video with one frame.
    #[error("{}: it has one frame only, so it has no parts", .0.display())]
    OneFrame(PathBuf),
    /// More segments than [`MAX_SEGMENTS`].
    #[error("{}: {seconds} s per segment gives {pieces} segments; the maximum is {MAX_SEGMENTS}", .path.display())]
    Segments { path: PathBuf, seconds: f64, pieces: usize },
    /// As many scenes.
    #[error("{}: {pieces} scenes; the maximum is {MAX_SEGMENTS}", .path.display())]
    Scenes { path: PathBuf, pieces: usize },
    /// An MP4 file that has pictures, but not the index that follows them.
    #[error("{}: an MP4 file has no index until it is complete", .0.display())]
    Unfinished(PathBuf),
    /// An MP4 file whose index follows its pictures, from a reader that cannot seek.
    #[error("{}: the index of this MP4 file comes after its pictures, so it cannot be read from a pipe", .0.display())]
    IndexLast(PathBuf),
    /// A URL that cannot be opened.
    #[error("{}: cannot open the stream ({detail})", .path.display())]
    Connection { path: PathBuf, detail: String },
    /// A stream that ended unexpectedly.
    #[error("{}: the stream was interrupted ({detail})", .path.display())]
    Broken { path: PathBuf, detail: String },
    /// A part that could not be copied into a file.
    #[error("cannot extract a part of {} into {}: {detail}", .path.display(), .dir.display())]
    NotExtracted { path: PathBuf, dir: PathBuf, detail: String },
    /// A part in which no picture is shown.
    #[error("{}: no pictures between {} and {}", .path.display(), clock(.span.start), clock(.span.end))]
    NoPictures { path: PathBuf, span: Span },
    /// Reading was ended.
    #[error("interrupted")]
    Interrupted,
    /// The requested frames are invalid.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
}

fn outside(path: &Path, span: Span, length_s: f64, promised_s: Option<f64>) -> String {
    let time = if span.start >= length_s { span.start } else { span.end };
    let length = match promised_s {
        None => clock(length_s),
        Some(promised) => format!("{} of {}: the file is truncated", clock(length_s), clock(promised)),
    };
    format!("{}: {} is past the end of the video ({length})", path.display(), clock(time))
}

fn no_decoder(codec: &str) -> String {
    match codec {
        "none" => "no decoder for this stream's codec".into(),
        codec => format!("cannot decode {codec} video"),
    }
}

impl Error {
    /// What the user can do about it.
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Error::NotFound(_) => "check the path; quote it if it contains spaces",
            Error::NotAFile { .. } => "pass the path of a video file",
            Error::Empty(_) | Error::Damaged { .. } | Error::NothingDecoded { .. } => {
                "copy or download the file again; the transfer may have been incomplete"
            }
            Error::Unreadable { source, .. } if specreel_os::file::is_link_loop(source) => {
                "the path contains a symbolic link loop; pass the path of the file itself"
            }
            Error::Unreadable { .. } => "check the file's permissions",
            Error::NotVideo { .. } => "pass a video file, such as mp4, mkv, webm, mov or avi",
            Error::NoTrack { .. } => "choose one of these with --audio-track, or leave it out",
            Error::NoVideoStream { .. } => "pass a file with a video stream",
            Error::NoDecoder { .. } | Error::Convert { .. } => {
                "convert it first: ffmpeg -i IN -c:v libx264 -pix_fmt yuv420p OUT.mp4"
            }
            Error::NoPicture { kind: Some(_), .. } => "convert it to JPEG, PNG, GIF or WebP",
            Error::NoPicture { .. } => {
                "if it plays elsewhere, convert it: ffmpeg -i IN -c:v libx264 -pix_fmt yuv420p OUT.mp4"
            }
            Error::TooLong { .. } => {
                "convert it to a video: ffmpeg -i IN -c:v libx264 -pix_fmt yuv420p OUT.mp4"
            }
            Error::Dimensions { .. } => "scale it down first: ffmpeg -i IN -vf scale=1920:-2 OUT.mp4",
            Error::Span(_) => "start at 0 or later, and end after the start",
            Error::Outside { .. } => {
                "choose --start and --end within the video; leave out --end for the rest of it"
            }
            Error::OneFrame(_) => "leave out --start, --end and --segments, and use --format text",
            Error::TooShort { .. } => "choose a longer part, at least a second",
            Error::Segments { .. } => "use longer segments, or limit the part with --start and --end",
            Error::Scenes { .. } => {
                "raise --scene-threshold or --min-segment, or limit the part with --start and --end"
            }
            Error::IndexLast(_) => {
                "pass the file itself, or write its index first: ffmpeg -i IN -c copy -movflags +faststart OUT.mp4"
            }
            Error::Unfinished(_) => {
                "record fragmented MP4 (ffmpeg -movflags frag_keyframe+empty_moov), MPEG-TS or Matroska"
            }
            Error::NoPictures { .. } => {
                "the video may have been replaced since it was indexed: run `specreel index` again"
            }
            Error::NotExtracted { .. } => {
                "check the directory and the free space; or encode it: ffmpeg -ss START -to END -i IN OUT.mp4"
            }
            Error::Connection { .. } => "check the URL, and that its server runs",
            Error::Broken { .. } => "start again with --resume when the stream is back",
            Error::Sampling(SamplingError::Fps(_) | SamplingError::Frames(_)) => {
                "leave out --fps and --frames for the model's default"
            }
            Error::Sampling(_) | Error::Interrupted => return None,
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
    fn bad_options_are_usage_errors_and_bad_files_input_errors() {
        let failure = Failure::from(Error::from(SamplingError::Frames(0)));
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.error.contains("number of frames: 0"), "{}", failure.error);

        let failure = Failure::from(Error::NotFound("clip.mp4".into()));
        assert_eq!((failure.class, failure.error.as_str()), (FailureClass::Input, "clip.mp4: no such file"));
        assert!(failure.hint.is_some());
    }
}
