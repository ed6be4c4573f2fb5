//! Devices: missing ones are reported, and candle's tensors compute the same as the CPU kernels.

use crate::{Program, events};

#[cfg(not(any(feature = "cuda", feature = "metal")))]
#[test]
fn devices_that_are_not_built_in_are_refused_by_every_command() {
    let program = Program::new();
    for (args, error, feature) in [
        (&["--device", "cuda"][..], "this build has no CUDA", "--features cuda"),
        (&["--device", "cuda:3"], "this build has no CUDA", "--features cuda"),
        (&["--device", "metal"], "this build has no Metal", "--features metal"),
        (&["--drafter-device", "cuda:1"], "this build has no CUDA", "--features cuda"),
    ] {
        for command in [&["caption", "demo"][..], &["compare", "demo"], &["bench", "--suite", "step"]] {
            let run = program.run(&[command, args].concat());
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
            let expected =
                format!("error: {error}\nhint: cargo build --release {feature} (see docs/devices.md)");
            assert!(run.stderr.contains(&expected), "{args:?}: {}", run.stderr);
        }
    }
    let doctor = program.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("cuda") && doctor.stdout.contains("not in this build"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn tensors_and_kernels_write_the_same_caption() {
    let program = Program::new();
    let caption = |more: &[&str]| {
        let run = program.run(&[&["caption", "demo", "--max-new-tokens", "20"], more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run
    };
    let kernels = caption(&["--dtype", "f32"]);
    let tensors = caption(&["--dtype", "f32", "--device", "cpu-tensors"]);
    assert!(!kernels.stdout.trim().is_empty());
    assert_eq!(tensors.stdout, kernels.stdout);
    assert!(tensors.stderr.contains("on cpu tensors, f32"), "{}", tensors.stderr);
    let mixed = caption(&["--drafter-device", "cpu-tensors"]);
    assert!(mixed.stderr.contains("on cpu, drafter cpu tensors, q8_0, drafter bf16"), "{}", mixed.stderr);
    std::fs::create_dir_all(program.home().join(".config/specreel")).unwrap();
    program.file(".config/specreel/config.toml", "device = \"cpu-tensors\"\ndtype = \"bf16\"\n");
    assert!(caption(&[]).stderr.contains("on cpu tensors, bf16"));
}

#[test]
fn lossless_methods_on_tensors_differ_only_at_reported_near_ties() {
    let program = Program::new();
    let run = program.run(&[
        "compare",
        "demo:2",
        "--device",
        "cpu-tensors",
        "--dtype",
        "bf16",
        "--max-new-tokens",
        "40",
        "--methods",
        "naive,naive-tree,specvlm-self,std,streaming,layerskip,lookup",
        "--json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let events = events(&run.stdout);
    let rows = events.last().unwrap()["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in &rows[1..] {
        let done = events.iter().find(|e| e["event"] == "done" && e["run"] == row["run"]).unwrap();
        let tie = &done["stats"]["tie"];
        match row["equality"]["first_difference"].as_u64() {
            None => assert!(tie.is_null(), "{done}"),
            Some(at) => {
                assert_eq!((tie["at"].as_u64(), tie["near"].as_bool()), (Some(at), Some(true)), "{done}");
            }
        }
    }
}

#[test]
fn known_sizes_are_measured_without_weights() {
    let program = Program::new();
    let step = ["bench", "--suite", "step", "--slots", "30", "--rows", "1,4"];
    for device in ["cpu", "cpu-tensors"] {
        let shapes = ["--shape", "tiny", "--drafter-shape", "tiny", "--device", device, "--json"];
        let run = program.run(&[&step[..], &shapes].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let lines = events(&run.stdout);
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert_eq!(line["model"], "tiny (random weights)");
            assert_eq!(line["device"], device.replace('-', " "));
            assert!(line["fill_ms"].as_f64().unwrap() > 0.0 && line["weight_bytes"].as_u64().unwrap() > 0);
        }
    }
    for (args, part) in [
        (&["--shape", "gpt"][..], "qwen2.5-vl-7b"),
        (&["--drafter-shape", "tiny"], "--shape"),
        (&["--shape", "tiny", "--target", "."], "--target"),
    ] {
        let run = program.run(&[&step[..], args].concat());
        assert!(run.code == 2 && run.stderr.contains(part), "{args:?}: {}", run.stderr);
    }
    let run = program.run(&["bench", "--shape", "tiny"]);
    assert!(run.stderr.contains("--shape cannot be used with --suite scenes"), "{}", run.stderr);
}
