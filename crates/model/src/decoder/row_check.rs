//! A check that a device is batch-invariant: a row has the same bits among any other rows.

use specreel_tensor::Result;

use super::{Decoder, Mask, Positions, States, Taps, Workspace};

/// Tokens of the check: more than a pass that is computed as one of few rows.
const TOKENS: u32 = 40;
/// How the tokens are cut into passes. Devices have kernels for numbers of rows: the ones for short drafts are compiled here, before
/// the first run is timed.
const CUTS: [&[usize]; 3] = [&[40], &[1, 2, 3, 4, 5, 6, 7, 8, 4], &[11, 16, 13]];

impl Decoder {
    /// Compute a text in its first layer and the head, in passes of different numbers of rows, and compare the bits of its last
    /// row and of a row among others. The kernels are those that the model runs.
    pub(super) fn computes_rows_alike(&self) -> Result<bool> {
        let first = self.first_layers(1);
        let vocab = first.config().vocab.max(1) as u32;
        let ids: Vec<u32> = (0..TOKENS).map(|i| i * 7919 % vocab).collect();
        let mut workspace = Workspace::default();
        let mut found: Option<Vec<u32>> = None;
        for cuts in CUTS {
            let mut cache = first.cache(ids.len());
            let mut states = Vec::new();
            for &count in cuts {
                let at = cache.len();
                let (input, positions) = (&ids[at..at + count], Positions::text(at as u32, count));
                let (mask, taps) = (Mask::Causal, Taps::default());
                let pass = first.forward(input, &positions, &mask, &mut cache, &taps, &mut workspace)?;
                states.push(States::new(pass.states.to_vec()?, first.config().hidden)?);
            }
            // One, three and all rows of logits.
            let all = States::cat(&states)?;
            let rows = [all.narrow(39, 1)?, all.narrow(37, 3)?, all.clone()];
            for rows in rows {
                let logits = first.logits(&rows, &mut workspace)?.to_vec()?;
                let last = &logits[logits.len() - vocab as usize..];
                let bits: Vec<u32> = all.to_vec()?.iter().chain(last).map(|value| value.to_bits()).collect();
                match &found {
                    None => found = Some(bits),
                    Some(found) if *found != bits => return Ok(false),
                    Some(_) => {}
                }
            }
        }
        Ok(true)
    }
}
