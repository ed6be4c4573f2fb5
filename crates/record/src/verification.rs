//! Whether a run has the text of autoregressive decoding, as shown by decoding its context again.

use serde::{Deserialize, Serialize};

use crate::stats::{Equality, Tie};

/// What a method promises about its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// The tokens of autoregressive decoding.
    Tokens,
    /// A text from the same distribution: it is lossless, but draws other random numbers.
    Distribution,
    /// It is lossy.
    #[default]
    Nothing,
}

/// A finished run compared with autoregressive decoding over the same clip, prompt, sampling and limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    #[serde(flatten)]
    pub equality: Equality,
    /// Tokens of the run.
    pub tokens: usize,
    /// Tokens of autoregressive decoding.
    pub plain_tokens: usize,
    pub promises: Promise,
    /// The two tokens at the first difference; the likeliest end token where a text ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Tie>,
}

impl Verification {
    /// True if the run breaks its promise: it differs, and rounding on its device does not explain that.
    pub fn is_broken(&self) -> bool {
        let near = self.difference.as_ref().is_some_and(|difference| difference.near);
        self.promises == Promise::Tokens && !self.equality.equal && !near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_promise_can_be_broken() {
        use Promise::{Distribution, Nothing, Tokens};
        let ids: [&[u32]; 4] = [&[1, 2], &[1, 3], &[1], &[1, 2, 3]];
        for (promises, near, broken) in [
            (Tokens, false, [false, true, true, true]),
            (Tokens, true, [false; 4]),
            (Distribution, false, [false; 4]),
            (Nothing, false, [false; 4]),
        ] {
            let found = ids.map(|ids| {
                let equality = Equality::of(ids, &[1, 2]);
                let difference = equality.first_difference.map(|at| Tie { at, near, ..Tie::default() });
                let run = Verification { equality, tokens: ids.len(), plain_tokens: 2, promises, difference };
                run.is_broken()
            });
            assert_eq!(found, broken, "{promises:?}, near: {near}");
        }
    }
}
