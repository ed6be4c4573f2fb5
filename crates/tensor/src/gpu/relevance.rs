//! Visual relevance on a GPU: the similarity of states to the target's states at the visual tokens, which stay on the device.

use super::{
    Access, Gpu, GpuError, Result, Rows, Stream,
    attention::LINE,
    logits::{self, MOST},
    rows::filled,
    states::GpuRows,
};

/// The target's final states at its visual tokens, each scaled to length one.
#[derive(Debug)]
pub struct VisualStates {
    gpu: Gpu,
    /// The states, in parts that a kernel can bind.
    parts: Vec<Rows>,
    tokens: usize,
    width: usize,
    unit: Rows,
    products: Rows,
    scratch: logits::Scratch,
}

impl VisualStates {
    /// No states yet, of this width.
    pub fn new(gpu: &Gpu, width: usize) -> Self {
        let (parts, tokens, unit, products, scratch) = Default::default();
        Self { gpu: gpu.clone(), parts, tokens, width, unit, products, scratch }
    }

    /// Copies of rows in host memory, on the device of `first`.
    pub fn beside(first: &GpuRows, rows: &[f32], width: usize) -> Result<Self> {
        let gpu = first.gpu();
        let mut states = Self::new(&gpu, width);
        let rows = Rows::upload(&gpu, rows, width)?;
        states.append(&mut first.stream().lock(), &rows, 0..rows.rows())?;
        Ok(states)
    }

    /// Append rows of states that are on the device. Zero states stay zero: they resemble nothing. Fails if the width differs, or
    /// memory is missing.
    pub fn append(&mut self, stream: &mut Stream, states: &Rows, rows: std::ops::Range<usize>) -> Result<()> {
        if states.width() != self.width || rows.end > states.rows() {
            return Err(GpuError::Invalid("states of another width are added to visual states".into()));
        }
        let limit = self.gpu.limits().max_storage_buffer_binding_size as usize / 4 / self.width.max(1);
        for first in rows.clone().step_by(limit.max(1)) {
            let count = limit.min(rows.end - first);
            let mut part = Rows::default();
            normalize(stream, states, first, count, &mut part)?;
            self.parts.push(part);
            self.tokens += count;
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes() as usize).sum()
    }

    /// As [`VisualStates::nearest`], of rows that outlive their pass.
    pub fn nearest_to(&mut self, rows: &GpuRows, count: usize) -> Result<Vec<Vec<(u32, f32)>>> {
        let stream = rows.stream();
        let (memory, start) = rows.place_for(stream)?;
        let (count_of, width) = rows.shape();
        let first = start as usize / 4 / width.max(1);
        let whole = Rows::of(memory.clone(), first + count_of, width);
        let mut nearest = self.nearest(&mut stream.lock(), &whole, count)?;
        Ok(nearest.split_off(first))
    }

    /// For each of some rows of states the `count` visual tokens that resemble it most, with the cosine similarities, best first.
    /// Waits for them.
    pub fn nearest(
        &mut self,
        stream: &mut Stream,
        states: &Rows,
        count: usize,
    ) -> Result<Vec<Vec<(u32, f32)>>> {
        if states.width() != self.width {
            return Err(GpuError::Invalid("states of another width are compared to visual states".into()));
        }
        let (rows, tokens) = (states.rows(), self.tokens);
        if rows == 0 || tokens == 0 {
            return Ok(vec![Vec::new(); rows]);
        }
        normalize(stream, states, 0, rows, &mut self.unit)?;
        self.record_products(stream, rows)?;
        if count <= MOST {
            return logits::largest(stream, &self.products, tokens, count, &mut self.scratch);
        }
        // More than the device sorts: the similarities come back.
        let buffer = filled(&self.products)?;
        let products: Vec<f32> = stream.read_values(buffer, 0, rows * tokens)?;
        let nearest = |products: &[f32]| {
            let mut order: Vec<(u32, f32)> = (0..).zip(products.iter().copied()).collect();
            order.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            order.truncate(count);
            order
        };
        Ok(products.chunks_exact(tokens).map(nearest).collect())
    }

    /// `products[r][t]` = the cosine similarity of the unit row `r` with token `t`.
    fn record_products(&mut self, stream: &mut Stream, rows: usize) -> Result<()> {
        use Access::{Read, Write};
        let kernel = self.gpu.kernel(
            "similarity",
            &|| include_str!("shaders/similarity.wgsl").into(),
            &[Read, Read, Write],
            &[],
        )?;
        let out = self.products.reserve(&self.gpu, rows, self.tokens)?;
        let mut at = 0;
        for part in &self.parts {
            let counts = [self.width, rows, part.rows(), self.tokens, at, 0, 0, 0];
            let params = counts.map(|count| count as u32);
            let groups = part.rows().div_ceil(4);
            let groups = [groups.min(LINE), groups.div_ceil(LINE), rows.div_ceil(4)].map(|n| n as u32);
            stream.dispatch(&kernel, &params, &[filled(&self.unit)?, filled(part)?, out], groups)?;
            at += part.rows();
        }
        Ok(())
    }
}

/// `out` = some rows of `x`, each scaled to length one.
fn normalize(stream: &mut Stream, x: &Rows, first: usize, rows: usize, out: &mut Rows) -> Result<()> {
    let gpu = stream.gpu().clone();
    let kernel = gpu.kernel(
        "unit",
        &|| include_str!("shaders/unit.wgsl").into(),
        &[Access::Read, Access::Write],
        &[],
    )?;
    let out = out.reserve(&gpu, rows, x.width())?;
    let params = [x.width() as u32, rows as u32, first as u32, 0];
    let groups = [rows.min(LINE) as u32, rows.div_ceil(LINE) as u32, 1];
    stream.dispatch(&kernel, &params, &[filled(x)?, out], groups)
}

#[cfg(test)]
mod tests;
