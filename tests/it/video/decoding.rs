//! Decoding returns the planned frames, for every kind of file.

use std::path::Path;

use ffmpeg_next::util::format::Pixel;
use specreel_record::{Failure, FailureClass, Span};
use specreel_video::{Decoded, Division, Error, Frame, Rule, Sampling, Video, probe, segments};

use crate::video::make::{Clip, File, number};

fn run(path: &Path, rule: &Rule, sampling: Sampling) -> (Decoded, Vec<Frame>) {
    let video = Video::open(path).unwrap();
    let size = (video.probe().width, video.probe().height);
    let plan = video.plan(None, rule, sampling).unwrap();
    assert!(!plan.indices.is_empty());
    let mut decoding = video.frames(plan, None).unwrap();
    let frames: Vec<Frame> = decoding.by_ref().map(Result::unwrap).collect();
    let decoded = decoding.finish();
    assert_eq!(decoded.delivered, frames.len());
    assert!(frames.iter().all(|f| (f.width, f.height) == size), "announced {size:?}");
    (decoded, frames)
}

/// Assert that every delivered frame is the planned one, with its number and time stamp.
fn exact(file: &File, rule: &Rule, sampling: Sampling) -> Vec<usize> {
    let (decoded, frames) = run(&file.path, rule, sampling);
    assert_eq!((decoded.missing, decoded.truncated), (None, None));
    let indices: Vec<usize> = frames.iter().map(|f| f.index).collect();
    assert_eq!(indices, decoded.plan.indices);
    let numbers: Vec<usize> = frames.iter().map(number).collect();
    assert_eq!(numbers, indices);
    let stamps: Vec<f64> = frames.iter().map(|f| f.timestamp_s).collect();
    assert_eq!(stamps, decoded.plan.timestamps_s);
    indices
}

const EVERY_FRAME: Rule = Rule { default_fps: 1000.0, ..Rule::ANY };

#[test]
fn every_frame_of_every_container_is_exact() {
    for clip in [
        Clip::of(60),
        Clip::h264(60, 20),
        Clip { extension: "mkv", ..Clip::h264(60, 20) },
        Clip { extension: "ts", ..Clip::h264(60, 20) },
        Clip { extension: "avi", ..Clip::of(60) },
        Clip::lossless(60, 96, 64, Pixel::YUV420P),
    ] {
        let file = clip.write();
        let indices = exact(&file, &EVERY_FRAME, Sampling::Auto);
        assert_eq!(indices, (0..60).collect::<Vec<_>>(), "{}", clip.extension);
    }
}

#[test]
fn sampled_frames_are_exact_with_and_without_seeks() {
    for (group, open) in [(5, false), (20, false), (60, false), (250, false), (20, true), (62, true)] {
        for extension in ["mp4", "mkv", "ts"] {
            let file = Clip { extension, open, ..Clip::h264(250, group) }.write();
            for frames in [2, 4, 8, 50] {
                let indices = exact(&file, &Rule::QWEN_VL, Sampling::Frames(frames));
                assert_eq!(indices.len(), frames, "{extension}, groups of {group}");
            }
        }
    }
}

#[test]
fn frames_after_the_keyframe_of_an_open_group_are_decoded() {
    // A decoder that starts at such a keyframe marks the frames just after it as incomplete.
    for length in 61..70 {
        for b_frames in [2, 3] {
            let file = Clip { open: true, b_frames, ..Clip::h264(length, 60) }.write();
            assert_eq!(exact(&file, &EVERY_FRAME, Sampling::Frames(2)), [0, length - 1]);
        }
    }
}

#[test]
fn sampled_frames_of_the_embedded_clips_are_exact() {
    for name in ["one-large-shape", "three-shapes", "three-shots", "wide-two-shots"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/clips").join(name);
        let path = path.with_extension("mp4");
        let (all, frames) = run(&path, &EVERY_FRAME, Sampling::Auto);
        assert_eq!(all.missing, None);
        for count in [2, 3, 5, 12, 33] {
            let (some, sampled) = run(&path, &EVERY_FRAME, Sampling::Frames(count));
            assert_eq!((some.missing, sampled.len()), (None, count), "{name}");
            for frame in sampled {
                assert!(frame == frames[frame.index], "{name}: frame {} differs", frame.index);
            }
        }
    }
}

#[test]
fn a_raw_stream_without_time_stamps_is_counted() {
    let file = Clip { extension: "m4v", ..Clip::of(40) }.write();
    let (decoded, frames) = run(&file.path, &Rule::QWEN_VL, Sampling::Frames(4));
    assert_eq!(decoded.plan.indices, [0, 13, 26, 39]);
    assert_eq!(frames.iter().map(number).collect::<Vec<_>>(), [0, 13, 26, 39]);
}

#[test]
fn a_variable_rate_counts_frames_and_has_real_time_stamps() {
    // Two seconds at 25 frames a second, then one frame every half second.
    let stamps: Vec<i64> = (0..50).map(|i| i * 40).chain((1..=10).map(|i| 1960 + i * 500)).collect();
    for extension in ["mp4", "mkv"] {
        let file = Clip { stamps: stamps.clone(), extension, ..Clip::h264(0, 12) }.write();
        let (decoded, frames) = run(&file.path, &Rule::QWEN_VL, Sampling::Frames(60));
        assert_eq!(decoded.plan.total_frames, 60);
        for (i, frame) in frames.iter().enumerate() {
            assert_eq!((frame.index, number(frame)), (i, i));
            let real = stamps[i] as f64 / 1000.0;
            assert!((frame.timestamp_s - real).abs() < 0.002, "frame {i} at {}", frame.timestamp_s);
        }
        exact(&file, &Rule::QWEN_VL, Sampling::Frames(6));
    }
}

#[test]
fn one_frame_and_one_pixel() {
    let (decoded, frames) = run(&Clip::of(1).write().path, &Rule::QWEN_VL, Sampling::Auto);
    assert_eq!((decoded.plan.indices.as_slice(), frames.len()), ([0].as_slice(), 1));
    let pixel = Clip::lossless(2, 1, 1, Pixel::YUV444P).write();
    let (_, frames) = run(&pixel.path, &Rule::QWEN_VL, Sampling::Auto);
    assert_eq!(frames.len(), 2);
    assert!(frames[0].rgb.iter().all(|v| v.abs_diff(128) < 4), "{:?}", frames[0].rgb);
}

#[test]
fn odd_sizes_and_high_bit_depths() {
    for (width, height, pixel, name) in [
        (97, 63, Pixel::YUV420P, "yuv420p"),
        (96, 64, Pixel::YUV420P10LE, "yuv420p10le"),
        (95, 1, Pixel::YUV444P, "yuv444p"),
        (101, 33, Pixel::GRAY8, "gray"),
        (99, 65, Pixel::BGRA, "bgra"),
        (97, 63, Pixel::YUV422P10LE, "yuv422p10le"),
    ] {
        let file = Clip::lossless(20, width, height, pixel).write();
        exact(&file, &Rule::QWEN_VL, Sampling::Frames(4));
        let probe = probe(&file.path).unwrap();
        assert_eq!((probe.width, probe.height, probe.pixel_format.as_str()), (width, height, name));
    }
}

#[test]
fn levels_are_preserved() {
    let file = Clip::lossless(2, 96, 64, Pixel::YUV420P).write();
    let (_, frames) = run(&file.path, &Rule::QWEN_VL, Sampling::Auto);
    for (frame, bit) in frames.iter().zip([0u8, 1]) {
        let want = 40 + 180 * bit;
        assert!(frame.rgb[..12].iter().all(|v| v.abs_diff(want) <= 2), "{:?}, not {want}", &frame.rgb[..12]);
    }
}

#[test]
fn rotated_clips_are_upright() {
    // Frame 1 has a white stripe at the stored left; a quarter turn clockwise brings it to the top.
    let bright = |f: &Frame, x: u32, y: u32| f.rgb[3 * (y * f.width + x) as usize] > 130;
    for (matrix, degrees, size, white) in [
        ([1, 0, 0, 1], 0, (96, 64), (3, 32)),
        ([0, 1, -1, 0], 90, (64, 96), (32, 3)),
        ([-1, 0, 0, -1], 180, (96, 64), (92, 32)),
        ([0, -1, 1, 0], 270, (64, 96), (32, 92)),
    ] {
        let file = Clip::of(2).write().turned(matrix);
        let probe = probe(&file.path).unwrap();
        assert_eq!((probe.rotation_degrees, (probe.width, probe.height)), (degrees, size));
        let (_, frames) = run(&file.path, &Rule::QWEN_VL, Sampling::Auto);
        let frame = &frames[1];
        assert_eq!((frame.width, frame.height), size);
        assert!(bright(frame, white.0, white.1), "{matrix:?}");
        assert!(!bright(frame, size.0 - 1 - white.0, size.1 - 1 - white.1), "{matrix:?}");
    }
}

#[test]
fn a_truncated_file_gives_its_frames_and_a_note() {
    let file = Clip { movflags: "faststart", ..Clip::h264(100, 10) }.write().cut(0.6);
    let (decoded, frames) = run(&file.path, &Rule::QWEN_VL, Sampling::Frames(10));
    let note = decoded.truncated.expect("a note");
    assert_eq!(note.promised, 100);
    assert!(note.found < 90 && note.found == decoded.plan.total_frames, "{note}");
    assert!(frames.windows(2).all(|w| w[0].index < w[1].index), "no frame twice");
    assert!(frames.len() >= 9, "{frames:?}");
    for frame in &frames[..frames.len() - 1] {
        assert_eq!(number(frame), frame.index);
    }
}

#[test]
fn missing_data_in_the_middle_is_reported() {
    let clip = Clip::lossless(60, 96, 64, Pixel::YUV420P).write();
    let mut bytes = clip.bytes();
    let (from, to) = (bytes.len() * 2 / 5, bytes.len() * 3 / 5);
    bytes[from..to].fill(0);
    let file = File::with("mkv", &bytes);
    let (decoded, frames) = run(&file.path, &EVERY_FRAME, Sampling::Auto);
    assert!(frames.windows(2).all(|w| w[0].index < w[1].index), "no frame twice");
    assert!(decoded.missing.is_some() || decoded.plan.total_frames < 60, "{decoded:?}");
}

#[test]
fn frames_are_decoded_as_they_are_asked_for() {
    let video = Video::open(&Clip::of(50).write().path).unwrap();
    let plan = video.plan(None, &Rule::QWEN_VL, Sampling::Frames(10)).unwrap();
    let mut frames = video.frames(plan, None).unwrap();
    assert_eq!(
        frames.by_ref().take(3).map(Result::unwrap).map(|f| number(&f)).collect::<Vec<_>>(),
        [0, 5, 11]
    );
    assert_eq!(frames.finish().delivered, 3);
}

#[test]
#[cfg(target_os = "linux")]
fn any_file_name_works() {
    use std::os::unix::ffi::OsStrExt;
    let clip = Clip::of(10).write();
    let home = tempfile::tempdir().unwrap();
    for name in [b"caf\xe9 \xff.mp4".as_slice(), b"http:--x%03d.png", b"concat:a|b", b"-"] {
        let path = home.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::copy(&clip.path, &path).unwrap();
        let (_, frames) = run(&path, &Rule::QWEN_VL, Sampling::Frames(2));
        assert_eq!(frames.len(), 2);
    }
}

/// The numbers of the frames of a part, and the decode's result.
fn part(path: &Path, start: f64, end: f64, sampling: Sampling) -> Result<(Vec<usize>, Decoded), Error> {
    let video = Video::open(path)?;
    let plan = video.plan(Some(Span { start, end }), &Rule::QWEN_VL, sampling)?;
    let mut frames = video.frames(plan, None)?;
    let mut numbers = Vec::new();
    for frame in &mut frames {
        let frame = frame?;
        assert!((start..end).contains(&(frame.timestamp_s + 1e-6)), "{} s", frame.timestamp_s);
        numbers.push(number(&frame));
    }
    Ok((numbers, frames.finish()))
}

#[test]
fn a_part_is_sampled_like_a_separate_clip() {
    for clip in [
        Clip::h264(200, 25),
        Clip { movflags: "faststart", ..Clip::of(200) },
        Clip { extension: "mkv", ..Clip::h264(200, 50) },
        // A single group of pictures: no keyframe to seek to.
        Clip::h264(200, 300),
    ] {
        let file = clip.write();
        let (numbers, decoded) = part(&file.path, 4.0, 7.0, Sampling::Auto).unwrap();
        let (alone, _) = run(&Clip::of(75).write().path, &Rule::QWEN_VL, Sampling::Auto);
        let shifted: Vec<usize> = alone.plan.indices.iter().map(|i| i + 100).collect();
        assert_eq!((&numbers, &decoded.plan.indices), (&shifted, &shifted));
        assert!((decoded.plan.sample_fps - alone.plan.sample_fps).abs() < 1e-6);
        assert!((decoded.plan.timestamps_s[0] - 4.0).abs() < 1e-6 && decoded.plan.total_frames == 75);
        assert!((decoded.plan.duration_s - 3.0).abs() < 1e-9);
        // The models' time starts with the part.
        let even: Vec<f64> = alone.plan.indices.iter().map(|i| *i as f64 / 25.0).collect();
        let close = |seconds: &[f64]| seconds.iter().zip(&even).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(&decoded.plan.seconds) && close(&alone.plan.seconds), "{:?}", decoded.plan.seconds);
        assert_eq!((decoded.missing, decoded.truncated), (None, None));
        assert_eq!(part(&file.path, 0.0, 8.0, Sampling::Frames(8)).unwrap().0, {
            exact(&file, &Rule::QWEN_VL, Sampling::Frames(8))
        });
    }
}

#[test]
fn segments_partition_the_frames_of_a_video() {
    // A variable rate: ten seconds of many frames, then one every three seconds.
    let stamps = (0..250).map(|i| i * 40).chain((0..10).map(|i| 10_000 + i * 3000)).collect();
    let file = Clip { stamps, extension: "mkv", ..Clip::of(0) }.write();
    let pieces = segments(&file.path, None, None, Some(Division::Even(4.0))).unwrap();
    assert!(pieces.windows(2).all(|w| w[0].end == w[1].start) && pieces[0].start == 0.0);
    let mut count = 0;
    for span in &pieces {
        let (numbers, decoded) = part(&file.path, span.start, span.end, Sampling::Fps(1000.0)).unwrap();
        count += decoded.plan.total_frames;
        let plan = &decoded.plan;
        let real = plan.timestamps_s.iter().map(|seconds| seconds - plan.timestamps_s[0]);
        assert!(real.zip(&plan.seconds).all(|(a, b)| (a - b).abs() < 0.002), "{span}: {:?}", plan.seconds);
        assert!(numbers.len() >= 2, "{span}");
    }
    assert_eq!(count, 260);
}

#[test]
fn parts_outside_of_the_video_are_refused() {
    let file = Clip::of(100).write();
    let refused = |start, end| {
        let failure = Failure::from(part(&file.path, start, end, Sampling::Auto).unwrap_err());
        assert!(failure.hint.is_some(), "{failure:?}");
        failure
    };
    for (start, end) in [(2.0, 2.0), (3.0, 1.0), (-1.0, 2.0), (f64::NAN, 2.0), (0.0, f64::INFINITY)] {
        assert_eq!(refused(start, end).class, FailureClass::Usage, "{start} to {end}");
    }
    for (start, end, words) in [
        (4.5, 4.9, "0:04.5 is past the end of the video (0:04"),
        (0.0, 5.5, "0:05.5 is past the end of the video"),
        (1.01, 1.03, "no frames"),
        (1.0, 1.03, "only 1 frame"),
    ] {
        let failure = refused(start, end);
        assert!(failure.class == FailureClass::Input && failure.error.contains(words), "{}", failure.error);
    }
    // Players show rounded times.
    assert!(part(&file.path, 3.0, 4.6, Sampling::Auto).is_ok());
    assert!(
        segments(&file.path, None, None, Some(Division::Even(0.001)))
            .unwrap_err()
            .to_string()
            .contains("the maximum is 1000")
    );
}
