//! Files that are not videos, or damaged ones: each is refused with an error that names it, never with a panic.

use std::path::Path;

use specreel_record::{Failure, FailureClass};
use specreel_video::{Error, Rule, Sampling, Video, probe, thumbnail};

use crate::video::make::{Clip, File};

/// Assert that probing, opening and a thumbnail fail with the same error, which names the file and has a hint.
fn refused(path: &Path) -> Error {
    let error = probe(path).unwrap_err();
    let again = Video::open(path).err().unwrap();
    assert_eq!(error.to_string(), again.to_string());
    assert_eq!(error.to_string(), thumbnail(path, 0.5, 32, 32).unwrap_err().to_string());
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    let failure = Failure::from(again);
    assert_eq!(failure.class, FailureClass::Input);
    assert!(failure.hint.is_some(), "no hint for: {error}");
    error
}

#[test]
fn paths_that_are_not_files() {
    assert!(matches!(refused(Path::new("no/such/clip.mp4")), Error::NotFound(_)));
    assert!(matches!(refused(Path::new("http://127.0.0.1:9/clip.mp4")), Error::NotFound(_)));
    let home = tempfile::tempdir().unwrap();
    assert!(matches!(refused(home.path()), Error::NotAFile { what: "directory", .. }));
    #[cfg(unix)]
    assert!(matches!(refused(Path::new("/dev/null")), Error::NotAFile { .. }));
}

#[test]
fn files_that_are_not_videos() {
    assert!(matches!(refused(&File::with("mp4", b"").path), Error::Empty(_)));
    let text = "A man walks into a bar.\n".repeat(100);
    for extension in ["mp4", "txt", "h264"] {
        let error = refused(&File::with(extension, text.as_bytes()).path);
        let is_named = matches!(&error, Error::NotVideo { detail, .. } if detail == "plain text");
        assert!(is_named, "{extension}: {error}");
    }
    let noise: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    refused(&File::with("mp4", &noise).path);
    refused(&File::with("mkv", &[0]).path);
}

#[test]
fn a_playlist_opens_no_other_file() {
    let list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nother.ts\n#EXT-X-ENDLIST\n";
    let concat = "ffconcat version 1.0\nfile 'other.mp4'\n";
    for (extension, list) in [("m3u8", list), ("mp4", list), ("mp4", concat), ("ffconcat", concat)] {
        let error = refused(&File::with(extension, list.as_bytes()).path);
        let is_named = matches!(&error, Error::NotVideo { detail, .. } if detail == "a playlist");
        assert!(is_named, "{extension}: {error}");
    }
}

#[test]
fn headers_without_video_data() {
    let mut fake = b"\0\0\0\x18ftypisom\0\0\x02\0isomiso2".to_vec();
    fake.extend([0x5a; 4000]);
    assert!(matches!(refused(&File::with("mp4", &fake).path), Error::Damaged { .. }));
    assert!(matches!(refused(&File::with("mp4", &fake[..24]).path), Error::Damaged { .. }));
    // The index at the end is cut off.
    assert!(matches!(refused(&Clip::of(50).write().cut(0.6).path), Error::Damaged { .. }));
}

#[test]
fn absurd_dimensions() {
    let mut bytes = Clip::of(3).write().bytes();
    // The visual sample entry: width and height are 24 bytes after `mp4v`.
    let at = bytes.windows(4).position(|w| w == b"mp4v").unwrap() + 4 + 24;
    bytes[at..at + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    let file = File::with("mp4", &bytes);
    // FFmpeg may take the size from the stream itself: the file is refused, or its size is right. Its header then says that its
    // pixels are 1.5 times as wide as high, as it is square.
    match probe(&file.path) {
        Ok(probe) => assert!([(96, 64), (144, 64)].contains(&(probe.width, probe.height)), "{probe:?}"),
        Err(error) => assert!(error.to_string().contains("clip"), "{error}"),
    }
}

#[test]
fn truncation_at_any_point_does_not_panic() {
    for clip in [
        Clip { movflags: "faststart", ..Clip::h264(30, 10) },
        Clip { extension: "mkv", ..Clip::h264(30, 10) },
    ] {
        let file = clip.write();
        for percent in (0..100).step_by(7) {
            let cut = file.cut(f64::from(percent) / 100.0);
            let decode = || -> Result<(), Error> {
                let video = Video::open(&cut.path)?;
                let plan = video.plan(None, &Rule::QWEN_VL, Sampling::Frames(8))?;
                let mut frames = video.frames(plan, None)?;
                let count = frames.by_ref().collect::<Result<Vec<_>, _>>()?.len();
                assert!(count > 0 && frames.finish().delivered == count);
                Ok(())
            };
            assert!(decode().err().is_none_or(|error| error.to_string().contains("clip")));
            let _ = thumbnail(&cut.path, 0.9, 32, 32);
        }
    }
}
