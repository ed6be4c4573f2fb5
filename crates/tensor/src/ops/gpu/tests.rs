//! Parts of rows give the bits of all rows.

use super::*;
use crate::{
    Importance, gpu::testing::gpu_or_skip, ops::TowerOps as _, tower::Activation, weights::tests::Random,
};

const ROWS: usize = 70;
const HIDDEN: usize = 40;
const MIDDLE: usize = 72;

struct Layer {
    norm: Norm<Buffer>,
    first: Arc<Matrix>,
    second: Arc<Matrix>,
}

fn list(name: &str, outputs: usize, inputs: usize) -> FusedMatrix {
    FusedMatrix { tensors: vec![(name.into(), outputs)], inputs, bias: true, importance: Importance::Usual }
}

/// `x` after a feed-forward layer, and then its projection of pairs of rows, computed in parts of up to `most` rows.
fn run(ops: &GpuOps, layer: &Layer, values: &[f32], most: usize) -> [Vec<f32>; 2] {
    let mut work = GpuWork::default();
    let mut x = Rows::upload(&ops.gpu, values, HIDDEN).unwrap();
    let [mut input, mut middle, mut active, mut sums, mut projected] = [(); 5].map(|()| Rows::default());
    for part in RowPart::each(ROWS, most) {
        let (work, own) = (&mut work, RowPart::all(part.rows));
        ops.part(work, &x, part, Out::before(&layer.first, &mut input)).unwrap();
        ops.product(work, &layer.first, &input, own, &mut middle).unwrap();
        let out = Out::before(&layer.second, &mut active);
        ops.activate(work, Activation::GeluErf, &mut middle, out).unwrap();
        ops.product(work, &layer.second, &active, own, &mut sums).unwrap();
        let residual = Residual { x: &mut x, part, add: Some(&sums) };
        ops.norm(work, residual, &layer.norm, Out::before(&layer.first, &mut input)).unwrap();
        ops.product(work, &layer.first, &input, part, &mut projected).unwrap();
        ops.add(work, &mut x, part, &sums).unwrap();
    }
    ops.catch_up(&mut work).unwrap();
    let read = |rows: &Rows| {
        let mut stream = ops.gpu.stream();
        stream.read_values(rows.buffer().unwrap(), 0, rows.rows() * rows.width()).unwrap()
    };
    [read(&x), read(&projected)]
}

#[test]
fn parts_give_the_same_bits_as_all_rows() {
    let Some(gpu) = gpu_or_skip() else { return };
    let values: Vec<f32> = (0..ROWS * HIDDEN).map(|i| (i as f32 * 0.37).sin()).collect();
    let checkpoint = Random::default();
    for dtype in [WeightType::F32, WeightType::Bf16, WeightType::Q8_0] {
        let ops = GpuOps::new(&gpu, dtype, KvType::F32);
        let matrix = |name: &str, outputs, inputs, pad| {
            ops.tower_matrix(&list(name, outputs, inputs), pad, &checkpoint).unwrap()
        };
        let layer = Layer {
            norm: Norm {
                width: HIDDEN,
                weight: ops.vector("norm.weight", checkpoint.f32("norm.weight", &[HIDDEN]).unwrap()).unwrap(),
                bias: Some(ops.vector("norm.bias", checkpoint.f32("norm.bias", &[HIDDEN]).unwrap()).unwrap()),
                eps: 1e-6,
                joined: 1,
            },
            first: matrix("first", MIDDLE, HIDDEN, true),
            second: matrix("second", HIDDEN, MIDDLE, false),
        };
        assert_eq!((layer.first.outputs(), layer.second.inputs()), (96, 96), "whole blocks");
        let whole = run(&ops, &layer, &values, ROWS);
        assert!(whole.iter().flatten().all(|value| value.is_finite()));
        assert_ne!(whole[0], values);
        for most in [1, 16, 64] {
            let parts = run(&ops, &layer, &values, most);
            assert!(parts == whole, "{} in parts of {most}", dtype.name());
        }
    }
}
