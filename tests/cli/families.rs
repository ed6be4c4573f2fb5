//! Models of every family: captions, comparisons, inspection and errors.

use std::path::Path;

use ffmpeg_next::format::Pixel;

use crate::{Program, event, events, make::Clip};

/// A tiny random checkpoint.
fn model(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name).display().to_string()
}

/// Target, drafter, and visual tokens of four frames of 64 × 48 pixels as time × rows × columns.
const PAIRS: [(&str, &str, [u64; 3]); 2] =
    [("qwen2_vl", "qwen2_vl_nested", [2, 2, 2]), ("llava_ov", "llava_ov_newer", [4, 3, 3])];

/// A home with a clip of four frames, so that every family samples the same ones.
fn home() -> Program {
    let program = Program::new();
    program.file("clip.mkv", Clip::lossless(4, 64, 48, Pixel::YUV444P).write().bytes());
    program
}

#[test]
fn captions_are_lossless_and_report_the_grid() {
    let program = home();
    for (target, drafter, grid) in PAIRS {
        let (target, drafter) = (model(target), model(drafter));
        let run = |method: &str| {
            let run = program.run(&[
                "caption",
                "clip.mkv",
                "--target",
                &target,
                "--drafter",
                &drafter,
                "--method",
                method,
                "--json",
                "--max-new-tokens",
                "20",
            ]);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{target} {method}");
            events(&run.stdout)
        };
        let plain = run("autoregressive");
        let prompt = event(&plain, "prompt");
        assert_eq!(prompt["grid"], serde_json::json!(grid), "{target}");
        assert_eq!(prompt["visual_tokens"], grid.iter().product::<u64>());
        for method in ["naive", "specvlm", "std", "parallelvlm"] {
            assert_eq!(event(&run(method), "done")["ids"], event(&plain, "done")["ids"], "{target} {method}");
        }
    }
}

#[test]
fn methods_are_compared_on_one_prefill() {
    let program = home();
    let (target, drafter) = (model("llava_ov"), model("llava_ov_newer"));
    let run = program.run(&[
        "compare",
        "clip.mkv",
        "--target",
        &target,
        "--drafter",
        &drafter,
        "--methods",
        "naive,lvspec,streaming",
        "--json",
        "--max-new-tokens",
        "12",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let events = events(&run.stdout);
    let rows = event(&events, "comparison")["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows.iter().filter(|row| row["lossless"] == true && row["method"] != "autoregressive") {
        assert_eq!(row["equality"]["equal"], true, "{row}");
    }
}

#[test]
fn inspection_draws_one_tile_per_temporal_position() {
    let program = home();
    for (target, drafter, [frames, rows, columns]) in PAIRS {
        let (target, drafter) = (model(target), model(drafter));
        let picture = format!("{rows}.png");
        let run = program.run(&[
            "inspect",
            "clip.mkv",
            "--target",
            &target,
            "--drafter",
            &drafter,
            "--method",
            "specvlm",
            "--set",
            "context.keep=0.5",
            "--png",
            &picture,
            "--json",
        ]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let events = events(&run.stdout);
        let inspection = event(&events, "inspection");
        assert_eq!(inspection["kept"], (frames * rows * columns) / 2);
        let tiles = inspection["picture"]["frames"].as_array().unwrap();
        assert_eq!(tiles.len() as u64, frames);
        let times = event(&events, "prompt")["frames"].as_array().unwrap();
        let each = times.len() / tiles.len();
        for (tile, time) in tiles.iter().zip(times.iter().step_by(each)) {
            assert_eq!(tile["time_s"], *time, "{target}");
        }
        assert!(std::fs::metadata(program.home().join(picture)).unwrap().len() > 1000);
    }
}

#[test]
fn options_that_a_family_lacks_are_refused() {
    let program = home();
    let (qwen, llava) = (model("qwen2_vl"), model("llava_ov"));
    for (args, code, words) in [
        (&["--target", &llava, "--max-pixels", "5000"][..], 2, &["76x76", "--max-pixels"][..]),
        (&["--target", &llava, "--rope", "mrope"], 2, &["1-D positions", "--rope"]),
        (&["--target", &llava, "--drafter", &qwen], 3, &["cannot draft for", "LLaVA-OneVision", "Qwen2-VL"]),
    ] {
        let run = program.run(&[&["caption", "clip.mkv", "--method", "autoregressive"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{}", run.stderr);
    }
}

#[test]
fn sequential_positions_change_the_caption_and_are_noted() {
    let program = home();
    let target = model("qwen2_vl");
    let run = |rope: &str| {
        let run = program.run(&[
            "caption",
            "clip.mkv",
            "--target",
            &target,
            "--json",
            "--max-new-tokens",
            "20",
            "--rope",
            rope,
        ]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let events = events(&run.stdout);
        let notes = event(&events, "ready")["notes"].to_string();
        (event(&events, "done")["ids"].clone(), notes.contains("--rope sequential"))
    };
    let own = run("auto");
    assert_eq!(run("mrope"), own);
    let sequential = run("sequential");
    assert_ne!(sequential.0, own.0);
    assert!(sequential.1 && !own.1);
}
