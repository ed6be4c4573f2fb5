//! The decoder: layers that attend to the tokens so far, whose keys and values are kept, and to the encoder's states, whose keys and
//! values are computed once for a window.

use specreel_tensor::{
    Result,
    attention::{AttentionShape, Mask},
    cache::DeviceCache as _,
    cpu::{cache::CpuCache, linear::Linear, rows::CpuRows},
    fused::FusedMatrix,
    ops::{
        CpuOps, CpuWork, DecoderOps, Input, Loaded, Out, PassSpec, Residual, RowOps as _, RowPart,
        TowerOps as _,
    },
    states::States,
};

use super::{
    config::{Config, STATES},
    parts::{FeedForward, Norm, Tensors, fused, norm},
};

pub struct Decoder {
    ops: CpuOps,
    table: <CpuOps as DecoderOps>::Table,
    head: Linear,
    /// `max_target_positions × d_model`.
    positions: Vec<f32>,
    layers: Vec<TextLayer>,
    norm: Norm,
    heads: usize,
    width: usize,
    /// Keys and values of the tokens so far.
    own: CpuCache,
    /// Keys and values of the window.
    heard: CpuCache,
    buffers: Buffers,
}

struct TextLayer {
    norm: Norm,
    qkv: Linear,
    output: Linear,
    heard_norm: Norm,
    heard_query: Linear,
    /// Takes the encoder's states.
    heard_keys: Linear,
    heard_output: Linear,
    feed_forward: FeedForward,
}

#[derive(Default)]
struct Buffers {
    work: CpuWork,
    x: CpuRows,
    input: CpuRows,
    qkv: CpuRows,
    attended: CpuRows,
    hidden: CpuRows,
    active: CpuRows,
    sums: CpuRows,
}

impl Decoder {
    /// The tensors below `model.decoder`.
    pub fn load(ops: &CpuOps, config: &Config, tensors: &Tensors<'_>) -> Loaded<Self> {
        let (d, at) = (config.d_model, "model.decoder");
        let (heads, positions) = (config.decoder_attention_heads, config.max_target_positions);
        let matrix = |list: &FusedMatrix| ops.matrix(list, tensors);
        let layer = |index: usize| {
            let at = format!("{at}.layers.{index}");
            let [own, heard] = ["self_attn", "encoder_attn"].map(|part| format!("{at}.{part}"));
            Ok(TextLayer {
                norm: norm(tensors, &format!("{own}_layer_norm"), d)?,
                qkv: matrix(&fused(&own, &["q_proj", "k_proj", "v_proj"], d, d))?,
                output: matrix(&fused(&own, &["out_proj"], d, d))?,
                heard_norm: norm(tensors, &format!("{heard}_layer_norm"), d)?,
                heard_query: matrix(&fused(&heard, &["q_proj"], d, d))?,
                heard_keys: ops.tower_matrix(&fused(&heard, &["k_proj", "v_proj"], d, d), false, tensors)?,
                heard_output: matrix(&fused(&heard, &["out_proj"], d, d))?,
                feed_forward: FeedForward::load(tensors, &at, (d, config.decoder_ffn()), matrix)?,
            })
        };
        let name = format!("{at}.embed_tokens");
        let head = FusedMatrix { bias: false, ..fused(at, &["embed_tokens"], config.vocab_size, d) };
        let (table, head) = ops.embeddings(&format!("{name}.weight"), &head, true, tensors)?;
        let places = AttentionShape { heads, kv_heads: heads, head_dim: d / heads };
        let layers = (0..config.decoder_layers).map(layer).collect::<Loaded<Vec<_>>>()?;
        Ok(Self {
            table,
            head,
            positions: specreel_tensor::Weights::f32(
                tensors,
                &format!("{at}.embed_positions.weight"),
                &[positions, d],
            )?,
            norm: norm(tensors, &format!("{at}.layer_norm"), d)?,
            heads,
            width: d,
            own: ops.cache(layers.len(), places, positions),
            heard: ops.cache(layers.len(), places, STATES),
            layers,
            buffers: Buffers::default(),
            ops: ops.clone(),
        })
    }

    /// What rows of a pass with so many query heads have in common. Nothing is rotated: positions are added to the tokens.
    fn pass<'a>(&self, rows: usize, heads: usize, mask: &'a Mask) -> PassSpec<'a> {
        let head_dim = self.width / self.heads;
        let angles = rows * head_dim.div_ceil(2);
        PassSpec {
            first: 0,
            rows,
            layers: self.layers.len(),
            shape: AttentionShape { heads, kv_heads: self.heads, head_dim },
            cos: vec![1.0; angles],
            sin: vec![0.0; angles],
            mask,
            window: None,
            probe: None,
        }
    }

    /// Begin a window with the encoder's states.
    pub fn hear(&mut self, states: &CpuRows) -> Result<()> {
        // Rows without queries.
        let pass = self.pass(STATES, 0, &Mask::Causal);
        let Self { ops, layers, heard, buffers, .. } = self;
        let Buffers { work, input, qkv, .. } = buffers;
        heard.truncate(0);
        ops.begin(work, &pass, heard)?;
        for (index, layer) in layers.iter().enumerate() {
            for part in RowPart::each(STATES, ops.rows_at_once(self.width)) {
                ops.part(work, states, part, Out::before(&layer.heard_keys, input))?;
                ops.product(work, &layer.heard_keys, input, part, qkv)?;
            }
            ops.store(work, &pass, qkv, None, heard, index)?;
        }
        ops.finish(work, &pass, heard)?;
        self.restart();
        Ok(())
    }

    /// Begin another text of the same window.
    pub fn restart(&mut self) {
        self.own.truncate(0);
    }

    /// The logits of what follows each of some tokens, which follow those so far: `tokens × vocabulary`. Fails if there are more
    /// tokens than positions, or one that the model does not have.
    pub fn next(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        let (rows, from) = (ids.len(), self.own.len());
        let Some(positions) = self.positions.get(from * self.width..(from + rows) * self.width) else {
            specreel_tensor::bail!("{} tokens, but the model has fewer positions", from + rows);
        };
        let mut embedded = self.ops.embed(&self.table, ids)?.to_vec()?;
        embedded.iter_mut().zip(positions).for_each(|(value, position)| *value += position);
        let embedded = States::new(embedded, self.width)?;
        let own_pass = self.pass(rows, self.heads, &Mask::Causal);
        let mask = Mask::Paths { shared: STATES, paths: vec![Vec::new(); rows] };
        let heard_pass = self.pass(rows, self.heads, &mask);
        let Self { ops, table, layers, own, heard, buffers, .. } = self;
        let Buffers { work, x, input, qkv, attended, hidden, active, sums } = buffers;
        let all = RowPart::all(rows);
        ops.begin(work, &own_pass, own)?;
        ops.load(work, table, Input::States(&embedded), x)?;
        for (index, layer) in layers.iter().enumerate() {
            let add = (index > 0).then_some(&*sums);
            ops.norm(work, Residual { x, part: all, add }, &layer.norm, Out::before(&layer.qkv, input))?;
            ops.product(work, &layer.qkv, input, all, qkv)?;
            ops.store(work, &own_pass, qkv, None, own, index)?;
            let out = Out::before(&layer.output, attended);
            ops.attend(work, std::slice::from_ref(&own_pass), qkv, &|_| &*own, index, out)?;
            ops.product(work, &layer.output, attended, all, sums)?;

            let residual = Residual { x, part: all, add: Some(sums) };
            ops.norm(work, residual, &layer.heard_norm, Out::before(&layer.heard_query, input))?;
            ops.product(work, &layer.heard_query, input, all, qkv)?;
            let out = Out::before(&layer.heard_output, attended);
            ops.attend(work, std::slice::from_ref(&heard_pass), qkv, &|_| &*heard, index, out)?;
            ops.product(work, &layer.heard_output, attended, all, sums)?;

            let feed_forward = &layer.feed_forward;
            let residual = Residual { x, part: all, add: Some(sums) };
            ops.norm(work, residual, &feed_forward.norm, Out::before(&feed_forward.first, input))?;
            feed_forward.forward(ops, work, input, [hidden, active], rows, sums)?;
        }
        let residual = Residual { x, part: all, add: Some(sums) };
        ops.norm(work, residual, &self.norm, Out::before(&self.head, input))?;
        ops.finish(work, &own_pass, own)?;
        let states = ops.take(work, input)?;
        ops.logits(work, &self.head, &states)?.to_vec()
    }
}
