//! Attention of new rows over one layer of the cache, in tensors.

use crate::Result;
use candle_core::{D, DType, Tensor};
use candle_nn::ops;

use crate::attention::{AttentionProbe, AttentionShape, AttentionStats};

/// Attention scores in memory at a time, in values (256 MiB as bf16): a prefill never holds the scores of all rows and slots.
const SCORES: usize = 1 << 27;

/// Values up to which a mask is repeated for all heads; less than [`SCORES`], so that all rows are computed at once.
const REPEATED: usize = 1 << 25;

/// Attention of one pass: what its layers have in common.
pub(crate) struct PassAttention {
    shape: AttentionShape,
    /// Slots of the cache, including the new rows.
    pub slots: usize,
    /// True if each row sees all slots before it.
    #[cfg_attr(not(feature = "flash-attn"), expect(dead_code, reason = "only fused kernels need it"))]
    causal: bool,
    /// `rows × slots`, see [`super::mask::hidden`]; `heads × rows × slots` if that is small.
    mask: Option<Tensor>,
}

impl PassAttention {
    /// For a pass over `slots` slots. A small mask is repeated for all heads here, once for all layers.
    pub fn new(shape: AttentionShape, slots: usize, causal: bool, mask: Option<Tensor>) -> Result<Self> {
        let repeated = |mask: Tensor| {
            let (rows, slots) = mask.dims2()?;
            match shape.heads * rows * slots <= REPEATED {
                true => mask.unsqueeze(0)?.broadcast_as((shape.heads, rows, slots))?.contiguous(),
                false => Ok(mask),
            }
        };
        Ok(Self { shape, slots, causal, mask: mask.map(repeated).transpose()? })
    }

    /// `rows × heads · head_dim` of queries `heads × rows × head_dim` over keys and values `kv_heads × slots × head_dim`.
    pub fn run(
        &self,
        q: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        mut probe: Option<&mut ProbeSums>,
    ) -> Result<Tensor> {
        let AttentionShape { heads, kv_heads, head_dim } = self.shape;
        let scale = 1.0 / (head_dim as f64).sqrt();
        #[cfg(feature = "flash-attn")]
        if probe.is_none() && self.causal && fused::fits(q, head_dim) {
            return fused::run(q, keys, values, scale as f32);
        }
        let rows = q.dim(1)?;
        let q = (q * scale)?;
        let keys = keys.transpose(1, 2)?;
        let at_once = (SCORES / (heads * self.slots).max(1)).clamp(1, rows.max(1));
        let mut parts = Vec::with_capacity(rows.div_ceil(at_once));
        for start in (0..rows).step_by(at_once) {
            let n = at_once.min(rows - start);
            // The heads of a group are adjacent: their rows multiply the group's keys in one product, without copies.
            let q =
                q.narrow(1, start, n)?.contiguous()?.reshape((kv_heads, heads / kv_heads * n, head_dim))?;
            let mut scores = q.matmul(&keys)?.reshape((heads, n, self.slots))?;
            if let Some(mask) = &self.mask {
                scores = if mask.rank() == 3 {
                    (scores + mask)?
                } else {
                    scores.broadcast_add(&mask.narrow(0, start, n)?)?
                };
            }
            let weights = ops::softmax_last_dim(&scores)?;
            if let Some(probe) = &mut probe {
                probe.add(&weights, self.shape)?;
            }
            let mixed = weights.reshape((kv_heads, heads / kv_heads * n, self.slots))?.matmul(values)?;
            parts.push(mixed.reshape((heads, n, head_dim))?.transpose(0, 1)?.reshape((n, heads * head_dim))?);
        }
        if let Some(probe) = probe {
            probe.end_layer()?;
        }
        if parts.len() == 1 { Ok(parts.remove(0)) } else { Ok(Tensor::cat(&parts, 0)?) }
    }
}

/// Sums of an attention probe, on the device until all layers have run.
pub(crate) struct ProbeSums {
    probe: AttentionProbe,
    layers: usize,
    /// Of the current layer: the peaks of `rows` rows, summed over heads; one tensor per chunk of rows.
    peaks: Vec<Tensor>,
    /// Of the current layer: `kv_heads × slots`, summed over rows and the heads of a group.
    by_head: Option<Tensor>,
    /// Peaks, summed over the layers so far.
    peak_sum: Option<Tensor>,
    /// `by_head` of the layers so far.
    layers_by_head: Vec<Tensor>,
    heads: usize,
}

impl ProbeSums {
    pub fn new(probe: &AttentionProbe, layers: usize) -> Self {
        Self {
            probe: probe.clone(),
            layers,
            peaks: Vec::new(),
            by_head: None,
            peak_sum: None,
            layers_by_head: Vec::new(),
            heads: 1,
        }
    }

    /// Add weights `heads × rows × slots` of the current layer.
    fn add(&mut self, weights: &Tensor, shape: AttentionShape) -> Result<()> {
        let (heads, rows, slots) = weights.dims3()?;
        let spans = self.probe.spans.ranges_below(slots);
        let parts: Vec<Tensor> = spans
            .map(|span| weights.narrow(2, span.start, span.len()))
            .collect::<candle_core::Result<_>>()?;
        self.heads = heads;
        let probed = if parts.is_empty() { weights.narrow(2, 0, 0)? } else { Tensor::cat(&parts, 2)? };
        self.peaks.push(match parts.is_empty() {
            true => Tensor::zeros(rows, DType::F32, weights.device())?,
            false => probed.max(D::Minus1)?.to_dtype(DType::F32)?.sum(0)?,
        });
        if self.probe.by_head {
            let (group, n) = (heads / shape.kv_heads, probed.dim(2)?);
            let probed = probed.to_dtype(DType::F32)?.contiguous()?;
            let sum = probed.reshape((shape.kv_heads, group * rows, n))?.sum(1)?;
            // Slots that are not in use yet have no weight.
            let sum = sum.pad_with_zeros(1, 0, self.probe.spans.len() - n)?;
            self.by_head = Some(match self.by_head.take() {
                Some(before) => (before + sum)?,
                None => sum,
            });
        }
        Ok(())
    }

    fn end_layer(&mut self) -> Result<()> {
        let peaks = Tensor::cat(&std::mem::take(&mut self.peaks), 0)?;
        self.peak_sum = Some(match self.peak_sum.take() {
            Some(sum) => (sum + peaks)?,
            None => peaks,
        });
        self.layers_by_head.extend(self.by_head.take());
        Ok(())
    }

    /// Transfer the statistics to the CPU.
    pub fn finish(self) -> Result<AttentionStats> {
        let scale = 1.0 / (self.heads * self.layers) as f64;
        let peaks = self.peak_sum.map(|sum| (sum * scale)?.to_vec1::<f32>()).transpose()?;
        let by_head = match self.layers_by_head.is_empty() {
            true => Vec::new(),
            false => Tensor::cat(&self.layers_by_head, 0)?.flatten_all()?.to_vec1::<f32>()?,
        };
        Ok(AttentionStats { peaks: peaks.unwrap_or_default(), by_head })
    }
}

/// candle's FlashAttention-2: without trees and attention weights, in memory that does not grow with rows × slots.
#[cfg(feature = "flash-attn")]
mod fused {
    use super::{DType, Result, Tensor};

    /// Minimum rows: the kernels are parallel over queries and not over slots, so few rows leave the device idle.
    const ROWS: usize = 64;
    /// Widest head.
    const HEAD: usize = 256;

    /// True if the queries have a supported type and width, and there are enough of them.
    pub fn fits(q: &Tensor, head_dim: usize) -> bool {
        q.device().is_cuda()
            && matches!(q.dtype(), DType::F16 | DType::BF16)
            && head_dim <= HEAD
            && head_dim.is_multiple_of(8)
            && q.dim(1).is_ok_and(|rows| rows >= ROWS)
    }

    /// As `PassAttention::run`; row r sees all but the last `rows - 1 - r` slots.
    pub fn run(q: &Tensor, keys: &Tensor, values: &Tensor, scale: f32) -> Result<Tensor> {
        let (heads, rows, head_dim) = q.dims3()?;
        let placed = |t: &Tensor| t.transpose(0, 1)?.unsqueeze(0);
        let mixed =
            candle_flash_attn::flash_attn(&placed(q)?, &placed(keys)?, &placed(values)?, scale, true)?;
        mixed.reshape((rows, heads * head_dim))
    }
}
