//! The states of layers with linear attention on a GPU: banks and a log for each layer, which linear attention reads and writes.

pub(crate) mod mixing;
use super::{Buffer, Gpu, GpuError, Result, Stream, states::SharedStream};
use crate::{
    LinearAttention,
    recurrent::{Bank, RecurrentStates, StatePlan},
};

/// Banks that a sequence always has, the settled and the current one; marks are allocated with the first of them.
const USUAL: usize = 2;

/// A full log grows by a multiple of this number of places.
const GROW: usize = 16;

/// The states of one sequence in all layers with linear attention. Methods that cannot return an error report it in the next pass.
#[derive(Debug)]
pub struct Recurrent {
    gpu: Gpu,
    shape: LinearAttention,
    /// Memory of a layer; none before the first pass.
    layers: Vec<Option<LayerStates>>,
    stream: Option<SharedStream>,
    /// The first error; the contents are incomplete since then.
    failed: Option<GpuError>,
}

/// One layer; `shaders/mix.wgsl` describes the layout.
#[derive(Clone, Debug)]
pub(super) struct LayerStates {
    pub(super) banks: Buffer,
    pub(super) log: Buffer,
}

impl Recurrent {
    /// The states of an empty sequence.
    pub fn new(gpu: &Gpu, layers: usize, shape: LinearAttention) -> Self {
        Self { gpu: gpu.clone(), shape, layers: vec![None; layers], stream: None, failed: None }
    }

    pub(super) fn shape(&self) -> &LinearAttention {
        &self.shape
    }

    pub(super) fn bank(&self) -> usize {
        self.shape.state() + (self.shape.kernel - 1) * self.shape.channels()
    }

    fn place(&self) -> usize {
        let shape = &self.shape;
        shape.channels() + shape.keys() + shape.values() + shape.value_heads
    }

    /// The states of a layer for a pass that is recorded in `recording`, which is `stream`'s.
    /// Errors: if the layer does not exist, memory is missing, or an earlier operation failed.
    pub(super) fn begin(
        &mut self,
        stream: &SharedStream,
        recording: &mut Stream,
        plan: &StatePlan,
        layer: usize,
    ) -> Result<LayerStates> {
        self.failed.clone().map_or(Ok(()), Err)?;
        if let Some(before) = self.stream.replace(stream.clone()).filter(|before| !before.is(stream)) {
            before.lock().submit()?;
        }
        let (count, log) =
            (self.layers.len(), (plan.log().max(1).next_multiple_of(GROW) * self.place()) as u64 * 4);
        let banks = (USUAL * self.bank()) as u64 * 4;
        let Some(states) = self.layers.get_mut(layer) else {
            let why = format!("the cache has states for {count} layers with linear attention only");
            return Err(GpuError::Invalid(why));
        };
        let states = match states {
            Some(states) => states,
            none => none.insert(LayerStates { banks: self.gpu.buffer(banks)?, log: self.gpu.buffer(log)? }),
        };
        grow(&self.gpu, recording, &mut states.log, log)?;
        Ok(states.clone())
    }

    /// Record a failure in a pass: layers have then seen different rows.
    pub(super) fn record<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }

    fn copy_banks(&mut self, from: Bank, to: Bank) -> Result<()> {
        let bytes = self.bank() as u64 * 4;
        // Nothing was written before the first pass.
        let Some(stream) = &self.stream else { return Ok(()) };
        let stream = &mut stream.lock();
        let [from, to] = [from, to].map(|bank| bank.index() as u64 * bytes);
        let banks = if to < USUAL as u64 * bytes { USUAL } else { Bank::COUNT };
        for states in self.layers.iter_mut().flatten() {
            grow(&self.gpu, stream, &mut states.banks, banks as u64 * bytes)?;
            stream.copy(&states.banks, from, &states.banks, to, bytes)?;
        }
        Ok(())
    }

    fn copied(&self, layers: usize) -> Result<Vec<Option<LayerStates>>> {
        self.failed.clone().map_or(Ok(()), Err)?;
        if let Some(stream) = &self.stream {
            stream.lock().submit()?;
        }
        let mut stream = self.gpu.stream();
        let mut copy = |from: &Buffer| {
            let to = self.gpu.buffer(from.bytes())?;
            stream.copy(from, 0, &to, 0, from.bytes())?;
            Ok(to)
        };
        let mut copies = Vec::with_capacity(layers);
        for states in self.layers.iter().take(layers) {
            copies.push(match states {
                Some(states) => Some(LayerStates { banks: copy(&states.banks)?, log: copy(&states.log)? }),
                None => None,
            });
        }
        stream.submit()?;
        Ok(copies)
    }
}

/// Memory of at least `bytes` that begins with the contents of `buffer`, which it replaces if that is smaller.
fn grow(gpu: &Gpu, stream: &mut Stream, buffer: &mut Buffer, bytes: u64) -> Result<()> {
    if buffer.bytes() < bytes {
        let larger = gpu.buffer(bytes)?;
        stream.copy(buffer, 0, &larger, 0, buffer.bytes())?;
        *buffer = larger;
    }
    Ok(())
}

impl RecurrentStates for Recurrent {
    fn bytes(&self) -> usize {
        let layer = |states: &LayerStates| (states.banks.bytes() + states.log.bytes()) as usize;
        self.layers.iter().flatten().map(layer).sum()
    }

    fn copy(&mut self, from: Bank, to: Bank) {
        let result = self.copy_banks(from, to);
        drop(self.record(result));
    }

    fn first_layers(&self, layers: usize) -> Self {
        let layers = layers.min(self.layers.len());
        let mut first = Self::new(&self.gpu, layers, self.shape);
        match self.copied(layers) {
            Ok(copies) => {
                first.layers = copies;
                // A mark may be set before the next pass.
                first.stream = self.stream.as_ref().map(|_| SharedStream::new(&self.gpu));
            }
            Err(error) => first.failed = Some(error),
        }
        first
    }
}
