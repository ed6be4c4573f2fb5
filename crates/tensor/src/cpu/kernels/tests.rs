use super::*;

pub(super) fn wave(n: usize, k: f32) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * k).sin()).collect()
}

pub(super) fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut s = seed.wrapping_mul(2_654_435_761).max(1);
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 17;
            s ^= s << 5;
            (s as f32 / u32::MAX as f32) * 2.0 - 1.0
        })
        .collect()
}

#[test]
fn f32_rows_do_not_depend_on_their_number() {
    for n in [8, 24, 96, 100, 257] {
        let (w, x) = (noise(n, 1), noise(4 * n, 2));
        let four = dot_f32::<4>(&w, &x, n);
        for r in 0..4 {
            let [one] = dot_f32::<1>(&w, &x[r * n..], n);
            let [portable] = portable::dot_f32::<1>(&w, &x[r * n..], n);
            assert_eq!([one.to_bits(), portable.to_bits()], [four[r].to_bits(); 2]);
            let exact: f64 = (0..n).map(|k| f64::from(w[k]) * f64::from(x[r * n + k])).sum();
            assert!((f64::from(one) - exact).abs() < 1e-4);
        }
    }
}

#[test]
fn f32_products_match_a_loop_in_any_range_of_columns() {
    let (outputs, rows) = (7, 6);
    for inputs in [96, 101] {
        let (w, x) = (noise(outputs * inputs, 3), noise(rows * inputs, 4));
        let mut y = vec![0f32; rows * outputs];
        for columns in [0..1, 1..6, 6..7] {
            let product = Product { columns, ..Product::whole(inputs, outputs, rows) };
            // SAFETY: one call at a time.
            unsafe { product_f32(&product, &w, &x, &DisjointSliceMut::new(&mut y)) };
        }
        for (at, y) in y.iter().enumerate() {
            let (w, x) = (&w[at % outputs * inputs..][..inputs], &x[at / outputs * inputs..][..inputs]);
            let exact: f32 = w.iter().zip(x).map(|(w, x)| w * x).sum();
            assert!((y - exact).abs() < 1e-4);
            assert_eq!(y.to_bits(), portable::product_f32(w, x).to_bits(), "portable, {inputs}");
        }
    }
}

#[test]
fn exp_is_accurate() {
    for i in 0..8000 {
        let x = -80.0 + i as f32 * 0.0125;
        let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
        assert!((got - want).abs() <= want * 4e-7, "{x} {got} {want}");
    }
}

#[test]
fn swiglu_matches_its_formula() {
    for n in [1, 16, 37] {
        let (gate, up, mut out) = (noise(n, 8), noise(n, 9), vec![0f32; n]);
        swiglu(&gate, &up, &mut out);
        for i in 0..n {
            let want = gate[i] / (1.0 + (-gate[i]).exp()) * up[i];
            assert!((out[i] - want).abs() < 1e-6);
        }
    }
}

#[test]
fn sums_of_exponentials_are_accurate() {
    for n in [1, 7, 800, 5000] {
        let x: Vec<f32> = noise(n, 9).into_iter().map(|v| v * 20.0).collect();
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let want: f64 = x.iter().map(|v| f64::from(v - max).exp()).sum();
        assert!((sum_exp(&x, max) / want - 1.0).abs() < 1e-5, "{n}");
    }
}

#[test]
fn masked_scores_get_weight_zero() {
    let mut s = vec![f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
    assert_eq!(softmax_unnormalized(&mut s, f32::NEG_INFINITY), (0.0, 1.0));
    assert_eq!(s, [0.0, 1.0, 0.0]);
    let lowest = f32::NEG_INFINITY;
    assert_eq!(softmax_unnormalized(&mut [lowest; 3], lowest), (lowest, 0.0));
}

/// As they are compiled for this process, and for any processor.
#[test]
fn functions_have_the_same_bits() {
    let same = |a: &[f32], b: &[f32]| a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()));
    for n in [1, 15, 16, 100, 777, 5000] {
        let (x, y): (Vec<f32>, Vec<f32>) = (noise(n, 3).iter().map(|v| v * 30.0).collect(), noise(n, 4));
        let (mut ours, mut plain) = (x.clone(), x.clone());
        ours[n / 2] = f32::NEG_INFINITY;
        plain[n / 2] = f32::NEG_INFINITY;
        let (a, b) =
            (softmax_unnormalized(&mut ours, -9.0), portable::softmax_unnormalized(&mut plain, -9.0));
        assert!(same(&ours, &plain) && same(&[a.0, a.1], &[b.0, b.1]), "softmax of {n}");
        assert_eq!(sum_exp(&x, 30.0).to_bits(), portable::sum_exp(&x, 30.0).to_bits(), "{n}");
        swiglu(&x, &y, &mut ours);
        portable::swiglu(&x, &y, &mut plain);
        assert!(same(&ours, &plain), "swiglu of {n}");
        rms_norm(&x, &y, 1e-6, &mut ours);
        portable::rms_norm(&x, &y, 1e-6, &mut plain);
        assert!(same(&ours, &plain), "norm of {n}");
    }
}

#[test]
#[should_panic(expected = "operands are shorter")]
fn operands_that_are_too_short_panic() {
    let (w, x, mut y) = ([0.0; 15], [0.0; 8], [0.0; 4]);
    let product = Product::whole(4, 4, 1);
    // SAFETY: one call at a time.
    unsafe { product_f32(&product, &w, &x, &DisjointSliceMut::new(&mut y)) };
}

#[test]
fn a_norm_in_place_has_the_bits_of_one_beside_it() {
    for n in [1, 8, 15, 64, 80, 128, 257] {
        let (x, weight, mut beside) = (noise(n, 3), noise(n, 4), vec![0f32; n]);
        rms_norm(&x, &weight, 1e-4, &mut beside);
        let mean = x.iter().map(|v| f64::from(v * v)).sum::<f64>() / n as f64;
        for ((got, v), w) in beside.iter().zip(&x).zip(&weight) {
            let want = f64::from(*v) / (mean + 1e-4).sqrt() * f64::from(*w);
            assert!((f64::from(*got) - want).abs() < 1e-6 * want.abs().max(1.0), "{n}: {got} {want}");
        }
        let mut within = x;
        rms_norm_in_place(&mut within, &weight, 1e-4);
        assert!(within.iter().zip(&beside).all(|(a, b)| a.to_bits() == b.to_bits()), "{n}");
    }
}

#[test]
fn rows_of_different_widths_panic() {
    let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    assert!(panics(&|| rms_norm(&[1.0; 8], &[1.0; 4], 1e-6, &mut [0.0; 8])));
    assert!(panics(&|| rms_norm_in_place(&mut [1.0; 8], &[1.0; 4], 1e-6)));
    assert!(panics(&|| add(&mut [1.0; 8], &[1.0; 7])));
    assert!(panics(&|| rotate(&mut [1.0; 8], &[1.0; 4], &[0.0; 3])));
    assert!(panics(&|| gated(Gate::Silu, &[1.0; 8], &[1.0; 8], &mut [0.0; 9])));
    assert!(!panics(&|| add(&mut [1.0; 8], &[1.0; 8])));
}
