//! The portable implementation.

use super::{BlockRows, WIDE};
use crate::quant::{BlockType, Unpacked};

pub(super) fn widen<T: BlockType>(blocks: &[u8], out: &mut Vec<f32>) {
    let mut block = Unpacked::default();
    for bytes in blocks.chunks_exact(T::BYTES) {
        T::unpack(bytes, &mut block);
        for (j, q) in block.quants[..T::VALUES].chunks_exact(T::PART).enumerate() {
            let scale = block.scale * f32::from(block.scales[j]);
            let minimum = block.minimum * f32::from(block.minima[j]);
            out.extend(q.iter().map(|q| scale * (f32::from(*q) - f32::from(T::ZERO)) - minimum));
        }
    }
}

/// A row of blocks times row `r` of `x`, `inputs` values each: the sums of [`super`].
pub(super) fn dot<T: BlockType>(row: &[u8], x: BlockRows<'_>, r: usize, inputs: usize) -> f32 {
    let (mut block, mut sum) = (Unpacked::default(), 0f32);
    let (quants, scales) = if T::VALUES == WIDE {
        (&x.k.quants[r * inputs..], &x.k.scales)
    } else {
        (&x.q8.quants[r * inputs..], &x.q8.scales)
    };
    let first = r * (inputs / T::VALUES);
    for (b, (bytes, quants)) in row.chunks_exact(T::BYTES).zip(quants.chunks_exact(T::VALUES)).enumerate() {
        T::unpack(bytes, &mut block);
        let (scale, mut dot, mut minima) = (scales[first + b], 0, 0);
        let weights = block.quants.chunks_exact(T::PART);
        for (j, (q, x_q)) in weights.zip(quants.chunks_exact(T::PART)).enumerate() {
            let product = |(w, x): (&i8, &i8)| (i32::from(*w) - i32::from(T::ZERO)) * i32::from(*x);
            dot += i32::from(block.scales[j]) * q.iter().zip(x_q).map(product).sum::<i32>();
            if T::MINIMA {
                minima += i32::from(block.minima[j]) * sum_of_part::<T>(x, first + b, j);
            }
        }
        sum = (dot as f32).mul_add(block.scale * scale, sum);
        if T::MINIMA {
            sum = (-minima as f32).mul_add(block.minimum * scale, sum);
        }
    }
    sum
}

/// The sum of part `j` of a block of the inputs.
fn sum_of_part<T: BlockType>(x: BlockRows<'_>, block: usize, j: usize) -> i32 {
    if T::VALUES == WIDE {
        let sums = T::PART / 16;
        x.k.sums[block * 16 + j * sums..][..sums].iter().map(|sum| i32::from(*sum)).sum()
    } else {
        x.q8.offsets[block] / -128
    }
}
