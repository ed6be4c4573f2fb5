//! EAGLE-3 heads in the published layout (`LlamaForCausalLMEagle3`): EAGLE's, and SpecForge's for multimodal targets.
//!
//! The head reads the target's states g after some of its layers, usually three, through `fc` (`hidden × 3 hidden` for three, no bias). With
//! `norm_before_fc` they are normed together before (`input_norm`), with `fc_norm` each on its own (`fc_norm.N`). The row of a token
//! holds [`input_layernorm`(embedding) ; `hidden_norm`(x)], which queries, keys and values are computed from; x is the projected
//! state before the token, or the head's own output before it, and the residual. One layer follows, whose output before the
//! final `norm` (with `norm_output` after it) takes the place of states that the target has not computed yet. `lm_head` has `draft_vocab_size` rows: row i
//! stands for the target's token `i + d2t[i]`. Embeddings are the target's own.
//!
//! A row has the position of the row whose state it reads, the one before it.

use super::{DraftHeadConfig, Eagle3Config};
use crate::decoder::{Decoder, DraftVocabulary, Matrix, States, Workspace};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{CheckpointError, Importance, Weights, fused::FusedMatrix};

/// What makes the rows of an EAGLE-3 head's layer.
pub(super) struct Eagle3 {
    pub taps: Vec<usize>,
    pub vocabulary: DraftVocabulary,
    reduce: Matrix,
    /// Weights of the norm of all states together.
    together: Option<Vec<f32>>,
    /// Weights of the norm of each state; none if they are not normed.
    apart: Vec<Vec<f32>>,
    qkv: Pairs,
    norm_before_residual: bool,
    pub norm_output: bool,
}

/// A projection of embeddings concatenated with the states before them, each normed.
pub(super) struct Pairs {
    pub projection: Matrix,
    /// Weights of the norms of embeddings and of states.
    pub norms: [Vec<f32>; 2],
    pub eps: f32,
}

impl Pairs {
    /// Embeddings and states, each normed.
    fn normed(
        &self,
        decoder: &Decoder,
        embeddings: &States,
        before: &States,
        workspace: &mut Workspace,
    ) -> specreel_tensor::Result<[States; 2]> {
        let mut normed =
            |rows: &States, at: usize| decoder.normed(rows, &self.norms[at], self.eps, workspace);
        Ok([normed(embeddings, 0)?, normed(before, 1)?])
    }

    /// Rows that enter the layer, from embeddings and the states before them, both `rows × width`.
    pub fn rows(
        &self,
        decoder: &Decoder,
        embeddings: &States,
        before: &States,
        workspace: &mut Workspace,
    ) -> specreel_tensor::Result<States> {
        let [embeddings, states] = self.normed(decoder, embeddings, before, workspace)?;
        decoder.project(&self.projection, &decoder.beside(&embeddings, &states)?, workspace)
    }
}

impl Eagle3 {
    /// Load the head's weights: the decoder of its layer and LM head, and the projection that makes its rows.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &DraftHeadConfig,
        own: &Eagle3Config,
        target: &Decoder,
    ) -> Result<(Decoder, Self), CheckpointError> {
        let part = |name: &str| format!("model.layers.0.{name}");
        let mut layer = config.layer(target.config());
        layer.bias = checkpoint.contains(&part("self_attn.q_proj.bias"));
        layer.qk_norm = checkpoint.contains(&part("self_attn.q_norm.weight"));
        if checkpoint.contains(&part("self_attn.o_proj.bias")) {
            return Err(CheckpointError::tensor(
                &part("self_attn.o_proj.bias"),
                "biases there are not supported",
            ));
        }
        let taps =
            own.taps(target.config()).map_err(|problem| CheckpointError::tensor("fc.weight", &problem))?;
        let width = layer.hidden;
        let maps = [checkpoint.integers("d2t")?, checkpoint.integers("t2d")?];
        let [offsets, members] = maps;
        let vocabulary =
            DraftVocabulary::new(offsets, members.as_deref(), own.draft_vocab, target.config().vocab)
                .map_err(|problem| CheckpointError::tensor("d2t", &problem))?;
        // A head over the whole vocabulary may share the target's.
        let own_head = checkpoint.contains("lm_head.weight") || own.draft_vocab != target.config().vocab;
        check_embeddings(checkpoint, target)?;
        let decoder = target.with_entered_layer(checkpoint, &layer, own_head.then_some(own.draft_vocab))?;
        let reduce = FusedMatrix {
            tensors: vec![("fc".into(), width)],
            inputs: taps.len() * width,
            bias: false,
            importance: Importance::Usual,
        };
        let (queries, keys) = (layer.heads * layer.head_dim, layer.kv_heads * layer.head_dim);
        let qkv = FusedMatrix {
            tensors: [("q", queries), ("k", keys), ("v", keys)]
                .map(|(name, rows)| (part(&format!("self_attn.{name}_proj")), rows))
                .to_vec(),
            inputs: 2 * width,
            bias: layer.bias,
            importance: Importance::Usual,
        };
        let norm = |name: &str| checkpoint.f32(&part(&format!("{name}.weight")), &[width]);
        let states = taps.len();
        let together = own.norm_before_fc.then(|| checkpoint.f32("input_norm.weight", &[states * width]));
        let apart = if own.fc_norm { states } else { 0 };
        let apart = (0..apart).map(|state| checkpoint.f32(&format!("fc_norm.{state}.weight"), &[width]));
        Ok((
            decoder,
            Self {
                together: together.transpose()?,
                apart: apart.collect::<Result<_, _>>()?,
                norm_output: own.norm_output,
                taps,
                vocabulary,
                reduce: target.matrix(&reduce, checkpoint)?,
                qkv: Pairs {
                    projection: target.matrix(&qkv, checkpoint)?,
                    norms: [norm("input_layernorm")?, norm("hidden_norm")?],
                    eps: layer.norm_eps,
                },
                norm_before_residual: own.norm_before_residual,
            },
        ))
    }

    /// Bytes of the matrices that make its rows.
    pub fn bytes(&self) -> usize {
        self.reduce.bytes() + self.qkv.projection.bytes()
    }

    /// The target's states after the tapped layers, `rows × taps · width`, as the head reads them, `rows × width`.
    pub fn reduce(
        &self,
        decoder: &Decoder,
        states: &States,
        workspace: &mut Workspace,
    ) -> specreel_tensor::Result<States> {
        let eps = self.qkv.eps;
        let mut states = states.clone();
        if let Some(weight) = &self.together {
            states = decoder.normed(&states, weight, eps, workspace)?;
        }
        if let Some((first, rest)) = self.apart.split_first() {
            let width = decoder.width();
            let mut of = |at: usize, weight: &[f32]| {
                let state = states.columns(at * width..(at + 1) * width)?;
                decoder.normed(&state, weight, eps, workspace)
            };
            let mut all = of(0, first)?;
            for (at, weight) in (1..).zip(rest) {
                all = decoder.beside(&all, &of(at, weight)?)?;
            }
            states = all;
        }
        decoder.project(&self.reduce, &states, workspace)
    }

    /// Rows that enter the layer, from embeddings and the states before them, both `rows × width`.
    pub fn rows(
        &self,
        decoder: &Decoder,
        embeddings: &States,
        before: &States,
        workspace: &mut Workspace,
    ) -> specreel_tensor::Result<States> {
        let [embeddings, states] = self.qkv.normed(decoder, embeddings, before, workspace)?;
        let pairs = decoder.beside(&embeddings, &states)?;
        let qkv = decoder.project(&self.qkv.projection, &pairs, workspace)?;
        let residual = if self.norm_before_residual { &states } else { before };
        decoder.beside(&qkv, residual)
    }
}

/// Compare the head's copy of the target's embeddings with the target's, where it has one: the first rows. Weight types differ, so
/// they need only point the same way.
fn check_embeddings(checkpoint: &Checkpoint, target: &Decoder) -> Result<(), CheckpointError> {
    const NAME: &str = "model.embed_tokens.weight";
    const ROWS: usize = 64;
    if !checkpoint.contains(NAME) {
        return Ok(());
    }
    let (vocab, width) = (target.config().vocab, target.config().hidden);
    let ids: Vec<u32> = (0..ROWS.min(vocab) as u32).collect();
    let fail = |problem: &str| CheckpointError::tensor(NAME, problem);
    let own = checkpoint.first_rows(NAME, [vocab, width], ids.len())?;
    let known = target.embed(&ids).and_then(|rows| rows.to_vec()).map_err(|e| fail(&e.to_string()))?;
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let likeness = dot(&own, &known) / (dot(&own, &own) * dot(&known, &known)).sqrt().max(f64::MIN_POSITIVE);
    match likeness > 0.95 {
        true => Ok(()),
        false => {
            Err(fail("this draft head was trained for another target: its embeddings are not this target's"))
        }
    }
}

#[cfg(test)]
mod tests;
