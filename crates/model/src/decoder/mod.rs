//! The decoder of Qwen2, Qwen3 and Llama: grouped-query attention with rotary positions, SwiGLU, RMS norms.
//!
//! Weight layout (`model.layers.N.…`): `self_attn.{q,k,v}_proj.weight` (with `bias`: Qwen2), `self_attn.{q,k}_norm.weight` (Qwen3),
//! `self_attn.o_proj.weight`, `mlp.{gate,up,down}_proj.weight` (of layers of experts: `mlp.gate.weight`, the router, and
//! `mlp.experts.N.{gate,up,down}_proj.weight`), `input_layernorm.weight`, `post_attention_layernorm.weight`; `model.norm.weight`,
//! `model.embed_tokens.weight`, `lm_head.weight` (absent if tied). q, k, v are fused into one matrix, and gate and up.
//!
//! A forward pass takes rows of embeddings, their positions (which are not cache slots), a mask among the new rows, and the
//! cache. It returns the final states after the norm; logits are computed for chosen rows. On the CPU a row's result does not
//! depend on the number of rows.

mod buffers;
mod cache;
mod convolved;
mod dispatch;
mod kernel_choice;
mod layer;
mod layer_inputs;
mod load;
mod on_device;
pub mod parts;
pub mod rope;
mod row_check;
mod run;
pub mod self_test;
pub mod sequence;
mod shortlist;
pub mod together;
mod vocabulary;

use specreel_tensor::Result;

pub use dispatch::{Cache, Decoder, DeviceDecoder, Matrix, PassRequest, SequenceCache, Workspace};
pub use rope::Positions;
pub use sequence::{Sequence, Staged};
pub use vocabulary::DraftVocabulary;

use super::config::TextConfig;
pub use specreel_tensor::{
    attention::{AttentionProbe, AttentionStats, Mask},
    logits::{LogitNeeds, LogitRow, Logits, RowFacts, argmax, top_log_probabilities},
    ops::Input,
    similarity::{Nearest, Resident},
    states::{States, with_slice},
};

/// The layers of a pass, and its results besides the final states.
#[derive(Clone, Debug, Default)]
pub struct Taps {
    /// Also return the last layer's output before the final norm.
    pub before_norm: bool,
    /// Layers whose output states are returned (0 = the first).
    pub after_layers: Vec<usize>,
    /// Measure the attention weights of the rows.
    pub probe: Option<AttentionProbe>,
    /// Run these layers only (`None` = all); the input is the states before them, with the DeepStack levels of these layers after
    /// them. For a prefill in two parts.
    pub layers: Option<std::ops::Range<usize>>,
}

/// The result of a pass: rows in the order of the input.
pub struct Pass {
    /// Final states after the norm, `rows × width`: the head's input.
    pub states: States,
    /// Final states before the norm, if requested.
    pub before_norm: Option<States>,
    /// States after the requested layers, in the requested order.
    pub after_layers: Vec<States>,
    /// Attention weights of the rows, if requested.
    pub attention: Option<AttentionStats>,
    /// For each layer of experts, how many of them some row took, without the shared one. Empty on a GPU, where the choice is not read back.
    pub experts_read: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct PassInput {
    rows: usize,
    /// DeepStack levels after the embeddings or states of a row; 0 for text.
    levels: usize,
}

/// The size of a pass that begins with layer `first`. `expected` is the width of its rows where they are neither ids nor states alone.
/// Errors: if input, positions and mask do not agree with each other, the model's width and DeepStack levels, and the `before` slots in
/// use.
fn check_pass(
    input: Input<'_>,
    positions: &Positions,
    mask: &Mask,
    before: usize,
    first: usize,
    config: &TextConfig,
    expected: Option<usize>,
) -> Result<PassInput> {
    let rows = input.rows();
    let (width, hidden) = match input {
        Input::Ids(_) => (config.hidden, config.hidden),
        Input::States(states) => (states.shape().1, config.hidden),
    };
    // A model of fewer layers reads the rows of the whole one.
    let levels = if expected.is_some() { 0 } else { (width / hidden.max(1)).saturating_sub(1) };
    let deep = expected.is_none() && width.is_multiple_of(hidden) && config.deepstack > 0;
    let fits = width == expected.unwrap_or(hidden)
        || deep && levels >= config.deepstack.saturating_sub(first).max(1);
    let axes = positions.axes.each_ref().map(Vec::len);
    if !fits || axes != [rows; 3] || mask.rows().is_some_and(|n| n != rows) {
        specreel_tensor::bail!(
            "a pass of {rows} rows of {width} values got {axes:?} positions, a mask for {:?} rows, and a model of width {hidden} with {} DeepStack levels",
            mask.rows(),
            config.deepstack
        );
    }
    if let Mask::Paths { shared, paths } = mask {
        for (row, path) in paths.iter().enumerate() {
            let ascending = path.is_sorted_by(|a, b| a < b);
            let own = (before + row).checked_sub(*shared).is_some_and(|own| path.contains(&own));
            let inside = path.last().is_some_and(|last| shared + last < before + rows);
            if *shared > before || !ascending || !own || !inside {
                specreel_tensor::bail!(
                    "row {row} of a tree after {before} slots has the path {path:?} from slot {shared} on"
                );
            }
        }
    }
    Ok(PassInput { rows, levels })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TextConfig {
        crate::shapes::find("tiny").unwrap()
    }

    fn check(width: usize, positions: &Positions, mask: &Mask, before: usize) -> Option<usize> {
        let rows = mask.rows().unwrap_or(2);
        let input = States::new(vec![0.0; rows * width], width).unwrap();
        check_pass((&input).into(), positions, mask, before, 0, &config(), None).ok().map(|found| found.rows)
    }

    #[test]
    fn rows_hold_the_levels_of_the_layers_that_they_enter() {
        let levels = |width: usize, deepstack: usize, first: usize| {
            let config = TextConfig { deepstack, ..config() };
            let input = States::new(vec![0.0; 2 * width], width).unwrap();
            let positions = Positions::text(0, 2);
            let found = check_pass((&input).into(), &positions, &Mask::Causal, 0, first, &config, None);
            found.ok().map(|found| found.levels)
        };
        let w = config().hidden;
        assert_eq!([1, 3, 4].map(|n| levels(n * w, 2, 0)), [Some(0), Some(2), Some(3)]);
        assert_eq!(levels(2 * w, 2, 0), None, "a level is missing");
        assert_eq!(levels(2 * w, 2, 1), Some(1), "the first layer's is used up");
        assert_eq!(levels(3 * w + 1, 2, 0), None);
        assert_eq!(levels(3 * w, 0, 0), None, "the model has none");
        let ids =
            check_pass((&[1u32, 2][..]).into(), &Positions::text(0, 2), &Mask::Causal, 0, 0, &config(), None);
        assert_eq!(ids.unwrap(), PassInput { rows: 2, levels: 0 });
    }

    #[test]
    fn inputs_of_a_pass_must_agree() {
        let (width, two) = (config().hidden, Positions::text(0, 2));
        assert_eq!(check(width, &two, &Mask::Causal, 5), Some(2));
        assert_eq!(check(width + 1, &two, &Mask::Causal, 5), None);
        assert_eq!(check(width, &Positions::text(0, 3), &Mask::Causal, 5), None);
        let mut ragged = two.clone();
        ragged.axes[2].pop();
        assert_eq!(check(width, &ragged, &Mask::Causal, 5), None);
        let paths = |shared, paths: [&[usize]; 2]| {
            let mask = Mask::Paths { shared, paths: paths.map(<[usize]>::to_vec).to_vec() };
            check(width, &two, &mask, 5)
        };
        assert_eq!(paths(5, [&[0], &[0, 1]]), Some(2));
        assert_eq!(paths(3, [&[0, 2], &[1, 3]]), Some(2));
        assert_eq!(paths(5, [&[0, 1], &[0, 1]]), Some(2), "rows of a block see each other");
        assert_eq!(paths(0, [&[3, 4, 5, 6], &[4, 5, 6]]), Some(2), "within a window");
        assert_eq!(paths(6, [&[0], &[1]]), None, "slots that are not in use are shared");
        assert_eq!(paths(5, [&[0], &[0]]), None, "a path that ends before its row");
        assert_eq!(paths(5, [&[0], &[0, 2]]), None, "a path without its row");
        assert_eq!(paths(5, [&[0], &[1, 2]]), None, "a path that ends after the pass");
        assert_eq!(paths(3, [&[2], &[2, 1, 3]]), None, "a path out of order");
        assert_eq!(paths(5, [&[0], &[]]), None, "an empty path");
    }
}
