//! Damaged but readable videos, non-finite numbers, exhausted resources.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use specreel_demo::LIMITS_NOTE;

use crate::cli::{
    Outcome, Program, event, events,
    make::{Clip, H264},
    outcome,
};

fn notes(run: &Outcome) -> Vec<String> {
    let notes = event(&events(&run.stdout), "prompt")["notes"].as_array().cloned().unwrap_or_default();
    notes.iter().map(|note| note.as_str().unwrap().to_owned()).collect()
}

/// The embedded models know nothing of such a video, which is noted after what is wrong with it.
#[test]
fn a_video_that_the_embedded_models_cannot_know_is_noted() {
    let program = Program::new();
    program.file("own.mp4", Clip::of(20).write().bytes());
    let run = |video: &str, more: &[&str]| {
        program.run(&[&["caption", video, "--max-new-tokens", "4", "--method"], more].concat()).ok()
    };
    let note = format!("note: {LIMITS_NOTE}\n");
    assert!(run("own.mp4", &["naive"]).stderr.contains(&note));
    assert_eq!(notes(&run("own.mp4", &["naive", "--json"])), [LIMITS_NOTE]);
    assert!(!run("demo:2", &["naive"]).stderr.contains("note: "));
    // A copy of an embedded clip is also one; so is a copy of the target.
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");
    let copy = format!("{demo}/clips/three-shots.mp4");
    assert!(!run(&copy, &["naive"]).stderr.contains("note: "));
    let alone = run("own.mp4", &["autoregressive", "--target", &format!("{demo}/target")]);
    assert!(alone.stderr.contains(&note));
    let compared = program.run(&["compare", "own.mp4", "--methods", "lookup", "--max-new-tokens", "4"]);
    assert_eq!(compared.stderr.matches(&note).count(), 1, "{}", compared.stderr);
}

fn flipped(mut bytes: Vec<u8>) -> Vec<u8> {
    let media = bytes.windows(4).position(|word| word == b"mdat").unwrap() + 200;
    let end = bytes.windows(4).rposition(|word| word == b"moov").unwrap();
    assert!(end > media);
    for at in (media..end).step_by(211) {
        bytes[at] ^= 0x10;
    }
    bytes
}

#[test]
fn a_damaged_video_is_noted_and_captioned_deterministically() {
    let program = Program::new();
    let clip = Clip { codecs: H264, ..Clip::h264(120, 60) };
    program.file("whole.mp4", clip.write().bytes());
    program.file("damaged.mp4", flipped(clip.write().bytes()));
    let caption = |file: &str, more: &[&str]| {
        program.run(&[&["caption", file, "--method", "naive", "--max-new-tokens", "24"], more].concat())
    };
    assert_eq!(notes(&caption("whole.mp4", &["--json"])), [LIMITS_NOTE]);
    let first = caption("damaged.mp4", &[]).ok();
    first.said("note: the video is damaged: ");
    for _ in 0..3 {
        assert_eq!(caption("damaged.mp4", &[]).stdout, first.stdout);
    }
    let json = notes(&caption("damaged.mp4", &["--json"]));
    assert!(json[0].starts_with("the video is damaged: "), "{json:?}");
    // Two runs on one clip print the note once.
    let compared = program.run(&["compare", "damaged.mp4", "--methods", "lookup", "--max-new-tokens", "4"]);
    assert_eq!(compared.stderr.matches("the video is damaged").count(), 1, "{}", compared.stderr);
}

#[test]
fn a_truncated_video_is_noted_with_both_lengths() {
    let program = Program::new();
    program.file("cut.mp4", Clip { movflags: "faststart", ..Clip::of(100) }.write().cut(0.5).bytes());
    let json = program.run(&["caption", "cut.mp4", "--max-new-tokens", "4", "--json"]);
    assert!(notes(&json)[0].contains("of 4.0 s"), "{}", json.stdout);
    // The note is printed once for all segments.
    let pieces = program.run(&["caption", "cut.mp4", "--max-new-tokens", "4", "--segments", "1"]);
    assert_eq!(pieces.stderr.matches("is truncated").count(), 1, "{}", pieces.stderr);
}

fn overwrite(program: &Program, name: &str, with: [u8; 2]) {
    let path = program.copy("assets/demo/target", "m").join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    assert_eq!(header[name]["dtype"], "BF16", "{name}");
    let at = |i: usize| 8 + length + header[name]["data_offsets"][i].as_u64().unwrap() as usize;
    bytes[at(0)..at(1)].chunks_exact_mut(2).for_each(|value| value.copy_from_slice(&with));
    fs::write(path, bytes).unwrap();
}

#[test]
fn non_finite_logits_are_an_error() {
    let program = Program::new();
    // The largest finite bf16 value.
    overwrite(&program, "model.norm.weight", [0x7f, 0x7f]);
    for method in ["autoregressive", "naive", "parallelvlm"] {
        let pair = ["--target", "m", "--drafter", "demo-drafter", "--method", method];
        let run = program.run(&[&["caption", "demo", "--json"][..], &pair].concat());
        assert_eq!(run.code, 3, "{method}: {}", run.stderr);
        assert!(run.stderr.contains("error: the logits of m are not finite"), "{method}: {}", run.stderr);
        run.said("--dtype f32");
        assert_eq!(events(&run.stdout).last().unwrap()["event"], "failed");
    }
}

#[test]
fn errors_have_no_backtraces() {
    let program = Program::new();
    overwrite(&program, "visual.patch_embed.proj.weight", [0xc0, 0x7f]);
    let args = ["caption", "demo", "--target", "m", "--method", "autoregressive"];
    let stderr = outcome(program.command().env("RUST_BACKTRACE", "1").args(args)).ends(3).stderr;
    let error = stderr.lines().filter(|line| !line.starts_with("hint: ")).count();
    assert!(error == 1 && stderr.contains("is NaN") && stderr.contains("incomplete or damaged"), "{stderr}");
}

#[test]
fn a_low_file_descriptor_limit_is_an_input_error() {
    let program = Program::new();
    let binary = env!("CARGO_BIN_EXE_specreel");
    for limit in [8, 12, 20] {
        let output = Command::new("sh")
            .args(["-c", &format!("ulimit -n {limit}; exec {binary} caption demo -q")])
            .env("HOME", program.home())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{limit}: {stderr}");
        assert!(stderr.contains("ulimit -n") && !stderr.contains("panicked"), "{limit}: {stderr}");
    }
}

#[cfg(target_os = "linux")] // /dev/full
#[test]
fn a_full_disk_is_an_internal_error() {
    let program = Program::new();
    program.line("caption demo --max-new-tokens 4 --save /dev/full --force").ends(1).said("No space left");
    assert!(Path::new("/dev/full").exists());
}
