use super::*;

fn ramp(n: usize, k: f32) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * k).sin()).collect()
}

fn matrix(dtype: WeightType, outputs: usize, inputs: usize) -> Linear {
    let mut builder = Builder::new(outputs, inputs, dtype);
    // In uneven chunks, as files are read.
    let weight = ramp(outputs * inputs, 0.37);
    for rows in weight.chunks(3 * inputs) {
        builder.push(rows).unwrap();
    }
    builder.finish(Some(ramp(outputs, 0.1)))
}

#[test]
fn rows_are_bit_identical_for_any_number_of_rows() {
    use WeightType as W;
    for (dtype, inputs) in [
        (W::F32, 96),
        (W::F32, 100),
        (W::F16, 100),
        (W::Bf16, 96),
        (W::Q8_0, 96),
        (W::Q8_0, 1056),
        (W::Q4_0, 96),
        (W::Q4K, 256),
        (W::Q5K, 256),
        (W::Q6K, 512),
    ] {
        let outputs = 70;
        let linear = matrix(dtype, outputs, inputs);
        let rows = 32;
        let x = ramp(rows * inputs, 0.91);
        let mut q = QuantizedRows::default();
        let mut single = vec![0f32; rows * outputs];
        for r in 0..rows {
            let (x, y) = (&x[r * inputs..(r + 1) * inputs], &mut single[r * outputs..(r + 1) * outputs]);
            linear.forward(x, 1, y, &mut q).unwrap();
        }
        for n in 2..=rows {
            let mut y = vec![0f32; n * outputs];
            linear.forward(&x[..n * inputs], n, &mut y, &mut q).unwrap();
            assert!(
                y.iter().zip(&single).all(|(a, b)| a.to_bits() == b.to_bits()),
                "{dtype:?} {inputs} wide, {n} rows"
            );
        }
    }
}

#[test]
fn bytes_of_predicts_the_size() {
    for dtype in WeightType::ALL {
        for inputs in [100, 96, 512] {
            let linear = matrix(dtype, 21, inputs);
            assert_eq!(linear.bytes(), Linear::bytes_of(21, inputs, dtype), "{dtype:?} {inputs}");
        }
    }
}

#[test]
fn rows_of_another_width_are_refused() {
    for (dtype, inputs) in [(WeightType::F32, 64), (WeightType::Q8_0, 64), (WeightType::Q4K, 256)] {
        let (linear, mut quantized) = (matrix(dtype, 6, inputs), QuantizedRows::default());
        let mut forward = |x: usize, rows: usize, y: usize| {
            linear.forward(&vec![1.0; x], rows, &mut vec![0.0; y], &mut quantized)
        };
        assert!(forward(2 * inputs, 2, 12).is_ok());
        for (x, rows, y) in
            [(2 * inputs + 1, 2, 12), (inputs, 2, 12), (2 * inputs, 2, 11), (2 * inputs, 1, 12)]
        {
            assert!(forward(x, rows, y).is_err(), "{dtype:?}: {x} inputs, {rows} rows, {y} outputs");
        }
        let (x, mut rows8) = (vec![1.0; inputs], QuantizedRows::default());
        rows8.quantize(linear.forms(), &x, 1);
        let gated = linear.forward_gated((&x, &rows8, 1), Gate::Silu, &mut [0.0; 6], &mut [0.0; 2], None);
        assert!(gated.is_err(), "{dtype:?}");
    }
}

/// The share of the time in which the members of a pool compute, if each has a speed and takes the next unit when it is ready.
fn busy_share(columns: usize, speeds: &[f64]) -> f64 {
    let size = unit_size(columns, speeds.len());
    let mut ready = vec![0.0; speeds.len()];
    for start in (0..columns).step_by(size) {
        let next = (0..speeds.len()).min_by(|&a, &b| f64::total_cmp(&ready[a], &ready[b])).unwrap();
        ready[next] += size.min(columns - start) as f64 / speeds[next];
    }
    columns as f64 / speeds.iter().sum::<f64>() / ready.into_iter().fold(0.0, f64::max)
}

#[test]
fn units_keep_sixteen_threads_busy() {
    // Outputs of matrices of 2B to 8B models (LM heads last); gates and values count as pairs.
    let columns = [2048, 2560, 4096, 6144, 9728, 12_288, 151_936];
    let equal = |members| vec![1.0; members];
    // Eight of sixteen cores have half of the speed; one of sixteen is shared with another program.
    let [efficiency, shared] = [[vec![1.0; 8], vec![0.5; 8]].concat(), [vec![1.0; 15], vec![0.5]].concat()];
    let speeds = [
        (equal(2), 0.94),
        (equal(4), 0.94),
        (equal(8), 0.94),
        (equal(16), 0.89),
        (efficiency, 0.88),
        (shared, 0.82),
    ];
    for (speeds, least) in speeds {
        let shares: Vec<f64> = columns.iter().map(|columns| busy_share(*columns, &speeds)).collect();
        println!("{speeds:?}: {shares:.2?}");
        assert!(shares.iter().all(|share| *share >= least && *share <= 1.0), "{speeds:?}: {shares:?}");
    }
}
