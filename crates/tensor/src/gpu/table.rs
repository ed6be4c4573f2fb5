//! Embedding tables on a GPU: rows are looked up by id, and widened.

use std::sync::Arc;

use super::{
    Access, Buffer, Result, Rows, Stream,
    matrix::Matrix,
    products::{bindings, weights},
};
use crate::{
    gpu::products::source::{Setting, source},
    quant::panels::blocks,
};

/// A table of `vocab × width` values: a matrix whose rows are looked up. It may be the head's.
#[derive(Clone)]
pub struct Table {
    matrix: Arc<Matrix>,
    is_shared: bool,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    width: u32,
    blocks: u32,
    first: u32,
    outputs: u32,
}

impl Table {
    pub fn of(matrix: Arc<Matrix>) -> Self {
        Self { matrix, is_shared: false }
    }

    /// The rows of a matrix that is also the LM head.
    pub fn shared(matrix: Arc<Matrix>) -> Self {
        Self { matrix, is_shared: true }
    }

    pub fn vocab(&self) -> usize {
        self.matrix.outputs()
    }

    pub fn width(&self) -> usize {
        self.matrix.inputs()
    }

    /// Bytes on the device; 0 if they are the head's.
    pub fn bytes(&self) -> u64 {
        if self.is_shared { 0 } else { self.matrix.bytes() }
    }

    /// The rows of `count` ids, which must all be below [`Table::vocab`]; `ids` holds them as u32.
    pub fn gather(&self, stream: &mut Stream, ids: &Buffer, count: usize, out: &mut Rows) -> Result<()> {
        let width = self.width();
        let out = out.reserve(stream.gpu(), count, width)?;
        if count == 0 {
            return Ok(());
        }
        for piece in &self.matrix.pieces {
            let format = piece.format;
            let written = || {
                let names: &'static [&'static str] = if format.takes_blocks() { &["BLOCKS"] } else { &[] };
                let text = include_str!("shaders/gather.wgsl");
                source(&[&weights(format), text], Setting { rows: 0, names })
            };
            let name = format!("gather {}", format.name());
            let bindings = bindings(format, &[Access::Read, Access::Write]);
            let kernel = stream.gpu().kernel(&name, &written, &bindings, &[])?;
            let params = Params {
                width: width as u32,
                blocks: blocks(width) as u32,
                first: piece.first as u32,
                outputs: piece.outputs as u32,
            };
            let mut buffers: Vec<&Buffer> = piece.arrays.iter().collect();
            buffers.extend([ids, out]);
            stream.dispatch(
                &kernel,
                &params,
                &buffers,
                [blocks(width).div_ceil(64) as u32, count as u32, 1],
            )?;
        }
        Ok(())
    }
}
