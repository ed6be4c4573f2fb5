//! Filling a matrix on a GPU: rows are moved to its layout on the host, a few panels at a time, and uploaded.

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
    sync::{Mutex, PoisonError},
};

use crate::TensorType;
use crate::gpu::{
    Buffer, Gpu, GpuError, Result,
    matrix::{
        Matrix,
        format::{Array, PANEL, blocks},
        pack::{Panels, Rows},
    },
    products::Piece,
};

/// A matrix that is read row by row, by several threads.
pub(crate) struct Loader<'a> {
    gpu: &'a Gpu,
    pieces: Vec<Piece>,
    inputs: usize,
    outputs: usize,
    /// Panels of which only some rows were stored yet, and the number of those; by piece and panel.
    partial: Mutex<HashMap<(usize, usize), (Panels, usize)>>,
}

/// What goes wrong while rows are stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error("{0}")]
    Rows(String),
}

impl<'a> Loader<'a> {
    /// Memory for parts below each other, each with its format and outputs. No array is larger than `limit` bytes. Fails if
    /// memory is missing, or a panel is larger than the limit.
    pub fn new(gpu: &'a Gpu, parts: &[(TensorType, usize)], inputs: usize, limit: u64) -> Result<Self> {
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
                let bytes = |array: &Array| outputs.div_ceil(PANEL) * array.panel(blocks(inputs));
                let arrays = format.arrays().iter().map(|array| gpu.buffer(bytes(array) as u64));
                pieces.push(Piece { format, arrays: arrays.collect::<Result<_>>()?, first, outputs });
                first += outputs;
            }
        }
        Ok(Self { gpu, pieces, inputs, outputs: first, partial: Mutex::default() })
    }

    /// Store the rows from output `first` on. Each row is stored once; several threads may store different rows. Fails if a value
    /// is too large for the format, the rows do not exist, or the device is lost.
    pub fn store(&self, first: usize, rows: Rows<'_>) -> std::result::Result<(), Problem> {
        let count = rows.count(self.inputs);
        if first + count > self.outputs {
            let (outputs, inputs) = (self.outputs, self.inputs);
            return Err(Problem::Rows(format!("{count} rows after {first} of {outputs} × {inputs}")));
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
        rows: Rows<'_>,
    ) -> std::result::Result<(), Problem> {
        let mut panels = Panels::new(piece.format, count, self.inputs);
        panels.store(0, rows).map_err(Problem::Rows)?;
        Ok(self.write(piece, first / PANEL, &panels)?)
    }

    fn write(&self, piece: &Piece, panel: usize, panels: &Panels) -> Result<()> {
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
        rows: Rows<'_>,
    ) -> std::result::Result<(), Problem> {
        let panel = outputs.start / PANEL;
        let all = PANEL.min(piece.outputs - panel * PANEL);
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry = match partial.entry((index, panel)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry((Panels::new(piece.format, PANEL, self.inputs), 0)),
        };
        let (panels, stored) = entry.get_mut();
        panels.store(outputs.start % PANEL, rows).map_err(Problem::Rows)?;
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
