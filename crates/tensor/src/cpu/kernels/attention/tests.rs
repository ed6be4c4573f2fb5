use super::{
    super::{SIGN, tests::noise},
    *,
};

/// Keys and values of one head in a type: what is held, and what it stands for as rows.
struct Head {
    half: [Vec<u16>; 2],
    fixed: [Vec<i16>; 2],
    quants: [Vec<[u8; 4]>; 2],
    scales: [Vec<f32>; 2],
    wide: [Vec<f32>; 2],
    rows: [Vec<f32>; 2],
}

/// The types in which heads of `d` values are held.
fn kinds(d: usize) -> Vec<&'static str> {
    let fixed = ["fixed"].into_iter().filter(|_| holds_fixed(d));
    ["f32", "f16", "q8_0"].into_iter().chain(fixed).collect()
}

impl Head {
    fn new(slots: usize, d: usize, kind: &str) -> Self {
        let (blocks, chunks) = (slots.div_ceil(SLOTS), scales_of(d));
        let room = blocks * SLOTS;
        let mut head = Self {
            half: [vec![0; room * d], vec![0; room * d]],
            fixed: [vec![0; room * d], vec![0; room * d]],
            quants: [vec![[0; 4]; room * d / 4], vec![[0; 4]; room * d / 4]],
            scales: [vec![0.0; room * chunks], vec![0.0; room * chunks]],
            wide: [vec![0.0; room * d], vec![0.0; room * d]],
            rows: [noise(slots * d, 6), noise(slots * d, 7)],
        };
        for part in 0..2 {
            // Keys are interleaved.
            let lanes = if part == 0 { SLOTS } else { 1 };
            for slot in 0..slots {
                let row = &mut head.rows[part][slot * d..][..d];
                let place = |width: usize, i: usize| slot / lanes * lanes * width + i * lanes + slot % lanes;
                match kind {
                    "f32" => {}
                    "f16" => {
                        let mut bits = vec![0; d];
                        narrow(row, &mut bits);
                        for (i, &bits) in bits.iter().enumerate() {
                            head.half[part][place(d, i)] = bits;
                            row[i] = half::f16::from_bits(bits).to_f32();
                        }
                    }
                    "fixed" => {
                        let mut integers = vec![0; d];
                        let scale = if part == 0 { fix_key } else { fix_values }(row, &mut integers);
                        head.scales[part][slot] = scale;
                        for (i, &integer) in integers.iter().enumerate() {
                            // Words of two dimensions, or of two slots.
                            let at = if part == 0 {
                                2 * place(d / 2, i / 2) + i % 2
                            } else {
                                slot / 2 * 2 * d + 2 * i + slot % 2
                            };
                            head.fixed[part][at] = integer;
                            let rounded = f32::from(integer) * scale;
                            assert!((rounded - row[i]).abs() <= scale * 0.501);
                            row[i] = rounded;
                        }
                    }
                    _ => {
                        let (mut quants, mut scales) = (vec![0; d], vec![0.0; chunks]);
                        quantize_chunks(row, &mut quants, &mut scales);
                        for (w, word) in quants.as_chunks::<4>().0.iter().enumerate() {
                            head.quants[part][place(d / 4, w)] = word.map(|q| q as u8 ^ SIGN);
                        }
                        for (c, &scale) in scales.iter().enumerate() {
                            head.scales[part][place(chunks, c)] = scale;
                        }
                        for (i, v) in row.iter_mut().enumerate() {
                            let rounded = f32::from(quants[i]) * scales[i / BLOCK];
                            assert!((rounded - *v).abs() <= scales[i / BLOCK] * 0.5001);
                            *v = rounded;
                        }
                    }
                }
                for (i, &v) in row.iter().enumerate() {
                    head.wide[part][place(d, i)] = v;
                }
            }
        }
        head
    }

    fn held(&self, part: usize, kind: &str) -> Held<'_> {
        match kind {
            "f32" => Held::F32(&self.wide[part]),
            "f16" => Held::F16(&self.half[part]),
            "fixed" => Held::Fixed { integers: &self.fixed[part], scales: &self.scales[part] },
            _ => Held::Q8 { quants: &self.quants[part], scales: &self.scales[part] },
        }
    }
}

/// Round a row as 8-bit values do.
fn round(row: &mut [f32]) {
    let (mut quants, mut scales) = (vec![0; row.len()], vec![0.0; scales_of(row.len())]);
    quantize_chunks(row, &mut quants, &mut scales);
    for (i, v) in row.iter_mut().enumerate() {
        *v = f32::from(quants[i]) * scales[i / BLOCK];
    }
}

/// Attention of queries over `slots` slots.
fn attend(q: &[f32], d: usize, keys: Held<'_>, values: Held<'_>, slots: usize) -> Vec<f32> {
    let count = q.len() / d;
    let (mut queries, mut panel, mut softmax) =
        (Queries::default(), Panel::default(), OnlineSoftmax::default());
    queries.set(d, 1.0, q.chunks_exact(d), keys);
    softmax.reset(count);
    let (mut rows, mut out) = (Vec::new(), vec![0f32; count * d]);
    for start in (0..slots).step_by(SEGMENT) {
        let slots = SEGMENT.min(slots - start);
        let stride = slots.next_multiple_of(SLOTS);
        let mut segment = panel.load(keys.from_slot(start, d), values.from_slot(start, d), slots, d, count);
        rows.resize(count * stride, 0.0);
        segment.scores(&queries, 0..count, slots, &mut rows, stride);
        for (n, row) in rows.chunks_exact_mut(stride).enumerate() {
            softmax.weigh(n, &mut row[..slots]);
        }
        segment.add_weighted(Weights { rows: &rows, stride, slots, keep: softmax.keep() }, &mut out);
    }
    for (n, out) in out.chunks_exact_mut(d).enumerate() {
        out.iter_mut().for_each(|v| *v /= softmax.total(n));
    }
    out
}

#[test]
fn attention_matches_f64_arithmetic_and_does_not_depend_on_the_number_of_queries() {
    for (d, slots, count) in
        [(24, 41, 1), (64, 200, 5), (16, 16, 8), (32, 33, 13), (20, 70, 4), (128, 300, 21), (96, 1201, 9)]
    {
        for kind in kinds(d) {
            let q = noise(count * d, 5);
            let head = Head::new(slots, d, kind);
            let (keys, values) = (head.held(0, kind), head.held(1, kind));
            let together = attend(&q, d, keys, values, slots);
            // In fixed point, queries and weights have 13 to 15 bits.
            let fixed = kind == "fixed" || kind == "q8_0" && holds_fixed(d);
            let tolerance = if fixed { 1e-3 } else { 2e-5 };
            // Queries of 8-bit keys are rounded as well.
            let mut rounded = q.clone();
            if kind == "q8_0" {
                rounded.chunks_exact_mut(d).for_each(round);
            }
            for n in 0..count {
                let query = &q[n * d..(n + 1) * d];
                let alone = attend(query, d, keys, values, slots);
                assert_eq!(alone, together[n * d..(n + 1) * d], "{kind} {d}: query {n}");
                let (query, [k, v]) = (&rounded[n * d..(n + 1) * d], &head.rows);
                let dot =
                    |j: usize| (0..d).map(|i| f64::from(query[i]) * f64::from(k[j * d + i])).sum::<f64>();
                let weights: Vec<f64> = (0..slots).map(|j| dot(j).exp()).collect();
                let z: f64 = weights.iter().sum();
                for i in 0..d {
                    let want: f64 = (0..slots).map(|j| weights[j] / z * f64::from(v[j * d + i])).sum();
                    let got = f64::from(together[n * d + i]);
                    assert!((got - want).abs() < tolerance, "{kind} {d}: {got} {want}");
                }
            }
        }
    }
}

/// All implementations on the same operands, regardless of this process's choice.
#[test]
fn implementations_have_the_same_bits() {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    for (d, slots) in [(20, 33usize), (32, 100), (64, 16), (80, 47), (96, 100), (128, 61), (256, 30)] {
        let stride = slots.next_multiple_of(SLOTS);
        for kind in kinds(d) {
            let head = Head::new(slots, d, kind);
            let (keys, values) = (head.held(0, kind), head.held(1, kind));
            for count in 1..=13 {
                let (mut queries, mut panel) = (Queries::default(), Panel::default());
                queries.set(d, 0.5, noise(count * d, 5).chunks_exact(d), keys);
                let mut weights = noise(count * stride, 8);
                // Weights are not negative, and those of slots that are not seen are zero.
                weights.iter_mut().for_each(|weight| *weight = weight.abs());
                weights[slots / 2] = 0.0;
                let keep = noise(count, 9);
                let mut segment = panel.load(keys, values, slots, d, count);
                let mut results = Instructions::all().into_iter().map(|instructions| {
                    segment.instructions = instructions;
                    let (mut scores, mut sums) = (vec![0f32; count * stride], vec![1f32; count * d]);
                    segment.scores(&queries, 0..count, slots, &mut scores, stride);
                    segment.add_weighted(Weights { rows: &weights, stride, slots, keep: &keep }, &mut sums);
                    (instructions, bits(&scores), bits(&sums))
                });
                let (_, scores, sums) = results.next().unwrap();
                for (instructions, their_scores, their_sums) in results {
                    assert!(scores == their_scores, "scores: {kind} {d}, {count} queries: {instructions:?}");
                    assert!(sums == their_sums, "sums: {kind} {d}, {count} queries: {instructions:?}");
                }
            }
        }
    }
}

#[test]
fn implementations_in_f32_have_the_same_bits() {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let (slots, stride) = (47, 48);
    for d in [16, 20, 24, 80, 128] {
        for count in 1..=9 {
            let (q, keys, values) = (noise(count * d, 5), noise(stride * d, 6), noise(slots * d, 7));
            let (weights, keep) = (noise(count * stride, 8), noise(count, 9));
            let weights = Weights { rows: &weights, stride, slots, keep: &keep };
            let run = |scores: &dyn Fn(&mut [f32]), sums: &dyn Fn(&mut [f32])| {
                let (mut all, mut out) = (vec![0f32; count * stride], vec![1f32; count * d]);
                scores(&mut all);
                sums(&mut out);
                (bits(&all), bits(&out))
            };
            let want = run(&|out| portable::scores(&q, d, &keys, 3, out, stride), &|out| {
                portable::add_weighted(weights, &values, d, out);
            });
            let dispatched = run(&|out| scores_f32(&q, d, &keys, 3, out, stride), &|out| {
                add_weighted_f32(weights, &values, d, out);
            });
            assert!(dispatched == want, "{d}, {count} queries");
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            if super::super::has_vectors() && d.is_multiple_of(8) {
                // SAFETY: the features were detected, and the operands are the same as in the other calls.
                let vectors = unsafe {
                    run(&|out| vectors::scores(&q, d, &keys, 3, out, stride), &|out| {
                        vectors::add_weighted(weights, &values, d, out);
                    })
                };
                assert!(vectors == want, "{d}, {count} queries in vectors of eight");
            }
        }
    }
}

/// The widened copies of keys and values are what is held.
#[test]
fn what_is_held_is_widened_in_place() {
    for d in [20, 32, 64, 80] {
        for (kind, parts) in [("f16", 0..2), ("q8_0", 1..2)] {
            let head = Head::new(33, d, kind);
            for part in parts {
                let mut wide = vec![9f32; head.wide[part].len()];
                widen_values(head.held(part, kind), d, &mut wide);
                assert_eq!(wide, head.wide[part], "{kind} {d}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "fewer slots")]
fn too_few_keys_panic() {
    Panel::default().load(Held::F32(&[0.0; 127]), Held::F32(&[0.0; 128]), 3, 8, 1);
}
