//! ViSpec's vision adaptor: a few rows in place of a video's visual tokens, and a vector that sums them up.
//!
//! Learned queries attend over the visual embeddings of one run of visual tokens (keys and values of their own, no positions). The
//! outputs of all queries but the last are rows of the layer in place of the run, at its last positions. The last output is mixed
//! into the target's state before every later text row, `img_fc([state ; vector])`; before the first run the vector is zero.
//!
//! Further tensors, under ViSpec's names: `imadpt.q` (`queries × heads × head_dim`), `imadpt.{k,v}_proj` (with
//! biases if the layer has them), `imadpt.o_proj.weight`, `img_fc.weight` (`width × 2 width`), `img_fc.bias`.

use specreel_tensor::{CheckpointError, Importance, Result, Weights, fused::FusedMatrix};

use crate::{
    config::TextConfig,
    decoder::{Decoder, Matrix, States, Workspace, with_slice},
};
use specreel_checkpoint::Checkpoint;

pub(super) struct Adaptor {
    /// `queries × (heads · head_dim)`.
    queries: Vec<f32>,
    heads: usize,
    head_dim: usize,
    keys: Matrix,
    values: Matrix,
    output: Matrix,
    mix: Matrix,
}

/// What stands for a run of visual tokens.
pub struct Compressed {
    /// Rows of the layer in place of the run, `(queries - 1) × width`.
    pub rows: States,
    /// The vector for the text rows after it.
    pub vector: Vec<f32>,
}

impl Adaptor {
    /// Load the adaptor of a head whose layer is `layer`.
    pub fn load(
        checkpoint: &Checkpoint,
        layer: &TextConfig,
        queries: usize,
        target: &Decoder,
    ) -> std::result::Result<Self, CheckpointError> {
        let (width, inner) = (layer.hidden, layer.heads * layer.head_dim);
        let matrix = |name: &str, rows: usize, inputs: usize, bias: bool| {
            let list = FusedMatrix {
                tensors: vec![(name.to_owned(), rows)],
                inputs,
                bias,
                importance: Importance::Usual,
            };
            target.matrix(&list, checkpoint)
        };
        Ok(Self {
            queries: checkpoint.f32("imadpt.q", &[queries, layer.heads, layer.head_dim])?,
            heads: layer.heads,
            head_dim: layer.head_dim,
            keys: matrix("imadpt.k_proj", inner, width, layer.bias)?,
            values: matrix("imadpt.v_proj", inner, width, layer.bias)?,
            output: matrix("imadpt.o_proj", width, inner, false)?,
            mix: matrix("img_fc", width, 2 * width, true)?,
        })
    }

    /// Bytes of the matrix that every text row needs.
    pub fn bytes(&self) -> usize {
        self.mix.bytes()
    }

    /// Compress the embeddings of a run of visual tokens, `rows × width`.
    pub fn compress(
        &self,
        decoder: &Decoder,
        visual: &States,
        workspace: &mut Workspace,
    ) -> Result<Compressed> {
        let inner = self.heads * self.head_dim;
        let keys = decoder.project(&self.keys, visual, workspace)?;
        let values = decoder.project(&self.values, visual, workspace)?;
        let attended = with_slice(&keys, |keys| with_slice(&values, |values| self.attend(keys, values)))??;
        let out = decoder.project(&self.output, &States::new(attended, inner)?, workspace)?;
        let rows = out.rows() - 1;
        Ok(Compressed { rows: out.narrow(0, rows)?, vector: out.narrow(rows, 1)?.to_vec()? })
    }

    /// `queries × (heads · head_dim)`: in each head the values, weighted by softmax(q · k / sqrt(head_dim)).
    fn attend(&self, keys: &[f32], values: &[f32]) -> Vec<f32> {
        let (width, inner) = (self.head_dim, self.heads * self.head_dim);
        let scale = 1.0 / (width as f32).sqrt();
        let mut out = vec![0f32; self.queries.len()];
        for (query, out) in self.queries.chunks_exact(inner).zip(out.chunks_exact_mut(inner)) {
            for head in 0..self.heads {
                let part = head * width..(head + 1) * width;
                let query = &query[part.clone()];
                let score = |key: &[f32]| {
                    key[part.clone()].iter().zip(query).map(|(k, q)| k * q).sum::<f32>() * scale
                };
                let scores: Vec<f32> = keys.chunks_exact(inner).map(score).collect();
                let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let weights: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
                let sum: f32 = weights.iter().sum();
                for (weight, value) in weights.iter().zip(values.chunks_exact(inner)) {
                    let sums = out[part.clone()].iter_mut().zip(&value[part.clone()]);
                    sums.for_each(|(sum_of, value)| *sum_of += weight / sum * value);
                }
            }
        }
        out
    }

    /// States with the vector mixed in, `rows × width`.
    pub fn mix(
        &self,
        decoder: &Decoder,
        states: &States,
        vector: &[f32],
        workspace: &mut Workspace,
    ) -> Result<States> {
        let repeated = States::new(vector.repeat(states.rows()), decoder.width())?;
        decoder.project(&self.mix, &decoder.beside(states, &repeated)?, workspace)
    }
}
