use candle_core::{Device, Tensor};

use super::*;

/// `rows` rows of `width` values: 0, 1, 2 …
fn host(rows: usize, width: usize) -> States {
    States::new((0..rows * width).map(|i| i as f32).collect(), width).unwrap()
}

fn everywhere(rows: usize, width: usize) -> Vec<States> {
    [Some(host(rows, width)), on_gpu(rows, width), Some(in_tensors(rows, width))]
        .into_iter()
        .flatten()
        .collect()
}

fn in_tensors(rows: usize, width: usize) -> States {
    let values = host(rows, width).to_vec().unwrap();
    let tensor = Tensor::from_vec(values, (rows, width), &Device::Cpu).unwrap();
    States::Candle(CandleRows::new(&tensor).unwrap())
}

#[cfg(feature = "gpu")]
fn on_gpu(rows: usize, width: usize) -> Option<States> {
    let gpu = crate::gpu::testing::gpu_or_skip()?;
    let (stream, values) = (crate::gpu::states::SharedStream::new(&gpu), host(rows, width).to_vec().unwrap());
    Some(States::Gpu(below(&stream, &[RowSource::Host(&values)], width).unwrap()))
}

#[cfg(not(feature = "gpu"))]
fn on_gpu(_: usize, _: usize) -> Option<States> {
    None
}

#[test]
fn rows_have_the_width_that_they_were_made_with() {
    for (values, width, shape) in
        [(6, 2, Some((3, 2))), (6, 6, Some((1, 6))), (0, 4, Some((0, 4))), (5, 2, None), (3, 4, None)]
    {
        let states = States::new(vec![1.5; values], width).ok();
        assert_eq!(states.as_ref().map(States::shape), shape, "{values} values of {width}");
        let Some(states) = states else { continue };
        assert_eq!((states.rows(), states.bytes()), (shape.unwrap().0, values * 4));
        assert_eq!(states.to_vec().unwrap(), vec![1.5; values]);
        assert_eq!(states.to_vec2().unwrap(), vec![vec![1.5; width]; states.rows()]);
    }
    assert!(States::new(vec![1.0], 0).is_err());
}

#[test]
fn parts_are_rows_in_the_requested_order() {
    for states in everywhere(5, 3) {
        let row = |r: usize| (0..3).map(|i| (r * 3 + i) as f32).collect::<Vec<_>>();
        for (start, count) in [(0, 5), (0, 1), (2, 3), (4, 1)] {
            let part = states.narrow(start, count).unwrap();
            assert_eq!(part.shape(), (count, 3));
            assert_eq!(part.to_vec2().unwrap(), (start..start + count).map(row).collect::<Vec<_>>());
            // A part of a part.
            let last = part.narrow(count - 1, 1).unwrap();
            assert_eq!(last.to_vec().unwrap(), row(start + count - 1));
        }
        for rows in [&[0usize, 1, 2, 3, 4][..], &[3], &[4, 0, 4, 1], &[1, 2, 0, 3]] {
            let some = states.select(rows).unwrap();
            assert_eq!(some.to_vec2().unwrap(), rows.iter().map(|&r| row(r)).collect::<Vec<_>>());
        }
        let tail = states.narrow(2, 3).unwrap();
        assert_eq!(tail.select(&[2, 0]).unwrap().to_vec2().unwrap(), [row(4), row(2)]);
        // The whole is as it was.
        assert_eq!(states.to_vec().unwrap(), host(5, 3).to_vec().unwrap());
    }
}

#[test]
fn columns_are_cut_out_and_zeros_put_behind_them() {
    for states in everywhere(5, 6) {
        for part in [states.clone(), states.narrow(1, 3).unwrap(), states.select(&[4, 0]).unwrap()] {
            let rows = part.to_vec2().unwrap();
            for columns in [0..6, 0..2, 2..4, 5..6] {
                let cut = part.columns(columns.clone()).unwrap();
                let want: Vec<Vec<f32>> = rows.iter().map(|row| row[columns.clone()].to_vec()).collect();
                assert_eq!((cut.shape(), cut.to_vec2().unwrap()), ((rows.len(), columns.len()), want));
                // Rows of them, as contexts choose them.
                let last = cut.narrow(rows.len() - 1, 1).unwrap();
                assert_eq!(last.to_vec().unwrap(), rows[rows.len() - 1][columns.clone()]);
                let first = cut.select(&[0]).unwrap();
                assert_eq!(first.to_vec().unwrap(), rows[0][columns]);
            }
            for width in [6, 7, 18] {
                let wide = part.widened(width).unwrap();
                let want: Vec<Vec<f32>> =
                    rows.iter().map(|row| [&row[..], &vec![0.0; width - 6]].concat()).collect();
                assert_eq!((wide.shape(), wide.to_vec2().unwrap()), ((rows.len(), width), want));
                assert_eq!(wide.columns(0..6).unwrap().to_vec().unwrap(), part.to_vec().unwrap());
            }
        }
        #[expect(clippy::reversed_empty_ranges, reason = "this is what is refused")]
        for columns in [0..7, 6..7, 4..3] {
            assert!(states.columns(columns.clone()).is_err(), "{columns:?}");
        }
        assert!(states.widened(5).is_err(), "rows that are wider");
    }
}

#[test]
fn rows_that_do_not_exist_are_refused() {
    for states in everywhere(4, 2) {
        for (start, count) in [(0, 5), (4, 1), (3, 2), (9, 0)] {
            assert!(states.narrow(start, count).is_err(), "{start}+{count}");
        }
        let tail = states.narrow(1, 2).unwrap();
        assert!(tail.narrow(1, 2).is_err(), "a row of the whole beyond the part");
        for rows in [&[4usize][..], &[0, 1, 7]] {
            assert!(states.select(rows).is_err(), "{rows:?}");
        }
        assert!(tail.select(&[2]).is_err(), "a row of the whole beyond the part");
    }
}

#[test]
fn parts_of_all_devices_are_put_together() {
    for (a, b) in everywhere(3, 2).iter().flat_map(|a| everywhere(2, 2).into_iter().map(move |b| (a, b))) {
        let (values, others) = (a.to_vec().unwrap(), b.to_vec().unwrap());
        let one = States::cat(std::slice::from_ref(a)).unwrap();
        assert_eq!((one.shape(), one.to_vec().unwrap()), ((3, 2), values.clone()));
        let all = States::cat(&[a.clone(), b.clone(), a.narrow(1, 1).unwrap()]).unwrap();
        assert_eq!(all.shape(), (6, 2));
        assert_eq!(all.to_vec().unwrap(), [&values[..], &others, &values[2..4]].concat());
        let part = all.narrow(2, 3).unwrap();
        assert_eq!(part.to_vec().unwrap(), [&values[4..], &others[..]].concat());
    }
    assert!(States::cat(&[]).is_err(), "nothing");
    for (a, b) in everywhere(3, 2).iter().zip(everywhere(3, 4)) {
        assert!(States::cat(&[a.clone(), b.clone()]).is_err(), "another width");
        assert!(States::cat(&[host(1, 4), a.clone()]).is_err(), "another width, in host memory");
    }
}
