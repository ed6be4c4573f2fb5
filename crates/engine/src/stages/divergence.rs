//! Where a run first differs from autoregressive decoding: between which two tokens, and how close their logits are.
//!
//! To a lossless run this does not happen on the CPU. An accelerator's libraries sum a row in another order when it is computed together with
//! others, so of two nearly equally likely tokens either may win. The logits at that place are computed again, in a pass over
//! the common text, and reported with the run.

use specreel_tensor::{ComputeDevice, Result, WeightType};

use specreel_model::decoder::{Sequence, Taps};
use specreel_record::stats::Tie;
use specreel_speculate::processors::History;

/// The text that both runs have in common, and the next token of each; none is its end.
pub(crate) struct Divergence<'a> {
    /// The prompt's last token.
    pub root: u32,
    /// The tokens of both.
    pub common: &'a [u32],
    /// Autoregressive decoding's next token.
    pub plain: Option<u32>,
    /// The other run's.
    pub other: Option<u32>,
    /// The likeliest tokens are emitted; drawn at random, a token depends on the whole distribution.
    pub is_greedy: bool,
    /// By which rows are processed, at the end of the prompt.
    pub history: Option<History>,
    /// Tokens that end a text.
    pub ends: &'a [u32],
    /// Logits from here on are padding.
    pub vocab: usize,
}

impl Divergence<'_> {
    /// Compute the logits after the common text. `target` holds the prompt without its last token, before and after.
    pub fn measure(
        &self,
        target: &mut Sequence,
        device: &ComputeDevice,
        text: &dyn Fn(u32) -> String,
    ) -> Result<Option<Tie>> {
        let base = target.len();
        let logits = self.logits(target);
        target.truncate(base);
        let logits = logits?;
        let known = |id: u32| logits.get(id as usize).map(|logit| (id, *logit));
        let best = |id: Option<u32>| match id {
            Some(id) => known(id),
            None => self.ends.iter().filter_map(|&id| known(id)).max_by(|a, b| a.1.total_cmp(&b.1)),
        };
        let (Some(plain), Some(other)) = (best(self.plain), best(self.other)) else { return Ok(None) };
        let gap = plain.1 - other.1;
        Ok(Some(Tie {
            at: self.common.len(),
            plain: text(plain.0),
            other: text(other.0),
            gap,
            near: match self.is_greedy {
                true => gap.abs() <= rounding(device),
                false => !device.is_batch_invariant(),
            },
        }))
    }

    /// Logits after the common text.
    fn logits(&self, target: &mut Sequence) -> Result<Vec<f32>> {
        let ids: Vec<u32> = std::iter::once(self.root).chain(self.common.iter().copied()).collect();
        let mut last = None;
        for chunk in ids.chunks(target.decoder().chunk()) {
            let pass = target.feed(chunk, &Taps::default())?;
            last = Some(pass.states.narrow(chunk.len() - 1, 1)?);
        }
        let Some(last) = last else { return Ok(Vec::new()) };
        let logits = target.logits(&last)?;
        let mut row = logits.to_vec()?;
        row.truncate(self.vocab);
        self.history.iter().for_each(|history| history.apply(&mut row, self.common));
        Ok(row)
    }
}

/// Largest gap between two logits, in nats, that rounding can reverse: some units in the last place of typical logits (10 to
/// 30), accumulated over the layers. 0 on the CPU, whose rounding does not depend on the number of rows.
fn rounding(device: &ComputeDevice) -> f32 {
    match device.compute_type() {
        _ if device.is_batch_invariant() => 0.0,
        WeightType::Bf16 => 0.5,
        WeightType::F16 => 0.0625,
        _ => 0.01,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_model::family::VideoLlm;
    use specreel_tensor::DeviceChoice;

    #[test]
    fn the_gap_is_that_of_the_row_after_the_common_text() {
        let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("tests/parity/fixtures/gqa_tied");
        for choice in [DeviceChoice::Cpu, DeviceChoice::CpuTensors] {
            let device = ComputeDevice::open(choice, WeightType::F32).unwrap();
            let model = VideoLlm::load_on(&dir, &device, &mut |_, _| {}).unwrap();
            let mut target = Sequence::new(model.decoder().clone(), 8);
            target.feed(&[5, 9, 31], &Taps::default()).unwrap();
            // The same row by hand.
            let mut whole = Sequence::new(model.decoder().clone(), 8);
            let pass = whole.feed(&[5, 9, 31, 7, 40, 41], &Taps::default()).unwrap();
            let row = whole.logits(&pass.states.narrow(5, 1).unwrap()).unwrap();
            let row = row.to_vec().unwrap();
            let divergence = |plain, other| Divergence {
                root: 7,
                common: &[40, 41],
                plain,
                other,
                is_greedy: true,
                history: None,
                ends: &[2, 3],
                vocab: row.len(),
            };
            let text = |id: u32| format!("<{id}>");
            let tie = divergence(Some(10), Some(11)).measure(&mut target, &device, &text).unwrap().unwrap();
            assert_eq!(target.len(), 3);
            assert_eq!((tie.at, tie.plain.as_str(), tie.other.as_str()), (2, "<10>", "<11>"));
            assert!((tie.gap - (row[10] - row[11])).abs() < 1e-4, "{} {}", tie.gap, row[10] - row[11]);
            let even = divergence(Some(10), Some(10)).measure(&mut target, &device, &text).unwrap().unwrap();
            assert_eq!((even.gap, even.near), (0.0, true));
            // The end of a text is its likeliest end token.
            let end = if row[2] > row[3] { "<2>" } else { "<3>" };
            let ended = divergence(None, Some(10)).measure(&mut target, &device, &text).unwrap().unwrap();
            assert_eq!(ended.plain, end);
        }
    }
}
