//! Segments at the cuts of a video, for every kind of file.

use std::ops::ControlFlow;

use specreel_video::{Division, Error, Scenes, segments, segments_with};

use crate::video::make::Clip;

/// The clip's pieces if its frames, which differ, are compared at this threshold.
fn pieces(clip: &Clip, threshold: f64) -> Vec<f64> {
    let file = clip.write();
    let scenes = Scenes { threshold, shortest_s: 1.0, longest_s: 5.0 };
    let spans = segments(&file.path, None, None, Some(Division::Scenes(scenes))).unwrap();
    assert!(spans[0].start == 0.0 && spans.windows(2).all(|pair| pair[0].end == pair[1].start));
    spans.iter().map(|span| span.end).collect()
}

#[test]
fn a_video_without_cuts_and_one_with_a_cut_at_every_frame_are_divided_evenly() {
    let clip = Clip::of(300);
    assert_eq!(pieces(&clip, 255.0), [4.0, 8.0, 12.0]);
    assert_eq!(pieces(&clip, 0.1), [4.0, 8.0, 12.0], "no scene is long enough");
}

#[test]
fn cuts_have_the_times_of_their_frames_at_a_variable_rate() {
    // Frames 0 and 128 differ in one stripe of eight, 127 and 128 in all.
    let stamps = (0..128).map(|i| i * 20).chain((0..40).map(|i| 5000 + i * 100)).collect();
    let clip = Clip { stamps, extension: "mkv", ..Clip::of(0) };
    let ends = pieces(&clip, 40.0);
    assert!((ends[0] - 5.0).abs() < 1e-9, "{ends:?}");
}

#[test]
fn the_search_can_be_interrupted_and_looks_at_a_part_only() {
    let file = Clip::of(300).write();
    let scenes = Some(Division::Scenes(Scenes::default()));
    let mut calls = Vec::new();
    let spans = segments_with(&file.path, Some(4.0), Some(8.0), scenes, &mut |done, total| {
        calls.push((done, total));
        ControlFlow::Continue(())
    });
    assert_eq!((spans.unwrap()[0].start, calls[0]), (4.0, (0.0, 3.96)));
    assert!(calls.windows(2).all(|pair| pair[0].0 < pair[1].0), "{calls:?}");
    let ended = segments_with(&file.path, None, None, scenes, &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(ended, Err(Error::Interrupted)));
}

#[test]
fn a_file_that_has_changed_is_read_again() {
    let (file, longer) = (Clip::of(100).write(), Clip::of(200).write());
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let date =
        || std::fs::File::options().write(true).open(&file.path).unwrap().set_modified(long_ago).unwrap();
    let ends = || {
        let spans = segments(&file.path, None, None, Some(Division::Even(2.0))).unwrap();
        spans.iter().map(|span| span.end).collect::<Vec<_>>()
    };
    date();
    assert_eq!((ends(), ends()), (vec![2.0, 4.0], vec![2.0, 4.0]));
    std::fs::copy(&longer.path, &file.path).unwrap();
    date();
    assert_eq!(ends(), [2.0, 4.0, 6.0, 8.0]);
}
