use candle_core::{Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Rows of `width` logits with few different values, so that ties are common.
fn rows(seed: u64, rows: usize, width: usize) -> Vec<Vec<f32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..rows)
        .map(|_| (0..width).map(|_| (rng.random::<f32>() * 12.0).floor() * 0.75 - 5.0).collect())
        .collect()
}

fn logits(rows: &[Vec<f32>]) -> Logits {
    Logits::Host(HostRows::new(rows.concat(), rows[0].len()).unwrap())
}

/// The same logits in host memory and in candle's tensors.
fn everywhere(rows: &[Vec<f32>]) -> [Logits; 2] {
    let (count, width) = (rows.len(), rows[0].len());
    let tensor = Tensor::from_vec(rows.concat(), (count, width), &Device::Cpu).unwrap();
    [logits(rows), Logits::Candle(CandleRows::new(&tensor).unwrap())]
}

/// The ids of a row sorted as the most likely ones must be: by logit, the lowest id first where tied.
fn sorted(row: &[f32]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..row.len() as u32).collect();
    ids.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]).then(a.cmp(&b)));
    ids
}

fn bits(top: &[(u32, f32)]) -> Vec<(u32, u32)> {
    top.iter().map(|&(id, value)| (id, value.to_bits())).collect()
}

#[test]
fn a_summary_says_what_the_whole_row_does() {
    for (seed, width) in (0..40).zip([1usize, 2, 3, 7, 8, 33, 300].into_iter().cycle()) {
        for vocab in [width, width - width / 3, width + 5] {
            let table = rows(seed, 4, width);
            let shown = vocab.min(width);
            let top = seed as usize % 5;
            // The first and the last id, one in between, and one twice; none for the last rows.
            let ids: Vec<u32> = [0, shown - 1, shown / 2, 0].map(|id| id as u32).to_vec();
            let needs = LogitNeeds { vocab, whole: false, top, ids: vec![ids.clone(), vec![], vec![0]] };
            logits(&table)
                .read(&needs, |whole| {
                    assert_eq!(whole.len(), table.len());
                    for (index, (whole, row)) in whole.into_iter().zip(&table).enumerate() {
                        let (row, order) = (&row[..shown], sorted(&row[..shown]));
                        assert_eq!(whole.values().unwrap(), row);
                        let facts = whole.facts().clone();
                        assert_eq!(facts, RowFacts::of(row));
                        assert_eq!((facts.argmax, whole.argmax()), (order[0], order[0]), "{row:?}");
                        let best: Vec<f32> = order.iter().take(3).map(|&id| row[id as usize]).collect();
                        assert_eq!((facts.max, &facts.top3[..best.len()]), (best[0], &best[..]));
                        let tops = [0, 1, 2, 4, 400].map(|count| whole.top(count));
                        assert_eq!(
                            tops[4].iter().map(|top| top.0).collect::<Vec<_>>(),
                            order,
                            "all of {row:?}"
                        );
                        for (id, log) in &tops[3] {
                            assert_eq!(*log, facts.log_probability(row[*id as usize]));
                        }

                        let known = needs.ids.get(index).cloned().unwrap_or_default();
                        let summary = whole.extract(&needs, index);
                        assert!(matches!(summary, LogitRow::Summary(_)));
                        assert_eq!((summary.facts(), summary.argmax()), (&facts, facts.argmax));
                        for (count, top) in [0usize, 1, 2, 4].into_iter().zip(&tops) {
                            let requested = top.len().min(needs.top);
                            assert_eq!(
                                bits(&summary.top(count)),
                                bits(&top[..requested]),
                                "{count} of {top:?}"
                            );
                        }
                        for id in known.into_iter().chain([facts.argmax]) {
                            assert_eq!(
                                summary.logit(id).unwrap().to_bits(),
                                row[id as usize].to_bits(),
                                "id {id}"
                            );
                        }
                        // Extracting again changes nothing.
                        let LogitRow::Summary(before) = &summary else { unreachable!() };
                        let before = before.clone();
                        let LogitRow::Summary(after) = summary.extract(&LogitNeeds::default(), 0) else {
                            panic!("a summary stays one")
                        };
                        assert_eq!(before, after);
                    }
                })
                .unwrap();
        }
    }
}

#[test]
fn ties_go_to_the_lowest_id_in_both_forms() {
    let row = [1.0, 4.0, -2.0, 4.0, 4.0, 1.0];
    let needs = LogitNeeds { vocab: 6, whole: false, top: 6, ids: vec![vec![2, 3]] };
    for row in [LogitRow::whole(&row), LogitRow::whole(&row).extract(&needs, 0)] {
        assert_eq!((row.argmax(), row.facts().argmax, row.facts().top3), (1, 1, [4.0; 3]));
        assert_eq!(row.top(9).iter().map(|top| top.0).collect::<Vec<_>>(), [1, 3, 4, 0, 5, 2]);
        assert_eq!(row.top(2).iter().map(|top| top.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((row.logit(2).unwrap(), row.logit(3).unwrap()), (-2.0, 4.0));
    }
}

#[test]
fn padding_counts_for_nothing() {
    // The table's last two logits are larger than any other.
    let table = vec![vec![0.5, 2.0, 1.0, 9.0, 9.0], vec![3.0, 2.0, 1.0, 8.0, 9.0]];
    let of = |vocab| LogitNeeds { vocab, top: 3, ..LogitNeeds::default() };
    for padded in everywhere(&table) {
        let argmax = |vocab| {
            padded.read(&of(vocab), |rows| rows.iter().map(LogitRow::argmax).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(
            (argmax(3), argmax(4), argmax(5), argmax(9)),
            (vec![1, 0], vec![3, 3], vec![3, 4], vec![3, 4])
        );
        let plain = RowFacts::of(&table[0][..3]);
        padded
            .read(&of(3), |rows| {
                assert_eq!(rows[0].facts(), &plain);
                assert_eq!(rows[0].values().unwrap().len(), 3);
                assert_eq!((rows[0].logit(2).unwrap(), rows[0].logit(3).unwrap()), (1.0, f32::NEG_INFINITY));
            })
            .unwrap();
        assert_eq!((padded.shape(), padded.to_vec2().unwrap()), ((2, 5), table.clone()));
        assert_eq!(padded.to_vec().unwrap(), table.concat());
    }
}

#[test]
fn whole_rows_stay_whole_where_they_are_needed() {
    let row = [0.5, 2.0, 1.0];
    let needs = LogitNeeds { vocab: 3, whole: true, ..LogitNeeds::default() };
    let kept = LogitRow::whole(&row).extract(&needs, 0);
    assert_eq!((kept.values().unwrap(), kept.argmax(), kept.top(1).len()), (&row[..], 1, 1));
}

#[test]
fn logits_that_were_not_requested_are_errors() {
    let needs = LogitNeeds { vocab: 3, ids: vec![vec![0]], ..LogitNeeds::default() };
    let row = LogitRow::whole(&[0.5, 2.0, 1.0]).extract(&needs, 0);
    assert_eq!((row.logit(0).unwrap(), row.logit(1).unwrap()), (0.5, 2.0));
    let error = row.logit(2).unwrap_err().to_string();
    assert!(error.starts_with("the logit of id 2 was not requested"), "{error}");
    let error = row.values().unwrap_err().to_string();
    assert!(error.starts_with("the logits of a row were not requested"), "{error}");
}
