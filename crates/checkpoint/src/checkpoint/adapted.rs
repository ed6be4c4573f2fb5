//! Changes to the values of files before they are used: a LoRA adapter is added, and MLX's layout is undone.

use super::{read::combined, *};
use crate::adapter::AdapterPair;

const CHANNELS: usize = 3;

/// The product that an adapter adds to a matrix.
pub(super) struct Delta {
    /// B, `[rows, rank]`, times the adapter's factor.
    b: Vec<f32>,
    /// A, `[rank, columns]`.
    a: Vec<f32>,
    rank: usize,
    columns: usize,
    /// Of the bytes of both.
    pub hash: u64,
}

impl Delta {
    /// Add it to whole rows, of which `first` is the index of the first value. Fails if they are not rows of its matrix, or a sum is
    /// not finite.
    pub fn add(&self, first: usize, values: &mut [f32]) -> Result<(), String> {
        let (columns, start) = (self.columns.max(1), first / self.columns.max(1));
        let rows = values.len() / columns;
        let b = self.b.get(start * self.rank..(start + rows) * self.rank);
        let Some(b) = b.filter(|_| first.is_multiple_of(columns) && rows * columns == values.len()) else {
            return Err(format!("the adapter is for rows of {columns} values"));
        };
        let mut sum = vec![0f32; columns];
        for (row, b) in values.chunks_exact_mut(columns).zip(b.chunks_exact(self.rank)) {
            sum.fill(0.0);
            for (b, a) in b.iter().zip(self.a.chunks_exact(columns)) {
                sum.iter_mut().zip(a).for_each(|(sum, a)| *sum += b * a);
            }
            row.iter_mut().zip(&sum).for_each(|(value, sum)| *value += sum);
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(at) => Err(format!("value {} is {} with the adapter", first + at, values[at])),
            None => Ok(()),
        }
    }
}

impl Checkpoint {
    /// The same checkpoint with the adapter of a directory. Fails if there is none, it is damaged, or of a kind that is not
    /// supported. Whether it is one of this model, [`Checkpoint::check_adapter`] says.
    pub(super) fn with_adapter(mut self, dir: &Path) -> Result<Self, CheckpointError> {
        let (adapter, shard) = Adapter::open(dir, self.shards.len())?;
        self.shards.push(shard);
        Ok(Self { adapter: Some(adapter), ..self })
    }

    /// Check that every tensor of the adapter, if there is one, belongs to one of the model's `tensors` and has its shape.
    pub fn check_adapter(
        &self,
        tensors: impl Iterator<Item = (String, Vec<usize>)>,
    ) -> Result<(), CheckpointError> {
        let Some(adapter) = &self.adapter else { return Ok(()) };
        let model = self.files.model_name();
        adapter.check(&model, tensors.map(|(name, shape)| (self.spellings(&name), shape)))
    }

    /// The settings that convert the bytes of the files to values, for cache keys; empty for plain floats.
    pub(super) fn conversion(&self) -> String {
        let quantization = self.quantization.as_ref().map(|quantization| format!("{quantization:?}"));
        let adapter = self.adapter.as_ref().map(Adapter::settings);
        quantization.into_iter().chain(adapter).collect::<Vec<_>>().join("\0")
    }

    /// True if the adapter adds to a tensor.
    pub(super) fn is_adapted(&self, name: &str) -> bool {
        self.pair(name).is_some()
    }

    /// The product that the adapter adds to a tensor, if it does.
    pub(super) fn delta(&self, name: &str) -> Result<Option<Delta>, CheckpointError> {
        self.pair(name).map(|pair| self.read_delta(pair)).transpose()
    }

    fn pair(&self, name: &str) -> Option<&AdapterPair> {
        self.adapter.as_ref()?.pair(&self.spellings(name))
    }

    fn read_delta(&self, pair: &AdapterPair) -> Result<Delta, CheckpointError> {
        let mut hashes = Vec::new();
        let mut read = |part: &crate::quantized::FileTensor| {
            let mut all = vec![0f32; part.info.shape.iter().product()];
            let place = DisjointSliceMut::new(&mut all);
            let shard = &self.shards[part.shard];
            if !matches!(part.info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                let problem = format!("expected type F32, F16 or BF16, got {:?}", part.info.dtype);
                return Err(CheckpointError::tensor(&part.name, &problem));
            }
            hashes.push(self.widened(&part.name, shard, &part.info, &|first, values| {
                // SAFETY: each unit has values of its own.
                unsafe { place.slice(first, values.len()) }.copy_from_slice(values);
                Ok(())
            })?);
            Ok(all)
        };
        let (mut a, mut b) = (read(&pair.a)?, read(&pair.b)?);
        let rank = pair.a.info.shape.first().copied().unwrap_or(1).max(1);
        if pair.embedding {
            (a, b) = (crate::quantized::unpack::transposed(&b, rank), transposed_rows(&a, rank));
        }
        b.iter_mut().for_each(|value| *value *= pair.factor);
        let columns = a.len() / rank;
        Ok(Delta { a, b, rank, columns, hash: combined(&hashes) })
    }
}

/// A matrix of `rows` rows with rows and columns exchanged.
fn transposed_rows(values: &[f32], rows: usize) -> Vec<f32> {
    crate::quantized::unpack::transposed(values, values.len() / rows.max(1))
}

/// True for the kernel of the patch embedding in MLX's layout, `[outputs, …, channels]` instead of `[outputs, channels, …]`.
pub(super) fn is_channels_last(name: &str, shape: &[usize]) -> bool {
    name.contains("patch_embed")
        && matches!(shape, [_, first, .., last] if shape.len() > 3 && *last == CHANNELS && *first != CHANNELS)
}

/// Kernels `[outputs, channels, …]` of those in MLX's layout.
pub(super) fn channels_first(values: &[f32], shape: &[usize]) -> Vec<f32> {
    let kernel = shape.iter().skip(1).product::<usize>().max(1);
    values
        .chunks_exact(kernel)
        .flat_map(|kernel| crate::quantized::unpack::transposed(kernel, CHANNELS))
        .collect()
}

/// True for a model with linear attention in MLX's layout: kernels of convolutions are `[channels, width, 1]` instead of
/// `[channels, 1, width]`, and norms are stored as 1 + w.
pub(super) fn adds_to_norms<'a>(mut tensors: impl Iterator<Item = (&'a str, &'a [usize])>) -> bool {
    let kernel = tensors.find(|(name, _)| name.ends_with("linear_attn.conv1d.weight"));
    kernel.is_some_and(|(_, shape)| matches!(shape, [_, width, 1] if *width > 1))
}

/// True for the norms of such a model that are stored as 1 + w.
pub(super) fn is_added_to(name: &str) -> bool {
    const NORMS: [&str; 5] = [
        ".input_layernorm.weight",
        ".post_attention_layernorm.weight",
        "model.norm.weight",
        ".q_norm.weight",
        ".k_norm.weight",
    ];
    NORMS.iter().any(|norm| name.ends_with(norm))
}
