//! Unusual videos, damaged weights and an endless prompt: never a panic.

use std::fs;

use ffmpeg_next::format::Pixel;

use crate::cli::{Outcome, Program, make::Clip, outcome};

/// Small and unusual, but valid.
#[test]
fn unusual_videos() {
    let program = Program::new();
    let one = Clip::of(1).write().bytes();
    let whole = Clip::of(30).write();
    program.file("one-frame.mp4", one);
    program.file("one-pixel.mkv", Clip::lossless(2, 1, 1, Pixel::YUV444P).write().bytes());
    program
        .file("faststart-cut.mp4", Clip { movflags: "faststart", ..Clip::of(60) }.write().cut(0.7).bytes());
    program.file("no extension", whole.bytes());
    for name in ["one-frame.mp4", "one-pixel.mkv", "faststart-cut.mp4", "no extension"] {
        let done = program.run(&["caption", name, "--json", "--max-new-tokens", "2"]).silent().last();
        assert_eq!(done["event"], "done", "{name}");
    }
}

fn caption(program: &Program) -> Outcome {
    program.run(&["caption", "demo", "--target", "m", "--method", "autoregressive", "--max-new-tokens", "2"])
}

/// There is no checksum: the run may print nonsense or fail, but it must exit normally.
#[test]
fn with_flipped_bits_in_the_weights() {
    let program = Program::new();
    let path = program.copy("assets/demo/target", "m").join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for share in [0.3, 0.6, 0.9] {
        let mut bytes = whole.clone();
        let at = (bytes.len() as f64 * share) as usize;
        // As bf16 or f32 these are not numbers at all.
        bytes[at..at + 4096].fill(0xff);
        fs::write(&path, bytes).unwrap();
        let run = caption(&program);
        assert!([0, 3].contains(&run.code), "{share}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}

#[test]
fn a_prompt_longer_than_the_context() {
    let program = Program::new();
    let args = ["caption", "demo", "--prompt", "-"];
    let run = outcome(program.command().args(args).write_stdin("why ".repeat(200_000)));
    assert!([2, 3].contains(&run.code) && !run.stderr.contains("panicked"), "{}", run.stderr);
    run.said("error: ");
}
