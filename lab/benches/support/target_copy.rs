//! A second copy of the target: its states at drafts, and its continuations.
//!
//! A rule is shown numbers, no states, and it cannot ask what would follow. It starts from a copy of the target's cache
//! and finds its way to any text by itself: it keeps what the last text has in common with the new one.

use specreel_model::decoder::{Pass, Sequence, States, Taps};
use specreel_speculate::sampling::RowFacts;
use specreel_tensor::Result;

/// See the module's text.
pub struct TargetCopy {
    sequence: Sequence,
    /// Slots of the prompt without its last token.
    base: usize,
    /// The prompt's last token.
    root: u32,
    /// What follows the prompt in the cache.
    held: Vec<u32>,
    vocab: usize,
}

/// States at the row before a draft and at the drafts, `(drafts + 1) × width`.
pub struct Look {
    /// What the head sees.
    pub states: Vec<f32>,
    /// Before the norm.
    pub before_norm: Vec<f32>,
    pub width: usize,
}

impl TargetCopy {
    /// A copy of a sequence that holds a prompt without its last token, `root`.
    pub fn new(target: &Sequence, root: u32, vocab: usize, room: usize) -> Self {
        let base = target.len();
        let slots: Vec<usize> = (0..base).collect();
        let sequence = target.gather(base, base + room, |_, _| &slots);
        Self { sequence, base, root, held: Vec::new(), vocab }
    }

    /// The states at the last token of the text and at the drafts after it.
    pub fn look(&mut self, text: &[u32], drafts: &[u32]) -> Result<Look> {
        let taps = Taps { before_norm: true, ..Taps::default() };
        let (pass, from) = self.feed(text, drafts, &taps)?;
        let width = pass.states.shape().1;
        let cut = |values: Vec<f32>| values[from * width..].to_vec();
        let before_norm = pass.before_norm.as_ref().map(States::to_vec).transpose()?.unwrap_or_default();
        Ok(Look { states: cut(pass.states.to_vec()?), before_norm: cut(before_norm), width })
    }

    /// The token that the target would write after the text.
    pub fn next(&mut self, text: &[u32]) -> Result<u32> {
        let (pass, _) = self.feed(text, &[], &Taps::default())?;
        let last = pass.states.narrow(pass.states.rows() - 1, 1)?;
        let logits = self.sequence.logits(&last)?.to_vec()?;
        Ok(RowFacts::of(&logits[..self.vocab.min(logits.len())]).argmax)
    }

    /// Feed what is missing of the text, its last token always, and the drafts; the pass, and the row of that last token.
    fn feed(&mut self, text: &[u32], drafts: &[u32], taps: &Taps) -> Result<(Pass, usize)> {
        let mut all = vec![self.root];
        all.extend_from_slice(text);
        let common = self.held.iter().zip(&all).take_while(|(a, b)| a == b).count();
        let common = common.min(all.len() - 1);
        self.held.truncate(common);
        self.sequence.truncate(self.base + common);
        let from = all.len() - 1 - common;
        all.drain(..common);
        all.extend_from_slice(drafts);
        let pass = self.sequence.feed(&all, taps)?;
        self.held.extend(all);
        Ok((pass, from))
    }
}
