//! Matrices of checkpoints on a GPU against the same on the CPU.

use std::path::Path;

use super::*;
use crate::model::{
    config::TextConfig,
    device::{
        cpu::{linear::QuantizedRows, loading, table},
        gpu::{self, Scratch, testing::gpu_or_skip},
    },
    source::ModelFiles,
};

fn list(tensors: &[(&str, usize)], inputs: usize, bias: bool) -> FusedMatrix {
    let tensors = tensors.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect();
    FusedMatrix { tensors, inputs, bias }
}

/// Assert that the products of both are equal but for `noise`, a share of their root mean square.
fn assert_alike(gpu: &Gpu, list: &FusedMatrix, checkpoint: &Checkpoint, dtype: WeightType, noise: f32) {
    let rows = 18;
    let x: Vec<f32> =
        (0..rows * list.inputs).map(|i| (i as f32 * 0.37).sin() + (i as f32 * 0.011).cos()).collect();
    let ours = Matrix::load(gpu, list, checkpoint, dtype).unwrap();
    let theirs = loading::matrix(list, checkpoint, dtype).unwrap();
    let mut want = vec![0.0; rows * list.outputs()];
    theirs.forward(&x, rows, &mut want, &mut QuantizedRows::default()).unwrap();
    let (mut stream, mut y) = (gpu.stream(), gpu::Rows::default());
    let x = gpu::Rows::upload(gpu, &x, list.inputs).unwrap();
    ours.forward(&mut stream, &x, rows, &mut y, &mut Scratch::default()).unwrap();
    let got: Vec<f32> = stream.read_values(y.buffer().unwrap(), 0, want.len()).unwrap();
    let size = (want.iter().map(|v| v * v).sum::<f32>() / want.len() as f32).sqrt();
    assert!(size > 0.0);
    for (got, want) in got.iter().zip(&want) {
        assert!((got - want).abs() <= noise * size, "{dtype:?} {}: {got}, {want}, of {size}", list.inputs);
    }
}

#[test]
fn matrices_of_every_type_equal_those_of_the_cpu() {
    let Some(gpu) = gpu_or_skip() else { return };
    let checkpoint = Checkpoint::random();
    for dtype in WeightType::ALL {
        // Panels with rows of two tensors; several units of rows; a fallback.
        for (tensors, inputs) in [(vec![("a", 21), ("b", 500)], 512), (vec![("c", 40)], 96)] {
            // Inputs have one scale for 32 values here, and for 256 there.
            let noise = match dtype.fitting(inputs).block() {
                256 => 0.03,
                _ => 1e-4,
            };
            assert_alike(&gpu, &list(&tensors, inputs, true), &checkpoint, dtype, noise);
        }
    }
}

/// A checkpoint of the fixtures, and its language model's configuration.
fn fixture(name: &str) -> (Checkpoint, TextConfig) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name);
    let files = ModelFiles::open(&path, None).unwrap();
    (Checkpoint::of(&files).unwrap(), files.config().unwrap().text)
}

#[test]
fn matrices_and_tables_of_files_equal_those_of_the_cpu() {
    let Some(gpu) = gpu_or_skip() else { return };
    for name in [
        "gqa_tied",
        "gqa_untied_f16",
        "mha_tied_bf16",
        "gguf/gqa_tied/model-q4_0.gguf",
        "gguf/mix/model-q4_k_m.gguf",
    ] {
        let (checkpoint, c) = fixture(name);
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let layer = |part: &str| format!("model.layers.0.self_attn.{part}_proj");
        let (first, second, third) = (layer("q"), layer("k"), layer("v"));
        let qkv = list(&[(&first, q), (&second, kv), (&third, kv)], c.hidden, true);
        assert_alike(&gpu, &qkv, &checkpoint, WeightType::Q8_0, 0.03);
        assert_alike(&gpu, &qkv, &checkpoint, WeightType::F32, 0.03);

        let key = "model.embed_tokens.weight";
        let head = list(&[(if c.tied { "model.embed_tokens" } else { "lm_head" }, c.vocab)], c.hidden, false);
        let values = loading::table(key, [c.vocab, c.hidden], &checkpoint).unwrap();
        let theirs = table::Table::new(values, c.hidden);
        for dtype in [WeightType::F32, WeightType::Bf16, WeightType::Q8_0] {
            let (table, loaded) =
                Table::load_with_head(&gpu, key, &head, c.tied, &checkpoint, dtype).unwrap();
            let kept = checkpoint.half_kind(key, &[c.vocab, c.hidden]).unwrap();
            let kept = kept.map_or(Format::F32, Format::Half);
            let same = checkpoint.files().gguf().is_some() || Format::of(dtype, c.hidden) == kept;
            assert_eq!(table.bytes() == 0, c.tied && same, "{name} {dtype:?}");
            assert_eq!((loaded.outputs(), loaded.inputs(), table.vocab()), (c.vocab, c.hidden, c.vocab));
            let ids = [0, c.vocab as u32 - 1, 17, 16];
            let buffer = gpu.upload(bytemuck::cast_slice(&ids)).unwrap();
            let (mut stream, mut out, mut want) = (gpu.stream(), gpu::Rows::default(), Vec::new());
            assert!(ids.iter().all(|id| theirs.row(*id, &mut want)));
            table.gather(&mut stream, &buffer, ids.len(), &mut out).unwrap();
            let got: Vec<f32> = stream.read_values(out.buffer().unwrap(), 0, want.len()).unwrap();
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 1e-6 * want.abs().max(1e-3), "{name}: {got}, {want}");
            }
        }
    }
}

#[test]
fn missing_and_wrong_tensors_are_refused() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (checkpoint, c) = fixture("gqa_tied");
    let load = |list: &FusedMatrix| Matrix::load(&gpu, list, &checkpoint, WeightType::F32).map(drop);
    assert!(load(&list(&[("nothing", 3)], 64, false)).unwrap_err().to_string().contains("nothing"));
    assert!(load(&list(&[("model.embed_tokens", c.vocab + 1)], c.hidden, false)).is_err());
    assert!(load(&list(&[("model.embed_tokens", c.vocab)], c.hidden, false)).is_ok());
}
