//! What a text is about, as a vector.

use super::{ModelError, VideoLlm};
use crate::decoder::{Sequence, Taps};

/// What surrounds the text. A language model that is asked for one word puts what the text is about into the state after the
/// last token, from which it would write that word (Jiang et al., arXiv 2307.16645).
const BEFORE: &str = "A video shows: \"";
const AFTER: &str = "\" In one word, the video is about: \"";

/// Longest text in bytes; the rest does not count.
const LONGEST: usize = 4_096;

impl VideoLlm {
    /// What a text is about: the last state of its decoder after the final norm, of length 1 and as wide as the decoder. Texts that are
    /// about the same have vectors of a small angle, once the mean of many is taken off. Fails as a pass of the decoder.
    pub fn meaning(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        let end =
            (0..=text.len().min(LONGEST)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let ids = self.tokenizer().encode_plain(&format!("{BEFORE}{}{AFTER}", &text[..end]))?;
        let mut sequence = Sequence::new(self.decoder().clone(), ids.len());
        let pass = sequence.feed(&ids, &Taps::default())?;
        let last = pass.states.narrow(ids.len() - 1, 1)?.to_vec()?;
        let length = last.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        Ok(last.into_iter().map(|value| (f64::from(value) / length.max(f64::MIN_POSITIVE)) as f32).collect())
    }
}
