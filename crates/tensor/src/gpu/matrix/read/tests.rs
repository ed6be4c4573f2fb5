//! Matrices of checkpoints on a GPU against the same on the CPU.

use super::*;
use crate::{
    BlockKind, Importance,
    cpu::{kernels::HalfKind, linear::QuantizedRows, table},
    gpu::{self, Scratch, testing::gpu_or_skip},
    ops::cpu::loading,
    weights::tests::Random,
};

fn list(tensors: &[(&str, usize)], inputs: usize, bias: bool) -> FusedMatrix {
    let tensors = tensors.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect();
    FusedMatrix { tensors, inputs, bias, importance: Importance::Usual }
}

/// Assert that the products of both are equal within `noise`, a share of their root mean square.
fn assert_alike(gpu: &Gpu, list: &FusedMatrix, checkpoint: &dyn Weights, dtype: WeightType, noise: f32) {
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
    let checkpoint = Random::default();
    for dtype in WeightType::ALL {
        // Panels with rows of two tensors; several units of rows; a fallback.
        for (tensors, inputs) in [(vec![("a", 21), ("b", 500)], 512), (vec![("c", 40)], 96)] {
            // Inputs have one scale for 32 values here, and for 256 there, or their outliers are apart.
            let noise = match dtype.fitting(inputs) {
                kind if kind.block() == 256 => 0.03,
                TensorType::Blocks(BlockKind::Q8_0) if inputs >= 512 => 0.03,
                _ => 1e-4,
            };
            assert_alike(&gpu, &list(&tensors, inputs, true), &checkpoint, dtype, noise);
        }
    }
}

#[test]
fn matrices_and_tables_of_every_source_equal_those_of_the_cpu() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (vocab, hidden) = (300, 64);
    let stored = |dtype| Random { stored: Some(dtype), ..Random::default() };
    let half = |kind| Random { half: Some(kind), ..Random::default() };
    for (source, tied) in [
        (Random::default(), true),
        (half(HalfKind::F16), false),
        (half(HalfKind::Bf16), true),
        (stored(WeightType::Q4_0), true),
        (stored(WeightType::F16), false),
    ] {
        let qkv = list(&[("q", 64), ("k", 32), ("v", 32)], hidden, true);
        assert_alike(&gpu, &qkv, &source, WeightType::Q8_0, 0.03);
        assert_alike(&gpu, &qkv, &source, WeightType::F32, 0.03);

        let key = "model.embed_tokens.weight";
        let head = list(&[(if tied { "model.embed_tokens" } else { "lm_head" }, vocab)], hidden, false);
        let values = loading::table(key, [vocab, hidden], &source).unwrap();
        let theirs = table::HostTable::new(values, hidden);
        for dtype in [WeightType::F32, WeightType::Bf16, WeightType::Q8_0] {
            let (table, loaded) = Table::load_with_head(&gpu, key, &head, tied, &source, dtype).unwrap();
            let kept = source.half_kind(key, &[vocab, hidden]).unwrap();
            let kept = kept.map_or(TensorType::F32, TensorType::Half);
            let same = source.keeps_types() || dtype.fitting(hidden) == kept;
            assert_eq!(table.bytes() == 0, tied && same, "{source:?} {dtype:?}");
            assert_eq!((loaded.outputs(), loaded.inputs(), table.vocab()), (vocab, hidden, vocab));
            let ids = [0, vocab as u32 - 1, 17, 16];
            let buffer = gpu.upload(bytemuck::cast_slice(&ids)).unwrap();
            let (mut stream, mut out, mut want) = (gpu.stream(), gpu::Rows::default(), Vec::new());
            assert!(ids.iter().all(|id| theirs.row(*id, &mut want)));
            table.gather(&mut stream, &buffer, ids.len(), &mut out).unwrap();
            let got: Vec<f32> = stream.read_values(out.buffer().unwrap(), 0, want.len()).unwrap();
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 1e-6 * want.abs().max(1e-3), "{source:?}: {got}, {want}");
            }
        }
    }
}

#[test]
fn missing_tensors_are_refused() {
    let Some(gpu) = gpu_or_skip() else { return };
    let load = |name| Matrix::load(&gpu, &list(&[(name, 3)], 64, false), &Random::default(), WeightType::F32);
    let error = load("missing").map(drop).unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
    assert!(load("there").is_ok());
}
