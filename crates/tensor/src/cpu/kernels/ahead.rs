//! Weights that are read from memory while others are multiplied.
//!
//! A pass over a few rows takes as long as reading its weights, if the processor does both at once. It does not by itself: its
//! own prefetching follows the loads, and they stop while a panel that is in the cache is multiplied with further rows. So each
//! step of a product reads a little of what follows, as much as makes the last step end with the last line: many lines at once
//! would wait for each other.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::{
    BLOCK,
    quantized::{PANEL, Panels},
};

/// Bytes of a block of a panel.
const BYTES: usize = PANEL * BLOCK;
/// Blocks of a row that are multiplied with all rows in turn: with four panels they fill less than half of the first-level cache, as
/// do the next ones, which arrive meanwhile.
pub const CHUNK: usize = 8;
/// Parts in which a block is read.
const PARTS: usize = 2;

/// A chunk of some panels that is read ahead, part by part: first block first, a part of each panel in turn, as they will be used.
pub struct Ahead {
    quants: *const u8,
    scales: *const f32,
    /// Blocks of a row.
    blocks: usize,
    parts: usize,
    /// Parts of each step.
    each: usize,
}

impl Ahead {
    /// `P` panels from a panel and block on, to be read in `tiles` steps for each block of a chunk.
    pub fn new<const P: usize>(w: &Panels, (panel, block): (usize, usize), tiles: usize) -> Self {
        let at = panel * w.blocks + block;
        Self {
            quants: w.quants.as_ptr().wrapping_add(at * BYTES),
            scales: w.scales.as_ptr().wrapping_add(at * PANEL),
            blocks: w.blocks,
            parts: CHUNK * P * PARTS,
            each: (P * PARTS).div_ceil(tiles),
        }
    }

    /// Read the parts of a step. Reading ahead has no effect but on the cache, and may go beyond the weights.
    #[inline(always)]
    pub fn read<const P: usize>(&self, step: usize) {
        let from = step * self.each;
        for part in from..(from + self.each).min(self.parts) {
            let (panel, block, half) = (part % P, part / P / PARTS, part / P % PARTS);
            let at = panel * self.blocks + block;
            let quants = self.quants.wrapping_add(at * BYTES + half * (BYTES / PARTS));
            for line in 0..BYTES / PARTS / 64 {
                read_soon(quants.wrapping_add(line * 64));
            }
            if half == 0 {
                read_soon(self.scales.wrapping_add(at * PANEL).cast());
            }
        }
    }
}

#[inline(always)]
fn read_soon(line: *const u8) {
    // SAFETY: SSE is part of the target; a prefetch reads nothing that is not there.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}
