//! Parity with transformers on tiny random checkpoints, see `make_fixtures.py`, `make_families.py`, `make_newer_families.py`,
//! `make_minicpmv.py` and `make_experts.py`, and with PySceneDetect on clips (`make_cuts.py`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assistant;
mod cuts;
mod decoder;
mod dflash;
mod draft_head;
mod eagle3;
mod families;
mod frames;
mod gemma;
mod gguf;
#[path = "../support/gpu.rs"]
mod gpu;
mod mtp;
mod newer;
mod processor;
mod sampling;
mod tensors;
mod text;
mod towers;

use std::{collections::HashMap, path::PathBuf};

use candle_core::{DType, Device, Tensor};
use specreel_model::{
    decoder::{Logits, States},
    family::VideoLlm,
    processor::{Grid, Patches},
};
use specreel_tensor::{ComputeDevice, WeightType};

const FAMILIES: [&str; 4] = ["qwen2_vl", "qwen2_vl_nested", "llava_ov", "llava_ov_newer"];

/// Checkpoints of Qwen3-VL, SmolVLM2, Qwen3.5 and MiniCPM-V 4.6, two sizes of each.
const NEWER: [&str; 8] = [
    "qwen3_vl",
    "qwen3_vl_small",
    "smolvlm",
    "smolvlm_untied",
    "qwen3_5",
    "qwen3_5_untied",
    "minicpmv4_6",
    "minicpmv4_6_4x",
];

/// Mixtures of experts: of Qwen3-VL and Qwen3.5, with fused experts and split ones.
const EXPERTS: [&str; 4] = ["qwen3_vl_moe", "qwen3_vl_moe_split", "qwen3_5_moe", "qwen3_5_moe_untied"];

const CHECKPOINTS: [&str; 5] =
    ["gqa_tied", "gqa_untied_f16", "mha_tied_bf16", "sharded_untied", "nested_bf16"];

/// Checkpoints with attention heads of 12 values, which GPUs do not compute.
const NARROW: [&str; 2] = ["qwen2_vl_nested", "llava_ov_newer"];

/// The devices that compute every row alike: the CPU, and a GPU where there is one.
fn devices(dtype: WeightType) -> Vec<ComputeDevice> {
    [ComputeDevice::cpu(dtype)].into_iter().chain(gpu::gpu_or_skip(dtype)).collect()
}

fn load_on(name: &str, device: &ComputeDevice) -> VideoLlm {
    VideoLlm::load_on(&fixture(name), device, &mut |_, _| {}).unwrap()
}

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(path)
}

fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

fn json(path: &str) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(path)).unwrap()).unwrap()
}

fn tensors(path: &str) -> HashMap<String, Tensor> {
    candle_core::safetensors::load(fixture(path), &Device::Cpu).unwrap()
}

/// Numbers in a shape.
trait Values {
    fn shape(&self) -> Vec<usize>;

    /// As f32 and flat.
    fn flat(&self) -> Vec<f32>;
}

impl Values for Tensor {
    fn shape(&self) -> Vec<usize> {
        self.dims().to_vec()
    }

    fn flat(&self) -> Vec<f32> {
        self.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }
}

impl Values for States {
    fn shape(&self) -> Vec<usize> {
        let (rows, width) = self.shape();
        vec![rows, width]
    }

    fn flat(&self) -> Vec<f32> {
        self.to_vec().unwrap()
    }
}

impl Values for Logits {
    fn shape(&self) -> Vec<usize> {
        let (rows, vocab) = self.shape();
        vec![rows, vocab]
    }

    fn flat(&self) -> Vec<f32> {
        self.to_vec().unwrap()
    }
}

/// As f32 and flat.
fn values(of: &impl Values) -> Vec<f32> {
    of.flat()
}

fn states(tensor: &Tensor) -> States {
    States::new(values(tensor), tensor.dims2().unwrap().1).unwrap()
}

fn patches(name: &str) -> Patches {
    let fixture = tensors(&format!("{name}/fixture.safetensors"));
    let pixels = fixture["pixels"].to_dtype(DType::F32).unwrap();
    let grid = numbers(&fixture["grid"]);
    let grid = Grid { t: grid[0] as usize, h: grid[1] as usize, w: grid[2] as usize };
    let data = values(&((&pixels - 128.0).unwrap() / 64.0).unwrap());
    Patches { data, grid, row: pixels.dim(1).unwrap() }
}

fn numbers(tensor: &Tensor) -> Vec<i64> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Largest absolute difference of numbers of one shape.
fn difference(a: &impl Values, b: &impl Values) -> f32 {
    assert_eq!(a.shape(), b.shape());
    a.flat().iter().zip(b.flat()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
