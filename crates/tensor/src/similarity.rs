//! Cosine similarities of states on a GPU with rows that are kept there.

use std::sync::{Mutex, PoisonError};

use crate::{Result, gpu::relevance::VisualStates, states::States};

/// For each row of states the rows that resemble it most, with the cosine similarities, best first.
pub type Nearest = Vec<Vec<(u32, f32)>>;

/// Rows on a GPU, to which states there are compared.
#[derive(Debug)]
pub struct Resident(Mutex<VisualStates>);

impl Resident {
    /// Copies of rows of `width` values on the device of `states`; `None` if states are compared in host memory.
    pub fn beside(states: &States, rows: &[f32], width: usize) -> Result<Option<Self>> {
        let Some(first) = states.on_gpu() else { return Ok(None) };
        Ok(Some(Self(Mutex::new(VisualStates::beside(first, rows, width)?))))
    }

    /// The `count` rows that resemble each of the states most. Waits for them. Fails if the states have another width or are not
    /// on a GPU, or the device is lost.
    pub fn nearest(&self, states: &States, count: usize) -> Result<Nearest> {
        let Some(rows) = states.on_gpu() else { crate::bail!("the states are not on the GPU") };
        let mut resident = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(resident.nearest_to(rows, count)?)
    }

    pub fn bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }
}
