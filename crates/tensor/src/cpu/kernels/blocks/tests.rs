use candle_core::{
    Device,
    quantized::{QStorage, QTensor},
};

use super::*;
use crate::{cpu::kernels::tests::wave, quant::BlockType};

const KINDS: [BlockKind; BlockKind::ALL.len()] = BlockKind::ALL;

/// Repeatable values in -1..1.
fn pseudo(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f32 / (1u64 << 30) as f32 - 1.0
    }
}

/// A matrix of random blocks.
fn random(kind: BlockKind, values: usize, seed: u64) -> Blocks {
    let bytes = kind.random(values / kind.values(), 1e-2, pseudo(seed));
    Blocks::new(kind, bytes.into(), values).unwrap()
}

#[test]
fn blocks_are_widened_as_candle_does() {
    let values = wave(1024, 0.37);
    for kind in KINDS {
        let Some(theirs) = crate::candle::linear::block_type(kind) else { continue };
        let blocks = Blocks::quantized(kind, &values);
        let mut out = Vec::new();
        blocks.widen(0..1024, &mut out);
        let storage = QStorage::from_data(blocks.as_bytes().into(), &Device::Cpu, theirs).unwrap();
        let quantized = QTensor::new(storage, values.len()).unwrap();
        let want: Vec<f32> = quantized.dequantize(&Device::Cpu).unwrap().to_vec1().unwrap();
        assert_eq!(out, want, "{kind:?}");
        let mut part = Vec::new();
        blocks.widen(256..768, &mut part);
        assert_eq!(part, want[256..768]);
        assert_eq!((blocks.values(), blocks.bytes()), (1024, 1024 / kind.values() * kind.bytes()));
    }
}

#[test]
fn products_are_close_to_those_of_the_widened_matrix() {
    let (inputs, outputs, rows) = (512, 37, 5);
    let x = wave(rows * inputs, 0.11);
    let (mut q8, mut k) = (Rows8::default(), RowsK::default());
    q8.quantize(&x);
    k.quantize(&x);
    for kind in KINDS {
        let blocks = random(kind, outputs * inputs, 3);
        let mut wide = Vec::new();
        blocks.widen(0..outputs * inputs, &mut wide);
        let mut y = vec![0f32; rows * outputs];
        let product = Product::whole(inputs, outputs, rows);
        let x8 = BlockRows { q8: &q8, k: &k };
        // SAFETY: one call at a time.
        unsafe { product_blocks(&product, &blocks, x8, &DisjointSliceMut::new(&mut y)) };
        for (at, y) in y.iter().enumerate() {
            let (r, o) = (at / outputs, at % outputs);
            let products = || (0..inputs).map(|i| wide[o * inputs + i] * x[r * inputs + i]);
            let (exact, size) = (products().sum::<f32>(), products().map(|p| p * p).sum::<f32>().sqrt());
            // The inputs are rounded to 8 bits.
            assert!((y - exact).abs() < 0.03 * size, "{kind:?}: {y} {exact} {size}");
        }
    }
}

#[test]
fn matrices_of_another_size_are_refused() {
    for kind in KINDS {
        let bytes = |n: usize| SharedValues::from(vec![0u8; n]);
        assert!(Blocks::new(kind, bytes(3 * kind.bytes()), 3 * kind.values()).is_some());
        assert!(Blocks::new(kind, bytes(3 * kind.bytes() - 1), 3 * kind.values()).is_none());
        assert!(Blocks::new(kind, bytes(2 * kind.bytes()), 2 * kind.values() + 1).is_none());
    }
}

#[test]
#[should_panic(expected = "not whole blocks")]
fn a_part_of_a_block_panics() {
    Blocks::quantized(BlockKind::Q4K, &[1.0; 100]);
}

#[test]
fn panels_hold_the_bytes_of_their_outputs() {
    let (outputs, inputs) = (18, 512);
    for kind in KINDS.into_iter().filter(|kind| BlockPanels::has(*kind)) {
        let blocks = random(kind, outputs * inputs, 3);
        let panels = BlockPanels::new(&blocks, outputs, inputs);
        assert!(panels.is(outputs, inputs) && !panels.is(inputs, outputs) && panels.kind() == kind);
        assert_eq!(panels.bytes(), blocks.bytes());
        // The last panel repeats the last output.
        let count = |bytes: &[u8]| {
            bytes.iter().fold([0; 256], |mut all, byte| {
                all[usize::from(*byte)] += 1;
                all
            })
        };
        let row = blocks.bytes() / outputs;
        let padded = [blocks.as_bytes(), &blocks.as_bytes()[17 * row..].repeat(14)].concat();
        assert_eq!(count(panels.as_bytes()), count(&padded), "{kind:?}");
    }
}

type Implementation = Box<dyn Fn(&Product, &Blocks, BlockRows<'_>, &DisjointSliceMut<'_>)>;

/// The one in use, and all others for this processor.
fn implementations() -> Vec<Implementation> {
    // SAFETY: one call at a time.
    let mut all: Vec<Implementation> = vec![Box::new(|p, w, x, y| unsafe { product_blocks(p, w, x, y) })];
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    for int8 in Int8::all() {
        // SAFETY: as above, and the instructions exist.
        all.push(Box::new(move |p, w, x, y| unsafe {
            with_type!(w.kind, T => int8::product_blocks::<T>(int8, p, &w.bytes, x, y));
        }));
    }
    // SAFETY: as above.
    all.push(Box::new(|p, w, x, y| unsafe {
        if BlockPanels::has(w.kind) {
            product_block_panels(p, &BlockPanels::new(w, p.outputs, p.inputs), x, y);
        } else {
            product_blocks(p, w, x, y);
        }
    }));
    all
}

#[test]
fn all_implementations_give_the_same_bits() {
    for kind in KINDS {
        for inputs in [32usize, 160, 256, 768] {
            if !inputs.is_multiple_of(kind.values()) {
                continue;
            }
            let outputs = 53;
            let mut blocks = random(kind, outputs * inputs, 7 + inputs as u64);
            // The largest integers, scales and minima: sums must not overflow.
            let largest = 2 * inputs / kind.values() * kind.bytes();
            let size = kind.bytes();
            for block in blocks.bytes.owned()[..largest].chunks_exact_mut(size) {
                with_type!(kind, T => {
                    T::fill_largest(block);
                    T::set_scales(block, 0.5);
                });
            }
            let row = inputs / kind.values() * size;
            for rows in [1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 26, 97, 200] {
                let mut next = pseudo(11);
                let mut x: Vec<f32> = (0..rows * inputs).map(|_| next()).collect();
                x[..inputs].fill(-3.0);
                let (mut q8, mut k) = (Rows8::default(), RowsK::default());
                q8.quantize(&x);
                if inputs.is_multiple_of(WIDE) {
                    k.quantize(&x);
                }
                let x = BlockRows { q8: &q8, k: &k };
                let want = |r: usize, o: usize| {
                    let row = &blocks.bytes[o * row..(o + 1) * row];
                    with_type!(kind, T => portable::dot::<T>(row, x, r, inputs))
                };
                let want: Vec<f32> = (0..rows * outputs).map(|at| want(at / outputs, at % outputs)).collect();
                for implementation in implementations() {
                    let mut y = vec![0f32; rows * (outputs + 3)];
                    for columns in [0..5, 5..52, 52..53] {
                        // The product is a part of the result's columns.
                        let product =
                            Product { inputs, outputs, rows, columns, first: 2, stride: outputs + 3 };
                        implementation(&product, &blocks, x, &DisjointSliceMut::new(&mut y));
                    }
                    for (y, want) in y.chunks_exact(outputs + 3).zip(want.chunks_exact(outputs)) {
                        assert!(y[0] == 0.0 && y[1] == 0.0 && y[outputs + 2] == 0.0);
                        for (y, want) in y[2..].iter().zip(want) {
                            assert_eq!(y.to_bits(), want.to_bits(), "{kind:?} {inputs} {rows}: {y} {want}");
                        }
                    }
                }
            }
        }
    }
}
