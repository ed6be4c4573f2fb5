//! Where a lossless run left the text of autoregressive decoding: which two tokens it was between, and how close they were.
//!
//! On the CPU this does not happen. An accelerator's libraries sum a row in another order when it is computed among others, so
//! where the target's two best tokens are all but equally likely, either may come out on top. The logits at that place are
//! computed once more, in a pass over the text up to there, and what they say is kept with the run.

use candle_core::{DType, Result};

use crate::{
    model::{
        ComputeDevice,
        decoder::{Sequence, Taps, with_slice},
    },
    record::stats::Tie,
};

/// The text that both runs share, and how each goes on; none = with its end.
pub(super) struct Parting<'a> {
    /// The prompt's last token.
    pub root: u32,
    /// The tokens that both wrote.
    pub common: &'a [u32],
    /// Autoregressive decoding's next token.
    pub plain: Option<u32>,
    /// The other run's.
    pub other: Option<u32>,
    /// Tokens that end a text.
    pub ends: &'a [u32],
    /// Logits from here on are padding.
    pub vocab: usize,
}

impl Parting<'_> {
    /// Look at the place. `target` holds the prompt without its last token, and does again afterwards.
    ///
    /// # Errors
    /// If a pass fails.
    pub fn look(
        &self,
        target: &mut Sequence,
        place: &ComputeDevice,
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
            near: gap.abs() <= rounding(place),
        }))
    }

    /// Logits after the shared text.
    fn logits(&self, target: &mut Sequence) -> Result<Vec<f32>> {
        let ids: Vec<u32> = std::iter::once(self.root).chain(self.common.iter().copied()).collect();
        let mut last = None;
        for chunk in ids.chunks(target.decoder().chunk()) {
            let pass = target.feed(chunk, &Taps::default())?;
            last = Some(pass.states.narrow(0, chunk.len() - 1, 1)?);
        }
        let Some(last) = last else { return Ok(Vec::new()) };
        let logits = target.logits(&last)?;
        with_slice(&logits, |row| row[..self.vocab.min(row.len())].to_vec())
    }
}

/// How far logits may be apart, in nats, for rounding to have changed their order: some units in the last place of logits of
/// usual size (10 to 30), after layers that all round. On the CPU rounding changes nothing.
fn rounding(place: &ComputeDevice) -> f32 {
    match place.compute_type() {
        _ if place.is_batch_invariant() => 0.0,
        DType::BF16 => 0.5,
        DType::F16 => 0.0625,
        _ => 0.01,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{WeightType, device::DeviceChoice, family::VideoLlm};

    #[test]
    fn the_gap_is_that_of_the_row_after_the_shared_text() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/gqa_tied");
        for choice in [DeviceChoice::Cpu, DeviceChoice::CpuTensors] {
            let place = ComputeDevice::open(choice, WeightType::F32).unwrap();
            let model = VideoLlm::load_on(&dir, &place, &mut |_, _| {}).unwrap();
            let mut target = Sequence::new(model.decoder().clone(), 8);
            target.feed(&[5, 9, 31], &Taps::default()).unwrap();
            // The same row by hand.
            let mut whole = Sequence::new(model.decoder().clone(), 8);
            let pass = whole.feed(&[5, 9, 31, 7, 40, 41], &Taps::default()).unwrap();
            let row = whole.logits(&pass.states.narrow(0, 5, 1).unwrap()).unwrap();
            let row = row.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let parting = |plain, other| Parting {
                root: 7,
                common: &[40, 41],
                plain,
                other,
                ends: &[2, 3],
                vocab: row.len(),
            };
            let text = |id: u32| format!("<{id}>");
            let tie = parting(Some(10), Some(11)).look(&mut target, &place, &text).unwrap().unwrap();
            assert_eq!(target.len(), 3);
            assert_eq!((tie.at, tie.plain.as_str(), tie.other.as_str()), (2, "<10>", "<11>"));
            assert!((tie.gap - (row[10] - row[11])).abs() < 1e-4, "{} {}", tie.gap, row[10] - row[11]);
            let even = parting(Some(10), Some(10)).look(&mut target, &place, &text).unwrap().unwrap();
            assert_eq!((even.gap, even.near), (0.0, true));
            // The end of a text is its likeliest end token.
            let end = if row[2] > row[3] { "<2>" } else { "<3>" };
            let ended = parting(None, Some(10)).look(&mut target, &place, &text).unwrap().unwrap();
            assert_eq!(ended.plain, end);
        }
    }
}
