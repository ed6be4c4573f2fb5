//! Layers of experts against each expert's matrices alone, and rows against themselves among others.

use super::*;
use crate::{
    BlockKind, TensorType,
    cpu::kernels::HalfKind,
    experts::Routing,
    gpu::{
        Gpu,
        matrix::{load::Loader, pack},
        testing::{gpu_or_skip, noise},
    },
};

const HIDDEN: usize = 256;
const WIDTH: usize = 256;
const EXPERTS: usize = 6;
const CHOSEN: usize = 2;

/// Rows of weights, one after the other.
fn matrix(gpu: &Gpu, format: TensorType, parts: &[&[f32]], inputs: usize, limit: u64) -> Arc<Matrix> {
    let outputs = parts.iter().map(|part| part.len()).sum::<usize>() / inputs;
    let loader = Loader::new(gpu, &[(format, outputs)], inputs, limit).unwrap();
    let mut first = 0;
    for part in parts {
        loader.store(first, pack::StoredRows::floats(part)).unwrap();
        first += part.len() / inputs;
    }
    Arc::new(loader.finish(None).unwrap())
}

/// The matrices of each expert, the shared one last.
fn weights() -> Vec<[Vec<f32>; 2]> {
    let scaled = |seed, count| noise(seed, count).into_iter().map(|v| v * 0.1).collect();
    let expert = |at| [scaled(2 * at, 2 * WIDTH * HIDDEN), scaled(2 * at + 1, HIDDEN * WIDTH)];
    (0..=EXPERTS).map(expert).collect()
}

fn layer(gpu: &Gpu, format: TensorType, all: &[[Vec<f32>; 2]], limit: u64) -> Experts<Arc<Matrix>> {
    let stacked = |at: usize, inputs| {
        let parts: Vec<&[f32]> = all[..EXPERTS].iter().map(|pair| &pair[at][..]).collect();
        matrix(gpu, format, &parts, inputs, limit)
    };
    let alone = |at: usize, inputs| matrix(gpu, format, &[&all[EXPERTS][at]], inputs, u64::MAX);
    Experts {
        routing: Routing { experts: EXPERTS, chosen: CHOSEN },
        router: matrix(gpu, TensorType::F32, &[&noise(99, (EXPERTS + 1) * HIDDEN)], HIDDEN, u64::MAX),
        routed: vec![[stacked(0, HIDDEN), stacked(1, WIDTH)]],
        shared: Some([alone(0, HIDDEN), alone(1, WIDTH)]),
    }
}

fn mixed(gpu: &Gpu, layer: &Experts<Arc<Matrix>>, values: &[f32]) -> Vec<f32> {
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let x = Rows::upload(gpu, values, HIDDEN).unwrap();
    let (mut work, mut out) = (ExpertRows::default(), Rows::default());
    mix(layer, &mut stream, &x, &mut scratch, &mut work, &mut out).unwrap();
    stream.read_values(out.buffer().unwrap(), 0, values.len()).unwrap()
}

/// Rows through one expert.
fn through([gate_up, down]: &[Arc<Matrix>; 2], gpu: &Gpu, values: &[f32]) -> Vec<f32> {
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let x = Rows::upload(gpu, values, HIDDEN).unwrap();
    let (mut gated, mut y) = (Rows::default(), Rows::default());
    gate_up.forward_gated_for(down, &mut stream, &x, x.rows(), &mut gated, &mut scratch).unwrap();
    down.forward(&mut stream, &gated, x.rows(), &mut y, &mut scratch).unwrap();
    stream.read_values(y.buffer().unwrap(), 0, values.len()).unwrap()
}

#[test]
fn a_row_is_the_sum_of_its_experts_among_any_other_rows() {
    let Some(gpu) = gpu_or_skip() else { return };
    let all = weights();
    let x = noise(7, 200 * HIDDEN);
    for format in [
        TensorType::F32,
        TensorType::Half(HalfKind::Bf16),
        TensorType::Blocks(BlockKind::Q8_0),
        TensorType::Blocks(BlockKind::Q5K),
    ] {
        let layer = layer(&gpu, format, &all, u64::MAX);
        assert_eq!(problem(&layer), None);
        let together = mixed(&gpu, &layer, &x);
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        for rows in [1, 3, 20] {
            for first in [0, 90, 180] {
                let range = first * HIDDEN..(first + rows) * HIDDEN;
                let few = mixed(&gpu, &layer, &x[range.clone()]);
                assert!(bits(&few) == bits(&together[range]), "{} {rows}", format.name());
            }
        }
        let (mut stream, mut scratch, mut logits) = (gpu.stream(), Scratch::default(), Rows::default());
        let rows = Rows::upload(&gpu, &x, HIDDEN).unwrap();
        layer.router.forward(&mut stream, &rows, 200, &mut logits, &mut scratch).unwrap();
        let logits: Vec<f32> = stream.read_values(logits.buffer().unwrap(), 0, 200 * (EXPERTS + 1)).unwrap();
        let alone: Vec<Vec<f32>> = all
            .iter()
            .map(|[gate_up, down]| {
                let pair = [(gate_up, HIDDEN), (down, WIDTH)]
                    .map(|(values, inputs)| matrix(&gpu, format, &[values], inputs, u64::MAX));
                through(&pair, &gpu, &x)
            })
            .collect();
        let mut taken = [0; EXPERTS];
        for (row, logits) in logits.chunks_exact(EXPERTS + 1).enumerate() {
            let chosen = layer.routing.choose(logits);
            chosen[..CHOSEN].iter().for_each(|(expert, _)| taken[*expert] += 1);
            for i in row * HIDDEN..(row + 1) * HIDDEN {
                let want =
                    chosen.iter().fold(0.0, |sum, (expert, weight)| weight.mul_add(alone[*expert][i], sum));
                let size: f32 =
                    chosen.iter().map(|(expert, weight)| (weight * alone[*expert][i]).abs()).sum();
                let got = together[i];
                assert!(
                    (got - want).abs() <= 1e-5 * size + 1e-7,
                    "{} row {row}: {got} {want}",
                    format.name()
                );
            }
        }
        assert!(taken.iter().all(|rows| *rows > 10), "{taken:?}");
    }
}

#[test]
fn experts_in_several_pieces_give_the_same_bits() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (all, x) = (weights(), noise(8, 70 * HIDDEN));
    let format = TensorType::Blocks(BlockKind::Q8_0);
    // Pieces that end within an expert, and within a tile of panels.
    let limit = 21 * format.bytes_on_gpu(16, HIDDEN) as u64;
    let [whole, cut] = [u64::MAX, limit].map(|limit| layer(&gpu, format, &all, limit));
    assert!(cut.routed[0][0].pieces.len() > EXPERTS);
    for rows in [1, 10, 70] {
        assert_eq!(
            mixed(&gpu, &whole, &x[..rows * HIDDEN]),
            mixed(&gpu, &cut, &x[..rows * HIDDEN]),
            "{rows}"
        );
    }
}

#[test]
fn layers_that_the_kernels_do_not_compute_have_a_problem() {
    let Some(gpu) = gpu_or_skip() else { return };
    let all = weights();
    let mut odd = layer(&gpu, TensorType::F32, &all, u64::MAX);
    odd.routing.experts = 5;
    assert!(problem(&odd).unwrap().contains("multiples of 16"));
    odd.routing.experts = 1024;
    assert!(problem(&odd).unwrap().contains("up to 512"));
    odd.routed.clear();
    assert!(problem(&odd).unwrap().contains("0 pairs of matrices"));
    let router =
        matrix(&gpu, TensorType::Blocks(BlockKind::Q8_0), &[&noise(1, 7 * HIDDEN)], HIDDEN, u64::MAX);
    let quantized = Experts { router, ..layer(&gpu, TensorType::F32, &all, u64::MAX) };
    assert!(problem(&quantized).unwrap().contains("a quantized router"));
}
