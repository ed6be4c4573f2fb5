//! Models of every family: captions, comparisons, inspection and errors.

use std::path::Path;

use serde_json::Value;
use specreel_bench::methods;
use specreel_speculate::{Drafter, Method};

use crate::cli::{Program, event, events, fixture, lab_methods, with_clip};

/// All frames of the clip, which lasts less than a second.
const FRAMES: [&str; 2] = ["--frames", "4"];
/// Target, drafter, and visual tokens of four frames of 64 × 48 pixels as time × rows × columns.
const PAIRS: [(&str, &str, [u64; 3]); 10] = [
    ("qwen2_vl", "qwen2_vl_nested", [2, 2, 2]),
    ("llava_ov", "llava_ov_newer", [4, 3, 3]),
    ("qwen3_vl", "qwen3_vl_small", [2, 2, 2]),
    ("smolvlm", "smolvlm_untied", [4, 2, 2]),
    ("qwen3_5", "qwen3_5_untied", [2, 2, 2]),
    ("minicpmv4_6", "minicpmv4_6_4x", [4, 2, 2]),
    ("minicpmv4_6_4x", "minicpmv4_6", [4, 3, 4]),
    ("gemma4", "gemma4_plain", [4, 7, 9]),
    ("qwen3_vl_moe", "qwen3_vl", [2, 2, 2]),
    ("qwen3_5_moe", "qwen3_5", [2, 2, 2]),
];
/// Those that write a time stamp before every frame or pair of frames, or marks around it.
const STAMPED: [&str; 8] = [
    "qwen3_vl",
    "smolvlm",
    "qwen3_5",
    "minicpmv4_6",
    "minicpmv4_6_4x",
    "qwen3_vl_moe",
    "qwen3_5_moe",
    "gemma4",
];

#[test]
fn captions_are_lossless_and_report_the_grid() {
    let program = with_clip();
    for (target, drafter, grid) in PAIRS {
        let (target, drafter) = (fixture(target), fixture(drafter));
        let run = |method: &str| {
            let run = program
                .line(&format!(
                    "caption clip.mkv --target '{target}' --drafter '{drafter}' --method {method} --json \
                 --max-new-tokens 20 --frames 4"
                ))
                .silent();
            events(&run.stdout)
        };
        let plain = run("autoregressive");
        let prompt = event(&plain, "prompt");
        assert_eq!(prompt["grid"], serde_json::json!(grid), "{target}");
        assert_eq!(prompt["visual_tokens"], grid.iter().product::<u64>());
        // One span for the whole video, or one for every time stamp; the rows of all hold the same id.
        let spans = prompt["visual_spans"].as_array().unwrap();
        let stamped = STAMPED.iter().any(|name| target.ends_with(name));
        assert_eq!(spans.len() as u64, if stamped { grid[0] } else { 1 }, "{target}");
        let row = |at: &Value| at.as_u64().unwrap() as usize;
        let rows = spans.iter().flat_map(|span| row(&span[0])..row(&span[1]));
        let pads: Vec<&Value> = rows.map(|row| &prompt["prompt_ids"][row]).collect();
        assert!(pads.len() as u64 == grid.iter().product::<u64>() && pads.iter().all(|id| *id == pads[0]));
        for method in ["naive", "specvlm", "std", "parallelvlm"] {
            assert_eq!(event(&run(method), "done")["ids"], event(&plain, "done")["ids"], "{target} {method}");
        }
    }
}

#[test]
fn inspection_draws_one_tile_per_temporal_position() {
    let program = with_clip();
    for (name, drafter, [frames, rows, columns]) in PAIRS {
        let (target, drafter) = (fixture(name), fixture(drafter));
        let picture = format!("{name}.png");
        let run = program.line(&format!(
            "inspect clip.mkv --target '{target}' --drafter '{drafter}' --method specvlm --set context.keep=0.5 \
             --png {picture} --json --frames 4"
        )).ok();
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
    let program = with_clip();
    let (qwen, llava) = (fixture("qwen2_vl"), fixture("llava_ov"));
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
    let program = with_clip();
    let target = fixture("qwen2_vl");
    let run = |rope: &str| {
        let run = program
            .line(&format!("caption clip.mkv --target '{target}' --json --max-new-tokens 20 --rope '{rope}'"))
            .ok();
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

/// A prompt that lets the model think ends differently, and its thoughts are not part of the caption.
#[test]
fn thoughts_are_marked_and_no_part_of_the_caption() {
    let program = with_clip();
    let (target, drafter) = (fixture("qwen3_5"), fixture("qwen3_5_untied"));
    let models = ["caption", "clip.mkv", "--target", &target, "--drafter", &drafter];
    let limits = ["--max-new-tokens", "12", FRAMES[0], FRAMES[1]];
    let json = |more: &[&str]| {
        let run = program.run(&[&models[..], &limits, &["--json"], more].concat()).silent();
        events(&run.stdout)
    };
    let tokenizer = Path::new(&target).join("tokenizer.json");
    let tokenizer: Value = serde_json::from_slice(&std::fs::read(tokenizer).unwrap()).unwrap();
    let id = |token: &str| {
        let added = tokenizer["added_tokens"].as_array().unwrap();
        added.iter().find(|added| added["content"] == token).unwrap()["id"].as_u64().unwrap()
    };
    let (open, close) = (id("<think>"), id("</think>"));
    let last = |all: &[Value]| {
        let ids = event(all, "prompt")["prompt_ids"].as_array().unwrap().clone();
        ids.iter().rev().find_map(|id| id.as_u64().filter(|id| [open, close].contains(id)))
    };
    let (plain, thinking) = (json(&[]), json(&["--thinking"]));
    assert_eq!((last(&plain), last(&thinking)), (Some(close), Some(open)));
    let tokens = |all: &[Value]| -> Vec<Value> {
        let steps = all.iter().filter(|event| event["event"] == "step");
        steps.flat_map(|step| step["tokens"].as_array().unwrap().clone()).collect()
    };
    let tokens = tokens(&thinking);
    let ends = tokens.iter().position(|token| token["id"] == close).map_or(tokens.len(), |at| at + 1);
    assert!(ends > 0 && tokens[..ends].iter().all(|token| token["thinking"] == true));
    assert!(tokens[ends..].iter().all(|token| token.get("thinking").is_none()));
    let text: String = tokens[ends..].iter().map(|token| token["text"].as_str().unwrap()).collect();
    let done = event(&thinking, "done");
    assert!(done["text"].as_str().unwrap().starts_with(text.trim_start()), "{done}");
    assert_eq!(done["ids"].as_array().unwrap().len(), tokens.len());
    // Speculation changes no thought.
    let alone = json(&["--thinking", "--method", "autoregressive"]);
    assert_eq!(event(&alone, "done")["ids"], done["ids"]);
    if ends == tokens.len() {
        let run = program.run(&[&models[..], &limits, &["--thinking"]].concat());
        assert_eq!((run.code, run.stdout.trim()), (0, ""), "{}", run.stderr);
        run.said("note: the target was still thinking");
    }
    // Models that cannot.
    let other = fixture("qwen3_vl");
    let run = |more: &[&str]| {
        let run =
            program.run(&[&["caption", "clip.mkv", "--target", &other][..], &limits, more].concat()).ok();
        (run.stdout, run.stderr.contains("note: --thinking has no effect: qwen3_vl cannot think"))
    };
    let (plain, thinking) = (run(&[]), run(&["--thinking"]));
    assert_eq!((plain.0, plain.1, thinking.1), (thinking.0, false, true));
    let effort = program.run(&[&models[..], &limits, &["--thinking", "--reasoning-effort", "low"]].concat());
    effort.ok().said("note: --reasoning-effort has no effect: the chat template of");
}

/// A copy of `smolvlm_untied` with smaller patches: nine visual tokens a frame where `smolvlm` has four, as the published 256M has
/// others than the 2.2B.
fn recut(program: &Program) -> String {
    use candle_core::{Device, safetensors};
    let to = program.copy("tests/parity/fixtures/smolvlm_untied", "recut");
    let edit = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::from_slice(&std::fs::read(to.join(name)).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(to.join(name), value.to_string()).unwrap();
    };
    edit("config.json", &|config| {
        config["scale_factor"] = 2.into();
        config["vision_config"]["image_size"] = 60.into();
        config["vision_config"]["patch_size"] = 10.into();
    });
    edit("preprocessor_config.json", &|config| {
        config["max_image_size"]["longest_edge"] = 60.into();
        config["video_sampling"]["video_size"]["longest_edge"] = 60.into();
        config["size"]["longest_edge"] = 240.into();
    });
    let path = to.join("model.safetensors");
    let mut weights = safetensors::load(&path, &Device::Cpu).unwrap();
    let mut narrow = |name: &str, cuts: &[(usize, usize)]| {
        let whole = weights.remove(name).unwrap();
        let part = cuts.iter().fold(whole, |part, (axis, size)| part.narrow(*axis, 0, *size).unwrap());
        weights.insert(name.to_owned(), part.contiguous().unwrap());
    };
    narrow("model.vision_model.embeddings.patch_embedding.weight", &[(2, 10), (3, 10)]);
    narrow("model.connector.modality_projection.proj.weight", &[(1, 128)]);
    safetensors::save(&weights, &path).unwrap();
    to.display().to_string()
}

#[test]
fn a_drafter_may_cut_frames_into_other_patches() {
    let program = with_clip();
    let (target, drafter) = (fixture("smolvlm"), recut(&program));
    let run = |command: &[&str]| {
        let models = ["--target", &target, "--drafter", &drafter, "--json"];
        let run = program.run(&[command, &models, &FRAMES].concat()).ok();
        events(&run.stdout)
    };
    let names =
        lab_methods("naive,naive-tree,sd-random,sd-uniform,sd-frames,specvlm,text-only,parallelvlm,lvspec");
    let limits = ["--measure", "never", "--max-new-tokens", "12"];
    let all = run(&[&["compare", "clip.mkv", "--methods", &names][..], &limits].concat());
    let rows = event(&all, "comparison")["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10);
    for row in rows.iter().filter(|row| row["lossless"] == true && row["method"] != "autoregressive") {
        assert_eq!(row["equality"]["equal"], true, "{row}");
    }
    // Two of four cells of the target's frames are kept: they are reported in the target's grid.
    let uniform = lab_methods("sd-uniform");
    let caption = ["caption", "clip.mkv", "--method", &uniform, "--set", "context.keep=0.5"];
    let all = run(&[&caption[..], &["--max-new-tokens", "4"]].concat());
    let prompt = event(&all, "prompt");
    assert_eq!(
        (prompt["visual_tokens"].as_u64(), &prompt["grid"]),
        (Some(16), &serde_json::json!([4, 2, 2]))
    );
    assert_eq!(prompt["kept"].as_array().map(Vec::len), Some(8), "{prompt}");
}

/// The presets of a family's own kind of prompt: all finish, and lossless ones write what the target writes alone.
#[test]
fn every_preset_runs_with_time_stamps_in_the_prompt() {
    let program = with_clip();
    for (target, drafter, _) in PAIRS.iter().filter(|pair| STAMPED.contains(&pair.0)) {
        let presets: Vec<&Method> =
            methods::presets().filter(|preset| !matches!(preset.drafter, Drafter::Head { .. })).collect();
        assert!(presets.len() > 20);
        let names =
            lab_methods(&presets.iter().map(|preset| preset.name.as_str()).collect::<Vec<_>>().join(","));
        let (target, drafter) = (fixture(target), fixture(drafter));
        let run = program.line(&format!(
            "compare clip.mkv --target '{target}' --drafter '{drafter}' --methods {names} --json --measure never \
             --max-new-tokens 10 --frames 4"
        )).ok();
        let events = events(&run.stdout);
        let rows = event(&events, "comparison")["rows"].as_array().unwrap();
        assert_eq!(rows.len(), presets.len(), "{target}");
        for row in rows.iter().filter(|row| row["lossless"] == true && row["method"] != "autoregressive") {
            assert_eq!(row["equality"]["equal"], true, "{target}: {row}");
        }
    }
}

#[test]
fn stamps_of_unseen_frames_are_dropped_where_there_are_any() {
    let program = with_clip();
    for (target, drafter, grid) in PAIRS {
        let stamped = STAMPED.contains(&target);
        let (target, drafter, frames) = (fixture(target), fixture(drafter), lab_methods("sd-frames"));
        let run = |command: &str, more: &[&str]| {
            let models = ["--target", &target, "--drafter", &drafter, "--method", &frames];
            let keep = ["--set", "context.keep=0.5", "--set", "context.stamps=drop"];
            program.run(&[&[command, "clip.mkv"][..], &models, &keep, &FRAMES, more].concat()).ok()
        };
        let captioned = run("caption", &["--json", "--max-new-tokens", "8"]);
        let all = events(&captioned.stdout);
        let prompt = event(&all, "prompt");
        let dropped =
            prompt.get("dropped_stamps").map_or(0, |stamps| stamps.as_array().unwrap().len() as u64);
        // Half of the frames are seen.
        assert_eq!(dropped, if stamped { grid[0] / 2 } else { 0 }, "{target}");
        let note = "context.stamps=drop has no effect: ";
        assert_eq!(prompt.to_string().contains(note), !stamped, "{prompt}");
        let plain = run("caption", &["--json", "--max-new-tokens", "8", "--set", "context.stamps=keep"]);
        assert_eq!(event(&events(&plain.stdout), "done")["ids"], event(&all, "done")["ids"], "{target}");
        let inspected = run("inspect", &[]);
        let line = format!("\nstamps   {dropped} of {} dropped\n", grid[0]);
        assert_eq!(inspected.stdout.contains(&line), stamped, "{}", inspected.stdout);
    }
}

#[test]
fn pairs_across_families_and_vocabularies_are_refused() {
    let program = with_clip();
    let tokens =
        std::fs::read_to_string(Path::new(&fixture("qwen3_vl_small")).join("tokenizer.json")).unwrap();
    let dir = program.copy("tests/parity/fixtures/qwen3_vl_small", "other");
    // Two words change places.
    let parsed: Value = serde_json::from_str(&tokens).unwrap();
    let vocabulary = parsed["model"]["vocab"].as_object().unwrap();
    let of = |id: u64| vocabulary.iter().find(|(_, at)| **at == id).unwrap().0.clone();
    let (a, b) = (of(290), of(291));
    let mut swapped = parsed.clone();
    swapped["model"]["vocab"][&a] = 291.into();
    swapped["model"]["vocab"][&b] = 290.into();
    std::fs::write(dir.join("tokenizer.json"), swapped.to_string()).unwrap();
    let other = dir.display().to_string();
    let [qwen3, smol, qwen2, newest] = ["qwen3_vl", "smolvlm", "qwen2_vl", "qwen3_5"].map(fixture);
    for (target, drafter, words) in [
        (&qwen3, &smol, &["SmolVLM2", "Qwen3-VL"][..]),
        (&smol, &qwen3, &["Qwen3-VL", "SmolVLM2"]),
        (&qwen3, &qwen2, &["Qwen2-VL", "Qwen3-VL"]),
        (&qwen3, &newest, &["Qwen3.5", "Qwen3-VL"]),
        (&qwen3, &other, &["id 290 is"]),
    ] {
        let run = program.run(&["caption", "clip.mkv", "--target", target, "--drafter", drafter]);
        assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{}", run.stderr);
        run.said("cannot draft for");
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{}", run.stderr);
    }
}

/// An assistant is recognized, drafts by default, changes no token of directory and GGUF file, and is refused with other targets.
#[test]
fn an_assistant_drafts_for_its_target_alone() {
    let (program, assistant) = (with_clip(), fixture("gemma4_assistant"));
    let inspected = program.line(&format!("models inspect '{assistant}' --json")).ok().json();
    assert_eq!(inspected["recipe"], "assistant");
    let of = |target: &str, rest: &str| {
        let target = fixture(target);
        program.line(&format!(
            "caption clip.mkv --target '{target}' --drafter '{assistant}' --max-new-tokens 20 --frames 4 {rest}"
        ))
    };
    for target in ["gemma4", "gguf/gemma4/model-q8_0.gguf"] {
        for rest in ["", "--set shape.kind=two_branch --set shape.length=4", "--method auto"] {
            let run = of(target, &format!("--json --verify {rest}")).silent();
            let events = events(&run.stdout);
            assert_eq!(event(&events, "verified")["equal"], true, "{target} {rest}");
            let started = event(&events, "started");
            assert_eq!(
                started["method"]["drafter"]["recipe"] == "assistant",
                rest != "--method auto",
                "{started}"
            );
            assert_eq!(event(&events, "ready")["parts"]["heads"], serde_json::json!(["assistant"]));
        }
    }
    of("gemma4_plain", "").ends(3).said("trained for another target: it expects a `hidden_size` of 64");
    of("gemma4", "--set schedule.kind=parallel --set schedule.window=3")
        .ends(2)
        .said("the draft head needs the states");
    of("gemma4", "--set context.kind=none").ends(2).said("reads the target's own keys and values");
}
