//! From the names of GGUF tensors to the names of this crate (see [`crate::names`]).

use std::{collections::BTreeMap, sync::Arc};

use super::{GgufFile, GgufTensor};

/// How a tensor of this crate is made of tensors of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowLayout {
    /// One below the other.
    Rows,
    /// The kernels `[outputs, channels, height, width]` of each frame, of a kernel `[outputs, channels, frames, height, width]`.
    Frames,
    /// Rows of so many heads, where rows i and i + half of a head are neighbors in the file.
    Pairs { heads: usize },
}

impl RowLayout {
    /// The row of a file that is this row of a tensor of `rows` rows.
    pub fn source(self, row: usize, rows: usize) -> usize {
        let Self::Pairs { heads } = self else { return row };
        let width = (rows / heads.max(1)).max(1);
        let (head, within) = (row / width, row % width);
        let half = (width / 2).max(1);
        head * width + 2 * (within % half) + within / half
    }
}

/// What a file holds in place of the values w of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileValues {
    Values,
    /// 1 + w.
    OneMore,
    /// -exp(w).
    NegatedExponential,
}

impl FileValues {
    /// The value of which a file holds this. Not finite where it stands for no value.
    pub fn value(self, stored: f32) -> f32 {
        match self {
            Self::Values => stored,
            Self::OneMore => stored - 1.0,
            Self::NegatedExponential => f64::from(-stored).ln() as f32,
        }
    }
}

pub(crate) struct NamedTensor {
    pub shape: Vec<usize>,
    pub file: Arc<GgufFile>,
    pub parts: Vec<GgufTensor>,
    pub layout: RowLayout,
    pub stored: FileValues,
}

impl NamedTensor {
    /// Size in the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes() as u64).sum()
    }
}

/// A tensor's names: in a file without the block's prefix, here without the block's prefix.
pub(super) type NamePair = (&'static str, &'static str);

pub(super) const TEXT: [NamePair; 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

pub(super) const LAYER: [NamePair; 16] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("ffn_gate_inp", "mlp.gate"),
    (SHARED_GATE, "mlp.shared_expert_gate"),
    ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
];

/// The gate of the shared expert: a row, which files have as a vector.
const SHARED_GATE: &str = "ffn_gate_inp_shexp";

/// The matrices of all experts of a layer, one after the other, and which of each expert's they are.
const EXPERTS: [(&str, &[&str]); 4] = [
    ("ffn_gate_exps.weight", &["gate_proj"]),
    ("ffn_up_exps.weight", &["up_proj"]),
    ("ffn_gate_up_exps.weight", &["gate_proj", "up_proj"]),
    ("ffn_down_exps.weight", &["down_proj"]),
];

/// Most experts of a layer.
const MOST_EXPERTS: usize = 4096;

/// The tensors of Qwen2-VL and Qwen2.5-VL outside of the blocks.
pub(super) const MERGER: [NamePair; 3] =
    [("v.post_ln", "merger.ln_q"), ("mm.0", "merger.mlp.0"), ("mm.2", "merger.mlp.2")];

const BLOCK: [NamePair; 4] =
    [("ln1", "norm1"), ("ln2", "norm2"), ("attn_out", "attn.proj"), ("attn_qkv", "attn.qkv")];

/// The feed-forward layers of a block with gates (Qwen2.5-VL).
pub(super) const GATED: [NamePair; 3] =
    [("ffn_gate", "mlp.gate_proj"), ("ffn_up", "mlp.up_proj"), ("ffn_down", "mlp.down_proj")];
/// The plain feed-forward layers of a block (Qwen2-VL).
pub(super) const PLAIN: [NamePair; 2] = [("ffn_up", "mlp.fc1"), ("ffn_down", "mlp.fc2")];

/// The tensors of a block of SigLIP.
const SIGLIP_BLOCK: [NamePair; 8] = [
    ("ln1", "layer_norm1"),
    ("ln2", "layer_norm2"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_out", "self_attn.out_proj"),
    ("ffn_up", "mlp.fc1"),
    ("ffn_down", "mlp.fc2"),
];

/// The kernel over patches, for the first frame of two.
const PATCHES: &str = "v.patch_embd.weight";

/// The queries, keys and values of a block, which are one matrix here.
const QKV: [&str; 3] = ["attn_q", "attn_k", "attn_v"];

/// The same tensors under the names of this crate.
pub(crate) type NamedTensors = BTreeMap<String, NamedTensor>;

/// Add a tensor that consists of these tensors, one below the other.
pub(super) fn insert(named: &mut NamedTensors, name: String, file: &Arc<GgufFile>, parts: Vec<GgufTensor>) {
    let Some(first) = parts.first() else { return };
    let mut shape = first.shape.clone();
    // One of a single value has no rows.
    if let Some(rows) = shape.first_mut() {
        *rows = parts.iter().filter_map(|part| part.shape.first()).sum();
    }
    let (file, layout, stored) = (Arc::clone(file), RowLayout::Rows, FileValues::Values);
    named.insert(name, NamedTensor { shape, file, parts, layout, stored });
}

/// The name of a pair in a list, with what follows it.
pub(super) fn renamed(pairs: &[NamePair], rest: &str) -> Option<String> {
    pairs.iter().find_map(|(theirs, ours)| {
        let suffix = rest.strip_prefix(theirs)?;
        suffix.starts_with('.').then(|| format!("{ours}{suffix}"))
    })
}

/// The number of a block and the rest of a name: `PREFIX.N.REST`.
pub(super) fn block<'n>(name: &'n str, prefix: &str) -> Option<(usize, &'n str)> {
    let (number, rest) = name.strip_prefix(prefix)?.strip_prefix('.')?.split_once('.')?;
    Some((number.parse().ok()?, rest))
}

/// The tensors of a language model. Those that are not known keep their names.
pub(super) fn text(file: &Arc<GgufFile>) -> NamedTensors {
    let mut named = NamedTensors::new();
    for (name, tensor) in &file.tensors {
        let mut tensor = tensor.clone();
        let ours = match block(name, "blk") {
            Some((layer, rest)) => {
                let of_experts = experts(rest, &tensor);
                if !of_experts.is_empty() {
                    for (rest, part) in of_experts {
                        insert(&mut named, format!("model.layers.{layer}.{rest}"), file, vec![part]);
                    }
                    continue;
                }
                if rest.starts_with(SHARED_GATE) && tensor.shape.len() == 1 {
                    tensor.shape.insert(0, 1);
                }
                renamed(&LAYER, rest).map(|rest| format!("model.layers.{layer}.{rest}"))
            }
            None => renamed(&TEXT, name),
        };
        insert(&mut named, ours.unwrap_or_else(|| name.clone()), file, vec![tensor]);
    }
    named
}

/// The matrices of each expert in a layer's tensor of this name; none if it is no tensor of experts.
fn experts(name: &str, tensor: &GgufTensor) -> Vec<(String, GgufTensor)> {
    let Some((_, matrices)) = EXPERTS.iter().find(|(theirs, _)| *theirs == name) else { return Vec::new() };
    let [count, rows, inputs] = tensor.shape[..] else { return Vec::new() };
    if count > MOST_EXPERTS || !rows.is_multiple_of(matrices.len()) {
        return Vec::new();
    }
    let rows = rows / matrices.len();
    let all = (0..count).flat_map(|expert| matrices.iter().map(move |matrix| (expert, matrix)));
    let parts = all.enumerate().map(|(index, (expert, matrix))| {
        let name = format!("mlp.experts.{expert}.{matrix}.weight");
        Some((name, tensor.rows(index * rows, [rows, inputs])?))
    });
    parts.collect::<Option<_>>().unwrap_or_default()
}

/// The name of a feed-forward layer in a file that does not exchange the names of the two.
fn unswapped(rest: &str, swapped: bool) -> String {
    match rest.split_once('.') {
        Some(("ffn_up", kind)) if swapped => format!("ffn_down.{kind}"),
        Some(("ffn_down", kind)) if swapped => format!("ffn_up.{kind}"),
        _ => rest.to_owned(),
    }
}

/// The tensors of a Qwen tower, below `visual.`, with these feed-forward layers, and `others` outside of the blocks.
pub(super) fn qwen_tower(file: &Arc<GgufFile>, ffn: &[NamePair], others: &[NamePair]) -> NamedTensors {
    let mut named = NamedTensors::new();
    let swapped = swaps_feed_forward(file);
    for (name, tensor) in &file.tensors {
        let ours = match block(name, "v.blk") {
            Some((number, rest)) => renamed(&BLOCK, rest)
                .or_else(|| renamed(ffn, &unswapped(rest, swapped)))
                .map(|rest| format!("blocks.{number}.{rest}")),
            // The kernels of the frames are one tensor here.
            None => renamed(others, name).filter(|_| !name.starts_with(PATCHES)),
        };
        if let Some(ours) = ours {
            insert(&mut named, format!("visual.{ours}"), file, vec![tensor.clone()]);
        }
        // The queries also represent their keys and values.
        if let Some((number, rest)) = block(name, "v.blk")
            && let Some(kind) = rest.strip_prefix("attn_q.")
        {
            let part = |part: &str| file.tensors.get(&format!("v.blk.{number}.{part}.{kind}")).cloned();
            if let Some(parts) = QKV.into_iter().map(part).collect::<Option<Vec<_>>>()
                && parts.iter().all(|part| part.shape[1..] == parts[0].shape[1..])
            {
                insert(&mut named, format!("visual.blocks.{number}.attn.qkv.{kind}"), file, parts);
            }
        }
    }
    let frames = ["", ".1"].map(|frame| file.tensors.get(&format!("{PATCHES}{frame}")).cloned());
    if let [Some(first), Some(second)] = frames
        && let [outputs, channels, height, width] = first.shape[..]
        && first.shape == second.shape
    {
        let tensor = NamedTensor {
            shape: vec![outputs, channels, 2, height, width],
            file: Arc::clone(file),
            parts: vec![first, second],
            layout: RowLayout::Frames,
            stored: FileValues::Values,
        };
        named.insert("visual.patch_embed.proj.weight".into(), tensor);
    }
    named
}

/// The tensors of a SigLIP tower below `at`, and `others` outside of the blocks.
pub(super) fn siglip(file: &Arc<GgufFile>, at: &str, others: &[NamePair]) -> NamedTensors {
    let mut named = NamedTensors::new();
    let swapped = swaps_feed_forward(file);
    for (name, tensor) in &file.tensors {
        let ours = match block(name, "v.blk") {
            Some((number, rest)) => renamed(&SIGLIP_BLOCK, &unswapped(rest, swapped))
                .map(|rest| format!("{at}.encoder.layers.{number}.{rest}")),
            None => renamed(others, name),
        };
        if let Some(ours) = ours {
            insert(&mut named, ours, file, vec![tensor.clone()]);
        }
    }
    named
}

/// True for older files, in which the two layers of a feed-forward network have each other's names.
pub(super) fn swaps_feed_forward(file: &GgufFile) -> bool {
    let rows = |name: &str| file.tensors.get(&format!("v.blk.0.{name}.weight")).map(|tensor| tensor.shape[0]);
    let width = file.tensors.get("v.blk.0.attn_out.weight").map(|tensor| tensor.shape[0]);
    // The layer that widens the states ends the wider; `up` has as many outputs as the norm that precedes it has values.
    width.is_some() && rows("ffn_up") == width && rows("ffn_down") != width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paired_rows_are_found_again() {
        // Two heads of four rows: those that rotate together (0 and 2, 1 and 3) are neighbors in a file.
        let order: Vec<usize> = (0..8).map(|row| RowLayout::Pairs { heads: 2 }.source(row, 8)).collect();
        assert_eq!(order, [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!((0..3).map(|row| RowLayout::Rows.source(row, 3)).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn values_are_found_again() {
        for value in [-3.5f32, -0.25, 0.0, 0.125, 1.0, 2.75] {
            assert_eq!(FileValues::Values.value(value), value);
            assert_eq!(FileValues::OneMore.value(1.0 + value), value);
            let again = FileValues::NegatedExponential.value(-value.exp());
            assert!((again - value).abs() < 3e-7 * (1.0 + value.abs()), "{value}: {again}");
        }
        // A rate that does not decay has no logarithm.
        assert!(
            [0.0, 0.5, f32::INFINITY].iter().all(|x| !FileValues::NegatedExponential.value(*x).is_finite())
        );
    }

    #[test]
    fn a_norm_of_queries_is_not_the_queries() {
        assert_eq!(renamed(&LAYER, "attn_q_norm.weight").as_deref(), Some("self_attn.q_norm.weight"));
        assert_eq!(renamed(&LAYER, "attn_q.weight").as_deref(), Some("self_attn.q_proj.weight"));
        assert_eq!(renamed(&LAYER, "attn_qkv.weight"), None);
    }
}
