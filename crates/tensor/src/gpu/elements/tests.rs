//! Row-wise functions against plain ones in f64.

use super::*;
use crate::{
    convolution::convolve_row,
    cpu::kernels::activations::tests::erf,
    gpu::{
        Gpu,
        testing::{gpu_or_skip, noise},
    },
};

fn upload(gpu: &Gpu, values: &[f32]) -> Buffer {
    gpu.upload(bytemuck::cast_slice(values)).unwrap()
}

fn read(gpu: &Gpu, rows: &Rows) -> Vec<f32> {
    gpu.stream().read_values(rows.buffer().unwrap(), 0, rows.rows() * rows.width()).unwrap()
}

fn close(got: &[f32], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let tolerance = 2e-6 * want.abs().max(1.0);
        assert!((f64::from(*got) - want).abs() < tolerance, "{what}: {got} for {want} at {i}");
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

#[test]
fn norms_are_those_of_the_textbook_and_alike_for_any_number_of_rows() {
    let Some(gpu) = gpu_or_skip() else { return };
    for width in [8, 100, 256, 1000, 3584] {
        let rows = 5;
        let [x, more, weight, bias] =
            [(1, rows), (2, rows), (3, 1), (4, 1)].map(|(seed, rows)| noise(seed, rows * width));
        let (w, b) = (upload(&gpu, &weight), upload(&gpu, &bias));
        for (added, layer) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut stream = gpu.stream();
            let mut run = |range: std::ops::Range<usize>| {
                let part = |values: &[f32]| {
                    Rows::upload(&gpu, &values[range.start * width..range.end * width], width).unwrap()
                };
                let (mut x, more, mut out) = (part(&x), part(&more), Rows::default());
                let add = added.then_some(&more);
                norm(&mut stream, &mut x, add, (&w, layer.then_some(&b)), 1e-5, &mut out).unwrap();
                stream.submit().unwrap();
                (read(&gpu, &x), read(&gpu, &out))
            };
            let (sums, normed) = run(0..rows);
            for r in 0..rows {
                let (alone, row) = run(r..r + 1);
                assert_eq!(row, normed[r * width..(r + 1) * width]);
                assert_eq!(alone, sums[r * width..(r + 1) * width]);
            }
            let total: Vec<f32> = x.iter().zip(&more).map(|(x, m)| if added { x + m } else { *x }).collect();
            assert_eq!(sums, total);
            let normed_row = |row: &[f32]| {
                let row = wide(row);
                let n = row.len() as f64;
                let mean = if layer { row.iter().sum::<f64>() / n } else { 0.0 };
                let square = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                let scale = 1.0 / (square + 1e-5).sqrt();
                let at = |i: usize| {
                    let bias = if layer { f64::from(bias[i]) } else { 0.0 };
                    (row[i] - mean) * scale * f64::from(weight[i]) + bias
                };
                (0..row.len()).map(at).collect::<Vec<f64>>()
            };
            let want: Vec<f64> = total.chunks(width).flat_map(normed_row).collect();
            close(&normed, &want, &format!("width {width}, added {added}, layer norm {layer}"));
        }
    }
}

#[test]
fn activations_are_those_of_the_textbook() {
    let Some(gpu) = gpu_or_skip() else { return };
    let values: Vec<f32> =
        (-4000..=4000).map(|i| i as f32 / 1000.0).chain([-1e4, -90.0, 90.0, 1e4]).collect();
    type Plain = fn(f64) -> f64;
    let functions: [(Activation, Plain); 3] = [
        (Activation::QuickGelu, |x| x / (1.0 + (-1.702 * x).exp())),
        (Activation::GeluTanh, |x| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }),
        (Activation::GeluErf, |x| match x.abs() {
            ..6.0 => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
            _ => x.max(0.0),
        }),
    ];
    for (activation, plain) in functions {
        let mut x = Rows::upload(&gpu, &values, values.len()).unwrap();
        let mut stream = gpu.stream();
        activate(&mut stream, activation, &mut x).unwrap();
        stream.submit().unwrap();
        let want: Vec<f64> = values.iter().map(|x| plain(f64::from(*x))).collect();
        close(&read(&gpu, &x), &want, &format!("{activation:?}"));
    }
    // More values than a row of workgroups takes.
    let mut many = Rows::upload(&gpu, &vec![1.0; SPREAD + 3000], SPREAD + 3000).unwrap();
    let mut stream = gpu.stream();
    activate(&mut stream, Activation::QuickGelu, &mut many).unwrap();
    stream.submit().unwrap();
    let got = read(&gpu, &many);
    assert!(got.iter().all(|v| (v - 0.845_796).abs() < 1e-4), "{:?}", &got[SPREAD - 2..SPREAD + 2]);
}

#[test]
fn rows_are_added_and_blended() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (width, mut stream) = (300, gpu.stream());
    let (x, y) = (noise(1, 6 * width), noise(2, 6 * width));
    let row = |values: &[f32], r: usize| values[r * width..(r + 1) * width].to_vec();
    let other = Rows::upload(&gpu, &y, width).unwrap();
    let memory = other.buffer().unwrap();
    let cases: [(Addend<'_>, &dyn Fn(usize) -> usize); 2] =
        [(Addend::Rows(&other), &|r| r), (Addend::Repeated(memory, 2), &|r| r % 2)];
    for (addend, from) in cases {
        let mut sums = Rows::upload(&gpu, &x, width).unwrap();
        add(&mut stream, &mut sums, addend).unwrap();
        stream.submit().unwrap();
        let want = (0..6).flat_map(|r| row(&x, r).into_iter().zip(row(&y, from(r))).map(|(a, b)| a + b));
        assert_eq!(read(&gpu, &sums), want.collect::<Vec<f32>>());
    }
    let from = Rows::upload(&gpu, &x, width).unwrap();
    // Two pictures of three states; two tokens.
    let taps = [[(0, 0.5), (1, 0.25), (2, 0.25), (0, 0.0)], [(2, 1.0), (1, -1.0), (0, 2.0), (0, 1.0)]];
    let mut out = Rows::default();
    let blend = Blend::new(&gpu, &taps, 3).unwrap();
    blend.apply(&mut stream, &[&from], &mut out).unwrap();
    let narrow = Rows::upload(&gpu, &noise(3, 6 * 7), 7).unwrap();
    let [mut alone, mut beside] = [Rows::default(), Rows::default()];
    blend.apply(&mut stream, &[&narrow], &mut alone).unwrap();
    blend.apply(&mut stream, &[&from, &narrow, &from], &mut beside).unwrap();
    stream.submit().unwrap();
    let got = read(&gpu, &out);
    assert_eq!((out.rows(), out.width()), (4, width));
    // Concatenated blocks equal single ones.
    let wide = read(&gpu, &beside);
    for (r, (all, few)) in wide.chunks(2 * width + 7).zip(read(&gpu, &alone).chunks(7)).enumerate() {
        assert_eq!(*all, [&row(&got, r)[..], few, &row(&got, r)].concat());
    }
    assert_eq!((beside.rows(), beside.width()), (4, 2 * width + 7));
    let short = Rows::upload(&gpu, &x[..3 * width], width).unwrap();
    assert!(blend.apply(&mut stream, &[&from, &short], &mut beside).is_err());
    for picture in 0..2 {
        for (token, taps) in taps.iter().enumerate() {
            let sum = |i: usize| {
                let terms = taps.iter().map(|(state, weight)| {
                    f64::from(x[(3 * picture + *state as usize) * width + i]) * f64::from(*weight)
                });
                terms.sum::<f64>()
            };
            close(&row(&got, 2 * picture + token), &(0..width).map(sum).collect::<Vec<f64>>(), "blend");
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let Some(gpu) = gpu_or_skip() else { return };
    let mut stream = gpu.stream();
    let mut x = Rows::upload(&gpu, &[1.0; 12], 6).unwrap();
    let y = Rows::upload(&gpu, &[1.0; 12], 4).unwrap();
    let short = upload(&gpu, &[1.0; 5]);
    assert!(norm(&mut stream, &mut x, None, (&short, None), 1e-6, &mut Rows::default()).is_err());
    let weight = upload(&gpu, &[1.0; 6]);
    assert!(norm(&mut stream, &mut x, Some(&y), (&weight, None), 1e-6, &mut Rows::default()).is_err());
    assert!(norm(&mut stream, &mut x, None, (&weight, Some(&short)), 1e-6, &mut Rows::default()).is_err());
    assert!(add(&mut stream, &mut x, Addend::Rows(&y)).is_err());
    assert!(add(&mut stream, &mut x, Addend::Repeated(&short, 1)).is_err());
    assert!(activate(&mut stream, Activation::QuickGelu, &mut Rows::default()).is_err());
}

#[test]
fn rows_of_a_block_are_convolved_as_on_the_cpu() {
    let Some(gpu) = gpu_or_skip() else { return };
    for (rows, width, taps, group) in [(1, 8, 2, 4), (8, 320, 2, 16), (5, 96, 3, 1), (16, 40, 1, 40)] {
        let shape = ConvolutionShape { taps, group };
        let shared = noise(1, 2 * taps * width);
        let (x, corrections) = (noise(2, rows * width), noise(3, rows * shape.corrections(width)));
        let [rows_x, rows_c] = [(&x, width), (&corrections, shape.corrections(width))]
            .map(|(values, width)| Rows::upload(&gpu, values, width).unwrap());
        let on_gpu = Convolution { shape, width, shared: upload(&gpu, &shared) };
        let on_cpu = Convolution { shape, width, shared };
        for side in [Side::Before, Side::After] {
            let (mut stream, mut out) = (gpu.stream(), Rows::default());
            convolve(&mut stream, &rows_x, &rows_c, &on_gpu, side, &mut out).unwrap();
            stream.submit().unwrap();
            let mut want = vec![0f32; rows * width];
            for (row, want) in want.chunks_exact_mut(width).enumerate() {
                convolve_row(&on_cpu, side, &x, &corrections, row, want);
            }
            close(
                &read(&gpu, &out),
                &wide(&want),
                &format!("{rows} x {width}, {taps} taps, {group}, {side:?}"),
            );
        }
        let few = Rows::upload(&gpu, &corrections[1..], shape.corrections(width)).unwrap();
        let mut out = Rows::default();
        convolve(&mut gpu.stream(), &rows_x, &few, &on_gpu, Side::Before, &mut out).unwrap_err();
    }
}
