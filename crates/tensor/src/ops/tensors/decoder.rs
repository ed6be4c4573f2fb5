//! What decoders do in candle's tensors.

use candle_core::Tensor;
use candle_nn::ops;

use super::{TensorOps, TensorPass, TensorRows, TensorWork, on_tensor};
use crate::{
    CheckpointError, LinearAttention, LinearWeights, Result, Weights,
    attention::{AttentionShape, AttentionStats, Mask},
    cache::DeviceCache as _,
    candle::{
        attention::{PassAttention, ProbeSums},
        cache::TensorCache,
        linear::Matrix,
        mask,
        mixing::{self, TensorLinear},
        recurrent::Recurrent,
        states::CandleRows,
    },
    experts::Experts,
    fused::FusedMatrix,
    logits::Logits,
    ops::{
        Ability, DecoderOps, HeadNorms, HeldWeights, Input, Loaded, NO_EXPERTS, Out, PassSpec, RowOps as _,
    },
    recurrent::RecurrentPass,
    states::States,
};

/// Rows of a prefill pass on an accelerator, which few rows do not fill.
const WIDE_CHUNK: usize = 1024;
/// Rows of a prefill pass on the CPU.
const CHUNK: usize = 128;

pub struct Embeddings {
    /// `vocab × hidden`.
    table: Tensor,
    /// The head is in the same memory.
    shared: bool,
}

impl HeldWeights for Embeddings {
    fn bytes(&self) -> usize {
        if self.shared { 0 } else { self.table.elem_count() * self.table.dtype().size_in_bytes() }
    }
}

impl DecoderOps for TensorOps {
    type Table = Embeddings;
    type Linear = TensorLinear;
    type Recurrent = Recurrent;
    type Cache = TensorCache;

    fn is_batch_invariant(&self) -> bool {
        false
    }

    fn computes(&self, ability: Ability) -> bool {
        matches!(ability, Ability::Heads(_))
    }

    fn chunk(&self) -> usize {
        if self.device().is_cpu() { CHUNK } else { WIDE_CHUNK }
    }

    fn linear(&self, name: &str, weights: LinearWeights) -> Loaded<TensorLinear> {
        TensorLinear::new(weights, self.device()).map_err(on_tensor(name))
    }

    fn recurrent(&self, layers: usize, shape: LinearAttention) -> Recurrent {
        Recurrent::new(layers, shape, self.device())
    }

    fn embeddings(
        &self,
        name: &str,
        head: &FusedMatrix,
        tied: bool,
        checkpoint: &dyn Weights,
    ) -> Loaded<(Embeddings, Matrix)> {
        let shape = [head.outputs(), head.inputs];
        let table = self.place.tensor(checkpoint.f32(name, &shape)?, &shape).map_err(on_tensor(name))?;
        // A tied table is the head; it is stored once.
        let shared = tied && !self.place.quantizes();
        let head = if shared { Matrix::of(table.clone()) } else { self.matrix(head, checkpoint)? };
        Ok((Embeddings { table, shared }, head))
    }

    fn slot_bytes(&self, shape: AttentionShape) -> usize {
        2 * shape.kv_heads * shape.head_dim * self.dtype().size_in_bytes()
    }

    fn cache(&self, layers: usize, shape: AttentionShape, capacity: usize) -> TensorCache {
        TensorCache::new(layers, shape.kv_heads, shape.head_dim, capacity, self.dtype(), self.device())
    }

    fn embed(&self, table: &Embeddings, ids: &[u32]) -> Result<States> {
        let ids = Tensor::from_slice(ids, ids.len(), self.device())?;
        CandleRows::new(&table.table.index_select(&ids, 0)?).map(States::Candle)
    }

    fn begin(&self, work: &mut TensorWork, pass: &PassSpec<'_>, cache: &mut TensorCache) -> Result<()> {
        let PassSpec { rows, layers, shape, cos, sin, mask, probe, .. } = pass;
        if !cache.device().same_device(self.device()) {
            crate::bail!("the decoder and the cache are on different devices");
        }
        cache.reserve(*rows)?;
        let before = cache.len();
        // One transfer: small ones cost as much as large ones.
        let angles = [&cos[..], sin].concat();
        let angles = Tensor::from_vec(angles, (2, *rows, shape.head_dim / 2), self.device())?
            .to_dtype(self.dtype())?;
        let hidden = mask::hidden(mask, before, *rows, self.dtype(), self.device())?;
        work.0 = Some(TensorPass {
            cos: angles.get(0)?,
            sin: angles.get(1)?,
            attention: PassAttention::new(*shape, before + rows, **mask == Mask::Causal, hidden)?,
            probe: probe.map(|probe| ProbeSums::new(probe, *layers)),
        });
        Ok(())
    }

    fn load(
        &self,
        _: &mut TensorWork,
        table: &Embeddings,
        input: Input<'_>,
        x: &mut TensorRows,
    ) -> Result<()> {
        let rows = match input {
            Input::Ids(ids) => self.rows(&self.embed(table, ids)?)?,
            Input::States(states) => self.rows(states)?,
        };
        x.0 = Some(rows);
        Ok(())
    }

    fn experts(&self, layer: Experts<FusedMatrix>, _: &dyn Weights) -> Loaded<Experts<Matrix>> {
        Err(CheckpointError::tensor(layer.router.name(), NO_EXPERTS))
    }

    fn mix_experts(
        &self,
        _: &mut TensorWork,
        _: &Experts<Matrix>,
        _: &TensorRows,
        _: &mut TensorRows,
    ) -> Result<Option<usize>> {
        crate::bail!("{NO_EXPERTS}")
    }

    fn store(
        &self,
        work: &mut TensorWork,
        pass: &PassSpec<'_>,
        qkv: &mut TensorRows,
        norms: Option<HeadNorms<'_, Tensor>>,
        cache: &mut TensorCache,
        layer: usize,
    ) -> Result<()> {
        let AttentionShape { heads, kv_heads, head_dim } = pass.shape;
        let TensorPass { cos, sin, .. } = work.pass()?;
        let split = (pass.rows, heads + 2 * kv_heads, head_dim);
        let split = qkv.get()?.reshape(split)?.transpose(0, 1)?.contiguous()?;
        let mut qk = split.narrow(0, 0, heads + kv_heads)?;
        if let Some(norms) = norms {
            let normed =
                |first, count, weight| ops::rms_norm(&qk.narrow(0, first, count)?, weight, norms.eps);
            qk = Tensor::cat(&[normed(0, heads, norms.queries)?, normed(heads, kv_heads, norms.keys)?], 0)?;
        }
        let qk = candle_nn::rotary_emb::rope(&qk.unsqueeze(0)?, cos, sin)?.squeeze(0)?;
        cache.write(layer, &qk.narrow(0, heads, kv_heads)?, &split.narrow(0, heads + kv_heads, kv_heads)?)?;
        // Only the queries are needed from here on: `heads × rows × head_dim`.
        qkv.0 = Some(qk.narrow(0, 0, heads)?);
        Ok(())
    }

    fn attend<'c>(
        &self,
        work: &mut TensorWork,
        passes: &[PassSpec<'_>],
        qkv: &TensorRows,
        caches: &dyn Fn(usize) -> &'c TensorCache,
        layer: usize,
        out: Out<'_, Self>,
    ) -> Result<()> {
        if passes.len() != 1 {
            crate::bail!("{} passes at once in candle's tensors", passes.len());
        }
        let pass = work.pass()?;
        let (keys, values) = caches(0).layer(layer, pass.attention.slots)?;
        out.rows.0 = Some(pass.attention.run(qkv.get()?, &keys, &values, pass.probe.as_mut())?);
        Ok(())
    }

    fn mix(
        &self,
        _: &mut TensorWork,
        mixed: &TensorRows,
        weights: &TensorLinear,
        pass: RecurrentPass<'_, Recurrent>,
        out: Out<'_, Self>,
    ) -> Result<()> {
        out.rows.0 = Some(mixing::mix(mixed.get()?, weights, pass)?);
        Ok(())
    }

    fn finish(
        &self,
        work: &mut TensorWork,
        pass: &PassSpec<'_>,
        cache: &mut TensorCache,
    ) -> Result<Option<AttentionStats>> {
        cache.advance(pass.rows);
        work.0.take().and_then(|pass| pass.probe).map(ProbeSums::finish).transpose()
    }

    fn logits(&self, _: &mut TensorWork, head: &Matrix, states: &States) -> Result<Logits> {
        let logits = CandleRows::new(&head.forward(&self.rows(states)?)?)?;
        self.device().synchronize()?;
        Ok(Logits::Candle(logits))
    }
}
