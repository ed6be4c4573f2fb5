//! Several clips, captioned together by real keys.

use std::path::Path;

use super::{start::render, terminal::Terminal};

/// A folder with three clips, the last of which is none.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    render(dir.path(), [(2, "a.mp4"), (3, "b.mp4")]);
    std::fs::write(dir.path().join("c.mp4"), "no video").unwrap();
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn marked_clips_are_captioned_and_a_caption_is_edited() {
    let dir = folder();
    let mut t = Terminal::start(110, 34, &[dir.path().to_str().unwrap()]);
    t.wait("● ready");
    t.wait("▸ a.mp4");
    t.press("   ", "*c.mp4");
    t.press("\r", "Batch of 3 clips");
    t.wait("captions 3 clips");
    t.press("\r", "batch done: 3 videos: 2 captioned, 1 failed");
    t.wait("3/3, 1 failed");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let first = read("a.txt");
    assert!(first.len() > 10 && first.ends_with('\n') && read("b.txt").len() > 10, "{first:?}");

    // The failed clip has become a video meanwhile.
    std::fs::copy(dir.path().join("a.mp4"), dir.path().join("c.mp4")).unwrap();
    t.press("r", "batch done: 3 videos: 3 captioned");
    assert_eq!(read("c.txt"), first);

    // The caption of the first clip is changed, over two lines.
    t.press("ge", "Caption of a.mp4");
    t.press("\rAnd more.\u{13}", "✓ edited");
    assert_eq!(read("a.txt"), format!("{first}And more.\n"));

    // Its run is one key away, and nothing but captions is left next to the clips.
    t.keys("\r");
    t.gone("Batch of");
    t.wait("state     done");
    assert_eq!(names(dir.path()), ["a.mp4", "a.txt", "b.mp4", "b.txt", "c.mp4", "c.txt"]);
    t.quit("q");
}
