//! Products in fixed point for several queries at once, generic over the vectors.

/// Defines `scores` and `add_weighted` for vectors of `$lanes` lanes, with the operations in scope: `load`, `store`, `splat`,
/// `mul`, `fma` and `arrange` of floats, `load_words`, `splat_word`, `no_sums`, `add_pairs` and `totals` of integers, and
/// `byte_words` and `byte_group`. A tile of so many queries has so many vectors.
macro_rules! fixed_tiles {
    ($features:literal, lanes $lanes:literal, scores [$($sn:literal x $sv:literal),+], sums [$($wn:literal x $wc:literal),+]) => {
        /// Scores of queries of `d` values, which have a scale each.
        ///
        /// SAFETY: the features were detected; the blocks can be read, and `out` holds rows of `stride` values.
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        pub unsafe fn scores(
            (queries, own): (&[i16], &[f32]),
            d: usize,
            keys: FixedKeys<'_>,
            blocks: usize,
            out: &mut [f32],
            stride: usize,
        ) {
            let vectors = blocks * (SLOTS / $lanes);
            let mut n = 0;
            while n < own.len() {
                let taken = tile(own.len() - n, *[$($sn),+].last().unwrap_or(&1));
                let (own, out) = ((&queries[n * d..], &own[n..]), &mut out[n * stride..]);
                let mut v = 0;
                // SAFETY: the tile's queries and vectors are within the slices, as the caller guarantees.
                unsafe {
                    match taken {
                        $($sn => {
                            while v + $sv <= vectors {
                                score_tile::<$sn, $sv>(own, keys, d, v, out, stride);
                                v += $sv;
                            }
                            while v < vectors {
                                score_tile::<$sn, 1>(own, keys, d, v, out, stride);
                                v += 1;
                            }
                        })+
                        _ => {}
                    }
                }
                n += taken;
            }
        }

        /// Scores of the first `N` queries in the vectors `v..v + V`.
        ///
        /// SAFETY: as for [`scores`].
        #[inline]
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        unsafe fn score_tile<const N: usize, const V: usize>(
            (queries, own): (&[i16], &[f32]),
            keys: FixedKeys<'_>,
            d: usize,
            v: usize,
            out: &mut [f32],
            stride: usize,
        ) {
            let mut acc = [[no_sums(); V]; N];
            let place = |v: usize| v * $lanes / SLOTS * (d / 2 * SLOTS) + v * $lanes % SLOTS;
            let starts: [usize; V] = std::array::from_fn(|k| place(v + k));
            // SAFETY: every access is within the tile.
            unsafe {
                for word in 0..d / 2 {
                    let key: [Words; V] = std::array::from_fn(|k| {
                        let at = keys.words.as_ptr().add(starts[k] + word * SLOTS);
                        if N <= FEW && (v + k) * $lanes % SLOTS == 0 {
                            read_soon(at.wrapping_add(SEGMENT * d / 2).cast());
                        }
                        load_words(at)
                    });
                    for (n, acc) in acc.iter_mut().enumerate() {
                        let query = splat_word(queries.as_ptr().add(n * d + 2 * word));
                        for (acc, key) in acc.iter_mut().zip(key) {
                            *acc = add_pairs(*acc, key, query);
                        }
                    }
                }
                for (n, acc) in acc.into_iter().enumerate() {
                    let own = splat(*own.as_ptr().add(n));
                    for (k, acc) in acc.into_iter().enumerate() {
                        let slot = (v + k) * $lanes;
                        let scale = mul(own, load(keys.scales.as_ptr().add(slot)));
                        store(out.as_mut_ptr().add(n * stride + slot), mul(totals(acc), scale));
                    }
                }
            }
        }

        /// Words of two rows of values.
        trait TileValues: Copy {
            /// True if the columns of four vectors are in the order that [`arrange`] undoes.
            const SHUFFLED: bool;

            /// Vectors of columns from `at` on of rows `2 * pair` and `2 * pair + 1`; with `few` queries, the next segment's rows
            /// are prefetched.
            ///
            /// SAFETY: the rows can be read; the features were detected.
            unsafe fn words<const C: usize>(self, pair: usize, at: usize, few: bool) -> [Words; C];
        }

        impl TileValues for FixedValues<'_> {
            const SHUFFLED: bool = false;

            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn words<const C: usize>(self, pair: usize, at: usize, few: bool) -> [Words; C] {
                let first = self.words.as_ptr().wrapping_add(pair * self.d + at);
                std::array::from_fn(|c| {
                    let at = first.wrapping_add(c * $lanes);
                    if few && c * $lanes % SLOTS == 0 {
                        read_soon(at.wrapping_add(SEGMENT / 2 * self.d).cast());
                    }
                    // SAFETY: the caller's.
                    unsafe { load_words(at) }
                })
            }
        }

        impl TileValues for ByteValues<'_> {
            const SHUFFLED: bool = true;

            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn words<const C: usize>(self, pair: usize, at: usize, _few: bool) -> [Words; C] {
                let first = 2 * pair * self.d + at;
                // SAFETY: the caller's; there are factors of all rows.
                unsafe {
                    let rows = self.quants.as_ptr().add(first);
                    let factors = self.factors.as_ptr().add(first / BLOCK);
                    let (rows, factors) = ([rows, rows.add(self.d)], [factors, factors.add(self.d / BLOCK)]);
                    if C == 4 {
                        let group = byte_group(rows, factors, SEGMENT * self.d);
                        return std::array::from_fn(|c| group[c]);
                    }
                    std::array::from_fn(|c| {
                        let factors = factors.map(|factors| i32::from(*factors.add(c * $lanes / BLOCK)));
                        byte_words(rows.map(|row| row.add(c * $lanes)), factors)
                    })
                }
            }
        }

        /// Add the weighted rows of values to the sums in `out`.
        ///
        /// SAFETY: the features were detected; weights, integers and factors are of as many queries as `out` has rows of `d` values,
        /// a multiple of 32; the slots can be read, in pairs.
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        pub unsafe fn add_weighted(
            weights: (Weights<'_>, &[i16], &[f32]),
            values: FixedRows<'_>,
            d: usize,
            out: &mut [f32],
        ) {
            // SAFETY: as the caller guarantees.
            unsafe {
                match values {
                    FixedRows::Converting(values) => add_rows(weights, values, d, out),
                    FixedRows::Converted(values) => add_rows(weights, values, d, out),
                }
            }
        }

        /// SAFETY: as for [`add_weighted`].
        #[inline]
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        unsafe fn add_rows(
            (weights, integers, factors): (Weights<'_>, &[i16], &[f32]),
            values: impl TileValues,
            d: usize,
            out: &mut [f32],
        ) {
            let (mut n, count) = (0, out.len() / d);
            while n < count {
                let taken = tile(count - n, *[$($wn),+].last().unwrap_or(&1));
                let weights = (weights.after(n), &integers[n * weights.stride..], &factors[n..]);
                let out = &mut out[n * d..];
                let mut at = 0;
                while at < d {
                    // SAFETY: the tile's queries and columns are within the slices, as the caller guarantees.
                    at += unsafe {
                        match (taken, (d - at) / $lanes) {
                            $(
                                ($wn, 0 | 1) => sum_tile::<_, $wn, 1>(weights, values, d, out, at),
                                ($wn, 2 | 3) => sum_tile::<_, $wn, 2>(weights, values, d, out, at),
                                ($wn, _) => sum_tile::<_, $wn, $wc>(weights, values, d, out, at),
                            )+
                            _ => d,
                        }
                    };
                }
                n += taken;
            }
        }

        /// Columns `at..at + C * $lanes` of `N` sums; returns their number.
        ///
        /// SAFETY: as for [`add_weighted`].
        #[inline]
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        unsafe fn sum_tile<V: TileValues, const N: usize, const C: usize>(
            (weights, integers, factors): (Weights<'_>, &[i16], &[f32]),
            values: V,
            d: usize,
            out: &mut [f32],
            at: usize,
        ) -> usize {
            let mut acc = [[no_sums(); C]; N];
            // SAFETY: these columns of the N sums, and of every pair of rows, are within the slices.
            unsafe {
                for pair in 0..weights.slots.div_ceil(2) {
                    let value: [Words; C] = values.words(pair, at, N <= FEW);
                    for (n, acc) in acc.iter_mut().enumerate() {
                        let weight = splat_word(integers.as_ptr().add(n * weights.stride + 2 * pair));
                        for (acc, value) in acc.iter_mut().zip(value) {
                            *acc = add_pairs(*acc, value, weight);
                        }
                    }
                }
                for (n, acc) in acc.into_iter().enumerate() {
                    let factor = splat(*factors.as_ptr().add(n));
                    let keep = splat(*weights.keep.as_ptr().add(n));
                    let mut sums: [Floats; C] = std::array::from_fn(|c| totals(acc[c]));
                    if V::SHUFFLED && C == 4 {
                        let four = arrange(std::array::from_fn(|c| sums[c % C]));
                        sums = std::array::from_fn(|c| four[c]);
                    }
                    for (c, sums) in sums.into_iter().enumerate() {
                        let sum = out.as_mut_ptr().add(n * d + at + c * $lanes);
                        store(sum, fma(sums, factor, mul(load(sum), keep)));
                    }
                }
            }
            C * $lanes
        }
    };
}
pub(super) use fixed_tiles;

/// Queries of the next tile of `left`, in tiles of about the same size, of at most `most`.
#[inline]
pub(super) fn tile(left: usize, most: usize) -> usize {
    left.div_ceil(left.div_ceil(most))
}
