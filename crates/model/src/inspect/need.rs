//! Memory estimate of a model.

use serde::Serialize;

/// An estimate in bytes. All parts are allocated at the same time during the prefill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Need {
    /// Weights of the language model.
    pub weights: u64,
    /// Weights of the vision tower.
    pub tower: u64,
    /// Keys and values of the prompt and the caption.
    pub cache: u64,
    /// Embeddings, states and buffers.
    pub work: u64,
}

impl Need {
    /// Sum of all parts.
    pub fn total(&self) -> u64 {
        self.weights + self.tower + self.cache + self.work
    }
}

impl std::ops::Add for Need {
    type Output = Need;

    fn add(self, other: Need) -> Need {
        Need {
            weights: self.weights + other.weights,
            tower: self.tower + other.tower,
            cache: self.cache + other.cache,
            work: self.work + other.work,
        }
    }
}
