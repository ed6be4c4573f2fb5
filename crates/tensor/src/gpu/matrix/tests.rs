//! Products against sums in f64, and of each row against itself among others.

use std::sync::Arc;

use super::super::{
    Gpu, Rows, Stream, elements, matrix::Matrix, products::Way, table::Table, testing::gpu_or_skip,
};
use crate::cpu::kernels::{Blocks, HalfKind, quantize_q8};
use crate::gpu::{
    matrix::{load::Loader, pack},
    products::input::Scratch,
};
use crate::{
    BlockKind, TensorType,
    kept::{Keep, KeptMatrix},
    quant::{BlockType, panels::PANEL, with_type},
    store::FileMap,
};

const FORMATS: [TensorType; TensorType::ALL.len()] = TensorType::ALL;
const F16: TensorType = TensorType::Half(HalfKind::F16);
const Q8_0: TensorType = TensorType::Blocks(BlockKind::Q8_0);
const Q5K: TensorType = TensorType::Blocks(BlockKind::Q5K);
const Q4_0: TensorType = TensorType::Blocks(BlockKind::Q4_0);

/// Repeatable values.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// In -1..1.
    fn value(&mut self) -> f32 {
        self.next() as f32 / (1u64 << 30) as f32 - 1.0
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value()).collect()
    }
}

/// Rows of weights as they are loaded, and their values.
struct Weights {
    format: TensorType,
    outputs: usize,
    inputs: usize,
    floats: Vec<f32>,
    bits: Vec<u16>,
    bytes: Vec<u8>,
}

impl Weights {
    fn new(format: TensorType, outputs: usize, inputs: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut made =
            Self { format, outputs, inputs, floats: Vec::new(), bits: Vec::new(), bytes: Vec::new() };
        match format {
            TensorType::F32 => made.floats = random.values(outputs * inputs),
            TensorType::Half(kind) => {
                made.bits = random.values(outputs * inputs).into_iter().map(|v| kind.narrow(v)).collect();
                made.floats = made.bits.iter().map(|&bits| kind.widen(bits)).collect();
            }
            TensorType::Blocks(kind) => {
                // Some scales are subnormal as 16-bit floats.
                made.bytes = kind.random(outputs * inputs / kind.values(), 1e-3, || random.value());
                let blocks = Blocks::new(kind, made.bytes.clone().into(), outputs * inputs).unwrap();
                blocks.widen(0..outputs * inputs, &mut made.floats);
            }
        }
        made
    }

    fn rows(&self) -> pack::StoredRows<'_> {
        let bytes = match self.format {
            TensorType::F32 => bytemuck::cast_slice(&self.floats),
            TensorType::Half(_) => bytemuck::cast_slice(&self.bits),
            TensorType::Blocks(_) => &self.bytes,
        };
        pack::StoredRows { kind: self.format, bytes }
    }
}

/// A matrix of weights below each other, stored `step` rows at a time.
fn load(gpu: &Gpu, parts: &[&Weights], bias: Option<&[f32]>, step: usize, limit: u64) -> Matrix {
    let inputs = parts[0].inputs;
    let formats: Vec<(TensorType, usize)> = parts.iter().map(|part| (part.format, part.outputs)).collect();
    let loader = Loader::new(gpu, &formats, inputs, limit).unwrap();
    let mut first = 0;
    for part in parts {
        for at in (0..part.outputs).step_by(step) {
            let end = (at + step).min(part.outputs);
            loader.store(first + at, part.rows().slice(inputs, at..end)).unwrap();
        }
        first += part.outputs;
    }
    loader.finish(bias).unwrap()
}

fn read(stream: &mut Stream, rows: &Rows) -> Vec<f32> {
    stream.read_values(rows.buffer().unwrap(), 0, rows.rows() * rows.width()).unwrap()
}

fn forward(matrix: &Matrix, stream: &mut Stream, x: &[f32], way: Way, scratch: &mut Scratch) -> Vec<f32> {
    let x = Rows::upload(stream.gpu(), x, matrix.inputs()).unwrap();
    let mut y = Rows::default();
    matrix.forward_by(way, stream, &x, 0..x.rows(), &mut y, scratch).unwrap();
    assert_eq!((y.rows(), y.width()), (x.rows(), matrix.outputs()));
    read(stream, &y)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// The values that a row of inputs has for a format.
fn seen(format: TensorType, x: &[f32]) -> Vec<f64> {
    if !format.takes_blocks() {
        return x.iter().map(|&v| v.into()).collect();
    }
    let (mut quants, mut scales) = (vec![0; x.len()], vec![0.0; x.len() / 32]);
    quantize_q8(x, &mut quants, &mut scales);
    let value = |(q, scale): (&i8, &f32)| f64::from(*q) * f64::from(*scale);
    quants.iter().zip(scales.iter().flat_map(|s| [s; 32])).map(value).collect()
}

/// Assert that `y` is the product of weights and rows.
fn assert_product(weights: &Weights, x: &[f32], bias: &[f32], y: &[f32], stride: usize, first: usize) {
    for (r, x) in x.chunks(weights.inputs).enumerate() {
        let x = seen(weights.format, x);
        for (o, w) in weights.floats.chunks(weights.inputs).enumerate() {
            let terms = || w.iter().zip(&x).map(|(w, x)| f64::from(*w) * x);
            let want = terms().sum::<f64>() + f64::from(bias[first + o]);
            let size = terms().map(f64::abs).sum::<f64>() + f64::from(bias[first + o].abs());
            let got = f64::from(y[r * stride + first + o]);
            let (format, inputs) = (weights.format.name(), weights.inputs);
            assert!(
                (got - want).abs() <= 2e-6 * size,
                "{format} {inputs}: row {r}, output {o}: {got}, {want}"
            );
        }
    }
}

fn widths(format: TensorType) -> &'static [usize] {
    match format {
        TensorType::F32 | TensorType::Half(_) => &[64, 40, 2080],
        TensorType::Blocks(kind) if kind.values() == 32 => &[64, 896, 2080],
        TensorType::Blocks(_) => &[256, 2304],
    }
}

#[test]
fn products_match_sums_in_f64_and_rows_do_not_depend_on_their_number_or_the_kernel() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let mut shaders = Vec::new();
    for format in FORMATS {
        // Types that share a shader differ in its constants only.
        let shader = match format {
            TensorType::Blocks(kind) => with_type!(kind, T => T::SHADER),
            _ => format.name(),
        };
        let all_rows: &[usize] = match shaders.contains(&shader) {
            true => &[2, 129],
            false => &[1, 2, 5, 6, 11, 16, 17, 33, 64, 129],
        };
        shaders.push(shader);
        for &inputs in widths(format) {
            // 37 outputs: neither whole panels nor a whole tile.
            let weights = Weights::new(format, 37, inputs, 7);
            let mut random = Random(11);
            let bias = random.values(37);
            let matrix = load(&gpu, &[&weights], Some(&bias), 64, u64::MAX);
            let x: Vec<f32> = random.values(129 * inputs).iter().map(|v| v * v * v * 3.0).collect();
            let all = forward(&matrix, &mut stream, &x, Way::Auto, &mut scratch);
            assert_product(&weights, &x[..17 * inputs], &bias, &all, 37, 0);
            for &rows in all_rows {
                for way in [Way::Few, Way::Tiles] {
                    let y = forward(&matrix, &mut stream, &x[..rows * inputs], way, &mut scratch);
                    let same = bits(&y) == bits(&all[..rows * 37]);
                    assert!(same, "{} {inputs}: {rows} rows, {way:?}", format.name());
                }
            }
            // A row in the middle, alone.
            let rows = Rows::upload(&gpu, &x, inputs).unwrap();
            let mut y = Rows::default();
            matrix.forward_range(&mut stream, &rows, 70..71, &mut y, &mut scratch).unwrap();
            assert_eq!(bits(&read(&mut stream, &y)), bits(&all[70 * 37..71 * 37]), "{}", format.name());
        }
    }
}

#[test]
fn stacked_and_split_matrices_equal_their_parts() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let inputs = 256;
    // Panels that belong to two parts, parts of several formats, and a part that is less than a panel.
    let parts: Vec<Weights> = [(Q8_0, 80), (Q8_0, 5), (Q4_0, 40), (TensorType::F32, 3), (Q5K, 33)]
        .into_iter()
        .enumerate()
        .map(|(seed, (format, outputs))| Weights::new(format, outputs, inputs, seed as u64))
        .collect();
    let parts: Vec<&Weights> = parts.iter().collect();
    let mut random = Random(5);
    let (bias, x) = (random.values(161), random.values(19 * inputs));
    let whole = load(&gpu, &parts, Some(&bias), usize::MAX >> 1, u64::MAX);
    assert_eq!(whole.pieces.iter().map(|piece| piece.outputs).collect::<Vec<_>>(), [85, 40, 3, 33]);
    assert!(whole.format().is_none());
    let want = forward(&whole, &mut stream, &x, Way::Auto, &mut scratch);
    let mut first = 0;
    for part in &parts {
        assert_product(part, &x, &bias, &want, 161, first);
        first += part.outputs;
    }
    // One panel of f32 or four of q8_0 in a piece, and rows in portions that cross panels.
    let limit = TensorType::F32.bytes_on_gpu(PANEL, inputs) as u64;
    for step in [1, 7, 16, 24] {
        let split = load(&gpu, &parts, Some(&bias), step, limit);
        assert!(split.pieces.len() > whole.pieces.len());
        let y = forward(&split, &mut stream, &x, Way::Auto, &mut scratch);
        assert_eq!(bits(&y), bits(&want), "{step} rows at a time");
    }
    assert!(Loader::new(&gpu, &[(TensorType::F32, 1)], inputs, 1000).is_err());
}

#[test]
fn gates_are_applied_in_every_form() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let f32 = TensorType::F32;
    for (format, width, inputs) in
        [(f32, 40, 40), (f32, 64, 64), (F16, 96, 64), (Q8_0, 96, 64), (Q5K, 256, 256)]
    {
        let down = Weights::new(format, 21, width, 3);
        let both = Weights::new(format, 2 * width, inputs, 2);
        let (both, down_matrix) =
            (load(&gpu, &[&both], None, 64, u64::MAX), load(&gpu, &[&down], None, 64, u64::MAX));
        let x = Random(9).values(18 * inputs);
        let y = forward(&both, &mut stream, &x, Way::Auto, &mut scratch);
        let want: Vec<f32> = y
            .chunks(2 * width)
            .flat_map(|row| row[..width].iter().zip(&row[width..]))
            .map(|(gate, value)| gate / (1.0 + (-gate).exp()) * value)
            .collect();
        let x = Rows::upload(&gpu, &x, inputs).unwrap();
        let (mut out, mut z) = (Rows::default(), Rows::default());
        both.forward_gated(&mut stream, &x, 18, &mut out, &mut scratch).unwrap();
        let gated = read(&mut stream, &out);
        for (got, want) in gated.iter().zip(&want) {
            assert!((got - want).abs() <= 1e-5 * want.abs() + 1e-30, "{got} {want}");
        }
        // With the product that follows: as of the gated values.
        down_matrix.forward(&mut stream, &out, 18, &mut z, &mut scratch).unwrap();
        let want = read(&mut stream, &z);
        assert_product(&down, &gated, &[0.0; 21], &want, 21, 0);
        let mut next = Rows::default();
        for rows in [1, 18] {
            both.forward_gated_for(&down_matrix, &mut stream, &x, rows, &mut next, &mut scratch).unwrap();
            assert_eq!(next.in_blocks().is_some(), down.format.takes_blocks());
            down_matrix.forward(&mut stream, &next, rows, &mut z, &mut scratch).unwrap();
            assert_eq!(bits(&read(&mut stream, &z)), bits(&want[..rows * 21]), "{}", down.format.name());
        }
        if next.in_blocks().is_some() {
            // The blocks belong to other rows now.
            both.forward(&mut stream, &x, 18, &mut z, &mut scratch).unwrap();
            assert!(down_matrix.forward(&mut stream, &next, 18, &mut z, &mut scratch).is_err());
        }
    }
}

#[test]
fn a_kept_copy_is_a_matrix_in_other_pieces() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch, dir) = (gpu.stream(), Scratch::default(), tempfile::tempdir().unwrap());
    for (format, inputs) in [(F16, 40), (Q8_0, 96), (Q5K, 256)] {
        let weights = Weights::new(format, 75, inputs, 3);
        let formats = [(format, 75)];
        let panel = format.bytes_on_gpu(PANEL, inputs) as u64;
        let mut loader = Loader::new(&gpu, &formats, inputs, 2 * panel).unwrap().copying();
        for at in (0..75).step_by(7) {
            loader.store(at, weights.rows().slice(inputs, at..(at + 7).min(75))).unwrap();
        }
        let copy = loader.copy().unwrap();
        let first = loader.finish(None).unwrap();
        let x = Random(5).values(3 * inputs);
        let expected = forward(&first, &mut stream, &x, Way::Auto, &mut scratch);
        // At the places that a file of kept weights has, which a device may use where they are, and at others, which are copied.
        for (start, alignment) in [(4096, 4096), (4, 4)] {
            let (mut bytes, mut arrays) = (vec![0; start], Vec::new());
            for array in copy.arrays() {
                bytes.resize(bytes.len().next_multiple_of(alignment), 0);
                arrays.push((bytes.len(), array.len()));
                bytes.extend(array);
            }
            bytes.resize(bytes.len().next_multiple_of(alignment) + 2, 0);
            let path = dir.path().join(format!("{} {start}", copy.format()));
            std::fs::write(&path, bytes).unwrap();
            let map = FileMap::open(&path).unwrap();
            let kept = KeptMatrix { format: copy.format(), shape: [75, inputs], map, arrays };
            let load = |kept: &KeptMatrix, format, outputs, limit| {
                Loader::kept(&gpu, kept, format, [outputs, inputs], limit).unwrap()
            };
            // In one piece, and in pieces that do not begin at pages.
            for limit in [u64::MAX, 2 * panel] {
                let second = load(&kept, format, 75, limit).unwrap().finish(None).unwrap();
                let found = forward(&second, &mut stream, &x, Way::Auto, &mut scratch);
                assert_eq!(bits(&expected), bits(&found), "{} {start} {limit}", format.name());
            }
            // Of another size or format, or damaged.
            assert!(load(&kept, format, 64, u64::MAX).is_none());
            assert!(load(&kept, TensorType::F32, 75, u64::MAX).is_none());
            let arrays = kept.arrays.iter().map(|(at, bytes)| (at + (1 << 20), *bytes)).collect();
            assert!(load(&KeptMatrix { arrays, ..kept }, format, 75, u64::MAX).is_none());
        }
    }
}

#[test]
fn a_device_that_shares_memory_reads_a_file_where_it_is() {
    let Some(gpu) = gpu_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bytes");
    let bytes: Vec<u8> = (0..5 * 4096u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let map = FileMap::open(&path).unwrap();
    let mut stream = gpu.stream();
    for place in [0..4096, 4096..4096 + 12_000, 256..512, 12..20] {
        let buffer = gpu.file(&map, place.clone()).unwrap();
        // A place that is not aligned as the device demands is copied.
        let whole = gpu.importer().is_some() && place.start.is_multiple_of(256);
        assert!(!whole || Arc::strong_count(&map) == 2, "{place:?}");
        assert_eq!(stream.read(&buffer, 0, place.len() as u64).unwrap(), bytes[place.clone()], "{place:?}");
        // It cannot be written.
        assert!(!whole || gpu.write(&buffer, 0, &[0; 4]).is_err());
        drop(buffer);
        stream.wait().unwrap();
    }
    assert!(gpu.file(&map, bytes.len() - 4..bytes.len() + 4).is_err());
}

#[test]
fn norms_before_a_product_equal_norms_and_products() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    for (format, inputs) in [(TensorType::F32, 96), (Q8_0, 64), (Q8_0, 1056), (Q5K, 2304)] {
        let weights = Weights::new(format, 20, inputs, 6);
        let matrix = load(&gpu, &[&weights], None, 64, u64::MAX);
        let mut random = Random(8);
        let (values, addend) = (random.values(19 * inputs), random.values(19 * inputs));
        let weight = gpu.upload(bytemuck::cast_slice(&random.values(inputs))).unwrap();
        let add = Rows::upload(&gpu, &addend, inputs).unwrap();
        for add in [None, Some(&add)] {
            let mut made = Vec::new();
            for fused in [false, true] {
                let mut x = Rows::upload(&gpu, &values, inputs).unwrap();
                let (mut normed, mut y) = (Rows::default(), Rows::default());
                match fused {
                    true => matrix
                        .norm_before(&mut stream, &mut x, add, &weight, 1e-6, &mut normed, &mut scratch)
                        .unwrap(),
                    false => {
                        elements::norm(&mut stream, &mut x, add, (&weight, None), 1e-6, &mut normed).unwrap()
                    }
                }
                assert_eq!(normed.in_blocks().is_some(), fused && weights.format.takes_blocks());
                matrix.forward(&mut stream, &normed, 19, &mut y, &mut scratch).unwrap();
                made.push((bits(&read(&mut stream, &x)), bits(&read(&mut stream, &y))));
            }
            assert!(made[0] == made[1], "{} {inputs} {}", weights.format.name(), add.is_some());
        }
    }
}

#[test]
fn tables_give_the_widened_rows_of_ids() {
    let Some(gpu) = gpu_or_skip() else { return };
    let mut stream = gpu.stream();
    for format in FORMATS {
        let inputs = if format.takes_blocks() { 512 } else { 72 };
        let weights = Weights::new(format, 75, inputs, 4);
        let limit = 3 * TensorType::Half(HalfKind::F16).bytes_on_gpu(PANEL, inputs) as u64;
        let table = Table::of(Arc::new(load(&gpu, &[&weights], None, 30, limit)));
        assert_eq!((table.vocab(), table.width()), (75, inputs));
        let ids = [74u32, 0, 16, 15, 33, 74];
        let buffer = gpu.upload(bytemuck::cast_slice(&ids)).unwrap();
        let mut out = Rows::default();
        table.gather(&mut stream, &buffer, ids.len(), &mut out).unwrap();
        let got = read(&mut stream, &out);
        for (got, id) in got.chunks(inputs).zip(ids) {
            let want = &weights.floats[id as usize * inputs..][..inputs];
            for (got, want) in got.iter().zip(want) {
                // A minimum may be subtracted with or without a rounding before.
                let exact = got == want || (got - want).abs() <= 1e-6 * want.abs().max(1e-3);
                assert!(exact, "{}: {got} {want}", format.name());
            }
        }
    }
}

#[test]
fn rows_of_another_width_or_number_are_refused() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let matrix = load(&gpu, &[&Weights::new(TensorType::F32, 3, 64, 1)], None, 64, u64::MAX);
    let x = Rows::upload(&gpu, &[1.0; 128], 64).unwrap();
    let mut y = Rows::default();
    assert!(matrix.forward(&mut stream, &x, 3, &mut y, &mut scratch).is_err());
    assert!(matrix.forward(&mut stream, &y, 1, &mut Rows::default(), &mut scratch).is_err());
    matrix.forward(&mut stream, &x, 0, &mut y, &mut scratch).unwrap();
    let loader = Loader::new(&gpu, &[(TensorType::F32, 3)], 64, u64::MAX).unwrap();
    assert!(loader.store(2, pack::StoredRows::floats(&[0.0; 128])).is_err());
    let loader = Loader::new(&gpu, &[(TensorType::Half(HalfKind::F16), 1)], 2, u64::MAX).unwrap();
    assert!(loader.store(0, pack::StoredRows::floats(&[1.0, 7e4])).is_err());
}
