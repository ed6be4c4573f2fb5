//! Experts of which a file has all in one tensor: each has its matrices under the names of files that have them apart.
//!
//! | | `mlp.experts.gate_up_proj` | `mlp.experts.down_proj` |
//! |---|---|---|
//! | as linear layers are stored | `[experts, 2 · width, hidden]` | `[experts, hidden, width]` |
//! | transposed, as Qwen3-VL publishes them | `[experts, hidden, 2 · width]` | `[experts, width, hidden]` |
//!
//! become `mlp.experts.N.{gate,up,down}_proj.weight`. The shapes of both together say which of the two it is.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::TensorInfo;
use specreel_tensor::CheckpointError;

use crate::{quantized::FileTensor, shard::Shard};

const GATE_UP: &str = ".mlp.experts.gate_up_proj";
const DOWN: &str = ".mlp.experts.down_proj";

/// Most experts of a layer.
const MOST: usize = 4096;

/// A matrix of an expert.
#[derive(Clone, Debug)]
pub(crate) struct ExpertMatrix {
    /// Outputs and inputs.
    pub shape: [usize; 2],
    /// Its rows; of a transposed tensor, all of the expert.
    pub stored: FileTensor,
    /// Of a transposed tensor, the first of its columns: they are the outputs.
    pub column: Option<usize>,
}

impl ExpertMatrix {
    /// Size in the file.
    pub fn bytes(&self) -> u64 {
        let values: usize = self.shape.iter().product();
        (values * self.stored.info.dtype.bitsize() / 8) as u64
    }
}

/// Take fused tensors out of `names`, and name the matrices of each expert. Fails if their shapes do not fit together.
pub(crate) fn split(
    names: &mut HashMap<String, usize>,
    shards: &[Shard],
) -> Result<BTreeMap<String, ExpertMatrix>, CheckpointError> {
    let fused = |name: &&String| name.ends_with(GATE_UP) || name.ends_with(DOWN);
    let mut stems: Vec<String> = names.keys().filter(fused).filter_map(|name| stem(name)).collect();
    stems.sort_unstable();
    stems.dedup();
    let mut matrices = BTreeMap::new();
    for stem in stems {
        let part = |suffix: &str| {
            let name = format!("{stem}{suffix}");
            let shard = *names.get(&name).ok_or_else(|| CheckpointError::tensor(&name, "missing"))?;
            let info = shards[shard].tensors.get(&name).cloned();
            let info = info.ok_or_else(|| CheckpointError::tensor(&name, "missing"))?;
            Ok::<_, CheckpointError>(FileTensor { name, shard, info })
        };
        let (gate_up, down) = (part(GATE_UP)?, part(DOWN)?);
        let (sizes, transposed) = sizes(&gate_up.info.shape, &down.info.shape).ok_or_else(|| {
            let problem = format!(
                "the shape {:?} does not fit {:?} of down_proj: expected [experts, 2 · width, hidden] and [experts, hidden, width]",
                gate_up.info.shape, down.info.shape
            );
            CheckpointError::tensor(&gate_up.name, &problem)
        })?;
        let Sizes { experts, hidden, width } = sizes;
        for expert in 0..experts {
            let of = |whole: &FileTensor, first: usize, shape: [usize; 2]| {
                let stored = of_expert(whole, experts, expert);
                if transposed {
                    return ExpertMatrix { shape, stored, column: Some(first) };
                }
                ExpertMatrix { shape, stored: rows(stored, first, shape), column: None }
            };
            for (name, matrix) in [
                ("gate", of(&gate_up, 0, [width, hidden])),
                ("up", of(&gate_up, width, [width, hidden])),
                ("down", of(&down, 0, [hidden, width])),
            ] {
                matrices.insert(format!("{stem}.mlp.experts.{expert}.{name}_proj.weight"), matrix);
            }
        }
        for whole in [gate_up, down] {
            names.remove(&whole.name);
        }
    }
    Ok(matrices)
}

fn stem(name: &str) -> Option<String> {
    name.strip_suffix(GATE_UP).or_else(|| name.strip_suffix(DOWN)).map(str::to_owned)
}

#[derive(Debug, PartialEq)]
struct Sizes {
    experts: usize,
    hidden: usize,
    width: usize,
}

/// The sizes of two fused tensors, and whether they are transposed; `None` if their shapes do not fit together.
fn sizes(gate_up: &[usize], down: &[usize]) -> Option<(Sizes, bool)> {
    let (&[experts, a, b], &[others, c, d]) = (gate_up, down) else { return None };
    let sizes = |hidden, width| Sizes { experts, hidden, width };
    match () {
        () if experts != others || experts > MOST || experts * a * b == 0 => None,
        () if b == c && a.checked_div(2) == Some(d) && a.is_multiple_of(2) => Some((sizes(b, d), false)),
        () if a == d && b.checked_div(2) == Some(c) && b.is_multiple_of(2) => Some((sizes(a, c), true)),
        () => None,
    }
}

/// The part of a tensor that belongs to one expert, as a matrix.
fn of_expert(whole: &FileTensor, experts: usize, expert: usize) -> FileTensor {
    let (start, end) = whole.info.data_offsets;
    let bytes = (end - start) / experts;
    let at = start + expert * bytes;
    let shape = whole.info.shape[1..].to_vec();
    let info = TensorInfo { dtype: whole.info.dtype, shape, data_offsets: (at, at + bytes) };
    FileTensor { info, ..whole.clone() }
}

/// Some rows of a matrix.
fn rows(whole: FileTensor, first: usize, shape: [usize; 2]) -> FileTensor {
    let (start, end) = whole.info.data_offsets;
    let row = (end - start) / whole.info.shape[0];
    let at = start + first * row;
    let data_offsets = (at, at + shape[0] * row);
    FileTensor { info: TensorInfo { dtype: whole.info.dtype, shape: shape.to_vec(), data_offsets }, ..whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_told_by_their_shapes() {
        let found = |gate_up: [usize; 3], down: [usize; 3]| sizes(&gate_up, &down);
        let of = |hidden, width| Sizes { experts: 8, hidden, width };
        assert_eq!(found([8, 96, 64], [8, 64, 48]), Some((of(64, 48), false)));
        assert_eq!(found([8, 64, 96], [8, 48, 64]), Some((of(64, 48), true)));
        // Twice the width is the hidden size.
        assert_eq!(found([8, 64, 64], [8, 64, 32]), Some((of(64, 32), false)));
        assert_eq!(found([8, 64, 64], [8, 32, 64]), Some((of(64, 32), true)));
        for (gate_up, down) in [
            ([8, 96, 64], [7, 64, 48]),
            ([8, 96, 64], [8, 48, 64]),
            ([8, 95, 64], [8, 64, 47]),
            ([0, 96, 64], [0, 64, 48]),
        ] {
            assert_eq!(found(gate_up, down), None);
        }
        assert_eq!(sizes(&[96, 64], &[8, 64, 48]), None);
    }
}
