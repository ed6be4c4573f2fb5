//! Pictures are seen as viewers and players show them: upright, on white where they are transparent, and with square pixels.
//! `make_pictures.py` made the files, and `pictures.json` says what is right.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use specreel_video::{Frame, Rule, Sampling, Video, probe, thumbnail};

#[derive(Deserialize)]
struct Entry {
    file: String,
    size: (u32, u32),
    quarters: [[u8; 3]; 4],
}

/// What codecs change of a color.
const TOLERANCE: u8 = 9;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/video/pictures")
}

fn quarters(frame: &Frame) -> [[u8; 3]; 4] {
    let (w, h) = (frame.width as usize, frame.height as usize);
    [(1, 1), (3, 1), (1, 3), (3, 3)].map(|(x, y)| {
        let at = 3 * (y * h / 4 * w + x * w / 4);
        [frame.rgb[at], frame.rgb[at + 1], frame.rgb[at + 2]]
    })
}

#[test]
fn every_picture_is_shown_as_viewers_show_it() {
    let entries: Vec<Entry> =
        serde_json::from_slice(&std::fs::read(dir().join("pictures.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for Entry { file, size, quarters: right } in &entries {
        let path = dir().join(file);
        let probed = probe(&path).unwrap();
        let video = Video::open(&path).unwrap();
        let plan = video.plan(None, &Rule::ANY, Sampling::Frames(1)).unwrap();
        let frame = video.frames(plan, None).unwrap().next().unwrap().unwrap();
        let small = thumbnail(&path, 0.0, 1000, 1000).unwrap();
        let sizes = [(probed.width, probed.height), (frame.width, frame.height), (small.width, small.height)];
        if sizes != [*size; 3] {
            wrong.push(format!("{file}: sizes {sizes:?}, right is {size:?}"));
        }
        for (face, found) in [("frame", quarters(&frame)), ("thumbnail", quarters(&small))] {
            let differs = |(a, b): (&u8, &u8)| a.abs_diff(*b) > TOLERANCE;
            if found.as_flattened().iter().zip(right.as_flattened()).any(differs) {
                wrong.push(format!("{file}: {face} {found:?}, right is {right:?}"));
            }
        }
    }
    assert!(wrong.is_empty() && entries.len() > 50, "{}", wrong.join("\n"));
}
