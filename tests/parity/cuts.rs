//! Scenes are the ones that PySceneDetect finds.

use std::path::Path;

use serde::Deserialize;
use specreel_video::{Division, Scenes, segments};

/// Frames of one clip, some parameters, and the first frames of all scenes but the first.
#[derive(Debug, Deserialize)]
struct Row {
    clip: String,
    threshold: f64,
    shortest_s: f64,
    cuts: Vec<usize>,
}

#[test]
fn scenes_are_those_of_pyscenedetect() {
    let text = std::fs::read_to_string(crate::fixture("cuts.json")).unwrap();
    let rows: Vec<Row> = serde_json::from_str(&text).unwrap();
    for Row { clip, threshold, shortest_s, cuts } in rows {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&clip);
        let scenes = Scenes { threshold, shortest_s, longest_s: 1000.0 };
        let pieces = segments(&path, None, None, Some(Division::Scenes(scenes))).unwrap();
        let fps = specreel_video::probe(&path).unwrap().fps;
        let found: Vec<usize> = pieces[1..].iter().map(|span| (span.start * fps).round() as usize).collect();
        assert_eq!(found, cuts, "{clip}, {threshold}, {shortest_s} s");
    }
}
