//! Parts of videos as files of their own.

use specreel_record::{Failure, FailureClass, Span};
use specreel_video::{Error, Rule, Sampling, Video, extract, probe};

use crate::video::make::{Clip, File, number};

const EVERY_FRAME: Rule = Rule { default_fps: 1000.0, ..Rule::ANY };

/// The numbers of all frames that are shown.
fn numbers(path: &std::path::Path) -> Vec<usize> {
    let video = Video::open(path).unwrap();
    let plan = video.plan(None, &EVERY_FRAME, Sampling::Auto).unwrap();
    video.frames(plan, None).unwrap().map(|frame| number(&frame.unwrap())).collect()
}

#[test]
fn the_frames_of_a_part_are_in_the_file() {
    let span = Span { start: 1.0, end: 2.0 };
    for clip in [
        Clip::of(75),
        Clip { extension: "mov", ..Clip::of(75) },
        Clip { extension: "mkv", ..Clip::of(75) },
        Clip { extension: "avi", ..Clip::of(75) },
        Clip::h264(75, 12),
        Clip { extension: "ts", ..Clip::h264(75, 12) },
    ] {
        let file = clip.write();
        let dir = tempfile::tempdir().unwrap();
        let part = extract(&file.path, span, dir.path(), "a part", &|| false).unwrap();
        let is_mp4 = ["mp4", "mov"].contains(&clip.extension);
        assert_eq!(part.file_name().unwrap(), if is_mp4 { "a part.mp4" } else { "a part.mkv" });
        let shown = numbers(&part);
        // mp4 says that it begins at the part; Matroska begins at its key frame.
        let first = shown[0];
        let begins = if is_mp4 { first == 25 } else { (12..=25).contains(&first) };
        assert!(begins, "{}: from {first}", clip.extension);
        let last = *shown.last().unwrap();
        // The last ones may refer to pictures that follow the part.
        assert!((49..=51).contains(&last), "{}: to {last}", clip.extension);
        assert!((first..=last).all(|number| shown.contains(&number)), "{}: {shown:?}", clip.extension);
        // Another one does not replace it.
        let again = extract(&file.path, span, dir.path(), "a part", &|| false).unwrap();
        assert!(again.file_stem().unwrap() == "a part-2" && part.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }
}

/// Parts of a stream that were appended have one clock here, as players show them.
#[test]
fn a_part_of_appended_recordings_is_where_it_is_shown() {
    let part = Clip { extension: "ts", ..Clip::h264(50, 10) }.write();
    let twice = File::with("ts", &[part.bytes(), part.bytes()].concat());
    let dir = tempfile::tempdir().unwrap();
    let span = Span { start: 2.4, end: 3.2 };
    let shown = numbers(&extract(&twice.path, span, dir.path(), "x", &|| false).unwrap());
    // Two seconds are one recording; the rest is the second one, from its key frame on.
    assert!((0..=10).contains(&shown[0]) && (29..=31).contains(shown.last().unwrap()), "{shown:?}");
}

#[test]
fn the_whole_is_a_part_too() {
    let file = Clip::of(30).write();
    let dir = tempfile::tempdir().unwrap();
    let whole =
        extract(&file.path, Span { start: 0.0, end: f64::MAX }, dir.path(), "all", &|| false).unwrap();
    assert_eq!(numbers(&whole), numbers(&file.path));
    assert!((probe(&whole).unwrap().duration_s - 1.2).abs() < 0.05);
}

#[test]
fn what_cannot_be_extracted_says_why_and_leaves_nothing() {
    let file = Clip::of(30).write();
    let dir = tempfile::tempdir().unwrap();
    let try_ = |path: &std::path::Path, start, end| {
        Failure::from(extract(path, Span { start, end }, dir.path(), "x", &|| false).unwrap_err())
    };
    assert_eq!(try_(&file.path, 2.0, 1.0).class, FailureClass::Usage);
    let past = try_(&file.path, 60.0, 61.0);
    assert!(
        past.class == FailureClass::Input && past.error.contains("no pictures between 1:00 and 1:01"),
        "{past:?}"
    );
    assert!(try_(&File::with("mp4", b"no video").path, 0.0, 1.0).error.contains("not a video file"));
    let stopped = extract(&file.path, Span { start: 0.0, end: 1.0 }, dir.path(), "x", &|| true);
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    let missing =
        extract(&file.path, Span { start: 0.0, end: 1.0 }, &dir.path().join("none"), "x", &|| false);
    assert!(matches!(missing, Err(Error::NotExtracted { .. })), "{missing:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
