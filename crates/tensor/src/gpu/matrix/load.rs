//! Filling a matrix on a GPU: rows are moved to its layout on the host, a few panels at a time, and uploaded.

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
    sync::{Mutex, PoisonError},
};

use crate::gpu::{
    Buffer, Gpu, GpuError, Result,
    matrix::{
        Matrix,
        pack::{Panels, StoredRows},
    },
    products::Piece,
};
use crate::{
    TensorType,
    kept::{Keep, KeptMatrix},
    quant::panels::{Array, PANEL, blocks},
};

/// A matrix that is read row by row, by several threads.
pub(crate) struct Loader<'a> {
    gpu: &'a Gpu,
    pieces: Vec<Piece>,
    inputs: usize,
    outputs: usize,
    /// Panels of which only some rows were stored yet, and the number of those; by piece and panel.
    partial: Mutex<HashMap<(usize, usize), (Panels, usize)>>,
    copy: Option<Mutex<Packed>>,
}

/// A matrix of one format in the layout of a device, with each array in one piece.
pub(crate) struct Packed {
    format: TensorType,
    arrays: Vec<Vec<u8>>,
}

impl Packed {
    /// Where an array's panels from output `first` on begin, and their bytes.
    fn place(array: &Array, inputs: usize, first: usize, outputs: usize) -> Range<usize> {
        let panel = array.panel(blocks(inputs));
        let at = first / PANEL * panel;
        at..at + outputs.div_ceil(PANEL) * panel
    }
}

impl Keep for Packed {
    fn format(&self) -> String {
        packed(self.format)
    }

    fn arrays(&self) -> Vec<&[u8]> {
        self.arrays.iter().map(Vec::as_slice).collect()
    }
}

/// The name of a format with the layout of GPUs. A change of that layout changes `weight_cache::FORMAT` of specreel-checkpoint.
fn packed(format: TensorType) -> String {
    format!("{} on a GPU", format.name())
}

/// What goes wrong while rows are stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreProblem {
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error("{0}")]
    Rows(String),
}

impl<'a> Loader<'a> {
    /// Memory for parts below each other, each with its format and outputs. No array is larger than `limit` bytes. Fails if
    /// memory is missing, or a panel is larger than the limit.
    pub fn new(gpu: &'a Gpu, parts: &[(TensorType, usize)], inputs: usize, limit: u64) -> Result<Self> {
        Self::with(gpu, parts, inputs, limit, &|_, array, _, outputs| {
            gpu.buffer(Packed::place(array, inputs, 0, outputs).end as u64)
        })
    }

    /// All rows of a kept matrix, in one format. `None` if it has another format or size. Fails as [`Loader::new`].
    pub fn kept(
        gpu: &'a Gpu,
        kept: &KeptMatrix,
        format: TensorType,
        [outputs, inputs]: [usize; 2],
        limit: u64,
    ) -> Result<Option<Self>> {
        let arrays = format.arrays();
        let size = |array: &Array| Packed::place(array, inputs, 0, outputs).end;
        let fits = |(index, array): (usize, &Array)| kept.array(index).map(<[u8]>::len) == Some(size(array));
        let fits = kept.arrays.len() == arrays.len() && arrays.iter().enumerate().all(fits);
        if !fits || kept.format != packed(format) {
            return Ok(None);
        }
        let from = |index: usize, array: &Array, first: usize, outputs: usize| {
            let (at, place) = (kept.arrays[index].0, Packed::place(array, inputs, first, outputs));
            gpu.file(&kept.map, at + place.start..at + place.end)
        };
        Self::with(gpu, &[(format, outputs)], inputs, limit, &from).map(Some)
    }

    /// As [`Loader::new`]; `memory` makes the buffer of an array, which it also gets by its number, for so many outputs from a
    /// first one of their format on.
    fn with(
        gpu: &'a Gpu,
        parts: &[(TensorType, usize)],
        inputs: usize,
        limit: u64,
        memory: &dyn Fn(usize, &Array, usize, usize) -> Result<Buffer>,
    ) -> Result<Self> {
        let mut merged: Vec<(TensorType, usize)> = Vec::new();
        for &(format, outputs) in parts {
            match merged.last_mut() {
                Some(last) if last.0 == format => last.1 += outputs,
                _ => merged.push((format, outputs)),
            }
        }
        let (mut pieces, mut first) = (Vec::new(), 0);
        for (format, outputs) in merged {
            let largest = format.arrays().iter().map(|array| array.panel(blocks(inputs))).max().unwrap_or(1);
            let panels = limit as usize / largest.max(1);
            if panels == 0 {
                let what = format!("a row of {inputs} weights");
                return Err(GpuError::TooLarge { what, size: largest as u64, limit });
            }
            let end = first + outputs;
            while first < end {
                let outputs = (panels * PANEL).min(end - first);
                let arrays = format.arrays().iter().enumerate();
                let arrays = arrays.map(|(index, array)| memory(index, array, first, outputs));
                pieces.push(Piece { format, arrays: arrays.collect::<Result<_>>()?, first, outputs });
                first += outputs;
            }
        }
        Ok(Self { gpu, pieces, inputs, outputs: first, partial: Mutex::default(), copy: None })
    }

    /// Copy what is stored, for [`Loader::copy`]. The matrix has one format.
    pub fn copying(mut self) -> Self {
        if let Some(format) = self.pieces.first().map(|piece| piece.format) {
            let size = |array: &Array| Packed::place(array, self.inputs, 0, self.outputs).end;
            let arrays = format.arrays().iter().map(|array| vec![0; size(array)]).collect();
            self.copy = Some(Mutex::new(Packed { format, arrays }));
        }
        self
    }

    /// The copy of all rows, after all were stored.
    pub fn copy(&mut self) -> Option<Packed> {
        self.copy.take().map(|copy| copy.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Store the rows from output `first` on. Each row is stored once; several threads may store different rows. Fails if a value
    /// is too large for the format, the rows do not exist, or the device is lost.
    pub fn store(&self, first: usize, rows: StoredRows<'_>) -> std::result::Result<(), StoreProblem> {
        let count = rows.count(self.inputs);
        if first + count > self.outputs {
            let (outputs, inputs) = (self.outputs, self.inputs);
            return Err(StoreProblem::Rows(format!("{count} rows after {first} of {outputs} × {inputs}")));
        }
        for (index, piece) in self.pieces.iter().enumerate() {
            let (from, to) = (first.max(piece.first), (first + count).min(piece.first + piece.outputs));
            if from >= to {
                continue;
            }
            // Whole panels are uploaded at once; of others the rows are collected.
            let local = from - piece.first..to - piece.first;
            let mut at = local.start;
            while at < local.end {
                let panel = at / PANEL * PANEL;
                let whole = if local.end == piece.outputs { local.end } else { local.end / PANEL * PANEL };
                let end = if at == panel && whole > at { whole } else { (panel + PANEL).min(local.end) };
                let part = rows.slice(self.inputs, at + piece.first - first..end + piece.first - first);
                match at == panel && whole > at {
                    true => self.upload(piece, at, end - at, part)?,
                    false => self.collect(index, piece, at..end, part)?,
                }
                at = end;
            }
        }
        Ok(())
    }

    fn upload(
        &self,
        piece: &Piece,
        first: usize,
        count: usize,
        rows: StoredRows<'_>,
    ) -> std::result::Result<(), StoreProblem> {
        let mut panels = Panels::new(piece.format, count, self.inputs);
        panels.store(0, rows).map_err(StoreProblem::Rows)?;
        Ok(self.write(piece, first / PANEL, &panels)?)
    }

    fn write(&self, piece: &Piece, panel: usize, panels: &Panels) -> Result<()> {
        if let Some(copy) = &self.copy {
            let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
            let first = piece.first + panel * PANEL;
            for ((array, to), bytes) in piece.format.arrays().iter().zip(&mut copy.arrays).zip(&panels.arrays)
            {
                let at = Packed::place(array, self.inputs, first, 0).start;
                to[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        for ((array, buffer), bytes) in piece.format.arrays().iter().zip(&piece.arrays).zip(&panels.arrays) {
            self.gpu.write(buffer, (panel * array.panel(blocks(self.inputs))) as u64, bytes)?;
        }
        Ok(())
    }

    fn collect(
        &self,
        index: usize,
        piece: &Piece,
        outputs: Range<usize>,
        rows: StoredRows<'_>,
    ) -> std::result::Result<(), StoreProblem> {
        let panel = outputs.start / PANEL;
        let all = PANEL.min(piece.outputs - panel * PANEL);
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry = match partial.entry((index, panel)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry((Panels::new(piece.format, PANEL, self.inputs), 0)),
        };
        let (panels, stored) = entry.get_mut();
        panels.store(outputs.start % PANEL, rows).map_err(StoreProblem::Rows)?;
        *stored += outputs.len();
        if *stored == all {
            let (panels, _) = entry.remove();
            self.write(piece, panel, &panels)?;
        }
        Ok(())
    }

    /// The matrix, all of whose rows were stored, with a bias.
    pub fn finish(self, bias: Option<&[f32]>) -> Result<Matrix> {
        let bias: Option<Buffer> =
            bias.map(|bias| self.gpu.upload(bytemuck::cast_slice(bias))).transpose()?;
        Ok(Matrix {
            pieces: self.pieces,
            bias,
            inputs: self.inputs,
            outputs: self.outputs,
            takes_parts: false,
        })
    }
}
