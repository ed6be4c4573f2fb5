//! What the decoder computes, on any device.

use std::sync::Arc;

use super::{
    Cache, Decoder, DraftVocabulary, Mask, Matrix, Pass, PassInput, PassRequest, Positions, Taps, Workspace,
    buffers::PassBuffers,
    cache::HybridCache,
    check_pass,
    dispatch::{DeviceDecoder, SequenceCache},
    layer::{DecoderLayer, Mixer},
    layer_inputs::LayerInputs,
    parts,
    rope::Rope,
    run::{CheckedPass, Entering},
    shortlist::{self, ShortRows},
};
use crate::config::TextConfig;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError, Error, Result, Weights,
    attention::AttentionShape,
    fused::FusedMatrix,
    logits::Logits,
    ops::{Ability, DecoderOps, HeldWeights, Input, Loaded, Norm, Out, PassSpec, RowPart},
    states::{States, with_slice},
    store::check_maps,
};

pub(super) struct OnDevice<D: DecoderOps> {
    pub(super) ops: D,
    pub(super) config: TextConfig,
    /// `vocab × hidden`: rows are looked up, not multiplied.
    pub(super) table: Arc<D::Table>,
    /// A draft head's projection of its input rows.
    projection: Option<Arc<D::Matrix>>,
    pub(super) layers: Vec<Arc<DecoderLayer<D>>>,
    pub(super) norm: Arc<Norm<D::Vector>>,
    pub(super) head: Arc<D::Matrix>,
    /// The ids of the head's rows, if they are not all.
    vocabulary: Option<Arc<DraftVocabulary>>,
    pub(super) rope: Rope,
    /// Of layers that attend within a window.
    pub(super) sliding_rope: Option<Rope>,
    /// What is added in each layer, of models that have such embeddings.
    pub(super) layer_inputs: Option<Arc<LayerInputs<D>>>,
    /// The factor of embeddings, also for a draft head that shares them.
    pub(super) embedding_scale: f32,
    /// The bound of logits, if they have one.
    logit_cap: Option<f32>,
}

impl<D: DecoderOps> Clone for OnDevice<D> {
    /// The same weights, shared.
    fn clone(&self) -> Self {
        Self {
            ops: self.ops.clone(),
            config: self.config.clone(),
            table: self.table.clone(),
            projection: self.projection.clone(),
            layers: self.layers.clone(),
            norm: self.norm.clone(),
            head: self.head.clone(),
            vocabulary: self.vocabulary.clone(),
            rope: self.rope.clone(),
            sliding_rope: self.sliding_rope.clone(),
            layer_inputs: self.layer_inputs.clone(),
            embedding_scale: self.embedding_scale,
            logit_cap: self.logit_cap,
        }
    }
}

/// The only one of some passes.
fn only(mut passes: Vec<Pass>) -> Result<Pass> {
    match (passes.pop(), passes.is_empty()) {
        (Some(pass), true) => Ok(pass),
        _ => specreel_tensor::bail!("a pass has another number of results"),
    }
}

/// Check that a device computes a model's attention heads.
fn check_heads<D: DecoderOps>(ops: &D, config: &TextConfig) -> Loaded<()> {
    let width = config.head_dim;
    let problem =
        format!("attention heads of {width} values: GPUs compute multiples of 8 up to 256, --device cpu any");
    let key = "model.layers.0.self_attn.k_proj.weight";
    if config.gemma.is_some() && !ops.computes(Ability::Windows) {
        let problem = "attention within a window, which is computed on the CPU only: --device cpu";
        return Err(CheckpointError::tensor(key, problem));
    }
    if ops.computes(Ability::Heads(width)) { Ok(()) } else { Err(CheckpointError::tensor(key, &problem)) }
}

impl<D: DecoderOps> OnDevice<D> {
    /// Load from a checkpoint, matrix by matrix. See [`super::Decoder::load`].
    pub fn load(
        ops: D,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Loaded<Self> {
        check_heads(&ops, config)?;
        let c = config;
        let total = c.layers + 1;
        progress(0, total);
        let mut layers = Vec::with_capacity(c.layers);
        for index in 0..c.layers {
            layers.push(Arc::new(DecoderLayer::load(&ops, checkpoint, config, index)?));
            progress(index + 1, total);
        }
        let (table, head) = ops.embeddings(parts::TABLE, &parts::head(c), c.tied, checkpoint)?;
        progress(total, total);
        Ok(Self {
            table: Arc::new(table),
            projection: None,
            layers,
            norm: Arc::new(parts::norm(&ops, parts::NORM, c, checkpoint)?),
            head: Arc::new(head),
            vocabulary: None,
            rope: Rope::new(c),
            sliding_rope: Rope::sliding(c),
            layer_inputs: LayerInputs::load(&ops, checkpoint, c)?.map(Arc::new),
            embedding_scale: c.embedding_scale(),
            logit_cap: c.gemma.as_ref().and_then(|gemma| gemma.logit_cap),
            config: c.clone(),
            ops,
        })
    }

    /// The same model with the layers of a checkpoint, as `around` has it.
    fn with_layers(&self, checkpoint: &Checkpoint, config: &TextConfig) -> Loaded<Self> {
        let layers = (0..config.layers).map(|index| DecoderLayer::load(&self.ops, checkpoint, config, index));
        self.around(layers.collect::<Loaded<_>>()?, checkpoint, config)
    }

    /// The same model with layers of its own, and their norm and positions.
    fn around(
        &self,
        layers: Vec<DecoderLayer<D>>,
        checkpoint: &Checkpoint,
        config: &TextConfig,
    ) -> Loaded<Self> {
        check_heads(&self.ops, config)?;
        Ok(Self {
            projection: None,
            layers: layers.into_iter().map(Arc::new).collect(),
            norm: Arc::new(parts::norm(&self.ops, parts::NORM, config, checkpoint)?),
            rope: Rope::new(config),
            sliding_rope: Rope::sliding(config),
            layer_inputs: None,
            config: config.clone(),
            ..self.clone()
        })
    }

    /// Values of the queries, keys and values before the state of a row that enters, if they enter with it.
    pub(super) fn entered(&self) -> Option<usize> {
        let c = &self.config;
        let enters = self.layers.first().is_some_and(|layer| layer.entry.is_none());
        enters.then_some((c.heads + 2 * c.kv_heads) * c.head_dim)
    }

    pub(super) fn shape(&self) -> AttentionShape {
        let c = &self.config;
        AttentionShape { heads: c.heads, kv_heads: c.kv_heads, head_dim: c.head_dim }
    }

    /// The shape of attention within a window, if the model has it.
    pub(super) fn sliding_shape(&self) -> Option<AttentionShape> {
        let gemma = self.config.gemma.as_ref()?;
        Some(AttentionShape { heads: self.config.heads, kv_heads: gemma.kv_heads, head_dim: gemma.head_dim })
    }

    pub(super) fn matrices(&self) -> impl Iterator<Item = &D::Matrix> {
        let inputs = self.layer_inputs.iter().map(|inputs| &inputs.projection);
        self.layers.iter().flat_map(|layer| layer.matrices()).chain(inputs).chain([&*self.head])
    }

    /// Embeddings as the layers take them.
    fn scaled(&self, embeddings: States) -> Result<States> {
        if self.embedding_scale == 1.0 {
            return Ok(embeddings);
        }
        let width = embeddings.shape().1;
        let scaled = |values: &[f32]| values.iter().map(|value| value * self.embedding_scale).collect();
        States::new(with_slice(&embeddings, scaled)?, width)
    }

    /// Check that a request's inputs agree, and plan its pass. Returns the DeepStack levels of its rows as well.
    fn check<'a>(&self, request: PassRequest<'a>) -> Result<(usize, CheckedPass<'a, D>)> {
        let PassRequest { input, positions, mask, cache, taps } = request;
        let c = &self.config;
        let Some(cache) = cache.on_mut::<HybridCache<D>>() else {
            specreel_tensor::bail!("the decoder and the cache are on different devices")
        };
        if let Input::Ids(ids) = input {
            self.check_ids(ids)?;
        }
        let first = taps.layers.as_ref().map_or(0, |layers| layers.start);
        let width = match (self.entered(), self.layer_inputs.as_deref(), input) {
            (Some(values), ..) => Some(values + c.hidden),
            (None, Some(inputs), Input::States(_)) => Some(c.hidden + inputs.per_layer.values()),
            _ => None,
        };
        let PassInput { rows, levels } = check_pass(input, positions, mask, cache.len(), first, c, width)?;
        let recurring = cache.plan(rows, mask)?;
        Ok((levels, CheckedPass { rows, positions, mask, recurring, cache, taps }))
    }

    fn check_ids(&self, ids: &[u32]) -> Result<()> {
        match ids.iter().find(|&&id| id as usize >= self.config.vocab) {
            Some(id) => {
                specreel_tensor::bail!("token id {id} is outside of the vocabulary of {}", self.config.vocab)
            }
            None => Ok(()),
        }
    }
}

impl<D: DecoderOps> DeviceDecoder for OnDevice<D> {
    fn first_layers(&self, layers: usize) -> Decoder {
        let mut first = self.clone();
        first.layers.truncate(layers.max(1));
        first.config.layers = first.layers.len();
        first.config.deepstack = first.config.deepstack.min(first.layers.len());
        Decoder::new(first)
    }

    fn with_layer(&self, checkpoint: &Checkpoint, config: &TextConfig) -> Loaded<Decoder> {
        let projection = Some(Arc::new(self.ops.matrix(&parts::projection(config), checkpoint)?));
        let layer = DecoderLayer::load(&self.ops, checkpoint, config, 0)?;
        Ok(Decoder::new(Self { projection, ..self.around(vec![layer], checkpoint, config)? }))
    }

    fn with_inner_layers(&self, checkpoint: &Checkpoint, config: &TextConfig) -> Loaded<Decoder> {
        self.with_layers(checkpoint, config).map(Decoder::new)
    }

    fn with_entered_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        outputs: Option<usize>,
    ) -> Loaded<Decoder> {
        let head = match outputs {
            None => self.head.clone(),
            Some(rows) => Arc::new(self.ops.matrix(&parts::own_head(config, rows), checkpoint)?),
        };
        let layer = DecoderLayer::load_entered(&self.ops, checkpoint, config, 0)?;
        Ok(Decoder::new(Self { head, ..self.around(vec![layer], checkpoint, config)? }))
    }

    fn with_assisting_layers(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        head: &FusedMatrix,
    ) -> Loaded<Decoder> {
        let head = Arc::new(self.ops.matrix(head, checkpoint)?);
        Ok(Decoder::new(Self { head, logit_cap: None, ..self.with_layers(checkpoint, config)? }))
    }

    fn vocabulary(&self) -> Option<&DraftVocabulary> {
        self.vocabulary.as_deref()
    }

    fn short(&self, checkpoint: &Checkpoint, vocabulary: DraftVocabulary) -> Loaded<Decoder> {
        let rows = ShortRows::new(checkpoint, self.config.vocab, vocabulary.ids());
        let head = self.ops.matrix(&shortlist::head(&self.config, vocabulary.len()), &rows)?;
        let (head, vocabulary) = (Arc::new(head), Some(Arc::new(vocabulary)));
        Ok(Decoder::new(Self { head, vocabulary, ..self.clone() }))
    }

    fn matrix(&self, list: &FusedMatrix, weights: &dyn Weights) -> Loaded<Matrix> {
        Ok(Matrix::new::<D>(list.inputs, self.ops.matrix(list, weights)?))
    }

    fn config(&self) -> &TextConfig {
        &self.config
    }

    fn is_batch_invariant(&self) -> bool {
        self.ops.is_batch_invariant()
    }

    fn chunk(&self) -> usize {
        self.ops.chunk()
    }

    fn pass_bytes(&self, rows: usize) -> usize {
        let layers: usize = self.layers.iter().map(|layer| layer.pass_bytes(rows)).sum();
        let inputs = self.layer_inputs.as_ref().map_or(0, |inputs| inputs.projection.bytes());
        layers + inputs + self.head.bytes()
    }

    fn bytes(&self) -> usize {
        let added = self.layer_inputs.as_ref().map_or(0, |inputs| inputs.table.bytes());
        self.matrices().map(HeldWeights::bytes).sum::<usize>() + self.table.bytes() + added
    }

    fn mapped_bytes(&self) -> usize {
        self.matrices().map(HeldWeights::mapped_bytes).sum()
    }

    fn projection_bytes(&self) -> usize {
        self.projection.as_deref().map_or(0, HeldWeights::bytes)
    }

    fn cache_bytes(&self, slots: usize) -> usize {
        let sliding = self.sliding_shape().map_or(0, |shape| self.ops.slot_bytes(shape));
        let all = self.ops.slot_bytes(self.shape()) * self.config.attention_layers();
        (all + sliding * self.config.sliding_layers()) * slots
    }

    fn cache(&self, capacity: usize) -> Cache {
        let layers = self.config.attention_layers();
        let cache = HybridCache::<D>::new(self.ops.cache(layers, self.shape(), capacity));
        let cache = match self.sliding_shape() {
            Some(shape) => cache.with_sliding(self.ops.cache(self.config.sliding_layers(), shape, capacity)),
            None => cache,
        };
        Cache::new(match self.config.linear {
            None => cache,
            Some(shape) => cache.with_states(self.ops.recurrent(self.config.layers - layers, shape)),
        })
    }

    fn embed(&self, ids: &[u32]) -> Result<States> {
        self.check_ids(ids)?;
        self.scaled(self.ops.embed(&self.table, ids)?)
    }

    fn prompt_rows(&self, embeddings: &States, ids: Option<&[u32]>) -> Result<States> {
        let Some(inputs) = &self.layer_inputs else {
            return embeddings.widened(self.config.input_width());
        };
        let mut workspace = Workspace::default();
        let PassBuffers { work, x, normed, mixed, added, .. } = workspace.of::<D>()?;
        self.ops.load(work, &self.table, Input::States(embeddings), x)?;
        let rows = embeddings.rows();
        let visual = vec![inputs.per_layer.visual; if ids.is_some() { 0 } else { rows }];
        inputs.write(&self.ops, (work, &self.table), ids.unwrap_or(&visual), (x, normed, mixed), added)?;
        let added = self.ops.take(work, added)?;
        self.beside(embeddings, &added)
    }

    fn beside(&self, a: &States, b: &States) -> Result<States> {
        self.ops.beside(a, b)
    }

    fn fuse(&self, ids: &[u32], before: &States, workspace: &mut Workspace) -> Result<States> {
        let Some(projection) = &self.projection else {
            specreel_tensor::bail!("the model is not a draft head");
        };
        let both = self.beside(&self.embed_in(ids, workspace)?, before)?;
        self.ops.project(&mut workspace.of::<D>()?.work, projection, &both)
    }

    fn embed_in(&self, ids: &[u32], workspace: &mut Workspace) -> Result<States> {
        self.check_ids(ids)?;
        self.scaled(self.ops.embed_in(&mut workspace.of::<D>()?.work, &self.table, ids)?)
    }

    fn normed(&self, rows: &States, weight: &[f32], eps: f32, workspace: &mut Workspace) -> Result<States> {
        self.ops.normed(&mut workspace.of::<D>()?.work, rows, weight, eps)
    }

    fn project(&self, matrix: &Matrix, rows: &States, workspace: &mut Workspace) -> Result<States> {
        self.ops.project(&mut workspace.of::<D>()?.work, matrix.on::<D>(rows)?, rows)
    }

    fn joins(&self) -> bool {
        let apart = self
            .layers
            .iter()
            .any(|layer| layer.convolutions.is_some() || matches!(layer.mixer, Mixer::Linear { .. }));
        self.ops.computes(Ability::Together) && !apart && self.entered().is_none()
    }

    fn pass(&self, request: PassRequest<'_>, workspace: &mut Workspace) -> Result<Pass> {
        let input = request.input;
        let (levels, pass) = self.check(request)?;
        self.run(Entering { input, levels }, &mut [pass], workspace.of::<D>()?).and_then(only)
    }

    fn passes(&self, requests: Vec<PassRequest<'_>>, workspace: &mut Workspace) -> Vec<Result<Pass>> {
        let mut ids = Vec::new();
        let mut passes = Vec::with_capacity(requests.len());
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            let checked = match request.input {
                Input::Ids(own) => self.check(request).map(|(_, pass)| (own, pass)),
                Input::States(_) => Err(Error::Message("rows that are no text in a pass with others".into())),
            };
            results.push(match checked {
                Ok((own, pass)) => {
                    ids.extend_from_slice(own);
                    passes.push(pass);
                    None
                }
                Err(error) => Some(error),
            });
        }
        let entering = Entering { input: Input::Ids(&ids), levels: 0 };
        let done = match passes.is_empty() {
            true => Ok(Vec::new()),
            false => workspace.of::<D>().and_then(|buffers| self.run(entering, &mut passes, buffers)),
        };
        let failed = done.as_ref().err().map(ToString::to_string);
        let mut done = done.unwrap_or_default().into_iter();
        let result = |refused: Option<Error>| match refused {
            Some(error) => Err(error),
            None => done.next().ok_or_else(|| Error::Message(failed.clone().unwrap_or_default())),
        };
        results.into_iter().map(result).collect()
    }

    fn assist(
        &self,
        rows: &States,
        position: u32,
        cache: &mut Cache,
        workspace: &mut Workspace,
    ) -> Result<Pass> {
        let Some(cache) = cache.on_mut::<HybridCache<D>>() else {
            specreel_tensor::bail!("the assistant and the cache are on different devices")
        };
        let (before, (count, width)) = (cache.len(), rows.shape());
        if self.config.assists.is_none() || before == 0 || width != self.config.hidden {
            specreel_tensor::bail!(
                "{count} rows of {width} values over {before} slots for an assistant of width {}",
                self.config.hidden
            );
        }
        let axis = vec![position; count];
        let positions = Positions { axes: [axis.clone(), axis.clone(), axis] };
        let mask = Mask::Paths { shared: before, paths: vec![Vec::new(); count] };
        let input = Input::States(rows);
        let taps = Taps::default();
        let pass = CheckedPass {
            rows: count,
            positions: &positions,
            mask: &mask,
            recurring: None,
            cache: &mut *cache,
            taps: &taps,
        };
        let entering = Entering { input, levels: 0 };
        let pass = self.run(entering, &mut [pass], workspace.of::<D>()?).and_then(only);
        // The rows have no keys and values: nothing was written to their slots.
        cache.truncate(before);
        pass
    }

    fn inject(
        &self,
        rows: &States,
        positions: &Positions,
        cache: &mut Cache,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let (c, ops) = (&self.config, &self.ops);
        let Some(cache) = cache.on_mut::<HybridCache<D>>() else {
            specreel_tensor::bail!("the decoder and the cache are on different devices")
        };
        check_pass(Input::States(rows), positions, &Mask::Causal, cache.len(), 0, c, None)?;
        let (cos, sin) = self.rope.tables(positions);
        let (count, layers) = (rows.rows(), c.unbounded_layers());
        let mask = &Mask::Causal;
        let shape = self.shape();
        let pass =
            PassSpec { first: 0, rows: count, layers, shape, cos, sin, mask, window: None, probe: None };
        let PassBuffers { work, x, normed, qkv, .. } = workspace.of::<D>()?;
        ops.begin(work, &pass, &mut cache.attention)?;
        ops.load(work, &self.table, Input::States(rows), x)?;
        for layer in &self.layers {
            let (Some((_, matrix)), Mixer::Attention { picked: None, number, .. }) =
                (&layer.entry, &layer.mixer)
            else {
                specreel_tensor::bail!("keys and values cannot be injected into layers of this form");
            };
            ops.part(work, x, RowPart::all(count), Out::before(matrix, normed))?;
            ops.product(work, matrix, normed, RowPart::all(count), qkv)?;
            ops.store(work, &pass, qkv, layer.head_norms(c.norm_eps), &mut cache.attention, *number)?;
        }
        ops.finish(work, &pass, &mut cache.attention)?;
        Ok(())
    }

    fn synchronize(&self, workspace: &mut Workspace) -> Result<()> {
        self.ops.synchronize(&mut workspace.of::<D>()?.work)
    }

    fn logits(&self, states: &States, workspace: &mut Workspace) -> Result<Logits> {
        let logits = self.ops.logits(&mut workspace.of::<D>()?.work, &self.head, states)?;
        check_maps()?;
        match self.logit_cap {
            Some(cap) => logits.capped(cap),
            None => Ok(logits),
        }
    }
}
