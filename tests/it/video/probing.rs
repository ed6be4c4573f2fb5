//! `probe`, `thumbnail` and `stills` on intact files.

use ffmpeg_next::util::format::Pixel;
use specreel_video::{FrameCount, probe, stills, thumbnail};

use crate::video::make::{Clip, number};

#[test]
fn a_plain_clip() {
    let file = Clip::of(50).write();
    let probe = probe(&file.path).unwrap();
    assert_eq!((probe.width, probe.height, probe.rotation_degrees), (96, 64, 0));
    assert_eq!(probe.frame_count, FrameCount::Exact(50));
    assert!((probe.fps - 25.0).abs() < 0.01, "{}", probe.fps);
    assert!((probe.duration_s - 2.0).abs() < 0.05, "{}", probe.duration_s);
    assert_eq!((probe.codec.as_str(), probe.pixel_format.as_str()), ("mpeg4", "yuv420p"));
    assert!(!probe.has_audio);
}

#[test]
fn a_container_without_a_count_gives_an_estimate() {
    let file = Clip::lossless(30, 96, 64, Pixel::YUV420P).write();
    let count = probe(&file.path).unwrap().frame_count;
    assert!(matches!(count, FrameCount::Estimated(29..=31)), "{count:?}");
}

#[test]
fn a_thumbnail_is_small_and_from_the_requested_position() {
    let file = Clip::h264(100, 20).write();
    for (share, want) in [(0.0, 0), (0.5, 50), (0.99, 99), (7.0, 99), (-1.0, 0), (f64::NAN, 0)] {
        let picture = thumbnail(&file.path, share, 48, 48).unwrap();
        assert_eq!((picture.width, picture.height), (48, 32));
        assert!(number(&picture).abs_diff(want) <= 1, "share {share} shows frame {}", number(&picture));
    }
    assert_eq!(thumbnail(&file.path, 0.5, 1000, 1000).unwrap().width, 96, "never enlarged");
}

#[test]
fn stills_are_small_upright_and_evenly_spread() {
    let file = Clip::h264(60, 20).write().turned([0, 1, -1, 0]);
    let frames: Vec<_> = stills(&file.path, 4, (48, 48)).unwrap().map(Result::unwrap).collect();
    let facts: Vec<_> = frames.iter().map(|f| (f.index, f.width, f.height, f.rgb.len())).collect();
    let size = (32, 48, 32 * 48 * 3);
    assert_eq!(facts, [0, 20, 39, 59].map(|index| (index, size.0, size.1, size.2)));
    assert_eq!(stills(&file.path, 1000, (48, 48)).unwrap().count(), 60, "all, where there are fewer");
}
