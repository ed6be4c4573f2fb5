use super::*;
use crate::cpu::kernels::tests::wave;

#[test]
fn products_are_those_of_the_matrix_and_rows_are_independent() {
    for kind in [None, Some(HalfKind::F16), Some(HalfKind::Bf16)] {
        for (inputs, outputs) in [(96, 7), (8, 48), (101, 50)] {
            let (w, rows) = (wave(outputs * inputs, 0.37), 29);
            let round = |v: f32| kind.map_or(v, |kind| kind.widen(kind.narrow(v)));
            let mut panels = FloatPanels::empty(outputs, inputs, kind);
            for (o, row) in w.chunks_exact(inputs).enumerate() {
                // SAFETY: one call at a time.
                unsafe { panels.places().store(o, row).unwrap() };
            }
            let x = wave(rows * inputs, 0.91);
            let run = |x: &[f32], columns: std::ops::Range<usize>| {
                let rows = x.len() / inputs;
                let mut y = vec![0f32; rows * outputs];
                let product = Product { columns, ..Product::whole(inputs, outputs, rows) };
                // SAFETY: one call at a time.
                unsafe { product_panels(&product, &panels, x, &DisjointSliceMut::new(&mut y)) };
                y
            };
            let all = run(&x, 0..outputs);
            for (at, y) in all.iter().enumerate() {
                let (r, o) = (at / outputs, at % outputs);
                let term = |i: usize| f64::from(round(w[o * inputs + i])) * f64::from(x[r * inputs + i]);
                assert!((f64::from(*y) - (0..inputs).map(term).sum::<f64>()).abs() < 1e-4);
            }
            for n in 1..rows {
                let y = run(&x[..n * inputs], 0..outputs);
                assert!(y.iter().zip(&all).all(|(a, b)| a.to_bits() == b.to_bits()), "{kind:?} {n}");
            }
            let part = run(&x, 3..outputs - 1);
            assert!(part[2] == 0.0 && part[3] == all[3] && part[outputs - 1] == 0.0);
            let mut y = vec![0f32; rows * outputs];
            // SAFETY: one call at a time.
            unsafe {
                portable(
                    &Product::whole(inputs, outputs, rows),
                    &panels.values,
                    &x,
                    &DisjointSliceMut::new(&mut y),
                );
            }
            assert!(y.iter().zip(&all).all(|(a, b)| a.to_bits() == b.to_bits()), "portable {kind:?}");
        }
    }
}

#[test]
fn values_too_large_for_the_type_are_refused() {
    let mut panels = FloatPanels::empty(1, 2, Some(HalfKind::F16));
    // SAFETY: one call at a time.
    assert_eq!(unsafe { panels.places().store(0, &[1.0, 7e4]) }, Err(7e4));
}
