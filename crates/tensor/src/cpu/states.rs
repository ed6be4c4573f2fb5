//! The states of layers with linear attention in host memory.

use super::kernels::{COLUMNS, Columns};
use crate::{
    LinearAttention,
    recurrent::{Bank, RecurrentStates, StatePlan},
};

/// The states of one sequence in all layers with linear attention.
#[derive(Clone, Debug)]
pub struct CpuRecurrent {
    pub(super) shape: LinearAttention,
    pub(super) layers: Vec<LayerStates>,
}

/// One layer. A bank that was never written is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerStates {
    pub(super) banks: [Held; Bank::COUNT],
    pub(super) log: Log,
}

/// A state, `value_heads × strips × key_dim` rows of a strip, and the rows under the convolution before it, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) state: Vec<Columns>,
    pub(super) rows: Vec<f32>,
}

/// Logged rows by place: what enters the convolution, the normed keys, the updates as `value_heads × strips`, and the decays.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) rows: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) deltas: Vec<Columns>,
    pub(super) decays: Vec<f32>,
}

impl CpuRecurrent {
    /// The states of an empty sequence.
    pub fn new(layers: usize, shape: LinearAttention) -> Self {
        Self { shape, layers: vec![LayerStates::default(); layers] }
    }

    /// Values of an output row.
    pub(crate) fn values(&self) -> usize {
        self.shape.values()
    }
}

impl RecurrentStates for CpuRecurrent {
    fn bytes(&self) -> usize {
        let floats = |values: &Vec<f32>| size_of_val(&values[..]);
        let held = |held: &Held| size_of_val(&held.state[..]) + floats(&held.rows);
        let layer = |layer: &LayerStates| {
            let log = &layer.log;
            let rows = floats(&log.rows) + floats(&log.keys) + floats(&log.decays);
            layer.banks.iter().map(held).sum::<usize>() + rows + size_of_val(&log.deltas[..])
        };
        self.layers.iter().map(layer).sum()
    }

    fn copy(&mut self, from: Bank, to: Bank) {
        for layer in &mut self.layers {
            layer.banks[to.index()] = layer.banks[from.index()].clone();
        }
    }

    fn first_layers(&self, layers: usize) -> Self {
        Self { layers: self.layers[..layers.min(self.layers.len())].to_vec(), ..*self }
    }

    /// Into the memory that is there.
    fn take(&mut self, other: &Self, banks: &[Bank]) {
        self.layers.resize_with(other.layers.len(), LayerStates::default);
        for (own, theirs) in self.layers.iter_mut().zip(&other.layers) {
            for bank in banks {
                let (own, theirs) = (&mut own.banks[bank.index()], &theirs.banks[bank.index()]);
                own.state.clone_from(&theirs.state);
                own.rows.clone_from(&theirs.rows);
            }
            let (own, theirs) = (&mut own.log, &theirs.log);
            own.rows.clone_from(&theirs.rows);
            own.keys.clone_from(&theirs.keys);
            own.deltas.clone_from(&theirs.deltas);
            own.decays.clone_from(&theirs.decays);
        }
    }
}

pub(super) fn strips(shape: &LinearAttention) -> usize {
    shape.value_dim.div_ceil(COLUMNS)
}

impl LayerStates {
    pub(super) fn reserve(&mut self, shape: &LinearAttention, plan: &StatePlan) {
        let places = plan.log();
        let grow = |values: &mut Vec<f32>, width: usize| {
            let need = places * width;
            if values.len() < need {
                values.resize(need, 0.0);
            }
        };
        grow(&mut self.log.rows, shape.channels());
        grow(&mut self.log.keys, shape.keys());
        grow(&mut self.log.decays, shape.value_heads);
        let deltas = places * shape.value_heads * strips(shape);
        if self.log.deltas.len() < deltas {
            self.log.deltas.resize(deltas, Columns::default());
        }
        let size = shape.value_heads * strips(shape) * shape.key_dim;
        for (bank, written) in [(Bank::Settled, plan.settles), (Bank::Current, plan.ends)] {
            if written {
                self.banks[bank.index()].state.resize(size, Columns::default());
            }
        }
    }
}
