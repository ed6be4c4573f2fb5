//! Reading results: the only commands that wait.

use std::sync::mpsc;

use super::{
    super::{Buffer, GpuError, Result, one_line},
    Stream,
};

impl Stream {
    /// Submit, wait, and read bytes; `at` is a multiple of 4. Fails if the device is lost, or the range is not within the buffer.
    pub fn read(&mut self, buffer: &Buffer, at: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut read = self.read_all(&[(buffer, at, bytes)])?;
        Ok(read.pop().unwrap_or_default())
    }

    /// As [`Stream::read`], as values: `count` of them, from value `at`.
    pub(crate) fn read_values<T: bytemuck::Pod>(
        &mut self,
        buffer: &Buffer,
        at: usize,
        count: usize,
    ) -> Result<Vec<T>> {
        let size = size_of::<T>() as u64;
        let bytes = self.read(buffer, at as u64 * size, count as u64 * size)?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }

    /// Submit, wait once, and read several ranges: buffer, offset (a multiple of 4), size.
    pub(crate) fn read_all(&mut self, ranges: &[(&Buffer, u64, u64)]) -> Result<Vec<Vec<u8>>> {
        self.gpu.check()?;
        let mut total = 0;
        for (buffer, at, bytes) in ranges {
            let padded = bytes.next_multiple_of(4);
            Self::range(buffer, *at, padded)?;
            total += padded;
        }
        if total == 0 {
            self.submit()?;
            return Ok(vec![Vec::new(); ranges.len()]);
        }
        let landing = match self.landing.take().filter(|landing| landing.size() >= total) {
            Some(landing) => landing,
            None => {
                let size = total.next_power_of_two().min(self.gpu.limits().max_buffer_size).max(total);
                self.gpu.allocate(size, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)?
            }
        };
        let encoder = self.encoder();
        let mut to = 0;
        for (buffer, at, bytes) in ranges {
            let padded = bytes.next_multiple_of(4);
            if padded > 0 {
                encoder.copy_buffer_to_buffer(buffer.raw(), *at, &landing, to, padded);
            }
            to += padded;
        }
        let index = self.send()?;
        let slice = landing.slice(..total);
        let (done, mapped) = mpsc::sync_channel(1);
        slice.map_async(wgpu::MapMode::Read, move |result| drop(done.send(result)));
        self.gpu.wait(index)?;
        // Another thread's wait may be the one that calls back.
        let lost = |why: String| GpuError::Lost(one_line(&why));
        mapped.recv().map_err(|_| lost("no answer".into()))?.map_err(|error| lost(error.to_string()))?;
        let view = slice.get_mapped_range().map_err(|error| lost(error.to_string()))?;
        let mut from = 0;
        let read = ranges.iter().map(|(_, _, bytes)| {
            let values = view[from..from + *bytes as usize].to_vec();
            from += bytes.next_multiple_of(4) as usize;
            values
        });
        let read: Vec<Vec<u8>> = read.collect();
        drop(view);
        landing.unmap();
        self.landing = Some(landing);
        self.traffic.down += ranges.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
        self.count();
        Ok(read)
    }
}
