//! An LM head with rows for a part of the vocabulary, for drafting: reading the whole head is a third of what a token of a small model
//! with a large vocabulary costs, and most text is written with few ids (FR-Spec, arXiv 2502.14856).

use std::collections::HashMap;

use super::{Decoder, DraftVocabulary, parts};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{CheckpointError, Weights, fused::FusedMatrix, ops::Loaded, weights::TakeRows};

/// The rows of some ids of a matrix of all ids.
pub(super) struct ShortRows<'a> {
    source: &'a dyn Weights,
    vocab: usize,
    /// The place of each id.
    places: HashMap<usize, usize>,
}

impl<'a> ShortRows<'a> {
    /// Of a source whose matrix has `vocab` rows.
    pub fn new(source: &'a dyn Weights, vocab: usize, ids: &[u32]) -> Self {
        Self {
            source,
            vocab,
            places: ids.iter().enumerate().map(|(place, id)| (*id as usize, place)).collect(),
        }
    }
}

impl Weights for ShortRows<'_> {
    fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let width: usize = shape.iter().skip(1).product();
        let all = self.source.f32(name, &[self.vocab, width])?;
        let mut rows = vec![0.0; self.places.len() * width];
        for (id, place) in &self.places {
            rows[place * width..][..width].copy_from_slice(&all[id * width..][..width]);
        }
        Ok(rows)
    }

    fn rows_parallel(
        &self,
        name: &str,
        [_, width]: [usize; 2],
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        self.source.rows_parallel(name, [self.vocab, width], &|first, values| {
            let rows = values.chunks_exact(width).zip(first..);
            rows.filter_map(|(row, id)| Some((row, *self.places.get(&id)?)))
                .try_for_each(|(row, place)| take(place, row))
        })
    }
}

/// The head's matrix with so many rows.
pub(super) fn head(config: &crate::config::TextConfig, rows: usize) -> FusedMatrix {
    let head = parts::head(config);
    let tensors = head.tensors.iter().map(|(name, _)| (name.clone(), rows)).collect();
    FusedMatrix { tensors, ..head }
}

impl Decoder {
    /// The same model, which shares all else, with a head for these ids (ascending) alone: its logits are of
    /// [`DeviceDecoder::vocabulary`](super::DeviceDecoder::vocabulary).
    pub fn with_vocabulary(&self, checkpoint: &Checkpoint, ids: Vec<u32>) -> Loaded<Decoder> {
        self.short(checkpoint, DraftVocabulary::of(ids))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        decoder::{Sequence, Taps},
        family::VideoLlm,
    };
    use specreel_tensor::WeightType;

    #[test]
    fn a_short_head_has_the_logits_of_the_whole_one() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/gqa_tied");
        let checkpoint = Checkpoint::open(dir.as_ref()).unwrap();
        let model = VideoLlm::load(dir.as_ref(), WeightType::F32, &mut |_, _| {}).unwrap();
        let ids = vec![0, 3, 77, 200];
        let short = Arc::new(model.decoder().with_vocabulary(&checkpoint, ids.clone()).unwrap());
        let logits = |decoder: &Arc<Decoder>| {
            let mut sequence = Sequence::new(decoder.clone(), 8);
            let pass = sequence.feed(&[9, 31, 44], &Taps::default()).unwrap();
            sequence.logits(&pass.states).unwrap().to_vec().unwrap()
        };
        let (whole, part) = (logits(model.decoder()), logits(&short));
        let vocab = model.decoder().config().vocab;
        for row in 0..3 {
            let of = |id: &u32| whole[row * vocab + *id as usize];
            assert_eq!(part[row * ids.len()..][..ids.len()], ids.iter().map(of).collect::<Vec<_>>());
        }
        assert_eq!(short.vocabulary().map(DraftVocabulary::ids), Some(&ids[..]));
        assert_eq!(model.decoder().vocabulary(), None);
    }
}
