use super::*;

fn wave(n: usize, k: f32) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * k).sin()).collect()
}

const KINDS: [BlockKind; 5] =
    [BlockKind::Q8_0, BlockKind::Q4_0, BlockKind::Q4K, BlockKind::Q5K, BlockKind::Q6K];

#[test]
fn blocks_are_widened_as_candle_does() {
    fn widened<T: GgmlType>(values: &[f32]) -> Vec<f32> {
        let mut blocks = vec![T::zeros(); values.len() / T::BLCK_SIZE];
        T::from_float(values, &mut blocks);
        let mut out = vec![0.0; values.len()];
        T::to_float(&blocks, &mut out);
        out
    }
    let values = wave(1024, 0.37);
    for kind in KINDS {
        let mut blocks = Blocks::empty(kind);
        // In two chunks, as a matrix is read.
        blocks.push(&values[..256]);
        blocks.push(&values[256..]);
        let mut out = Vec::new();
        blocks.widen(0..1024, &mut out);
        let want = match kind {
            BlockKind::Q8_0 => widened::<BlockQ8_0>(&values),
            BlockKind::Q4_0 => widened::<BlockQ4_0>(&values),
            BlockKind::Q4K => widened::<BlockQ4K>(&values),
            BlockKind::Q5K => widened::<BlockQ5K>(&values),
            BlockKind::Q6K => widened::<BlockQ6K>(&values),
        };
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
    let (w, x) = (wave(outputs * inputs, 0.37), wave(rows * inputs, 0.11));
    let (mut q8, mut k) = (Rows8::default(), RowsK::default());
    q8.quantize(&x);
    k.quantize(&x);
    for kind in KINDS {
        let mut blocks = Blocks::empty(kind);
        blocks.push(&w);
        let mut wide = Vec::new();
        blocks.widen(0..w.len(), &mut wide);
        let mut y = vec![0f32; rows * outputs];
        let product = Product::whole(inputs, outputs, rows);
        let x8 = BlockRows { q8: &q8, k: &k };
        // SAFETY: one call at a time.
        unsafe { product_blocks(&product, &blocks, x8, &DisjointSliceMut::new(&mut y)) };
        for (at, y) in y.iter().enumerate() {
            let (r, o) = (at / outputs, at % outputs);
            let exact: f32 = (0..inputs).map(|i| wide[o * inputs + i] * x[r * inputs + i]).sum();
            // The inputs are rounded to 8 bits.
            assert!((y - exact).abs() < 0.3, "{kind:?}: {y} {exact}");
        }
    }
}

#[test]
fn matrices_of_another_size_are_refused() {
    for kind in KINDS {
        let bytes = |n: usize| Store::from(vec![0u8; n]);
        assert!(Blocks::new(kind, bytes(3 * kind.bytes()), 3 * kind.values()).is_some());
        assert!(Blocks::new(kind, bytes(3 * kind.bytes() - 1), 3 * kind.values()).is_none());
        assert!(Blocks::new(kind, bytes(2 * kind.bytes()), 2 * kind.values() + 1).is_none());
    }
}

#[test]
#[should_panic(expected = "not whole blocks")]
fn a_part_of_a_block_panics() {
    Blocks::empty(BlockKind::Q4K).push(&[1.0; 100]);
}
