use super::*;
use crate::gpu::testing::{gpu_or_skip, noise};

#[test]
fn columns_are_copied_and_added_wherever_they_are() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (rows, wide, narrow) = (301, 700, 131);
    let (source, target) = (noise(1, rows * wide + 90), noise(2, rows * narrow + 70));
    for (first, at, width, add) in
        [(0, 0, 131, false), (90, 70, 131, true), (569, 3, 100, false), (333, 64, 1, true)]
    {
        let [from, to] = [&source, &target].map(|values| gpu.upload(bytemuck::cast_slice(values)).unwrap());
        let mut stream = gpu.stream();
        let columns = |buffer, first, stride| Columns { buffer, first, stride };
        copy_columns(&mut stream, columns(&from, first, wide), columns(&to, at, narrow), rows, width, add)
            .unwrap();
        let mut want = target.clone();
        for row in 0..rows {
            for i in 0..width {
                let value = source[first as usize + row * wide + i];
                let place = &mut want[at as usize + row * narrow + i];
                *place = if add { *place + value } else { value };
            }
        }
        assert_eq!(stream.read_values::<f32>(&to, 0, target.len()).unwrap(), want, "{first} {at} {width}");
    }
}

#[test]
fn columns_beyond_their_memory_are_refused() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (small, large) = (gpu.buffer(400).unwrap(), gpu.buffer(4000).unwrap());
    let mut stream = gpu.stream();
    let columns = |buffer| Columns { buffer, first: 0, stride: 20 };
    assert!(copy_columns(&mut stream, columns(&large), columns(&small), 6, 10, false).is_err());
    assert!(copy_columns(&mut stream, columns(&small), columns(&large), 6, 10, false).is_err());
    copy_columns(&mut stream, columns(&small), columns(&large), 5, 20, false).unwrap();
    copy_columns(&mut stream, columns(&small), columns(&large), 0, 20, false).unwrap();
}

#[test]
fn many_rows_are_copied_in_parts() {
    let Some(gpu) = gpu_or_skip() else { return };
    // 96 MiB of rows: two parts, of which the second begins in the middle of an aligned piece.
    let (rows, wide, width) = (40_000, 629, 3);
    let from = gpu.buffer(4 * (rows * wide) as u64).unwrap();
    let marks: Vec<usize> = vec![0, 1, 26_600, 26_673, 26_674, 26_675, 26_676, 30_000, 39_999];
    for &row in &marks {
        gpu.write(&from, 4 * (row * wide + 5) as u64, bytemuck::cast_slice(&[row as f32, 0.5, -1.0]))
            .unwrap();
    }
    let to = gpu.buffer(4 * (rows * width) as u64).unwrap();
    let mut stream = gpu.stream();
    let (source, target) =
        (Columns { buffer: &from, first: 5, stride: wide }, Columns { buffer: &to, first: 0, stride: width });
    copy_columns(&mut stream, source, target, rows, width, false).unwrap();
    let copied = stream.read_values::<f32>(&to, 0, rows * width).unwrap();
    for (row, values) in copied.chunks(width).enumerate() {
        let want = if marks.contains(&row) { [row as f32, 0.5, -1.0] } else { [0.0; 3] };
        assert_eq!(values, want, "{row}");
    }
}
