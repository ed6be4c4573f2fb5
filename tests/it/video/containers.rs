//! Frames and their times in many containers and codecs, compared with an independent decoder:
//! `make_containers.py` made the files, and `times.json` says when PyAV shows each of their frames.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use specreel_video::{
    Division, Error, Footage, HeldFrames, Options, Rule, SAMPLE_RATE, Sampling, Sound, Stream, Video,
    Watcher, follow,
};

use crate::video::make::number;

#[derive(Deserialize)]
struct Entry {
    file: String,
    /// Notes that the user gets.
    notes: usize,
    times: Vec<f64>,
    numbers: Vec<usize>,
}

const EVERY_FRAME: Rule = Rule { default_fps: 1000.0, ..Rule::ANY };

/// Times in seconds that are the same instant in different time bases.
const TOLERANCE_S: f64 = 1.5e-3;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/video/containers")
}

fn entries() -> Vec<Entry> {
    serde_json::from_slice(&std::fs::read(dir().join("times.json")).unwrap()).unwrap()
}

/// What differs between found and right (time, number of frame) pairs, if anything does.
fn difference(found: &[(f64, usize)], times: &[f64], numbers: &[usize]) -> Option<String> {
    if found.len() != times.len() {
        return Some(format!("{} frames, {} are right", found.len(), times.len()));
    }
    let right = times.iter().zip(numbers);
    let wrong = found
        .iter()
        .zip(right)
        .position(|((time, number), (right, shown))| (time - right).abs() > TOLERANCE_S || number != shown)?;
    let (found, time, number) = (found[wrong], times[wrong], numbers[wrong]);
    Some(format!("frame {wrong} is number {} at {} s, right is {number} at {time} s", found.1, found.0))
}

/// What was found of sampled frames.
struct Found {
    /// Time in seconds and number of each.
    frames: Vec<(f64, usize)>,
    indices: Vec<usize>,
    notes: Vec<String>,
}

fn sampled(path: &Path, sampling: Sampling) -> Result<Found, Error> {
    let video = Video::open(path)?;
    let plan = video.plan(None, &EVERY_FRAME, sampling)?;
    let mut frames = video.frames(plan, None)?;
    let found: Result<Vec<_>, Error> = frames.by_ref().collect();
    let found = found?.iter().map(|frame| (frame.timestamp_s, number(frame))).collect();
    let decoded = frames.finish();
    Ok(Found { frames: found, notes: decoded.notes(), indices: decoded.plan.indices })
}

#[test]
fn all_frames_have_their_times() {
    let mut wrong = Vec::new();
    for Entry { file, notes, times, numbers } in entries() {
        match sampled(&dir().join(&file), Sampling::Auto) {
            Ok(Found { frames, notes: said, .. }) => {
                wrong.extend(difference(&frames, &times, &numbers).map(|why| format!("{file}: {why}")));
                if said.len() != notes {
                    wrong.push(format!("{file}: notes {said:?}"));
                }
            }
            Err(error) => wrong.push(format!("{file}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sampled_frames_are_those_of_all() {
    let mut wrong = Vec::new();
    for Entry { file, times, numbers, .. } in entries() {
        for count in [2, 5, 11] {
            let Found { frames, indices, .. } = sampled(&dir().join(&file), Sampling::Frames(count)).unwrap();
            let right = |values: &[f64]| indices.iter().map(|&i| values[i]).collect::<Vec<_>>();
            let shown: Vec<usize> = indices.iter().map(|&i| numbers[i]).collect();
            let why = difference(&frames, &right(&times), &shown);
            wrong.extend(why.map(|why| format!("{file}, {count} frames: {why}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sound_is_on_the_clock_of_the_pictures() {
    // From the beginning of the file, as sampled every tenth of a second: is a tone heard?
    let heard = |file: &str, from_s: f64| -> String {
        let mut sound = Sound::open(&dir().join(file), from_s, None).unwrap().unwrap();
        let mut tenths = String::new();
        loop {
            let samples = sound.read(SAMPLE_RATE as usize / 10);
            if samples.len() < SAMPLE_RATE as usize / 20 {
                return tenths;
            }
            tenths.push(if samples.iter().any(|sample| sample.abs() > 0.05) { '+' } else { '-' });
        }
    };
    for file in ["late.mkv", "late.mp4", "late.ts", "late.flv"] {
        let (all, rest) = (heard(file, 0.0), heard(file, 0.5));
        assert!(all.starts_with("++++++++++") && (10..=12).contains(&all.len()), "{file}: {all}");
        assert!(rest.starts_with("+++++") && rest.len().abs_diff(all.len() - 5) <= 1, "{file}: {rest}");
    }
    let (all, rest) = (heard("restarts-with-sound.ts", 0.0), heard("restarts-with-sound.ts", 1.5));
    assert!(!all.contains("--") && (23..=26).contains(&all.len()), "{all}");
    assert!(!rest.contains('-') && (8..=11).contains(&rest.len()), "{rest}");
}

#[derive(Default)]
struct All(Vec<HeldFrames>);

impl Watcher for All {
    fn segment(&mut self, frames: HeldFrames) -> ControlFlow<()> {
        self.0.push(frames);
        ControlFlow::Continue(())
    }

    fn broken(&mut self, _: &Error, _: u32) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn reopened(&mut self) -> f64 {
        0.0
    }
}

#[test]
fn a_followed_stream_has_the_same_times() {
    let mut wrong = Vec::new();
    for Entry { file, notes, times, numbers } in entries() {
        if times.len() < 2 {
            continue;
        }
        let path = dir().join(&file);
        let options = Options {
            division: Division::Even(20_000.0),
            rule: EVERY_FRAME,
            sampling: Sampling::Fps(1000.0),
            origin_s: 0.0,
            from_s: 0.0,
        };
        let mut all = All::default();
        let mut open = || Stream::growing(&path, |_| false, &(Arc::new(|| false) as specreel_video::Stop));
        if let Err(error) = follow(&mut open, &options, &mut all) {
            wrong.push(format!("{file}: {error}"));
            continue;
        }
        let held = Arc::new(all.0.remove(0));
        let first = times[0];
        if (held.span.start - if first > 0.1 { first } else { 0.0 }).abs() > 0.05 {
            wrong.push(format!("{file}: begins at {}", held.span.start));
        }
        let footage = Footage::open(&path, Some(&held)).unwrap();
        let plan = footage.plan(None, &EVERY_FRAME, Sampling::Auto).unwrap();
        let mut frames = footage.frames(plan).unwrap();
        let found: Vec<_> =
            frames.by_ref().map(|f| f.map(|f| (f.timestamp_s, number(&f))).unwrap()).collect();
        wrong.extend(difference(&found, &times, &numbers).map(|why| format!("{file}: {why}")));
        let said = frames.finish().notes();
        if said.len() != notes {
            wrong.push(format!("{file}: notes {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
