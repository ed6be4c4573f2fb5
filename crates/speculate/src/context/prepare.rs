//! From a target's prefill to the prefill of a drafter that sees part of the visual tokens.

use std::{ops::ControlFlow, sync::Arc};

use specreel_tensor::Result;

use super::{
    AtLayer, Attention, ContextNeeds, Density, Selection, Signals, embeddings, select, signals::likeness,
    stamps,
};
use crate::method::{Drafter, Placing, VisualContext};
use specreel_model::{
    decoder::{AttentionProbe, Decoder, Pass, Positions, Sequence, States, Taps, with_slice},
    draft_head::StateReader,
    family::{ModelError, Prompt, VideoLlm},
};

/// Rows of text whose attention is recorded in one pass.
const CHUNK: usize = 16;

/// Receives the progress of a prefill (rows done, rows in total); may stop it.
pub(super) type OnProgress<'a> = &'a mut dyn FnMut(usize, usize) -> ControlFlow<()>;

/// A target, its prompt and video.
pub struct Preparation<'a> {
    pub target: &'a VideoLlm,
    pub prompt: &'a Prompt,
    /// The target's visual embeddings.
    pub visual: Option<&'a States>,
    /// Time × rows × columns of the visual tokens.
    pub grid: [usize; 3],
}

impl Preparation<'_> {
    /// Compute the needed signals that are missing. `sequence` holds the prompt without its last token, before and
    /// afterwards. False if `progress` stopped the work.
    pub fn signals(
        &self,
        needs: ContextNeeds,
        sequence: &mut Sequence,
        signals: &mut Signals,
        progress: OnProgress<'_>,
    ) -> std::result::Result<bool, ModelError> {
        if needs.attention && signals.attention.is_none() {
            signals.attention = Some(self.attention(sequence)?);
        }
        if let Some(at) = needs.variation.filter(|at| signals.variation(*at).is_none()) {
            let Some(scores) = self.variation(at, progress)? else { return Ok(false) };
            signals.variations.push((at, scores));
        }
        self.embedded(needs, signals)?;
        Ok(true)
    }

    /// The drafter's share of the visual tokens, `grid` of them as time × rows × columns, and of the prompt's time stamps.
    pub fn select(&self, context: &VisualContext, grid: [usize; 3], signals: &Signals) -> Selection {
        let mut selection = select(context, grid, signals);
        if self.prompt.stamps.is_empty() {
            selection.dropped_stamps.clear();
        }
        selection
    }

    /// SpecVLM: feed the text after the video once more and record its attention, in all layers with full attention. Rows are
    /// computed to the same bits however they are fed, so the cache is the same afterwards.
    fn attention(&self, sequence: &mut Sequence) -> Result<Attention> {
        let (ids, spans, end) = (&self.prompt.ids, &self.prompt.visual, self.prompt.video_end());
        let config = sequence.decoder().config().clone();
        let layers = config.attention_layers();
        let mut by_head = vec![0f32; layers * config.kv_heads * spans.len()];
        sequence.truncate(end);
        let taps =
            Taps { probe: Some(AttentionProbe { spans: spans.clone(), by_head: true }), ..Taps::default() };
        for rows in ids[end..].chunks(CHUNK) {
            if let Some(stats) = sequence.feed(rows, &taps)?.attention {
                by_head.iter_mut().zip(stats.by_head).for_each(|(sum, w)| *sum += w);
            }
        }
        sequence.truncate(ids.len() - 1);
        sequence.mark();
        let weight = (layers * config.heads * (ids.len() - end)) as f32;
        Ok(Attention { by_head, weight, tokens: spans.len(), text: ids.len() - spans.len() })
    }

    /// Signals of the visual embeddings, which need no pass: those that are missing.
    fn embedded(&self, needs: ContextNeeds, signals: &mut Signals) -> Result<()> {
        let change = needs.change && signals.change.is_none();
        let density = needs.density && signals.density.is_none();
        if self.visual.is_none() || !(change || density) {
            return Ok(());
        }
        let (values, width) = self.embeddings()?;
        if change {
            signals.change = Some(embeddings::change(&values, width, self.grid));
        }
        if density {
            signals.density = Some(Density::of(&values, width, self.grid));
        }
        Ok(())
    }

    /// The embeddings of all visual tokens, rows of the second number; empty before the clip is encoded.
    pub(super) fn embeddings(&self) -> Result<(Vec<f32>, usize)> {
        let width = self.target.decoder().config().hidden;
        // Rows may carry embeddings that later layers add.
        let values = self.visual.map(|visual| visual.columns(0..width)?.to_vec()).transpose()?;
        Ok((values.unwrap_or_default(), width))
    }

    /// ParallelVLM: similarity to the text after the video, after some of the layers, minus the embeddings' similarity.
    fn variation(
        &self,
        at: AtLayer,
        progress: OnProgress<'_>,
    ) -> std::result::Result<Option<Vec<f32>>, ModelError> {
        let decoder = self.target.decoder();
        let layers = at.of(decoder.config().layers);
        let rows: Vec<usize> = (0..self.prompt.ids.len() - 1).collect();
        let embeddings = self.target.embed(self.prompt, self.visual, &rows)?;
        let mut sequence = Sequence::new(Arc::new(decoder.first_layers(layers)), rows.len());
        let positions = self.prompt.positions.select(&rows);
        let Some(states) = sequence.prefill_below(&embeddings, &positions, layers, progress)? else {
            return Ok(None);
        };
        Ok(Some(self.growth(&embeddings, &states)?))
    }

    /// How much each visual token's likeness to the text after the video grows from the embeddings to later states of the same
    /// rows. Text before the video cannot depend on it and is left out.
    pub fn growth(&self, embeddings: &States, states: &States) -> Result<Vec<f32>> {
        let width = self.target.decoder().config().hidden;
        // Rows may carry embeddings that later layers add.
        let [embeddings, states] = [embeddings, states].map(|rows| rows.columns(0..width));
        let visual = |row: usize| self.prompt.visual.contains(row);
        let text = |row: usize| row >= self.prompt.video_end();
        let before = with_slice(&embeddings?, |rows| likeness(rows, width, visual, text))?;
        let after = with_slice(&states?, |rows| likeness(rows, width, visual, text))?;
        Ok(after.iter().zip(&before).map(|(after, before)| after - before).collect())
    }

    /// The drafter's sequence where it is the target itself and its cache can be taken from the target's: early exit, and heads
    /// with a choice of their own. `None` if it needs a prefill of its own.
    pub fn shared(
        &self,
        drafter: &Drafter,
        selection: &Selection,
        sequence: &Sequence,
        room: usize,
    ) -> Option<Sequence> {
        if let Drafter::EarlyExit { depth } = *drafter {
            let layers = (sequence.decoder().config().layers as f64 * depth).round() as usize;
            return Some(sequence.first_layers(layers));
        }
        let by_head = selection.by_head.as_ref()?;
        // Every head keeps as many tokens and drops the same stamps, those that no head needs: rows stay as many in all of them.
        let slots: Vec<Vec<usize>> = by_head
            .iter()
            .map(|kept| self.prompt.visual.rows_keeping(kept, sequence.len()))
            .map(|rows| stamps::without(rows, self.prompt, &selection.dropped_stamps))
            .collect();
        let heads = sequence.decoder().config().kv_heads;
        let len = slots.first().map_or(0, Vec::len);
        Some(sequence.gather(len, len + room, |layer, head| &slots[layer * heads + head]))
    }

    /// The prompt's rows that a drafter reads, its last token left out.
    pub fn rows(&self, selection: &Selection) -> Vec<usize> {
        let last = self.prompt.ids.len() - 1;
        match &selection.kept {
            None => (0..last).collect(),
            Some(kept) => {
                let rows = self.prompt.visual.rows_keeping(kept, last);
                stamps::without(rows, self.prompt, &selection.dropped_stamps)
            }
        }
    }
}

/// The number of layers of a share of a model's depth, at least one.
pub fn layers_of(model: &VideoLlm, depth: f64) -> usize {
    let layers = model.decoder().config().layers;
    ((layers as f64 * depth).round() as usize).clamp(1, layers)
}

/// What a model reads of a prompt.
#[derive(Clone, Copy)]
pub struct PrefillInput<'a> {
    pub model: &'a VideoLlm,
    /// Its decoder, or another one of its sizes: the model's weights in fewer bits.
    pub decoder: &'a Arc<Decoder>,
    pub prompt: &'a Prompt,
    /// The model's own visual embeddings.
    pub visual: Option<&'a States>,
    /// The rows of the prompt that it reads.
    pub rows: &'a [usize],
    /// Positions of these rows.
    pub placing: Placing,
    /// Cache slots that are left for what follows.
    pub room: usize,
}

impl<'a> PrefillInput<'a> {
    /// These rows, at their own positions.
    pub fn new(
        model: &'a VideoLlm,
        prompt: &'a Prompt,
        visual: Option<&'a States>,
        rows: &'a [usize],
        room: usize,
    ) -> Self {
        Self { model, decoder: model.decoder(), prompt, visual, rows, placing: Placing::Original, room }
    }

    /// Read it. `states` receives each chunk's first row number and final states, and `reader` the input of a draft head
    /// ([`DraftHead::reads_all_rows`](specreel_model::draft_head::DraftHead::reads_all_rows)), if there is one. `None` if `progress`
    /// stopped the work.
    pub fn prefill(
        &self,
        mut reader: Option<&mut StateReader<'_>>,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: OnProgress<'_>,
    ) -> std::result::Result<Option<Sequence>, ModelError> {
        let Self { model, decoder, prompt, visual, rows, placing, room } = *self;
        let embeddings = model.embed_with(decoder, prompt, visual, rows)?;
        let mut sequence = Sequence::new(decoder.clone(), rows.len() + room);
        let taps = reader.as_ref().map_or_else(Taps::default, |reader| reader.taps());
        let mut passes = |first: usize, pass: &Pass| {
            with_slice(&pass.states, |rows| states(first, rows))?;
            reader.as_mut().map_or(Ok(()), |reader| reader.read(pass, decoder))
        };
        let (positions, next) = placed(prompt, rows, placing);
        let whole = sequence.prefill_tapped(&embeddings, &positions, next, &taps, &mut passes, progress)?;
        Ok(whole.then_some(sequence))
    }
}

/// The positions of some rows of a prompt, and of the token after the prompt's last but one.
pub(super) fn placed(prompt: &Prompt, rows: &[usize], placing: Placing) -> (Positions, u32) {
    match placing {
        Placing::Original => (prompt.positions.select(rows), prompt.next - 1),
        Placing::Compact => (Positions::text(0, rows.len()), rows.len() as u32),
    }
}
