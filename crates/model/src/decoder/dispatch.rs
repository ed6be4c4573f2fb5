//! A decoder and its cache on any device.
//!
//! What is common to all devices is checked here, once: a cache of another device or model is never computed with.

/// Evaluate `$body` with `$inner` bound to the contents, whatever the device.
macro_rules! each {
    ($self:expr, $kind:ident, $inner:ident => $body:expr) => {
        match $self {
            $kind::Cpu($inner) => $body,
            $kind::Tensors($inner) => $body,
            $kind::Gpu($inner) => $body,
        }
    };
}

/// As [`each!`], where `$body` is what `$to` holds of the same device.
macro_rules! same {
    ($self:expr, $kind:ident => $to:ident, $inner:ident => $body:expr) => {
        match $self {
            $kind::Cpu($inner) => $to::Cpu($body),
            $kind::Tensors($inner) => $to::Tensors($body),
            $kind::Gpu($inner) => $to::Gpu($body),
        }
    };
}

mod heads;
mod slots;

use specreel_tensor::Result;

pub use heads::Matrix;

use super::{
    Input, Logits, Mask, Pass, Positions, States, Taps, buffers::Buffers, cache::HybridCache,
    on_device::OnDevice,
};
use crate::config::TextConfig;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError, ComputeDevice,
    gpu::attention,
    ops::{CpuOps, GpuOps, Ops, TensorOps},
    store::check_maps,
};

/// A decoder's weights, on a device.
pub struct Decoder(Held);

enum Held {
    /// On the CPU, in this crate's kernels.
    Cpu(OnDevice<CpuOps>),
    Tensors(OnDevice<TensorOps>),
    /// On a GPU through wgpu.
    Gpu(OnDevice<GpuOps>),
}

/// The keys and values of one sequence in all layers.
pub enum Cache {
    /// For a decoder on the CPU.
    Cpu(HybridCache<CpuOps>),
    /// For a decoder in tensors.
    Tensors(HybridCache<TensorOps>),
    /// For a decoder on a GPU through wgpu.
    Gpu(HybridCache<GpuOps>),
}

/// Buffers of a pass, kept by the caller between passes; those of devices that are not used are empty.
#[derive(Default)]
pub struct Workspace {
    cpu: Buffers<CpuOps>,
    tensors: Buffers<TensorOps>,
    gpu: Buffers<GpuOps>,
}

/// Check that the kernels of GPUs compute a model's attention heads.
fn check_gpu(config: &TextConfig) -> std::result::Result<(), CheckpointError> {
    let width = config.head_dim;
    let problem =
        format!("attention heads of {width} values: GPUs compute multiples of 8 up to 256, --device cpu any");
    let keys = "model.layers.0.self_attn.k_proj.weight";
    if attention::computes(width) { Ok(()) } else { Err(CheckpointError::tensor(keys, &problem)) }
}

impl Decoder {
    /// Load from a checkpoint, matrix by matrix. Fails if a tensor is missing, has the wrong shape or values that are not finite,
    /// or does not fit into memory.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> std::result::Result<Self, CheckpointError> {
        let kv_type = config.kv_type(device.kv_type(), device.dtype());
        let held = if let Some(gpu) = device.gpu() {
            check_gpu(config)?;
            let ops = GpuOps::new(gpu, device.dtype(), kv_type);
            OnDevice::load(ops, checkpoint, config, progress).and_then(|decoder| {
                let alike = decoder.computes_rows_alike();
                if !alike.map_err(|e| CheckpointError::tensor(super::parts::TABLE, &e.to_string()))? {
                    gpu.doubt();
                }
                Ok(Held::Gpu(decoder))
            })
        } else if device.is_batch_invariant() {
            let ops = CpuOps::new(device.dtype(), kv_type);
            OnDevice::load(ops, checkpoint, config, progress).map(Held::Cpu)
        } else {
            OnDevice::load(TensorOps::new(device), checkpoint, config, progress).map(Held::Tensors)
        };
        held.map(Self)
    }

    /// Check that the decoder's device computes another model's attention heads.
    fn check(&self, config: &TextConfig) -> std::result::Result<(), CheckpointError> {
        if matches!(self.0, Held::Gpu(_)) { check_gpu(config) } else { Ok(()) }
    }

    /// Width of the states: of all rows that leave a pass, and of rows that enter it without DeepStack levels.
    pub fn width(&self) -> usize {
        self.config().hidden
    }

    /// The same model ending after its first `layers` layers (LayerSkip), followed by norm and head. All weights are shared. Its
    /// rows may be as wide as the whole model's.
    pub fn first_layers(&self, layers: usize) -> Self {
        Self(same!(&self.0, Held => Held, decoder => decoder.first_layers(layers)))
    }

    /// A model of one layer of its own between this model's embeddings and head, which are shared, with a projection of its
    /// input rows: a draft head. `config` describes the layer; the names of its weights and of its norm are those of a whole
    /// model.
    pub fn with_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
    ) -> std::result::Result<Self, CheckpointError> {
        self.check(config)?;
        Ok(Self(same!(&self.0, Held => Held, decoder => decoder.with_layer(checkpoint, config)?)))
    }

    /// The resolved configuration.
    pub fn config(&self) -> &TextConfig {
        each!(&self.0, Held, decoder => decoder.config())
    }

    /// True if a row's result is bit-identical for any other rows in the pass.
    pub fn is_batch_invariant(&self) -> bool {
        match &self.0 {
            Held::Cpu(_) => true,
            Held::Tensors(_) => false,
            Held::Gpu(decoder) => decoder.ops().is_exact(),
        }
    }

    /// Size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        each!(&self.0, Held, decoder => decoder.bytes())
    }

    /// Bytes of the matrices that are parts of mapped files: the system may take their memory back, and reads them again.
    pub fn mapped_bytes(&self) -> usize {
        each!(&self.0, Held, decoder => decoder.mapped_bytes())
    }

    /// Bytes of the matrices that a pass of one row and its logits read. Of the embedding table it reads single rows.
    pub fn matrix_bytes(&self) -> usize {
        each!(&self.0, Held, decoder => decoder.matrix_bytes())
    }

    /// Bytes of a draft head's projection.
    pub fn projection_bytes(&self) -> usize {
        each!(&self.0, Held, decoder => decoder.projection_bytes())
    }

    /// Bytes of keys and values of `slots` slots in all layers.
    pub fn cache_bytes(&self, slots: usize) -> usize {
        each!(&self.0, Held, decoder => decoder.cache_bytes(slots))
    }

    /// Rows of a prefill pass.
    pub fn chunk(&self) -> usize {
        each!(&self.0, Held, decoder => decoder.ops().chunk())
    }

    /// An empty cache with `capacity` slots.
    pub fn cache(&self, capacity: usize) -> Cache {
        same!(&self.0, Held => Cache, decoder => decoder.cache(capacity))
    }

    /// Embeddings of ids, `ids × width`, on the decoder's device. Fails if an id is outside of the vocabulary.
    pub fn embed(&self, ids: &[u32]) -> Result<States> {
        each!(&self.0, Held, decoder => decoder.embed(ids))
    }

    /// Input rows of a draft head, `ids × width`: the projection of the tokens' embeddings and of the states before them
    /// (`ids × width`). Fails if an id is outside of the vocabulary, there are not as many states as ids, or the model is not a
    /// draft head.
    pub fn fuse(&self, ids: &[u32], before: &States, workspace: &mut Workspace) -> Result<States> {
        match &self.0 {
            Held::Cpu(decoder) => decoder.fuse(ids, before, &mut workspace.cpu),
            Held::Tensors(decoder) => decoder.fuse(ids, before, &mut workspace.tensors),
            Held::Gpu(decoder) => decoder.fuse(ids, before, &mut workspace.gpu),
        }
    }

    /// Rows beside each other, `rows × (a + b)`, on the decoder's device. Fails if they differ in number, or memory is missing.
    pub fn beside(&self, a: &States, b: &States) -> Result<States> {
        each!(&self.0, Held, decoder => decoder.beside(a, b))
    }

    /// Run rows through all layers. The cache grows by as many slots.
    ///
    /// Rows of the model's width are embeddings or states. In a model with n DeepStack levels they may be 1 + n times as wide: the
    /// next n blocks of columns are added to the states after the first n layers, one each. Fails if the shapes of input,
    /// positions and mask do not agree, an id is outside of the vocabulary, or the cache is of another device or model.
    pub fn forward<'a>(
        &self,
        input: impl Into<Input<'a>>,
        positions: &Positions,
        mask: &Mask,
        cache: &mut Cache,
        taps: &Taps,
        workspace: &mut Workspace,
    ) -> Result<Pass> {
        let (c, input) = (self.config(), input.into());
        let (layout, got) = ([c.attention_layers(), c.kv_heads, c.head_dim], cache.layout());
        if layout != got {
            specreel_tensor::bail!(
                "the decoder has the layout {layout:?} (attention layers, key heads, head width), the cache {got:?}"
            );
        }
        let pass = match (&self.0, cache) {
            (Held::Cpu(decoder), Cache::Cpu(cache)) => {
                decoder.forward(input, positions, mask, cache, taps, &mut workspace.cpu)
            }
            (Held::Tensors(decoder), Cache::Tensors(cache)) => {
                decoder.forward(input, positions, mask, cache, taps, &mut workspace.tensors)
            }
            (Held::Gpu(decoder), Cache::Gpu(cache)) => {
                decoder.forward(input, positions, mask, cache, taps, &mut workspace.gpu)
            }
            _ => specreel_tensor::bail!("the decoder and the cache are on different devices"),
        }?;
        check_maps()?;
        Ok(pass)
    }

    /// Wait until an accelerator has completed all work that was queued in this workspace.
    pub fn synchronize(&self, workspace: &mut Workspace) -> Result<()> {
        match &self.0 {
            Held::Cpu(decoder) => decoder.synchronize(&mut workspace.cpu),
            Held::Tensors(decoder) => decoder.synchronize(&mut workspace.tensors),
            Held::Gpu(decoder) => decoder.synchronize(&mut workspace.gpu),
        }
    }

    /// Logits of final states, `rows × vocab`. Fails if the states are not `rows × width`.
    pub fn logits(&self, states: &States, workspace: &mut Workspace) -> Result<Logits> {
        let logits = match &self.0 {
            Held::Cpu(decoder) => decoder.logits(states, &mut workspace.cpu),
            Held::Tensors(decoder) => decoder.logits(states, &mut workspace.tensors),
            Held::Gpu(decoder) => decoder.logits(states, &mut workspace.gpu),
        }?;
        check_maps()?;
        Ok(logits)
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
