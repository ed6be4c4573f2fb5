//! The tensors of a decoder: names, shapes, and their size in each weight type.

use crate::config::TextConfig;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError, Importance, LinearAttention, TensorType, WeightType, Weights,
    convolution::ConvolutionShape,
    experts::Experts,
    fused::FusedMatrix,
    ops::{Loaded, Norm, RowOps},
};

/// The embedding table, `vocab × hidden`.
pub(super) const TABLE: &str = "model.embed_tokens.weight";
/// The norm before the head.
pub(super) const NORM: &str = "model.norm.weight";

/// A matrix of a layer, of tensors below the layer's name.
fn matrix(index: usize, tensors: &[(&str, usize)], inputs: usize) -> FusedMatrix {
    FusedMatrix {
        tensors: tensors.iter().map(|(name, rows)| (format!("model.layers.{index}.{name}"), *rows)).collect(),
        inputs,
        bias: false,
        importance: Importance::Usual,
    }
}

/// The matrices of a layer's attention: what enters it, and its output.
///
/// What enters full attention are queries (each followed by a gate for the head's output), keys and values.
/// What enters linear attention are queries, keys and values; the gate of its output; one column for each head's update and one
/// for its decay.
pub(super) fn attention(c: &TextConfig, index: usize) -> [FusedMatrix; 2] {
    let shape = c.attention_shape(index);
    let (q, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
    let gates = if c.output_gate { q } else { 0 };
    let [entry, output] = match c.linear.filter(|_| c.is_linear(index)) {
        None => {
            let tensors =
                [("self_attn.q_proj", q + gates), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)];
            // Without keys and values of its own it has queries alone.
            let tensors = if c.has_keys(index) { &tensors[..] } else { &tensors[..1] };
            let entry = matrix(index, tensors, c.hidden);
            [FusedMatrix { bias: c.bias, ..entry }, matrix(index, &[("self_attn.o_proj", c.hidden)], q)]
        }
        Some(l) => {
            let tensors = [
                ("linear_attn.in_proj_qkv", l.channels()),
                ("linear_attn.in_proj_z", l.values()),
                ("linear_attn.in_proj_b", l.value_heads),
                ("linear_attn.in_proj_a", l.value_heads),
            ];
            [
                matrix(index, &tensors, c.hidden),
                matrix(index, &[("linear_attn.out_proj", c.hidden)], l.values()),
            ]
        }
    };
    [FusedMatrix { importance: early(index, 4), ..entry }, output]
}

/// As llama.cpp's Q4_K_S, which keeps the values alone: here they are in one matrix with queries and keys.
fn early(index: usize, within: usize) -> Importance {
    if index < within { Importance::Early } else { Importance::Usual }
}

/// The matrices of a feed-forward layer.
pub(super) enum FeedForward<M> {
    Dense { gate_up: M, down: M },
    Sparse(Experts<M>),
}

pub(super) fn feed_forward(c: &TextConfig, index: usize) -> FeedForward<FusedMatrix> {
    let pair = |name: &str, width: usize| {
        let part = |part: &str| format!("mlp.{name}{part}_proj");
        let down = matrix(index, &[(&part("down"), c.hidden)], width);
        [
            matrix(index, &[(&part("gate"), width), (&part("up"), width)], c.hidden),
            FusedMatrix { importance: early(index, c.layers / 8), ..down },
        ]
    };
    let Some(sparse) = c.experts(index) else {
        let [gate_up, down] = pair("", c.intermediate_of(index));
        return FeedForward::Dense { gate_up, down };
    };
    let shared = sparse.shared.map(|width| (("mlp.shared_expert_gate", 1), pair("shared_expert.", width)));
    let gates = shared.iter().map(|(gate, _)| *gate);
    let outputs: Vec<(&str, usize)> = [("mlp.gate", sparse.experts)].into_iter().chain(gates).collect();
    FeedForward::Sparse(Experts {
        routing: sparse.routing(),
        router: FusedMatrix { importance: Importance::Router, ..matrix(index, &outputs, c.hidden) },
        routed: (0..sparse.experts).map(|expert| pair(&format!("experts.{expert}."), sparse.width)).collect(),
        shared: shared.map(|(_, pair)| pair),
    })
}

/// The convolutions around a layer's attention and its feed-forward layer, if the model has some: for each the matrix of the
/// corrections, and the name of the taps.
pub(super) fn convolutions(
    c: &TextConfig,
    index: usize,
) -> Option<(ConvolutionShape, [(FusedMatrix, String); 2])> {
    let shape = c.convolution?;
    let sublayers = ["attention_conv", "mlp_conv"].map(|name| {
        let corrections = (format!("{name}.kernel_projection"), shape.corrections(c.hidden));
        let taps = format!("model.layers.{index}.{name}.base_kernel");
        (matrix(index, &[(&corrections.0, corrections.1)], c.hidden), taps)
    });
    Some((shape, sublayers))
}

/// The matrices of what is added in a layer, if the model has such embeddings: to the values that are multiplied by the
/// embeddings, and back.
pub(super) fn per_layer(c: &TextConfig, index: usize) -> Option<[FusedMatrix; 2]> {
    let width = c.per_layer()?.width;
    Some([
        matrix(index, &[("per_layer_input_gate", width)], c.hidden),
        matrix(index, &[("per_layer_projection", c.hidden)], width),
    ])
}

/// The table of the embeddings that are added in each layer, with its shape; the matrix of what the model's embeddings add to them;
/// and the name of its norm.
pub(super) fn layer_inputs(c: &TextConfig) -> Option<(&'static str, [usize; 2], FusedMatrix, &'static str)> {
    let per_layer = c.per_layer()?;
    let projection = FusedMatrix {
        tensors: vec![("model.per_layer_model_projection".to_owned(), per_layer.values())],
        inputs: c.hidden,
        bias: false,
        importance: Importance::Usual,
    };
    let table = "model.embed_tokens_per_layer.weight";
    Some((table, [per_layer.vocab, per_layer.values()], projection, "model.per_layer_projection_norm.weight"))
}

/// The norms of a layer over its states, besides the one before attention: the one before the feed-forward layer, and those of what
/// both add, if the model has them.
pub(super) fn norms(c: &TextConfig, index: usize) -> (String, Option<[String; 2]>) {
    let name = |part: &str| format!("model.layers.{index}.{part}_layernorm.weight");
    match c.gemma {
        None => (name("post_attention"), None),
        Some(_) => (name("pre_feedforward"), Some([name("post_attention"), name("post_feedforward")])),
    }
}

/// The norm of what the embeddings of a layer add.
pub(super) fn per_layer_norm(index: usize) -> String {
    format!("model.layers.{index}.post_per_layer_input_norm.weight")
}

/// The factor of a layer's states, in Gemma 4.
pub(super) fn scalar(index: usize) -> String {
    format!("model.layers.{index}.layer_scalar")
}

/// All matrices of a layer.
fn layer(c: &TextConfig, index: usize) -> Vec<FusedMatrix> {
    let mut all = Vec::from(attention(c, index));
    all.extend(
        convolutions(c, index).into_iter().flat_map(|(_, sublayers)| sublayers.map(|(matrix, _)| matrix)),
    );
    match feed_forward(c, index) {
        FeedForward::Dense { gate_up, down } => all.extend([gate_up, down]),
        FeedForward::Sparse(Experts { router, routed, shared, .. }) => {
            all.push(router);
            all.extend(routed.into_iter().chain(shared).flatten());
        }
    }
    all.extend(per_layer(c, index).into_iter().flatten());
    all
}

/// The weights of a norm as they are multiplied.
pub(super) fn norm_values(
    name: &str,
    width: usize,
    c: &TextConfig,
    checkpoint: &Checkpoint,
) -> Loaded<Vec<f32>> {
    let mut values = checkpoint.f32(name, &[width])?;
    if c.norm_offset {
        values.iter_mut().for_each(|value| *value += 1.0);
    }
    Ok(values)
}

pub(super) fn norm<D: RowOps>(
    ops: &D,
    name: &str,
    c: &TextConfig,
    checkpoint: &Checkpoint,
) -> Loaded<Norm<D::Vector>> {
    let weight = ops.vector(name, norm_values(name, c.hidden, c, checkpoint)?)?;
    Ok(Norm { width: c.hidden, weight, bias: None, eps: c.norm_eps, joined: 1 })
}

/// The norm before a layer's queries, keys and values.
pub(super) fn input_norm(index: usize) -> String {
    format!("model.layers.{index}.input_layernorm.weight")
}

/// The tensors of a layer with linear attention that are not matrices, with their shapes: convolution, decay, its bias, norm.
pub(super) fn linear(l: &LinearAttention, index: usize) -> [(String, Vec<usize>); 4] {
    let name = |part: &str| format!("model.layers.{index}.linear_attn.{part}");
    [
        (name("conv1d.weight"), vec![l.channels(), l.kernel]),
        (name("A_log"), vec![l.value_heads]),
        (name("dt_bias"), vec![l.value_heads]),
        (name("norm.weight"), vec![l.value_dim]),
    ]
}

/// The norms of queries and keys in each head of a layer with full attention, if the model has them.
pub(super) fn head_norms(c: &TextConfig, index: usize) -> Option<[String; 2]> {
    let name = |part: &str| format!("model.layers.{index}.self_attn.{part}_norm.weight");
    // Without keys of its own a layer has a norm of queries alone.
    let keys = if c.has_keys(index) { "k" } else { "q" };
    (c.qk_norm && !c.is_linear(index)).then(|| [name("q"), name(keys)])
}

/// The head; the embedding table if they are tied.
pub(crate) fn head(c: &TextConfig) -> FusedMatrix {
    let name = if c.tied { "model.embed_tokens" } else { "lm_head" };
    FusedMatrix {
        tensors: vec![(name.to_owned(), c.vocab)],
        inputs: c.hidden,
        bias: false,
        importance: Importance::Head,
    }
}

/// Refuse an LM head that differs from tied embeddings: it would not be used. Compares the first rows.
pub(crate) fn check_tied(c: &TextConfig, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
    const HEAD: &str = "lm_head.weight";
    const ROWS: usize = 64;
    if !c.tied || !checkpoint.contains(HEAD) {
        return Ok(());
    }
    let rows = |name| checkpoint.first_rows(name, [c.vocab, c.hidden], ROWS);
    match rows(HEAD)? == rows(TABLE)? {
        true => Ok(()),
        false => Err(CheckpointError::tensor(
            HEAD,
            "differs from the embeddings, but `tie_word_embeddings` is true: set it to false in config.json",
        )),
    }
}

/// A draft head's own LM head over `rows` tokens.
pub(super) fn own_head(c: &TextConfig, rows: usize) -> FusedMatrix {
    FusedMatrix {
        tensors: vec![("lm_head".to_owned(), rows)],
        inputs: c.hidden,
        bias: false,
        importance: Importance::Head,
    }
}

/// A draft head's projection of embeddings and states, `hidden × 2 hidden` (Sparrow, eq. 1).
pub(super) fn projection(c: &TextConfig) -> FusedMatrix {
    FusedMatrix {
        tensors: vec![("fc".to_owned(), c.hidden)],
        inputs: 2 * c.hidden,
        bias: true,
        importance: Importance::Usual,
    }
}

/// All tensors that [`super::Decoder::load`] reads, by their original names.
pub fn tensors(c: &TextConfig) -> Vec<(String, Vec<usize>)> {
    let mut all = vec![(TABLE.to_owned(), vec![c.vocab, c.hidden])];
    for index in 0..c.layers {
        let (post, after) = norms(c, index);
        let added = c.per_layer().map(|_| per_layer_norm(index));
        let over_states =
            [input_norm(index), post].into_iter().chain(after.into_iter().flatten()).chain(added);
        all.extend(over_states.map(|name| (name, vec![c.hidden])));
        all.extend(c.gemma.as_ref().map(|_| (scalar(index), vec![1])));
        let head_dim = c.attention_shape(index).head_dim;
        let mut of_heads: Vec<String> = head_norms(c, index).into_iter().flatten().collect();
        of_heads.dedup();
        all.extend(of_heads.into_iter().map(|name| (name, vec![head_dim])));
        all.extend(c.linear.filter(|_| c.is_linear(index)).iter().flat_map(|l| linear(l, index)));
        for matrix in layer(c, index) {
            for (name, rows) in &matrix.tensors {
                all.push((format!("{name}.weight"), vec![*rows, matrix.inputs]));
                if matrix.bias {
                    all.push((format!("{name}.bias"), vec![*rows]));
                }
            }
        }
    }
    if let (Some((table, shape, projection, norm)), Some(per_layer)) = (layer_inputs(c), c.per_layer()) {
        all.push((table.to_owned(), shape.to_vec()));
        all.extend(
            projection.tensors.iter().map(|(name, rows)| (format!("{name}.weight"), vec![*rows, c.hidden])),
        );
        all.push((norm.to_owned(), vec![per_layer.width]));
    }
    all.push((NORM.to_owned(), vec![c.hidden]));
    if !c.tied {
        all.push(("lm_head.weight".to_owned(), vec![c.vocab, c.hidden]));
    }
    all
}

/// Bytes of the loaded weights in a type; the embedding tables have `table` bytes a value, as in the checkpoint.
pub fn bytes(c: &TextConfig, dtype: WeightType, table: usize) -> u64 {
    let matrices: u64 = matrices(c).map(|matrix| matrix.bytes(dtype) as u64).sum();
    let added = c.per_layer().map_or(0, |per_layer| per_layer.vocab * per_layer.values());
    matrices + ((c.vocab * c.hidden + added) * table) as u64
}

/// Bytes that a pass of `rows` rows and its logits read of matrices of these sizes, as
/// [`DeviceDecoder::pass_bytes`](super::DeviceDecoder::pass_bytes) has them of a loaded decoder; the head has `logits` rows.
pub(crate) fn pass_bytes(
    c: &TextConfig,
    logits: usize,
    rows: usize,
    bytes: impl Fn(&FusedMatrix) -> usize,
) -> usize {
    let layer = |index: usize| {
        let attention = attention(c, index).iter().map(&bytes).sum::<usize>();
        let convolved = convolutions(c, index).into_iter().flat_map(|(_, sublayers)| sublayers);
        let convolved = convolved.map(|(matrix, _)| bytes(&matrix)).sum::<usize>();
        let feed_forward = match feed_forward(c, index) {
            FeedForward::Dense { gate_up, down } => bytes(&gate_up) + bytes(&down),
            FeedForward::Sparse(experts) => experts.pass_bytes(rows, &bytes),
        };
        let added = per_layer(c, index).iter().flatten().map(&bytes).sum::<usize>();
        attention + convolved + feed_forward + added
    };
    let inputs = layer_inputs(c).map_or(0, |(_, _, projection, _)| bytes(&projection));
    (0..c.layers).map(layer).sum::<usize>() + inputs + bytes(&super::shortlist::head(c, logits))
}

/// The matrices of the language model, the head last.
pub(crate) fn matrices(c: &TextConfig) -> impl Iterator<Item = FusedMatrix> {
    let inputs = layer_inputs(c).map(|(_, _, projection, _)| projection);
    (0..c.layers).flat_map(move |index| layer(c, index)).chain(inputs).chain([head(c)])
}

/// The fallback of a type whose blocks do not divide some row: the type, and the row's width.
pub fn fallback(c: &TextConfig, dtype: WeightType) -> Option<(TensorType, usize)> {
    let linear = c.linear.map_or(c.hidden, |l| l.values());
    let widths = [c.hidden, c.heads * c.head_dim, linear];
    let added = c.per_layer().map(|per_layer| per_layer.width);
    let sliding = c.gemma.as_ref().map(|gemma| c.heads * gemma.head_dim);
    let widths = widths.into_iter().chain(added).chain(sliding);
    let down = (0..c.layers).flat_map(|index| match c.experts(index) {
        None => vec![c.intermediate_of(index)],
        Some(sparse) => [sparse.width].into_iter().chain(sparse.shared).collect(),
    });
    let WeightType::Of(requested) = dtype else { return None };
    let odd = widths.chain(down).find(|&inputs| dtype.fitting(inputs) != requested)?;
    Some((dtype.fitting(odd), odd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decoder::Decoder, family::VlConfig, testing::fixture};
    use specreel_tensor::ComputeDevice;

    const EXPERTS: [&str; 4] = ["qwen3_vl_moe", "qwen3_vl_moe_split", "qwen3_5_moe", "qwen3_5_moe_untied"];

    fn read(name: &str) -> (Checkpoint, TextConfig) {
        let dir = fixture(name);
        (Checkpoint::open(&dir).unwrap(), VlConfig::read(&dir).unwrap().text)
    }

    #[test]
    fn all_tensors_but_those_of_the_tower_are_listed() {
        let newer = ["qwen3_vl", "qwen3_vl_small", "smolvlm", "smolvlm_untied", "qwen3_5", "qwen3_5_untied"];
        let newer = newer
            .into_iter()
            .chain(["minicpmv4_6", "minicpmv4_6_4x", "gemma4", "gemma4_plain"])
            .chain(EXPERTS);
        for name in ["gqa_tied", "gqa_untied_f16", "nested_bf16", "sharded_untied"].into_iter().chain(newer) {
            let (checkpoint, config) = read(name);
            let listed = tensors(&config);
            for (tensor, shape) in &listed {
                checkpoint.verify(tensor, shape).unwrap();
            }
            let tower =
                ["visual", "vision_model", "connector", "vision_tower", "model.merger", "embed_vision"];
            let text = checkpoint.tensors().filter(|t| !tower.iter().any(|part| t.name.contains(part)));
            assert_eq!(text.count(), listed.len(), "{name}");
        }
    }

    #[test]
    fn bytes_predicts_the_size_of_the_loaded_weights() {
        for (name, table) in [
            ("gqa_tied", 4),
            ("gqa_untied_f16", 2),
            ("mha_tied_bf16", 2),
            ("qwen3_vl", 2),
            ("qwen3_vl_small", 2),
            ("smolvlm", 2),
            ("qwen3_5", 2),
            ("qwen3_5_untied", 2),
            ("minicpmv4_6", 2),
            ("gemma4", 2),
        ]
        .into_iter()
        .chain(EXPERTS.map(|name| (name, 2)))
        {
            let (checkpoint, config) = read(name);
            for dtype in WeightType::ALL {
                let loaded =
                    Decoder::load(&checkpoint, &config, &ComputeDevice::cpu(dtype), &mut |_, _| {}).unwrap();
                assert_eq!(loaded.bytes() as u64, bytes(&config, dtype, table), "{name} {dtype:?}");
            }
        }
    }
}
