//! The states of layers with linear attention in tensors, in f32 for every compute type.

use candle_core::{DType, Device, Tensor};

use crate::{
    LinearAttention, Result,
    recurrent::{Bank, RecurrentStates, StatePlan},
    sources::{RowOrigin, Sources},
};

/// The states of one sequence in all layers with linear attention. No tensor is written twice, so copies share them.
#[derive(Clone, Debug)]
pub struct Recurrent {
    shape: LinearAttention,
    device: Device,
    layers: Vec<LayerStates>,
}

/// One layer: banks that were written, and logged rows by place.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerStates {
    banks: [Option<Held>; Bank::COUNT],
    log: Vec<Option<LoggedRow>>,
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    /// `value_heads × key_dim × value_dim`.
    pub(super) state: Tensor,
    /// The rows under the convolution before it, the oldest first: `(kernel - 1) × channels`.
    pub(super) rows: Tensor,
}

#[derive(Clone, Debug)]
pub(super) struct LoggedRow {
    /// What enters the convolution, `1 × channels`.
    pub(super) row: Tensor,
    /// The normed keys, `value_heads × key_dim × 1`.
    pub(super) key: Tensor,
    /// The update, `value_heads × 1 × value_dim`.
    pub(super) delta: Tensor,
    /// `value_heads × 1 × 1`.
    pub(super) decay: Tensor,
}

impl LoggedRow {
    /// The state after this row.
    pub(super) fn replay(&self, state: &Tensor) -> Result<Tensor> {
        Ok((state.broadcast_mul(&self.decay)? + self.key.broadcast_mul(&self.delta)?)?)
    }
}

impl Recurrent {
    /// The states of an empty sequence.
    pub fn new(layers: usize, shape: LinearAttention, device: &Device) -> Self {
        Self { shape, device: device.clone(), layers: vec![LayerStates::default(); layers] }
    }

    /// A layer's.
    /// Errors: if the layer does not exist.
    pub(super) fn layer(&mut self, layer: usize) -> Result<&mut LayerStates> {
        let count = self.layers.len();
        match self.layers.get_mut(layer) {
            Some(layer) => Ok(layer),
            None => {
                crate::bail!("the cache has states for {count} layers with linear attention only")
            }
        }
    }

    /// Zeros, the state of an empty sequence.
    pub(super) fn empty(&self) -> Result<Held> {
        let LinearAttention { value_heads, key_dim, value_dim, kernel, .. } = self.shape;
        let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &self.device);
        Ok(Held {
            state: zeros(&[value_heads, key_dim, value_dim])?,
            rows: zeros(&[kernel - 1, self.shape.channels()])?,
        })
    }
}

impl LayerStates {
    /// A bank, or the state of an empty sequence.
    pub(super) fn held(&self, bank: Option<Bank>, empty: Held) -> Result<Held> {
        let Some(bank) = bank else { return Ok(empty) };
        match &self.banks[bank.index()] {
            Some(held) => Ok(held.clone()),
            None => crate::bail!("the recurrent state is used before it is written"),
        }
    }

    pub(super) fn hold(&mut self, bank: Bank, held: Held) {
        self.banks[bank.index()] = Some(held);
    }

    pub(super) fn logged(&self, place: usize) -> Result<&LoggedRow> {
        match self.log.get(place) {
            Some(Some(row)) => Ok(row),
            _ => crate::bail!("row {place} of the log is used before it is written"),
        }
    }

    pub(super) fn log(&mut self, place: usize, row: LoggedRow) {
        if self.log.len() <= place {
            self.log.resize(place + 1, None);
        }
        self.log[place] = Some(row);
    }

    /// The rows under the convolution: those before a pass of `rows` (`count × channels`) and those after it, and for each row of
    /// the window, the oldest first, that row for all rows of the pass.
    pub(super) fn windows(
        &self,
        plan: &StatePlan,
        from: &Held,
        rows: &Tensor,
        kernel: usize,
    ) -> Result<Windows> {
        let count = rows.dim(0)?;
        let sources = Sources::new(plan, count, kernel);
        // A row that is not one of the pass.
        let earlier = |source: &RowOrigin| match *source {
            RowOrigin::Logged(place) => Ok(self.logged(place)?.row.clone()),
            RowOrigin::Held(_, at) => Ok(from.rows.narrow(0, at, 1)?),
            _ => Ok(rows.narrow(0, 0, 1)?.zeros_like()?),
        };
        let mut all = sources.before.iter().map(earlier).collect::<Result<Vec<_>>>()?;
        let before = all.clone();
        // Logged rows that only branches reach.
        let mut places: Vec<RowOrigin> = sources.before.clone();
        for source in sources.windows.iter().flatten() {
            if !matches!(source, RowOrigin::Pass(_)) && !places.contains(source) {
                places.push(*source);
                all.push(earlier(source)?);
            }
        }
        all.push(rows.clone());
        let all = Tensor::cat(&all, 0)?;
        let first = places.len();
        let place = |source: &RowOrigin| match *source {
            RowOrigin::Pass(row) => Some(first + row),
            other => places.iter().position(|place| *place == other),
        };
        let chain = plan.ancestors.is_none();
        let window = |back: usize| {
            // The rows of a chain follow each other after the earlier ones.
            if chain {
                return all.narrow(0, back, count);
            }
            let rows = sources.windows.iter().filter_map(|window| place(&window[back]));
            let rows: Vec<u32> = rows.map(|row| row as u32).collect();
            all.index_select(&Tensor::from_slice(&rows, rows.len(), all.device())?, 0)
        };
        let mut windows = (0..kernel - 1).map(window).collect::<candle_core::Result<Vec<_>>>()?;
        windows.push(rows.clone());
        let after = all.narrow(0, all.dim(0)? - (kernel - 1), kernel - 1)?;
        let before = if before.is_empty() { from.rows.clone() } else { Tensor::cat(&before, 0)? };
        // A view would keep the rows of the whole pass.
        Ok(Windows { before, windows, after: after.force_contiguous()? })
    }
}

/// Rows under the convolution.
pub(super) struct Windows {
    /// Those before a pass.
    pub(super) before: Tensor,
    /// Each row of the window, the oldest first and a row itself last, for all rows of the pass: `rows × channels`.
    pub(super) windows: Vec<Tensor>,
    /// Those after a pass, if it is a chain.
    pub(super) after: Tensor,
}

impl RecurrentStates for Recurrent {
    fn bytes(&self) -> usize {
        let size = |tensor: &Tensor| tensor.elem_count() * tensor.dtype().size_in_bytes();
        let layer = |layer: &LayerStates| {
            let banks = layer.banks.iter().flatten().map(|held| size(&held.state) + size(&held.rows));
            let log = layer.log.iter().flatten();
            let rows = log.map(|row| size(&row.row) + size(&row.key) + size(&row.delta) + size(&row.decay));
            banks.sum::<usize>() + rows.sum::<usize>()
        };
        self.layers.iter().map(layer).sum()
    }

    fn copy(&mut self, from: Bank, to: Bank) {
        for layer in &mut self.layers {
            layer.banks[to.index()] = layer.banks[from.index()].clone();
        }
    }

    fn first_layers(&self, layers: usize) -> Self {
        let layers = self.layers[..layers.min(self.layers.len())].to_vec();
        Self { layers, device: self.device.clone(), ..*self }
    }
}
