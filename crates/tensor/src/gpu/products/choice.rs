//! Up to how many rows the kernel for few rows is taken.
//!
//! Both kernels have the same bits, so only time decides, and cards and drivers differ in it. It is measured when a model is loaded,
//! with the model's own weights.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use super::{FEW, Way};
use crate::{
    TensorType,
    gpu::{Gpu, Matrix, Result, Rows, Scratch, lock, noise::noise},
};

/// Numbers of rows that are tried, ascending.
const TRIED: [usize; 6] = [2, 4, 8, 16, 24, 32];
/// Each is timed so often, after once that is not counted.
const REPEATS: usize = 5;
/// Bytes of weights of a measured product, if there are as many: more than a card's caches hold.
const BYTES: u64 = 256 << 20;
/// Outputs of a measured product on a driver that computes on the CPU.
const SOFTWARE_OUTPUTS: usize = 2048;
/// A product with fewer bytes of weights says nothing.
const LEAST: u64 = 1 << 20;

/// The limits of a device, by weight type.
pub(crate) type Limits = HashMap<TensorType, usize>;

impl Gpu {
    /// The most rows for which the kernel for few rows is taken.
    pub(in crate::gpu) fn few_limit(&self, kind: TensorType) -> usize {
        lock(self.limits_of_kernels()).get(&kind).copied().unwrap_or(FEW)
    }

    /// Take the limits of an earlier start, by the names of weight types; others are measured.
    pub(crate) fn set_few_limits(&self, limits: &BTreeMap<String, usize>) {
        let known = |kind: TensorType| Some((kind, (*limits.get(kind.name())?).clamp(1, 32)));
        lock(self.limits_of_kernels()).extend(TensorType::ALL.into_iter().filter_map(known));
    }

    /// Measure the limits of the types of some matrices that have none yet. Returns the new ones by the names of the types. Fails if
    /// memory is missing, or the device is lost.
    pub(crate) fn measure_few_limits(&self, matrices: &[&Matrix]) -> Result<BTreeMap<String, usize>> {
        let mut new = BTreeMap::new();
        for kind in TensorType::ALL {
            let of_kind: Vec<&Matrix> =
                matrices.iter().filter(|matrix| matrix.format() == Some(kind)).copied().collect();
            let Some(largest) = of_kind.iter().max_by_key(|matrix| matrix.bytes()) else { continue };
            if largest.bytes() < LEAST || lock(self.limits_of_kernels()).contains_key(&kind) {
                continue;
            }
            let alike = of_kind.iter().filter(|matrix| {
                (matrix.outputs(), matrix.inputs()) == (largest.outputs(), largest.inputs())
            });
            let limit = match self.is_software() {
                true => self.measure_few_limit(&[&largest.first_outputs(SOFTWARE_OUTPUTS)])?,
                false => {
                    let count = (BYTES / largest.bytes()).max(1) as usize;
                    self.measure_few_limit(&alike.take(count).copied().collect::<Vec<_>>())?
                }
            };
            lock(self.limits_of_kernels()).insert(kind, limit);
            new.insert(kind.name().to_owned(), limit);
        }
        Ok(new)
    }

    /// The limit by the products with these matrices, which are alike, one after the other.
    fn measure_few_limit(&self, matrices: &[&Matrix]) -> Result<usize> {
        let inputs = matrices[0].inputs();
        let (mut stream, mut scratch, mut y) = (self.stream(), Scratch::default(), Rows::default());
        let mut times = [[f64::INFINITY; 2]; TRIED.len()];
        for (rows, times) in TRIED.into_iter().zip(&mut times) {
            let x = Rows::upload(self, &noise(1, rows * inputs), inputs)?;
            // In turn, and the fastest counts: other programs slow both down.
            for repeat in 0..=REPEATS {
                for (way, fastest) in [Way::Few, Way::Tiles].into_iter().zip(&mut *times) {
                    let begun = Instant::now();
                    for matrix in matrices {
                        matrix.forward_by(way, &mut stream, &x, 0..rows, &mut y, &mut scratch)?;
                    }
                    stream.wait()?;
                    if repeat > 0 {
                        *fastest = fastest.min(begun.elapsed().as_secs_f64());
                    }
                }
            }
        }
        Ok(best_limit(&times))
    }
}

/// The limit with which passes take the least time in all, each relative to the faster of its two ways: one odd time does not decide.
/// `times` are those of [`TRIED`], few rows and tiles.
fn best_limit(times: &[[f64; 2]; TRIED.len()]) -> usize {
    let cost = |limit: usize| -> f64 {
        let relative = |(rows, [few, tiles]): (usize, &[f64; 2])| {
            let taken = if rows <= limit { few } else { tiles };
            taken / few.min(*tiles)
        };
        TRIED.into_iter().zip(times).map(relative).sum()
    };
    // One row is never computed as a tile.
    std::iter::once(1).chain(TRIED).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(FEW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{matrix::load::Loader, testing::gpu_or_skip};

    #[test]
    fn the_limit_is_where_tiles_begin_to_be_faster() {
        let even = [1.0; 2];
        let (few, tiles) = ([1.0, 2.0], [2.0, 1.0]);
        assert_eq!(best_limit(&[few, few, few, few, tiles, tiles]), 16);
        assert_eq!(best_limit(&[few; 6]), 32);
        assert_eq!(best_limit(&[tiles; 6]), 1);
        // One odd time, and ways that are equally fast.
        assert_eq!(best_limit(&[[1.1, 1.0], few, few, tiles, tiles, tiles]), 8);
        assert_eq!(best_limit(&[few, few, even, even, tiles, tiles]), 4);
    }

    #[test]
    fn limits_are_measured_once_and_taken_over() {
        let Some(gpu) = gpu_or_skip() else { return };
        // Other tests use the same device.
        let gpu = Gpu::open_adapter(gpu.adapter().clone(), false).unwrap();
        let load = |kind, outputs| {
            Loader::new(&gpu, &[(kind, outputs)], 1024, u64::MAX).unwrap().finish(None).unwrap()
        };
        let (small, large) = (load(TensorType::F32, 16), load(TensorType::F32, 1024));
        assert_eq!(gpu.measure_few_limits(&[&small]).unwrap(), BTreeMap::new());
        assert_eq!(gpu.few_limit(TensorType::F32), FEW);
        let new = gpu.measure_few_limits(&[&small, &large]).unwrap();
        let limit = new["f32"];
        assert!(new.len() == 1 && (limit == 1 || TRIED.contains(&limit)), "{new:?}");
        assert_eq!(gpu.few_limit(TensorType::F32), limit);
        assert_eq!(gpu.measure_few_limits(&[&large]).unwrap(), BTreeMap::new());
        let given = [("q8_0", 24), ("f32", 8), ("f16", usize::MAX), ("bf16", 0), ("none", 3)];
        gpu.set_few_limits(&given.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect());
        let found = ["q8_0", "f32", "f16", "bf16"]
            .map(|name| gpu.few_limit(TensorType::ALL.into_iter().find(|kind| kind.name() == name).unwrap()));
        assert_eq!(found, [24, 8, 32, 1]);
    }
}
