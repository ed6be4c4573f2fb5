//! Attention for several queries at once, generic over the vector width and the type of keys and values.
//!
//! A loaded key block or value row serves all queries of a tile. The sums of each query are added in the order of a tile of one
//! query, from zero in every call.

/// Defines `scores` and `add_weighted` for vectors of `$width` lanes and keys and values of `$element`, which `$widen` loads;
/// a tile holds up to `$queries` queries.
macro_rules! attention_tiles {
    (
        $features:literal, $vector:ty, width $width:literal, queries $queries:literal, $element:ty, $widen:ident,
        $zero:ident, $load:ident, $store:ident, $splat:ident, $fma:ident,
        scores [$($sn:literal x $sv:literal),+], sums [$($wn:literal x $wc:literal),+]
    ) => {
        /// `out[n * stride + j] = queries[n] · keys[j]` for all slots `j` of `blocks` blocks.
        ///
        /// SAFETY: `queries` holds `count × d` values, `keys` `blocks` blocks of `d × SLOTS`, `out` `count × stride` values, and
        /// `stride >= blocks * SLOTS`.
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        pub unsafe fn scores(queries: &[f32], d: usize, keys: &[$element], blocks: usize, out: &mut [f32], stride: usize) {
            let vectors = blocks * (SLOTS / $width);
            let count = queries.len() / d;
            let mut n = 0;
            while n < count {
                let taken = (count - n).min($queries);
                let (q, o) = (&queries[n * d..], &mut out[n * stride..]);
                let mut v = 0;
                // SAFETY: the tile's queries and vectors are within the slices, as the caller guarantees.
                unsafe {
                    match taken {
                        $($sn => {
                            while v + $sv <= vectors {
                                score_tile::<$sn, $sv>(q, d, keys, v, o, stride);
                                v += $sv;
                            }
                            while v < vectors {
                                score_tile::<$sn, 1>(q, d, keys, v, o, stride);
                                v += 1;
                            }
                        })+
                        _ => {}
                    }
                }
                n += taken;
            }
        }

        /// SAFETY: as for [`scores`], for `N` queries and the vectors `v..v + V`.
        #[inline]
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        unsafe fn score_tile<const N: usize, const V: usize>(
            queries: &[f32],
            d: usize,
            keys: &[$element],
            v: usize,
            out: &mut [f32],
            stride: usize,
        ) {
            let mut acc = [[$zero(); V]; N];
            let place = |v: usize| (v * $width / SLOTS) * d * SLOTS + v * $width % SLOTS;
            let starts: [usize; V] = std::array::from_fn(|k| place(v + k));
            for i in 0..d {
                // SAFETY: dimension i of vectors v..v + V, and of the N queries.
                unsafe {
                    let key: [$vector; V] = std::array::from_fn(|k| $widen(keys.as_ptr().add(starts[k] + i * SLOTS)));
                    for (n, acc) in acc.iter_mut().enumerate() {
                        let q = $splat(*queries.as_ptr().add(n * d + i));
                        for (acc, key) in acc.iter_mut().zip(key) {
                            *acc = $fma(q, key, *acc);
                        }
                    }
                }
            }
            for (n, acc) in acc.into_iter().enumerate() {
                for (k, acc) in acc.into_iter().enumerate() {
                    // SAFETY: slots from (v + k) * width on are within the query's row.
                    unsafe { $store(out.as_mut_ptr().add(n * stride + (v + k) * $width), acc) };
                }
            }
        }

        /// `out[n] = keep[n] * out[n] + sum_j weights[n * stride + j] * values[j]` over rows of `d` values, `d` a multiple of
        /// the vector's width.
        ///
        /// SAFETY: the weights are of `count` queries, `values` hold their slots, and `out` `count × d` values.
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        pub unsafe fn add_weighted(weights: Weights<'_>, values: &[$element], d: usize, out: &mut [f32]) {
            let (mut n, count) = (0, out.len() / d);
            while n < count {
                let left = count - n;
                // Tiles of equal size: 8 queries are 4 and 4, not 6 and 2.
                let taken = left.div_ceil(left.div_ceil(*[$($wn),+].last().unwrap_or(&1)));
                let (w, o) = (weights.after(n), &mut out[n * d..]);
                let mut at = 0;
                while at < d {
                    // SAFETY: the tile's queries and columns are within the slices, as the caller guarantees.
                    at += unsafe {
                        match (taken, (d - at) / $width) {
                            $(
                                ($wn, 0 | 1) => sum_tile::<$wn, 1>(w, values, d, o, at),
                                ($wn, 2 | 3) => sum_tile::<$wn, 2>(w, values, d, o, at),
                                ($wn, _) => sum_tile::<$wn, $wc>(w, values, d, o, at),
                            )+
                            _ => d,
                        }
                    };
                }
                n += taken;
            }
        }

        /// Columns `at..at + C * width` of `N` sums; returns their number.
        ///
        /// SAFETY: as for [`add_weighted`].
        #[inline]
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        unsafe fn sum_tile<const N: usize, const C: usize>(
            weights: Weights<'_>,
            values: &[$element],
            d: usize,
            out: &mut [f32],
            at: usize,
        ) -> usize {
            // SAFETY: these columns of the N sums, and of every row, are within the slices.
            unsafe {
                let (rows, stride) = (weights.rows.as_ptr(), weights.stride);
                let place = |n: usize, c: usize| n * d + at + c * $width;
                let mut acc = [[$zero(); C]; N];
                for j in 0..weights.slots {
                    let value: [$vector; C] = std::array::from_fn(|c| $widen(values.as_ptr().add(place(j, c))));
                    for (n, acc) in acc.iter_mut().enumerate() {
                        let weight = $splat(*rows.add(n * stride + j));
                        for (acc, value) in acc.iter_mut().zip(value) {
                            *acc = $fma(weight, value, *acc);
                        }
                    }
                }
                for (n, acc) in acc.into_iter().enumerate() {
                    let keep = $splat(*weights.keep.as_ptr().add(n));
                    for (c, acc) in acc.into_iter().enumerate() {
                        let sum = out.as_mut_ptr().add(place(n, c));
                        $store(sum, $fma($load(sum), keep, acc));
                    }
                }
            }
            C * $width
        }
    };
}
pub(super) use attention_tiles;
