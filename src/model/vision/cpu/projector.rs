//! From a tower's states to visual embeddings.

use super::parts::{Input, Norm, each_slice, padded};
use crate::model::{
    device::cpu::{
        kernels::activations::{Activation, activate},
        linear::Linear,
    },
    vision::llava::{Tap, taps},
};

/// Rows of a product.
const ROWS: usize = 128;

/// The last part of a tower.
pub(super) enum Projector {
    /// Norm, concatenation of the states of a cell, linear, GELU, linear: a visual token for each cell.
    Merger {
        /// The norm of the states.
        norm: Norm,
        /// Over the states of a cell.
        first: Linear,
        /// To the decoder's width.
        second: Linear,
    },
    /// Linear, GELU, linear, then bilinear pooling of a picture's square of states.
    Pooled {
        /// To the decoder's width.
        first: Linear,
        /// Within the decoder's width.
        second: Linear,
        /// For each of the four neighbours: the state and its weight, for every visual token.
        taps: [Vec<Tap>; 4],
        /// States of a picture.
        states: usize,
    },
}

impl Projector {
    /// A projector of squares of `side × side` states.
    pub fn pooled(first: Linear, second: Linear, side: usize) -> Self {
        Self::Pooled { first, second, taps: taps(side), states: side * side }
    }

    /// Size of the matrices in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Merger { first, second, .. } | Self::Pooled { first, second, .. } => {
                first.bytes() + second.bytes()
            }
        }
    }

    /// Visual embeddings of the states `x` of some temporal grids, and their width. `cells` has the index in the result of each
    /// of a grid's cells.
    pub fn forward(
        &self,
        x: &[f32],
        grids: usize,
        hidden: usize,
        cells: &[usize],
    ) -> candle_core::Result<(Vec<f32>, usize)> {
        match self {
            Self::Merger { norm, first, second } => {
                let (out, count) = (second.outputs(), grids * cells.len());
                let merged = x.len() / hidden / count.max(1);
                let mut result = vec![0f32; count * out];
                let fill = |cell: usize, to: &mut [f32]| {
                    let states = x[cell * merged * hidden..].chunks_exact(hidden);
                    states.zip(to.chunks_exact_mut(hidden)).for_each(|(x, to)| norm.apply(x, to));
                };
                two_layers(first, second, count, merged * hidden, &fill, &mut |cell, row| {
                    let to = cell / cells.len() * cells.len() + cells[cell % cells.len()];
                    result[to * out..(to + 1) * out].copy_from_slice(row);
                })?;
                Ok((result, out))
            }
            Self::Pooled { first, second, taps, states } => {
                let out = second.outputs();
                let mut projected = vec![0f32; x.len() / hidden * out];
                let fill = |r: usize, to: &mut [f32]| to.copy_from_slice(&x[r * hidden..(r + 1) * hidden]);
                two_layers(first, second, x.len() / hidden, hidden, &fill, &mut |r, row| {
                    projected[r * out..(r + 1) * out].copy_from_slice(row);
                })?;
                let tokens = taps[0].len();
                let mut result = vec![0f32; grids * tokens * out];
                each_slice(&mut result, out, &|at, to| {
                    let (picture, token) = (at / tokens, at % tokens);
                    for tap in taps {
                        let Tap { state, weight } = tap[token];
                        let from = &projected[(picture * states + state) * out..][..out];
                        to.iter_mut().zip(from).for_each(|(to, from)| *to += from * weight);
                    }
                });
                Ok((result, out))
            }
        }
    }
}

/// Linear, GELU, linear of `rows` rows of `width` values, a few at a time.
fn two_layers(
    first: &Linear,
    second: &Linear,
    rows: usize,
    width: usize,
    fill: &(dyn Fn(usize, &mut [f32]) + Sync),
    take: &mut dyn FnMut(usize, &[f32]),
) -> candle_core::Result<()> {
    let (mut input, mut hidden, mut out) = (Input::default(), Vec::new(), Vec::new());
    let middle = first.outputs();
    debug_assert_eq!(middle, padded(middle), "outputs are padded to be the next matrix's inputs");
    for start in (0..rows).step_by(ROWS) {
        let n = ROWS.min(rows - start);
        input.fill(n, width, first.forms(), &|r, to| fill(start + r, to));
        hidden.resize(n * middle, 0.0);
        input.multiply(first, n, &mut hidden)?;
        input.fill(n, middle, second.forms(), &|r, to| {
            to.copy_from_slice(&hidden[r * middle..(r + 1) * middle]);
            activate(Activation::GeluErf, to);
        });
        out.resize(n * second.outputs(), 0.0);
        input.multiply(second, n, &mut out)?;
        for (r, row) in out.chunks_exact(second.outputs()).enumerate() {
            take(start + r, row);
        }
    }
    Ok(())
}
