//! Attention of new rows over one layer of the cache, in tensors.

use candle_core::{D, DType, Result, Tensor};
use candle_nn::ops;

use crate::model::decoder::attention::{AttentionProbe, AttentionStats, Shape};

/// Attention scores that are held at a time, in values (256 MiB as bf16): a prefill never holds rows × slots of all heads.
const SCORES: usize = 1 << 27;

/// Values up to which a mask is repeated for all heads; less than [`SCORES`], so that rows are not taken in portions then.
const REPEATED: usize = 1 << 25;

/// What the layers of one pass have in common.
pub(super) struct Attended {
    /// Heads.
    shape: Shape,
    /// Slots that are read, the new rows' included.
    pub slots: usize,
    /// True if each row sees what stands before it.
    #[cfg_attr(not(feature = "flash-attn"), expect(dead_code, reason = "fused kernels know no trees"))]
    causal: bool,
    /// `rows × slots`, see [`super::mask::hidden`]; `heads × rows × slots` where that is little.
    mask: Option<Tensor>,
}

impl Attended {
    /// Prepare a pass over `slots` slots. A small mask is repeated for all heads once, so that no layer has to.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn new(shape: Shape, slots: usize, causal: bool, mask: Option<Tensor>) -> Result<Self> {
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
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn run(
        &self,
        q: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        mut sight: Option<&mut Sight<'_>>,
    ) -> Result<Tensor> {
        let Shape { heads, kv_heads, head_dim } = self.shape;
        let scale = 1.0 / (head_dim as f64).sqrt();
        #[cfg(feature = "flash-attn")]
        if sight.is_none() && self.causal && fused::fits(q, head_dim) {
            return fused::run(q, keys, values, scale as f32);
        }
        let rows = q.dim(1)?;
        let q = (q * scale)?;
        let keys = keys.transpose(1, 2)?;
        let at_once = (SCORES / (heads * self.slots).max(1)).clamp(1, rows.max(1));
        let mut parts = Vec::with_capacity(rows.div_ceil(at_once));
        for start in (0..rows).step_by(at_once) {
            let n = at_once.min(rows - start);
            // Heads of a group are neighbours: their rows are the rows of one product with the group's keys, which are not copied.
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
            if let Some(sight) = &mut sight {
                sight.look(&weights, self.shape)?;
            }
            let mixed = weights.reshape((kv_heads, heads / kv_heads * n, self.slots))?.matmul(values)?;
            parts.push(mixed.reshape((heads, n, head_dim))?.transpose(0, 1)?.reshape((n, heads * head_dim))?);
        }
        if let Some(sight) = sight {
            sight.end_layer()?;
        }
        if parts.len() == 1 { Ok(parts.remove(0)) } else { Tensor::cat(&parts, 0) }
    }
}

/// Gathers where rows look, on the device, until all layers have run.
pub(super) struct Sight<'a> {
    watch: &'a AttentionProbe,
    layers: usize,
    /// Of the running layer: `rows` peaks summed over heads, by portion.
    peaks: Vec<Tensor>,
    /// Of the running layer: `kv_heads × slots`, summed over rows and the heads of a group.
    by_head: Option<Tensor>,
    /// Peaks of all layers so far.
    sum: Option<Tensor>,
    all: Vec<Tensor>,
    heads: usize,
}

impl<'a> Sight<'a> {
    /// For a model of `layers` layers.
    pub fn new(watch: &'a AttentionProbe, layers: usize) -> Self {
        Self { watch, layers, peaks: Vec::new(), by_head: None, sum: None, all: Vec::new(), heads: 1 }
    }

    /// Look at weights `heads × rows × slots`.
    fn look(&mut self, weights: &Tensor, shape: Shape) -> Result<()> {
        let (heads, rows, slots) = weights.dims3()?;
        let spans = self.watch.spans.ranges_below(slots);
        let watched: Vec<Tensor> =
            spans.map(|span| weights.narrow(2, span.start, span.len())).collect::<Result<_>>()?;
        self.heads = heads;
        let seen = if watched.is_empty() { weights.narrow(2, 0, 0)? } else { Tensor::cat(&watched, 2)? };
        self.peaks.push(match watched.is_empty() {
            true => Tensor::zeros(rows, DType::F32, weights.device())?,
            false => seen.max(D::Minus1)?.to_dtype(DType::F32)?.sum(0)?,
        });
        if self.watch.by_head {
            let (group, n) = (heads / shape.kv_heads, seen.dim(2)?);
            let seen = seen.to_dtype(DType::F32)?.contiguous()?;
            let sum = seen.reshape((shape.kv_heads, group * rows, n))?.sum(1)?;
            // Slots that are not there yet weigh nothing.
            let sum = sum.pad_with_zeros(1, 0, self.watch.spans.len() - n)?;
            self.by_head = Some(match self.by_head.take() {
                Some(before) => (before + sum)?,
                None => sum,
            });
        }
        Ok(())
    }

    fn end_layer(&mut self) -> Result<()> {
        let peaks = Tensor::cat(&std::mem::take(&mut self.peaks), 0)?;
        self.sum = Some(match self.sum.take() {
            Some(sum) => (sum + peaks)?,
            None => peaks,
        });
        self.all.extend(self.by_head.take());
        Ok(())
    }

    /// Bring down what was gathered.
    pub fn told(self) -> Result<AttentionStats> {
        let by = 1.0 / (self.heads * self.layers) as f64;
        let peaks = self.sum.map(|sum| (sum * by)?.to_vec1::<f32>()).transpose()?;
        let by_head = match self.all.is_empty() {
            true => Vec::new(),
            false => Tensor::cat(&self.all, 0)?.flatten_all()?.to_vec1::<f32>()?,
        };
        Ok(AttentionStats { peaks: peaks.unwrap_or_default(), by_head })
    }
}

/// candle's FlashAttention-2: no trees and no weights to look at, but nothing of the size rows × slots either.
#[cfg(feature = "flash-attn")]
mod fused {
    use super::{DType, Result, Tensor};

    /// Rows below which its kernels, which share out queries and not slots, leave most of the device idle over a long cache.
    const ROWS: usize = 64;
    /// Widest head.
    const HEAD: usize = 256;

    /// True if the queries are of a kind that it takes, and enough of them.
    pub fn fits(q: &Tensor, head_dim: usize) -> bool {
        q.device().is_cuda()
            && matches!(q.dtype(), DType::F16 | DType::BF16)
            && head_dim <= HEAD
            && head_dim.is_multiple_of(8)
            && q.dim(1).is_ok_and(|rows| rows >= ROWS)
    }

    /// As `Attended::run`; row r sees all but the last `rows - 1 - r` slots.
    pub fn run(q: &Tensor, keys: &Tensor, values: &Tensor, scale: f32) -> Result<Tensor> {
        let (heads, rows, head_dim) = q.dims3()?;
        let placed = |t: &Tensor| t.transpose(0, 1)?.unsqueeze(0);
        let mixed =
            candle_flash_attn::flash_attn(&placed(q)?, &placed(keys)?, &placed(values)?, scale, true)?;
        mixed.reshape((rows, heads * head_dim))
    }
}
