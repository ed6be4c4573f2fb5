//! Devices: missing ones are reported, and candle's tensors compute the same as the CPU kernels.

use crate::cli::{Program, events, lab_methods};

#[test]
fn tensors_and_kernels_write_the_same_caption() {
    let program = Program::new();
    let caption =
        |more: &[&str]| program.run(&[&["caption", "demo", "--max-new-tokens", "20"], more].concat()).ok();
    let kernels = caption(&["--dtype", "f32"]);
    let tensors = caption(&["--dtype", "f32", "--device", "cpu-tensors"]);
    assert!(!kernels.stdout.trim().is_empty());
    assert_eq!(tensors.stdout, kernels.stdout);
    tensors.said("on cpu tensors, f32");
    caption(&["--drafter-device", "cpu-tensors"]).said("on cpu, drafter cpu tensors, q8_0, drafter bf16");
    std::fs::create_dir_all(program.home().join(".config/specreel")).unwrap();
    program.file(".config/specreel/config.toml", "device = \"cpu-tensors\"\ndtype = \"bf16\"\n");
    assert!(caption(&[]).stderr.contains("on cpu tensors, bf16"));
}

#[test]
fn the_text_does_not_depend_on_the_number_of_threads() {
    let program = Program::new();
    let text = |threads: &str| {
        let mut command = program.command();
        let args = ["caption", "demo:3", "--quiet", "--method", "naive-tree", "--max-new-tokens", "64"];
        let run = crate::cli::outcome(command.env("SPECREEL_THREADS", threads).args(args)).ok();
        run.stdout
    };
    let alone = text("1");
    assert!(alone.len() > 100, "{alone}");
    for threads in ["2", "3", "7"] {
        assert_eq!(text(threads), alone, "{threads} threads");
    }
}

/// The kernels of this processor, and those of processors without AVX-512, without AVX-VNNI, and without AVX2.
#[test]
fn the_text_does_not_depend_on_the_processor() {
    let program = Program::new();
    let steps = |without: &[&str], options: &str| {
        let mut command = program.command();
        command.envs(without.iter().map(|name| (*name, "1")));
        let args = ["caption", "--json", "--measure", "never", "--max-new-tokens", "12"];
        let run = crate::cli::outcome(command.args(args).args(options.split(' '))).ok();
        let mut events = events(&run.stdout);
        // Drafts, tokens, and the probabilities and entropies of both models.
        events.retain(|event| event["event"] == "step");
        assert!(events.len() >= 2, "{events:?}");
        events
            .iter()
            .map(|event| event["drafted"].to_string() + &event["tokens"].to_string())
            .collect::<Vec<_>>()
    };
    for options in [
        "demo --dtype f32 --method autoregressive",
        "demo:2 --dtype q8_0 --kv-type f16 --method naive",
        "demo:3 --dtype q4_k --kv-type q8_0 --method lvspec",
    ] {
        let here = steps(&[], options);
        for without in
            [&["SPECREEL_NO_AVX512"][..], &["SPECREEL_NO_AVX512", "SPECREEL_NO_VNNI"], &["SPECREEL_NO_AVX2"]]
        {
            assert_eq!(steps(without, options), here, "{options}: {without:?}");
        }
    }
}

#[test]
fn lossless_methods_on_tensors_differ_only_at_reported_near_ties() {
    let program = Program::new();
    let names = lab_methods("naive,naive-tree,specvlm-self,std,streaming,layerskip,lookup");
    let line = "compare demo:2 --device cpu-tensors --dtype bf16 --max-new-tokens 40 --json";
    let run = program.line(&format!("{line} --methods {names}")).ok();
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

/// Run the program where it finds GPUs.
fn with_gpus(program: &Program, args: &[&str]) -> crate::cli::Outcome {
    crate::cli::outcome(program.command().env_remove("SPECREEL_GPU").args(args))
}

/// The program, if the software adapter is installed; else the test is skipped, or fails where it is required.
pub fn software() -> Option<Program> {
    let program = Program::new();
    let doctor = with_gpus(&program, &["doctor"]);
    let found = doctor.stdout.contains(", software, vulkan");
    let required = std::env::var_os("SPECREEL_REQUIRE_GPU").is_some_and(|value| value == "1");
    assert!(found || !required, "no software adapter, and SPECREEL_REQUIRE_GPU=1: {}", doctor.stdout);
    if !found {
        eprintln!("skipped: no software adapter");
    }
    found.then_some(program)
}

#[test]
fn a_gpu_that_does_not_exist_is_refused() {
    let program = Program::new();
    let hint =
        "hint: specreel doctor lists the devices, docs/devices.md the drivers; --device cpu always works";
    let none = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = program.command();
        let run =
            crate::cli::outcome(command.envs(variables.iter().copied()).args(["caption", "demo"]).args(args));
        assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{args:?}: {}", run.stderr);
        let error = "error: no GPU: no driver for Vulkan, Metal or DirectX 12 was found\n";
        assert_eq!(run.stderr, format!("{error}{hint}\n"), "{args:?}");
    };
    none(&["--device", "gpu"], &[]);
    none(&["--drafter-device", "gpu:1"], &[]);
    // A system without drivers says the same, and nothing else.
    if cfg!(target_os = "linux") {
        let nowhere =
            [("VK_DRIVER_FILES", "/nonexistent"), ("VK_ICD_FILENAMES", "/nonexistent"), ("SPECREEL_GPU", "")];
        none(&["--device", "gpu:0"], &nowhere);
        let doctor = crate::cli::outcome(program.command().envs(nowhere).arg("doctor"));
        doctor.printed("no driver for Vulkan");
        assert_eq!(doctor.stderr, "");
    }
    let Some(program) = software() else { return };
    let missing = with_gpus(&program, &["caption", "demo", "--device", "gpu:99"]).ends(3);
    missing.said("error: no GPU 99: this machine has gpu:0");
    missing.said(hint);
}

/// The software adapter's name and description in the report of `doctor --json`, and the number of others.
fn adapter(doctor: &crate::cli::Outcome) -> (String, String, usize) {
    assert_eq!(doctor.stderr, "");
    let report = doctor.json();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    let adapters: Vec<_> = findings
        .map(|finding| (text(finding, "name"), text(finding, "found")))
        .filter(|(name, _)| name.starts_with("gpu:"))
        .collect();
    let others = adapters.len() - 1;
    let (name, found) = adapters.into_iter().find(|(_, found)| found.contains(", software, ")).unwrap();
    (name, found, others)
}

/// A pass is one submission of at most twelve kernels a layer, and what is read back are choices. (A head's rows can be one more in each
/// step, since its states come from the target's pass.)
fn waits_once_a_pass(stats: &serde_json::Value) {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/target/config.json");
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(config).unwrap()).unwrap();
    let count = |value: &serde_json::Value| value.as_u64().unwrap();
    // Each step has a pass of the target, and reads its root in one of the drafter; each draft is read in one at most.
    let passes = 3 * count(&stats["steps"]) + count(&stats["drafted"]);
    let traffic = &stats["traffic"];
    assert!(count(&traffic["submissions"]) <= passes, "{stats}");
    assert!(count(&traffic["kernels"]) <= 12 * count(&config["num_hidden_layers"]) * passes, "{stats}");
    assert!(count(&traffic["down_bytes"]) <= 1024 * passes, "{stats}");
}

#[test]
fn on_a_gpu_lossless_methods_write_the_same_text() {
    let Some(program) = software() else { return };
    let (name, ..) = adapter(&with_gpus(&program, &["doctor", "--json"]));
    let short = ["--max-new-tokens", "8", "--json"];
    let names = lab_methods("naive,sparrow-chain,eagle3,dflash,naive-tree,layerskip");
    let methods = ["compare", "demo:2", "--device", &name, "--methods", &names];
    let compared = with_gpus(&program, &[&methods[..], &short].concat()).ok();
    let events_of = events(&compared.stdout);
    let rows = events_of.last().unwrap()["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for row in &rows[1..] {
        assert_eq!(row["equality"]["equal"], true, "{row}");
        let of_row = |kind: &str| {
            events_of.iter().find(move |e| e["event"] == kind && e["run"] == row["run"]).unwrap()
        };
        assert!(of_row("started")["device"].as_str().unwrap().starts_with(&name), "{}", of_row("started"));
        let stats = &of_row("done")["stats"];
        assert!(stats["tie"].is_null(), "{stats}");
        waits_once_a_pass(stats);
    }

    // A target on one device and its drafter on the other write what the target writes alone.
    let text = |args: &[&str]| {
        let run = with_gpus(&program, &[&["caption", "demo", "--max-new-tokens", "8"], args].concat());
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        (run.stdout, run.stderr)
    };
    for (target, drafter) in [("cpu", name.as_str()), (name.as_str(), "cpu")] {
        let (alone, _) = text(&["--device", target, "--method", "autoregressive"]);
        let (both, said) = text(&["--device", target, "--drafter-device", drafter, "--method", "naive"]);
        assert_eq!(both, alone);
        assert!(
            said.contains(&format!("on {target}")) && said.contains(&format!("drafter {drafter}")),
            "{said}"
        );
    }
}

#[test]
fn a_software_adapter_is_used_on_request_only() {
    let Some(program) = software() else { return };
    let (name, found, others) = adapter(&with_gpus(&program, &["doctor", "--json"]));
    let name = name.as_str();
    for part in ["driver ", "bindings up to ", "workgroup memory ", "not used by --device auto: software"] {
        assert!(found.contains(part), "{part}: {found}");
    }
    let short = ["caption", "demo", "--max-new-tokens", "4"];
    let named = with_gpus(&program, &[&short[..], &["--device", name]].concat()).ok();
    named.said(&format!("on {name} ("));
    named.said("vulkan, software)");
    if others == 0 {
        let auto = with_gpus(&program, &short);
        auto.said("on cpu, ");
        assert!(auto.code == 0 && !named.stdout.trim().is_empty(), "{}", auto.stderr);
    }
    let small = with_gpus(&program, &[&short[..], &["--device", name, "--kv-type", "q8_0"]].concat()).ok();
    assert!(!small.stdout.trim().is_empty());
}
