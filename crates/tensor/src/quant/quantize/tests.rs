use std::path::Path;

use safetensors::SafeTensors;

use super::*;
use crate::{
    BlockKind, TensorType, WeightType,
    cpu::kernels::{Blocks, quantize_blocks},
};

/// Values of a set, as in the script that made ggml's errors.
const COUNT: usize = 1 << 14;

/// xorshift64, and what is made of it without functions that differ between libraries.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f64 / (1 << 24) as f64
    }

    fn gaussian(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

fn root(path: &str) -> std::path::PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// The sets of `tests/parity/make_ggml_errors.py`.
fn sets() -> Vec<(&'static str, Vec<f32>)> {
    let mut r = Random(0x9E37_79B9_7F4A_7C15);
    let mut set = |value: &mut dyn FnMut(&mut Random, usize) -> f64| -> Vec<f32> {
        (0..COUNT).map(|i| value(&mut r, i) as f32).collect()
    };
    let gaussian = set(&mut |r, _| 0.02 * r.gaussian());
    let laplace = set(&mut |r, _| {
        let [a, b, c, d] = [(); 4].map(|()| r.gaussian());
        0.02 * (a * b + c * d)
    });
    let heavy = set(&mut |r, _| {
        let [g, a, b, c] = [(); 4].map(|()| r.gaussian());
        0.02 * g / ((a * a + b * b + c * c) / 3.0).sqrt()
    });
    let outliers = set(&mut |r, i| 0.02 * r.gaussian() * if i % 97 == 0 { 20.0 } else { 1.0 });
    let shifted = set(&mut |r, _| 0.05 + 0.02 * r.gaussian());
    let (mut scale, mut offset) = (0.0, 0.0);
    let grid = set(&mut |r, i| {
        if i % 32 == 0 {
            scale = 0.001 + 0.004 * r.uniform();
            offset = -scale * (6.0 + 3.0 * r.uniform());
        }
        scale * (8.0 + 3.0 * r.gaussian()).floor().clamp(0.0, 15.0) + offset
    });
    let file = std::fs::read(root("assets/demo/target/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let bits = file.tensor("model.embed_tokens.weight").unwrap().data().as_chunks().0;
    let trained = bits.iter().map(|bits| half::bf16::from_le_bytes(*bits).to_f32()).collect();
    vec![
        ("gaussian", gaussian),
        ("laplace", laplace),
        ("heavy", heavy),
        ("outliers", outliers),
        ("shifted", shifted),
        ("grid", grid),
        ("trained", trained),
    ]
}

/// The types that values can be quantized to.
fn kinds() -> impl Iterator<Item = BlockKind> {
    BlockKind::ALL.into_iter().filter(|kind| kind.quantizer().is_some())
}

/// What values become.
fn rounded(kind: BlockKind, values: &[f32]) -> Vec<f32> {
    let mut out = Vec::new();
    Blocks::quantized(kind, values).widen(0..values.len(), &mut out);
    out
}

/// The sum of squared differences over the sum of squares.
fn error(values: &[f32], widened: &[f32]) -> f64 {
    let square = |value: f64| value * value;
    let left = values.iter().zip(widened).map(|(&a, &b)| square(f64::from(a) - f64::from(b)));
    left.sum::<f64>() / values.iter().map(|&a| square(f64::from(a))).sum::<f64>()
}

#[test]
fn errors_are_at_most_those_of_ggml() {
    let ggml = std::fs::read_to_string(root("tests/parity/fixtures/ggml_errors.csv")).unwrap();
    let sets = sets();
    for kind in kinds() {
        for (set, values) in &sets {
            let start = format!("{},{set},", kind.name());
            let theirs = ggml.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
            let theirs = theirs.split(',').map(|error| error.parse().unwrap()).fold(f64::INFINITY, f64::min);
            let ours = error(values, &rounded(kind, values));
            // Both are rounded differently where a value is between two integers.
            assert!(ours <= theirs * (1.0 + 1e-5), "{} on {set}: {ours:.4e}, ggml {theirs:.4e}", kind.name());
        }
    }
}

#[test]
fn a_type_that_takes_more_bytes_never_loses_more() {
    let mut r = Random(7);
    for inputs in [576, 896, 960, 2048] {
        let values: Vec<f32> = (0..64 * inputs).map(|_| (0.02 * r.gaussian()) as f32).collect();
        let mut all: Vec<(usize, &str, f64)> = WeightType::ALL
            .into_iter()
            .map(|dtype| {
                let held = dtype.fitting(inputs);
                let loss = match held {
                    TensorType::F32 => 0.0,
                    TensorType::Half(half) => {
                        let halves: Vec<f32> = values.iter().map(|&v| half.widen(half.narrow(v))).collect();
                        error(&values, &halves)
                    }
                    TensorType::Blocks(kind) => error(&values, &rounded(kind, &values)),
                };
                (held.bytes(values.len()).unwrap(), dtype.name(), loss)
            })
            .collect();
        all.sort_by_key(|&(bytes, ..)| std::cmp::Reverse(bytes));
        for larger in &all {
            for smaller in all.iter().filter(|smaller| smaller.0 < larger.0) {
                assert!(larger.2 <= smaller.2, "rows of {inputs}: {larger:?} {smaller:?}");
            }
        }
    }
}

#[test]
fn blocks_depend_on_their_own_values_alone() {
    let mut r = Random(3);
    let values: Vec<f32> = (0..256 * 11).map(|_| (0.02 * r.gaussian()) as f32).collect();
    for kind in kinds() {
        let blocks = values.chunks_exact(kind.values()).map(|values| Blocks::quantized(kind, values));
        let apart: Vec<u8> = blocks.flat_map(|block| block.as_bytes().to_vec()).collect();
        assert!(Blocks::quantized(kind, &values).as_bytes() == apart, "{}", kind.name());
    }
}

#[test]
fn values_too_large_for_a_scale_are_refused() {
    for kind in kinds() {
        let mut values = vec![0.0; 256];
        values[9] = -1e5;
        let mut bytes = vec![0; 256 / kind.values() * kind.bytes()];
        assert!(quantize_blocks(kind, &values, &mut bytes).unwrap_err().contains("-100000 is too large"));
    }
}

#[test]
fn odd_values_have_finite_blocks() {
    let mut r = Random(5);
    let single = |value: f32| {
        let mut values = vec![0f32; 256];
        values[77] = value;
        values
    };
    let cases = [
        ("zeros", vec![0.0; 256], 0.0),
        ("one value", single(3.0), 2e-2),
        ("one negative value", single(-3.0), 2e-2),
        ("a constant", vec![0.7; 256], 1e-3),
        ("a negative constant", vec![-0.7; 256], 1e-3),
        ("the largest", vec![LARGEST; 256], 1e-3),
        ("both ends", (0..256).map(|i| if i % 2 == 0 { LARGEST } else { -LARGEST }).collect(), 2e-1),
        // Below the smallest scale, nothing can be kept.
        ("tiny", (0..256).map(|_| (1e-12 * r.gaussian()) as f32).collect(), 1.0),
        ("denormal", vec![f32::MIN_POSITIVE / 8.0; 256], 1.0),
        ("far apart", (0..256).map(|i| 10f32.powi(i % 9 - 6)).collect(), 2e-2),
    ];
    for kind in kinds() {
        for (case, values, most) in &cases {
            let found = rounded(kind, values);
            let left = error(values, &found);
            let left = if left.is_nan() && values.iter().all(|v| *v == 0.0) { 0.0 } else { left };
            assert!(found.iter().all(|v| v.is_finite()), "{} of {case}", kind.name());
            assert!(left <= *most, "{} of {case}: {left:.3e}", kind.name());
        }
    }
}
