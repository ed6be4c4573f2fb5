//! Assistants (`Gemma4AssistantForCausalLM`): small models whose layers have queries alone, and attend to the keys and values that the
//! target has computed. They see what the target sees, without a prefill or a cache.
//!
//! The input row of token t is z = `pre_projection` [embedding of t ; the target's final state before t], of which both have the target's
//! width. Each layer reads the target's last keys and values of its kind: of all slots before t, or of those within the window that ends
//! at t. The final state gives the logits of the next token by the assistant's own table, and through `post_projection` the state
//! that takes the place of the target's at the next drafted token. All drafts of a step have t's position.
//!
//! Some have an ordered table: its ids are in clusters of the same size (`masked_embedding.token_ordering`), each with a centroid
//! (`masked_embedding.centroids`). Of the clusters whose centroids have the largest products with the state, the ids have logits; all
//! others have the smallest of these, minus 1.

use serde::Deserialize;
use serde_json::Value;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError, Importance, Result, Weights, fused::FusedMatrix, logits::Logits, states::HostRows,
    weights::TakeRows,
};

use super::{DraftHeadConfig, MODEL_TYPE, Recipe, TargetIdentity, VisualRows, config::last_attention_layer};
use crate::{
    config::{GEMMA4, TextConfig},
    decoder::{Decoder, Matrix, States, Workspace, parts},
    mac_count::{self, MacCount},
};

/// `architectures` of its `config.json`.
pub(super) const ARCHITECTURE: &str = "Gemma4AssistantForCausalLM";

/// What only an assistant has.
#[derive(Clone, Debug, PartialEq)]
pub struct AssistantConfig {
    /// Its layers, and the width and rows of its table.
    layers: TextConfig,
    /// Clusters of its ids, and how many of them have logits; `None` if all ids have.
    clusters: Option<[usize; 2]>,
}

#[derive(Deserialize)]
struct Raw {
    backbone_hidden_size: usize,
    #[serde(default)]
    use_ordered_embeddings: bool,
    num_centroids: Option<usize>,
    centroid_intermediate_top_k: Option<usize>,
    quantization_config: Option<Value>,
}

/// The configuration in a published `config.json`.
/// Errors: a key is missing, or the assistant's computation is not supported.
pub(super) fn read(json: &Value) -> std::result::Result<DraftHeadConfig, String> {
    let raw = Raw::deserialize(json).map_err(|e| e.to_string())?;
    let layers = GEMMA4.config(json)?;
    let (width, shared) = (layers.per_layer().map_or(0, |added| added.width), layers.has_keys(0));
    let wide = layers.gemma.as_ref().is_some_and(|gemma| gemma.wide);
    let clusters = [raw.num_centroids.unwrap_or(2048), raw.centroid_intermediate_top_k.unwrap_or(32)];
    let clusters = raw.use_ordered_embeddings.then_some(clusters);
    for (is_refused, problem) in [
        (
            shared,
            "`num_kv_shared_layers` is less than `num_hidden_layers`: an assistant has no keys and values",
        ),
        (width > 0, "`hidden_size_per_layer_input` is not 0"),
        (wide, "`use_double_wide_mlp` is true, expected false"),
        (raw.quantization_config.is_some(), "its weights are quantized, expected f32, f16 or bf16"),
        (!layers.tied, "`tie_word_embeddings` is false, expected true"),
    ] {
        if is_refused {
            return Err(problem.into());
        }
    }
    if let Some([count, read]) = clusters
        && !(count > 0 && layers.vocab.is_multiple_of(count) && (1..=count).contains(&read))
    {
        return Err(format!(
            "`num_centroids` is {count} and `centroid_intermediate_top_k` {read}: a vocabulary of {} ids has no such clusters",
            layers.vocab
        ));
    }
    Ok(DraftHeadConfig {
        model_type: MODEL_TYPE.into(),
        recipe: Recipe::Assistant,
        visual_rows: VisualRows::Embeddings,
        intermediate_size: layers.intermediate,
        num_attention_heads: layers.heads,
        num_key_value_heads: layers.kv_heads,
        head_dim: layers.head_dim,
        rope_theta: layers.rope_theta,
        mrope_section: None,
        mrope_interleaved: false,
        attention_bias: false,
        qk_norm: true,
        rms_norm_eps: layers.norm_eps,
        target: TargetIdentity {
            name: String::new(),
            hidden_size: raw.backbone_hidden_size,
            vocab_size: layers.vocab,
            num_hidden_layers: 0,
            fingerprint: String::new(),
        },
        num_queries: 0,
        eagle3: None,
        dflash: None,
        assistant: Some(AssistantConfig { layers, clusters }),
    })
}

impl AssistantConfig {
    /// What it takes to draft a token after `before` others for a target of width `outer`.
    pub fn mac_count(&self, before: usize, outer: usize) -> MacCount {
        // Its layers have neither keys nor values of their own.
        let layers = TextConfig { assists: Some([0; 2]), ..self.layers.clone() };
        let (vocab, width) = (layers.vocab, layers.hidden);
        let logits = self.clusters.map_or(vocab, |[count, read]| count + read * (vocab / count.max(1)));
        let around = 3 * outer + logits;
        let products = MacCount { products: (width * around) as f64, attention: 0.0 };
        mac_count::prompt(&layers, before, 1) + products
    }

    /// The layers over the keys and values of a target.
    /// Errors: the target's keys and values have another form.
    fn over(&self, target: &TextConfig) -> std::result::Result<TextConfig, String> {
        let forms = |c: &TextConfig| {
            let sliding = c.gemma.as_ref().map(|gemma| [gemma.kv_heads, gemma.head_dim]);
            ([c.kv_heads, c.head_dim], sliding)
        };
        if forms(&self.layers) != forms(target) {
            return Err(format!(
                "it reads keys and values of the form {:?}, this target has {:?}",
                forms(&self.layers),
                forms(target)
            ));
        }
        let kinds = (0..self.layers.layers).map(|layer| self.layers.is_sliding(layer));
        let last = |sliding: bool| {
            (0..target.layers).rfind(|layer| target.has_keys(*layer) && target.is_sliding(*layer) == sliding)
        };
        if kinds.clone().any(|sliding| last(sliding).is_none()) {
            return Err("it reads a kind of layer that this target does not have".into());
        }
        let place = |layer: Option<usize>| layer.map_or(0, |layer| target.cache_layer(layer));
        let places = [place(Some(last_attention_layer(target))), place(last(true))];
        Ok(TextConfig { assists: Some(places), ..self.layers.clone() })
    }
}

/// What an assistant has besides its layers.
pub(super) struct Assistant {
    /// From embeddings and states of the target to its rows.
    pre: Matrix,
    /// From its final states to what takes the place of the target's.
    post: Matrix,
    clusters: Option<Clusters>,
}

impl Assistant {
    /// Load an assistant's weights: the decoder of its layers and head, and what is around them.
    pub fn load(
        checkpoint: &Checkpoint,
        own: &AssistantConfig,
        target: &Decoder,
    ) -> std::result::Result<(Decoder, Self), CheckpointError> {
        let layers = own.over(target.config()).map_err(|problem| {
            let problem = format!("this assistant was trained for another target: {problem}");
            CheckpointError::tensor("model.layers.0.self_attn.q_proj", &problem)
        })?;
        let (width, outer) = (layers.hidden, target.width());
        let matrix = |name: &str, outputs: usize, inputs: usize| FusedMatrix {
            tensors: vec![(name.to_owned(), outputs)],
            inputs,
            bias: false,
            importance: Importance::Usual,
        };
        let head = match own.clusters {
            None => parts::head(&layers),
            Some([count, _]) => matrix(CENTROIDS, count, width),
        };
        let decoder = target.with_assisting_layers(checkpoint, &layers, &head)?;
        let clusters = own.clusters.map(|clusters| Clusters::load(checkpoint, clusters, &decoder));
        Ok((
            decoder,
            Self {
                pre: target.matrix(&matrix("pre_projection", width, 2 * outer), checkpoint)?,
                post: target.matrix(&matrix("post_projection", outer, width), checkpoint)?,
                clusters: clusters.transpose()?,
            },
        ))
    }

    /// Bytes of the matrices around the layers.
    pub fn bytes(&self) -> usize {
        let clusters =
            self.clusters.as_ref().map_or(0, |clusters| clusters.rows.iter().map(Matrix::bytes).sum());
        self.pre.bytes() + self.post.bytes() + clusters
    }

    /// Input rows, from embeddings and the states before them, both of the target's width.
    pub fn rows(
        &self,
        decoder: &Decoder,
        embeddings: &States,
        before: &States,
        workspace: &mut Workspace,
    ) -> Result<States> {
        decoder.project(&self.pre, &decoder.beside(embeddings, before)?, workspace)
    }

    /// What takes the place of the target's states, from final states.
    pub fn own_states(
        &self,
        decoder: &Decoder,
        states: &States,
        workspace: &mut Workspace,
    ) -> Result<States> {
        decoder.project(&self.post, states, workspace)
    }

    /// Logits of final states, `rows × vocab`.
    pub fn logits(&self, decoder: &Decoder, states: &States, workspace: &mut Workspace) -> Result<Logits> {
        match &self.clusters {
            None => decoder.logits(states, workspace),
            Some(clusters) => clusters.logits(decoder, states, workspace),
        }
    }
}

const CENTROIDS: &str = "masked_embedding.centroids";
const ORDERING: &str = "masked_embedding.token_ordering";

/// A table whose ids are in clusters. The centroids are the head of the assistant's decoder.
struct Clusters {
    /// The rows of the table of each cluster.
    rows: Vec<Matrix>,
    /// The ids of all rows, cluster by cluster.
    ids: Vec<u32>,
    /// How many clusters have logits.
    read: usize,
}

impl Clusters {
    fn load(
        checkpoint: &Checkpoint,
        [count, read]: [usize; 2],
        decoder: &Decoder,
    ) -> std::result::Result<Self, CheckpointError> {
        let (vocab, width) = (decoder.config().vocab, decoder.width());
        let fail = |problem: &str| CheckpointError::tensor(ORDERING, problem);
        let order = checkpoint.integers(ORDERING)?.ok_or_else(|| fail("missing"))?;
        let mut found = vec![false; vocab];
        let ids = order.iter().map(|&id| {
            let id = usize::try_from(id).ok().filter(|id| *id < vocab)?;
            (!std::mem::replace(&mut found[id], true)).then_some(id as u32)
        });
        let ids: Option<Vec<u32>> = ids.collect();
        let ids = ids.filter(|ids| ids.len() == vocab).ok_or_else(|| fail("does not hold every id once"))?;
        let head = parts::head(decoder.config());
        let name = format!("{}.weight", head.name());
        let values = checkpoint.f32(&name, &[vocab, width])?;
        let rows = ids.chunks(vocab / count).map(|ids| {
            let tensors = vec![(head.name().to_owned(), ids.len())];
            let part = FusedMatrix { tensors, inputs: width, bias: false, importance: Importance::Head };
            decoder.matrix(&part, &Picked { values: &values, width, ids })
        });
        Ok(Self { rows: rows.collect::<std::result::Result<_, _>>()?, ids, read })
    }

    fn logits(&self, decoder: &Decoder, states: &States, workspace: &mut Workspace) -> Result<Logits> {
        let (vocab, size) = (self.ids.len(), self.ids.len() / self.rows.len().max(1));
        let scores = decoder.logits(states, workspace)?.to_vec()?;
        let mut all = Vec::with_capacity(states.rows() * vocab);
        for (row, scores) in scores.chunks(self.rows.len().max(1)).enumerate() {
            let state = states.narrow(row, 1)?;
            let mut nearest: Vec<usize> = (0..scores.len()).collect();
            nearest.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            nearest.truncate(self.read);
            let mut logits = Vec::with_capacity(self.read);
            for &cluster in &nearest {
                logits.push(decoder.project(&self.rows[cluster], &state, workspace)?.to_vec()?);
            }
            let smallest = logits.iter().flatten().copied().fold(f32::INFINITY, f32::min);
            let first = all.len();
            all.resize(first + vocab, smallest - 1.0);
            for (cluster, logits) in nearest.into_iter().zip(logits) {
                for (id, logit) in self.ids[cluster * size..].iter().zip(logits) {
                    all[first + *id as usize] = logit;
                }
            }
        }
        HostRows::new(all, vocab).map(Logits::Host)
    }
}

/// Some rows of a table.
struct Picked<'a> {
    values: &'a [f32],
    width: usize,
    ids: &'a [u32],
}

impl Picked<'_> {
    fn row(&self, id: u32) -> &[f32] {
        &self.values[id as usize * self.width..][..self.width]
    }
}

impl Weights for Picked<'_> {
    fn f32(&self, _: &str, _: &[usize]) -> std::result::Result<Vec<f32>, CheckpointError> {
        Ok(self.ids.iter().flat_map(|&id| self.row(id)).copied().collect())
    }

    fn rows_parallel(
        &self,
        name: &str,
        _: [usize; 2],
        take: TakeRows<'_>,
    ) -> std::result::Result<u64, CheckpointError> {
        let mut rows = self.ids.iter().enumerate();
        rows.try_for_each(|(place, &id)| take(place, self.row(id)))
            .map_err(|problem| CheckpointError::tensor(name, &problem))?;
        Ok(0)
    }
}
