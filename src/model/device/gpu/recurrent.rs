//! States of layers with linear attention.

use crate::model::device::{ops::RecurrentStates, recurrent::Bank};

/// None.
pub struct Recurrent;

impl RecurrentStates for Recurrent {
    fn bytes(&self) -> usize {
        0
    }

    fn copy(&mut self, _: Bank, _: Bank) {}

    fn first_layers(&self, _: usize) -> Self {
        Self
    }
}
