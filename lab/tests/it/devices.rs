//! Passes and kernels by device.

use specreel_tensor::gpu::adapter::{Adapter, AdapterKind, adapters};

use crate::program::{Program, events, outcome};

/// The software adapter, if it is installed; else a test is skipped, or fails where it is required.
fn software() -> Option<Adapter> {
    let found = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
    let required = std::env::var_os("SPECREEL_REQUIRE_GPU").is_some_and(|value| value == "1");
    assert!(found.is_some() || !required, "no software adapter, and SPECREEL_REQUIRE_GPU=1");
    found
}

#[test]
fn known_sizes_are_measured_without_weights() {
    let program = Program::new();
    let step = ["bench", "--suite", "step", "--slots", "30", "--rows", "1,4"];
    for device in ["cpu", "cpu-tensors"] {
        let shapes = ["--shape", "tiny", "--drafter-shape", "tiny", "--device", device, "--json"];
        let run = program.run(&[&step[..], &shapes].concat()).ok();
        let lines = events(&run.stdout);
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert_eq!(line["model"], "tiny (random weights)");
            assert_eq!(line["device"], device.replace('-', " "));
            assert!(line["fill_ms"].as_f64().unwrap() > 0.0 && line["weight_bytes"].as_u64().unwrap() > 0);
        }
    }
    program.run(&[&step[..], &["--shape", "tiny", "--target", "."]].concat()).ends(2).said("--target");
}

#[test]
fn a_gpu_is_measured_against_what_it_can_reach() {
    // Its rows are too short for q4_k.
    let device = ["bench", "--suite", "device", "--shape", "tiny", "--rows", "1,3", "--slots", "40"];
    let refused = Program::new().run(&[&device[..], &["--device", "cpu"]].concat()).ends(2);
    refused.said("--suite device measures a GPU, and the device is cpu");
    let Some(adapter) = software() else { return };
    let name = format!("gpu:{}", adapter.number);
    let program = Program::new();
    let mut with_gpus = program.command();
    with_gpus.env_remove("SPECREEL_GPU");
    let run = outcome(with_gpus.args(device).args(["--device", &name, "--json"])).ok();
    let lines = events(&run.stdout);
    let (card, kernels) = lines.split_first().unwrap();
    assert!(card["device"].as_str().unwrap().contains(", software)") && card["shape"] == "tiny", "{card}");
    for rate in ["read_gigabytes_per_second", "f32_gigamacs_per_second", "round_trip_us"] {
        assert!(card[rate].as_f64().unwrap() > 0.0, "{card}");
    }
    let found: Vec<(&str, u64)> = kernels
        .iter()
        .map(|line| {
            (line["kernel"].as_str().unwrap().split(' ').next().unwrap(), line["rows"].as_u64().unwrap())
        })
        .collect();
    let rows = |kernel| [(kernel, 1), (kernel, 3)];
    assert_eq!(found, ["q8_0", "f16", "attention", "attention"].map(rows).concat());
    assert!(kernels.iter().all(|line| line["of_bound"].as_f64().unwrap() > 0.0), "{kernels:?}");
    assert_eq!((&kernels[7]["kernel"], &kernels[7]["slots"]), (&"attention q8_0".into(), &40.into()));
}
