use super::*;
use crate::cpu::kernels::tests::wave;

#[test]
fn all_implementations_quantise_alike() {
    let x = [wave(64, 0.7), vec![0.0; 32], vec![-3.5; 32]].concat();
    let mut got = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
    let mut want = got.clone();
    quantize_q8(&x, &mut got.0, &mut got.1);
    portable::quantize_q8(&x, &mut want.0, &mut want.1);
    assert_eq!(got, want);
    assert_eq!((got.0[96], got.1[2]), (-127, 0.0));
}

#[test]
fn rows_quantised_in_parts_equal_rows_quantised_at_once() {
    let x = [wave(96, 0.3), vec![0.0; 32], vec![2.5; 32]].concat();
    let (mut whole, mut parts) = (Rows8::default(), Rows8::default());
    whole.quantize(&x);
    let blocks = parts.resize(1, x.len(), false);
    for at in [64, 0, 128] {
        // SAFETY: one call at a time.
        unsafe { blocks.quantize(at, &x[at..(at + 64).min(x.len())]) };
    }
    let mut plain = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
    portable::quantize_q8(&x, &mut plain.0, &mut plain.1);
    assert_eq!((&whole.quants, &whole.scales), (&plain.0, &plain.1));
    assert_eq!(
        (&whole.quants, &whole.scales, &whole.offsets),
        (&parts.quants, &parts.scales, &parts.offsets)
    );
    let sums = whole.quants.chunks(BLOCK).map(|b| -128 * b.iter().map(|&q| i32::from(q)).sum::<i32>());
    assert_eq!(whole.offsets, sums.collect::<Vec<_>>());
}

#[test]
fn products_agree_with_the_dot_products_of_blocks_in_any_layout_and_range_of_columns() {
    for (inputs, outputs) in [(96, 7), (32, 16), (64, 50), (320, 130), (1056, 40)] {
        // More rows than have sums at a time.
        let (w, largest) = (wave(outputs * inputs, 0.37), 50);
        let mut x = wave(largest * inputs, 0.91);
        (x[inputs / 2], x[inputs + 1]) = (30.0, -20.0);
        let (mut q, mut d) = (vec![0i8; w.len()], vec![0f32; w.len() / BLOCK]);
        quantize_q8(&w, &mut q, &mut d);
        let plain = Q8 { quants: &q, scales: &d };
        let mut layouts = vec![Weights8(Layout::Rows { quants: q.clone().into(), scales: d.clone().into() })];
        if in_panels() {
            layouts.push(Weights8(Layout::Panels(Panels::new(plain, outputs, inputs))));
        }
        for weights in &layouts {
            for rows in (1..=27).chain(48..=largest) {
                let mut x8 = Rows8::default();
                x8.quantize_split(&x[..rows * inputs], inputs);
                let mut y = vec![0f32; rows * outputs];
                for columns in [0..3, 3..outputs - 1, outputs - 1..outputs] {
                    let product = Product { columns, ..Product::whole(inputs, outputs, rows) };
                    // SAFETY: one call at a time.
                    unsafe { product_q8(&product, weights, &x8, &DisjointSliceMut::new(&mut y)) };
                }
                let blocks = Q8 { quants: &x8.quants, scales: &x8.scales };
                for (at, y) in y.iter().enumerate() {
                    let (r, o) = (at / outputs, at % outputs);
                    let weight = |i: usize| f32::from(q[o * inputs + i]) * d[(o * inputs + i) / BLOCK];
                    let apart: f32 = x8.outliers.of(r).map(|(i, value)| weight(i) * value).sum();
                    let want = portable::dot_q8(plain, o, blocks, r, inputs / BLOCK) + apart;
                    assert!((y - want).abs() < 1e-4, "{inputs} x {outputs}, {rows} rows: {y} {want}");
                }
            }
        }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn all_implementations_give_the_same_bits() {
    let (inputs, outputs) = (1056, 85);
    let (w, x) = (wave(outputs * inputs, 0.37), wave(50 * inputs, 0.91));
    let (mut q, mut d) = (vec![0i8; w.len()], vec![0f32; w.len() / BLOCK]);
    quantize_q8(&w, &mut q, &mut d);
    q[..BLOCK].fill(-127);
    let rows_of_blocks = Q8 { quants: &q, scales: &d };
    let panels = Weights8(Layout::Panels(Panels::new(rows_of_blocks, outputs, inputs)));
    let plain = Weights8(Layout::Rows { quants: q.clone().into(), scales: d.clone().into() });
    for rows in (1..=27).chain(48..=50) {
        let mut x8 = Rows8::default();
        x8.quantize_split(&x[..rows * inputs], inputs);
        x8.quants[..BLOCK].fill(-127);
        x8.offsets[0] = 128 * 127 * BLOCK as i32;
        let run = |weights: &Weights8, int8: Option<Int8>| {
            let mut y = vec![0f32; rows * outputs];
            for columns in [0..3, 3..outputs - 1, outputs - 1..outputs] {
                let product = Product { columns, ..Product::whole(inputs, outputs, rows) };
                let y = DisjointSliceMut::new(&mut y);
                match (int8, &weights.0) {
                    // SAFETY: one call at a time; the features were detected.
                    (Some(int8), Layout::Panels(panels)) => unsafe {
                        int8::product_q8(int8, &product, panels, &x8, &y);
                    },
                    // SAFETY: as above.
                    _ => unsafe { product_q8(&product, weights, &x8, &y) },
                }
            }
            y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        // The portable code, the implementation in use, and all others for this processor.
        let want = run(&plain, None);
        for int8 in Int8::all().map(Some).chain(in_panels().then_some(None)) {
            assert!(run(&panels, int8) == want, "{rows} rows, {int8:?}");
        }
    }
}

#[test]
fn rows_of_another_width_panic() {
    let panics = |f: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    let (mut weights, mut x8) = (Weights8::empty(4, 64), Rows8::default());
    assert!(panics(&mut || weights.store(0, &[1.0; 96], 64)), "one row and a half");
    assert!(panics(&mut || weights.store(4, &[1.0; 20 * 64], 64)), "rows after the last output");
    x8.quantize(&[1.0; 64]);
    let mut y = [0.0; 8];
    let mut product = |inputs, rows| {
        let product = Product::whole(inputs, 4, rows);
        // SAFETY: one call at a time.
        panics(&mut || unsafe { product_q8(&product, &weights, &x8, &DisjointSliceMut::new(&mut y)) })
    };
    assert!(product(64, 2), "fewer rows than the product");
    assert!(product(96, 1), "a narrower matrix");
    assert!(!product(64, 1));
    let mut beyond = || {
        // SAFETY: one call at a time.
        unsafe { x8.resize(1, 64, false).quantize(32, &[1.0; 64]) };
    };
    assert!(panics(&mut beyond), "beyond the last row");
}
