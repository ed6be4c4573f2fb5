//! Writing to the memory of a GPU.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use super::{Buffer, Gpu, GpuError, Result, lock, one_line};
use crate::store::FileMap;

/// Bytes of small writes that may wait in host memory before they are moved to the device.
const WAITING: u64 = 64 << 20;
/// A write of so many bytes is a large one: it goes through memory that is kept for it.
const LARGE: usize = 1 << 20;
/// Bytes of that memory. Threads that write at the same time have one each.
const STAGING: u64 = 16 << 20;
/// How many of them stay between writes.
const KEPT: usize = 2;

/// What is on its way to a device.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    /// Bytes written since the last submission.
    waiting: AtomicU64,
    /// Memory of large writes that no thread is using, mapped.
    staging: Mutex<Vec<wgpu::Buffer>>,
}

impl Gpu {
    /// Memory with these bytes.
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.buffer(bytes.len() as u64)?;
        self.write(&buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Memory with the bytes of a place in a mapped file, which is only read: the file's own pages if the device shares the
    /// host's memory and its driver takes them, a copy otherwise. Fails if the place is not in the file, or memory is missing.
    pub(crate) fn file(&self, map: &Arc<FileMap>, place: Range<usize>) -> Result<Buffer> {
        self.check()?;
        let imported =
            self.importer().and_then(|importer| importer.import(self.device(), map, place.clone()));
        if let Some(imported) = imported {
            return Ok(Buffer::new(imported));
        }
        match map.bytes().get(place.clone()) {
            Some(bytes) => self.upload(bytes),
            None => Err(GpuError::Invalid(format!("bytes {place:?} of a file of {}", map.bytes().len()))),
        }
    }

    /// Write before all that is submitted from now on; `at` is a multiple of 4. Bytes beyond a multiple of 4 are padded with
    /// zeros. For data in the order of a stream's commands there is [`Stream::write`](super::Stream::write). Fails if the bytes do
    /// not fit into the buffer, or memory to hand them over is missing.
    pub fn write(&self, buffer: &Buffer, at: u64, bytes: &[u8]) -> Result<()> {
        self.check()?;
        let end = at + (bytes.len() as u64).next_multiple_of(4);
        if !at.is_multiple_of(4) || end > buffer.bytes() {
            let size = buffer.bytes();
            return Err(GpuError::Invalid(format!("{} bytes at {at} of a buffer of {size}", bytes.len())));
        }
        if bytes.len() >= LARGE {
            let mut pieces = bytes.chunks(STAGING as usize).enumerate();
            return pieces
                .try_for_each(|(i, piece)| self.write_large(buffer, at + i as u64 * STAGING, piece));
        }
        let whole = bytes.len() / 4 * 4;
        self.scoped(bytes.len() as u64, || {
            self.queue().write_buffer(buffer.raw(), at, &bytes[..whole]);
            if whole < bytes.len() {
                let mut last = [0; 4];
                last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
                self.queue().write_buffer(buffer.raw(), at + whole as u64, &last);
            }
        })?;
        let size = bytes.len() as u64;
        if self.uploads().waiting.fetch_add(size, Ordering::Relaxed) + size >= WAITING {
            // Their copies in host memory are released.
            self.uploads().waiting.store(0, Ordering::Relaxed);
            let submission = self.queue().submit([]);
            self.wait(Some(submission))?;
        }
        Ok(())
    }

    /// Write a piece of at most [`STAGING`] bytes, and wait until it is there.
    fn write_large(&self, buffer: &Buffer, at: u64, piece: &[u8]) -> Result<()> {
        let kept = lock(&self.uploads().staging).pop();
        let staging = match kept {
            Some(staging) => staging,
            None => self.staging()?,
        };
        let lost = |why: String| GpuError::Lost(one_line(&why));
        let size = (piece.len() as u64).next_multiple_of(4);
        let mut view = staging.get_mapped_range_mut(..size).map_err(|error| lost(error.to_string()))?;
        view.slice(..piece.len()).copy_from_slice(piece);
        view.slice(piece.len()..).fill(0);
        drop(view);
        staging.unmap();
        let submission = self.scoped(size, || {
            let mut encoder =
                self.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(&staging, 0, buffer.raw(), at, size);
            self.queue().submit([encoder.finish()])
        })?;
        let (done, mapped) = mpsc::sync_channel(1);
        staging.map_async(wgpu::MapMode::Write, .., move |result| drop(done.send(result)));
        self.wait(Some(submission))?;
        // Another thread's wait may be the one that calls back.
        mapped.recv().map_err(|_| lost("no answer".into()))?.map_err(|error| lost(error.to_string()))?;
        let mut free = lock(&self.uploads().staging);
        if free.len() < KEPT {
            free.push(staging);
        }
        Ok(())
    }

    /// Mapped memory for large writes.
    fn staging(&self) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let about = wgpu::BufferDescriptor { label: None, size: STAGING, usage, mapped_at_creation: true };
        self.scoped(STAGING, || self.device().create_buffer(&about))
    }
}
