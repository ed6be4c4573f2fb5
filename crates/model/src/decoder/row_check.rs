//! A check that a device is batch-invariant: a row has the same bits among any other rows.

use std::sync::Arc;

use specreel_tensor::{Result, ops::TunedOps};

use super::{Mask, Positions, States, Taps, Workspace, dispatch::DeviceDecoder as _, on_device::OnDevice};

/// Tokens of the check: more than a pass that is computed as one of few rows.
const TOKENS: u32 = 48;
/// How the tokens are cut into passes. Devices have kernels for numbers of rows: all of them are compiled here, before the first run
/// is timed.
const CUTS: [&[usize]; 3] = [&[48], &[1, 2, 3, 4, 5, 6, 7, 8, 12], &[16, 32]];
/// Rows of logits: the last ones.
const LOGITS: [usize; 3] = [1, 3, 48];
/// The outputs of the head that are computed: all are summed by the same kernels.
const OUTPUTS: usize = 4096;

impl<D: TunedOps> OnDevice<D> {
    /// Compute a text in its first layer and the head, in passes of different numbers of rows, and compare the bits of all states
    /// and of the last row's logits. The kernels are those that the model runs.
    pub(super) fn computes_rows_alike(&self) -> Result<bool> {
        let mut first = self.clone();
        first.head = Arc::new(D::first_outputs(&self.head, OUTPUTS));
        let first = first.first_layers(1);
        let (vocab, hidden) = (first.config().vocab.max(1) as u32, first.config().hidden);
        let ids: Vec<u32> = (0..TOKENS).map(|i| i * 7919 % vocab).collect();
        let mut workspace = Workspace::default();
        let mut passes = Vec::new();
        for cuts in CUTS {
            let mut cache = first.cache(ids.len());
            let mut states = Vec::new();
            for &count in cuts {
                let at = cache.len();
                let (input, positions) = (&ids[at..at + count], Positions::text(at as u32, count));
                let (mask, taps) = (Mask::Causal, Taps::default());
                let pass = first.forward(input, &positions, &mask, &mut cache, &taps, &mut workspace)?;
                states.extend(pass.states.to_vec()?);
            }
            passes.push(states);
        }
        let all = States::new(passes[0].clone(), hidden)?;
        let mut logits = Vec::new();
        for rows in LOGITS {
            let found = first.logits(&all.narrow(ids.len() - rows, rows)?, &mut workspace)?.to_vec()?;
            logits.push(found[found.len() / rows * (rows - 1)..].to_vec());
        }
        Ok(are_alike(&passes) && are_alike(&logits))
    }
}

/// True if all have the same bits.
fn are_alike(all: &[Vec<f32>]) -> bool {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    all.windows(2).all(|pair| bits(&pair[0]) == bits(&pair[1]))
}
