//! Rows on a GPU that outlive the pass that computes them.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{
    Buffer, Gpu, Result, Stream,
    columns::{Columns, copy_columns},
    lock,
};

/// The stream of a sequence, which the rows that it computes share: reading them submits its commands.
#[derive(Clone, Debug)]
pub struct SharedStream(Arc<Mutex<Stream>>);

impl SharedStream {
    pub fn new(gpu: &Gpu) -> Self {
        Self(Arc::new(Mutex::new(gpu.stream())))
    }

    /// The stream, for this thread.
    pub fn lock(&self) -> MutexGuard<'_, Stream> {
        lock(&self.0)
    }

    /// True if both are handles of one stream.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// `rows × width` f32 values on a GPU. Cloning shares them.
#[derive(Clone, Debug)]
pub struct GpuRows {
    stream: SharedStream,
    buffer: Buffer,
    first: usize,
    rows: usize,
    width: usize,
}

impl GpuRows {
    /// The rows of a buffer, which commands in `stream` write.
    pub fn new(stream: &SharedStream, buffer: Buffer, rows: usize, width: usize) -> Self {
        Self { stream: stream.clone(), buffer, first: 0, rows, width }
    }

    /// Number of rows and values of a row.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.width)
    }

    pub fn gpu(&self) -> Gpu {
        self.stream.lock().gpu().clone()
    }

    /// The memory, and the offset of the first value in it in bytes. The commands that compute them are submitted unless it is recorded in
    /// `stream`, which then runs after it.
    pub(crate) fn place_for(&self, stream: &SharedStream) -> Result<(&Buffer, u64)> {
        if !self.stream.is(stream) {
            self.stream.lock().submit()?;
        }
        Ok((&self.buffer, (self.first * self.width) as u64 * 4))
    }

    /// These rows, or copies of them on the device of `stream` if they are on another one.
    pub(crate) fn moved_to(&self, stream: &SharedStream) -> Result<Self> {
        let there = stream.lock().gpu().clone();
        match self.gpu().is(&there) {
            true => Ok(self.clone()),
            false => below(stream, &[RowSource::Host(&self.read()?)], self.width),
        }
    }

    /// The stream that computes them.
    pub fn stream(&self) -> &SharedStream {
        &self.stream
    }

    pub fn bytes(&self) -> u64 {
        (self.rows * self.width) as u64 * 4
    }

    /// The rows `start..start + count`, which exist.
    pub fn narrow(&self, start: usize, count: usize) -> Self {
        Self { first: self.first + start, rows: count, ..self.clone() }
    }

    /// Copies of some rows, which exist, in the given order.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        let (mut stream, row) = (self.stream.lock(), self.width as u64 * 4);
        let buffer = stream.gpu().clone().buffer(rows.len() as u64 * row)?;
        let mut to = 0;
        for run in rows.chunk_by(|a, b| a + 1 == *b) {
            let (from, bytes) = ((self.first + run[0]) as u64 * row, run.len() as u64 * row);
            stream.copy(&self.buffer, from, &buffer, to, bytes)?;
            to += bytes;
        }
        Ok(Self::new(&self.stream, buffer, rows.len(), self.width))
    }

    /// The columns from `column` on.
    fn starting_at(&self, column: usize) -> Columns<'_> {
        let first = (self.first * self.width + column) as u64;
        Columns { buffer: &self.buffer, first, stride: self.width }
    }

    /// Copies of some columns, which exist.
    pub fn columns(&self, columns: Range<usize>) -> Result<Self> {
        self.copied(columns.start, columns.len(), columns.len())
    }

    /// Copies padded with zeros to `width` values.
    pub fn widened(&self, width: usize) -> Result<Self> {
        self.copied(0, self.width, width)
    }

    /// `count` columns from `column` on, in new rows of `width` values.
    fn copied(&self, column: usize, count: usize, width: usize) -> Result<Self> {
        let mut stream = self.stream.lock();
        // New memory is zero.
        let buffer = stream.gpu().clone().buffer((self.rows * width) as u64 * 4)?;
        let to = Columns { buffer: &buffer, first: 0, stride: width };
        copy_columns(&mut stream, self.starting_at(column), to, self.rows, count, false)?;
        Ok(Self::new(&self.stream, buffer, self.rows, width))
    }

    /// The values in host memory: submits and waits.
    pub fn read(&self) -> Result<Vec<f32>> {
        self.stream.lock().read_values(&self.buffer, self.first * self.width, self.rows * self.width)
    }
}

/// Rows to put together: on the device, or in host memory.
#[derive(Clone, Copy, Debug)]
pub enum RowSource<'a> {
    /// On the device.
    Device(&'a GpuRows),
    /// In host memory, whole rows.
    Host(&'a [f32]),
}

impl RowSource<'_> {
    fn rows(&self, width: usize) -> usize {
        match self {
            RowSource::Device(rows) => rows.rows,
            RowSource::Host(values) => values.len().checked_div(width).unwrap_or(0),
        }
    }
}

/// Rows of `width` values below each other, computed in `stream`, which is submitted if a part is of another one.
pub fn below(stream: &SharedStream, parts: &[RowSource<'_>], width: usize) -> Result<GpuRows> {
    let rows: usize = parts.iter().map(|part| part.rows(width)).sum();
    let buffer = stream.lock().gpu().clone().buffer((rows * width) as u64 * 4)?;
    let mut at = 0;
    for part in parts {
        let bytes = (part.rows(width) * width) as u64 * 4;
        match part {
            RowSource::Device(from) => {
                let from = from.moved_to(stream)?;
                let (memory, start) = from.place_for(stream)?;
                stream.lock().copy(memory, start, &buffer, at, bytes)?;
            }
            RowSource::Host(values) => stream.lock().write(&buffer, at, bytemuck::cast_slice(values))?,
        }
        at += bytes;
    }
    let is_foreign =
        |part: &RowSource<'_>| matches!(part, RowSource::Device(rows) if !rows.stream.is(stream));
    if parts.iter().any(is_foreign) {
        // Rows of other streams may be overwritten from now on.
        stream.lock().submit()?;
    }
    Ok(GpuRows::new(stream, buffer, rows, width))
}

/// Rows concatenated, `rows × (widths.0 + widths.1)`, computed in `stream`, which is submitted if a part is of another one.
pub fn beside(stream: &SharedStream, parts: [RowSource<'_>; 2], widths: [usize; 2]) -> Result<GpuRows> {
    let rows = parts[0].rows(widths[0]).min(parts[1].rows(widths[1]));
    let stride = widths[0] + widths[1];
    let buffer = stream.lock().gpu().clone().buffer((rows * stride) as u64 * 4)?;
    let mut is_foreign = false;
    for ((part, width), first) in parts.iter().zip(widths).zip([0, widths[0] as u64]) {
        let from = match part {
            RowSource::Device(from) => from.moved_to(stream)?,
            RowSource::Host(_) => below(stream, &[*part], width)?,
        };
        is_foreign |= !from.stream.is(stream);
        from.place_for(stream)?;
        let to = Columns { buffer: &buffer, first, stride };
        copy_columns(&mut stream.lock(), from.starting_at(0), to, rows, width, false)?;
    }
    if is_foreign {
        // Rows of other streams may be overwritten from now on.
        stream.lock().submit()?;
    }
    Ok(GpuRows::new(stream, buffer, rows, stride))
}
