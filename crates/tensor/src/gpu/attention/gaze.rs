//! Attention weights on measured slots, collected on a GPU during a pass.

use crate::attention::{AttentionProbe, AttentionShape, AttentionStats};
use crate::gpu::{Buffer, Gpu, GpuError, Result, Stream};

/// A measurement of attention weights: the slots, and the sums of a pass. Kept between passes.
#[derive(Debug)]
pub struct Gaze {
    gpu: Gpu,
    probe: AttentionProbe,
    layers: usize,
    /// A bit for each slot.
    bits: Buffer,
    slots: Buffer,
    /// For each query of the pass: its summed peaks, and two numbers of one layer.
    probed: Option<Buffer>,
    /// `layers × kv_heads × slots`.
    sums: Option<Buffer>,
    rows: usize,
    heads: usize,
    kv_heads: usize,
    /// Layers of this pass so far.
    done: usize,
}

impl Gaze {
    /// For passes of a model of `layers` layers over up to `capacity` slots.
    pub fn new(gpu: &Gpu, probe: &AttentionProbe, layers: usize, capacity: usize) -> Result<Self> {
        let end = capacity.max(probe.spans.end()) + 1;
        let mut bits = vec![0u32; end.div_ceil(32)];
        let slots: Vec<u32> = probe.spans.rows().map(|slot| slot as u32).collect();
        slots.iter().for_each(|slot| bits[(slot / 32) as usize] |= 1 << (slot % 32));
        Ok(Self {
            gpu: gpu.clone(),
            probe: probe.clone(),
            layers,
            bits: gpu.upload(bytemuck::cast_slice(&bits))?,
            slots: gpu.upload(bytemuck::cast_slice(&slots))?,
            probed: None,
            sums: None,
            rows: 0,
            heads: 0,
            kv_heads: 0,
            done: 0,
        })
    }

    pub fn probe(&self) -> &AttentionProbe {
        &self.probe
    }

    /// True if it can be used for passes over so many slots.
    pub(crate) fn covers(&self, slots: usize) -> bool {
        self.bits.bytes() as usize * 8 >= slots
    }

    pub fn begin(&mut self) {
        self.done = 0;
    }

    pub(crate) fn begin_layer(
        &mut self,
        stream: &mut Stream,
        rows: usize,
        shape: AttentionShape,
    ) -> Result<()> {
        if self.done > 0 {
            return Ok(());
        }
        (self.rows, self.heads, self.kv_heads) = (rows, shape.heads, shape.kv_heads);
        let bytes = (rows * shape.heads).max(1) as u64 * 4;
        if self.probed.as_ref().is_none_or(|probed| probed.bytes() < 3 * bytes) {
            self.probed = Some(self.gpu.buffer((3 * bytes).next_power_of_two())?);
        }
        if let Some(probed) = &self.probed {
            stream.clear(probed, 0, bytes)?;
        }
        if self.probe.by_head && self.sums.is_none() {
            let count = self.layers * shape.kv_heads * self.probe.spans.len();
            self.sums = Some(self.gpu.buffer(count as u64 * 4)?);
        }
        Ok(())
    }

    /// The bits of the measured slots, and the output of each query.
    pub(crate) fn buffers(&self) -> Result<(&Buffer, &Buffer)> {
        let probed = self.probed.as_ref().ok_or_else(|| GpuError::Invalid("no layer is measured".into()))?;
        Ok((&self.bits, probed))
    }

    /// Count a layer. Where its sums by head begin, and the number of slots; `None` if weights are not summed by head.
    pub(crate) fn next_layer(&mut self) -> Result<Option<(usize, usize)>> {
        let count = self.probe.spans.len();
        let at = self.done * self.kv_heads * count;
        if self.done == self.layers {
            return Err(GpuError::Invalid("more layers are measured than the model has".into()));
        }
        self.done += 1;
        Ok(self.sums.as_ref().filter(|_| count > 0).map(|_| (at, count)))
    }

    /// The measured slots, and their sums.
    pub(crate) fn sums(&self) -> Result<(&Buffer, &Buffer)> {
        let sums = self.sums.as_ref().ok_or_else(|| GpuError::Invalid("weights are not summed".into()))?;
        Ok((&self.slots, sums))
    }

    /// What is to be read after the pass: buffers, offsets, sizes.
    pub fn ranges(&self) -> Vec<(&Buffer, u64, u64)> {
        let sums = (self.done * self.kv_heads * self.probe.spans.len()) as u64 * 4;
        let probed = self.probed.iter().map(|probed| (probed, 0, (self.rows * self.heads) as u64 * 4));
        probed.chain(self.sums.iter().map(|buffer| (buffer, 0, sums))).collect()
    }

    /// The statistics from the bytes of [`Gaze::ranges`].
    pub fn stats(&self, read: &[Vec<u8>]) -> AttentionStats {
        let values = |bytes: &Vec<u8>| bytemuck::pod_collect_to_vec::<u8, f32>(bytes);
        let peaks = read.first().map(values).unwrap_or_default();
        let factor = 1.0 / (self.heads * self.layers).max(1) as f32;
        let mean = |heads: &[f32]| heads.iter().sum::<f32>() * factor;
        AttentionStats {
            peaks: peaks.chunks(self.heads.max(1)).map(mean).collect(),
            by_head: read.get(1).map(values).unwrap_or_default(),
        }
    }

    /// Submit, wait, and read the statistics of the pass.
    pub fn read(&self, stream: &mut Stream) -> Result<AttentionStats> {
        let read = stream.read_all(&self.ranges())?;
        Ok(self.stats(&read))
    }
}
