//! The target as a teacher: it captions a clip, and its states are recorded.

use std::path::Path;

use super::{
    Options, TrainError,
    clips::Pixels,
    sample::{Break, Sample},
};
use specreel_engine::clip_facts;
use specreel_model::{
    decoder::{Cache, Input, LogitNeeds, Mask, Pass, Positions, States, Taps, Workspace, with_slice},
    draft_head::{Recipe, VisualRows, tapped},
    family::{ModelError, VideoLlm},
};
use specreel_speculate::context::layers_of;
use specreel_tensor::ComputeDevice;

/// Rows of a prompt read in one pass.
const CHUNK: usize = 128;

pub struct Teacher {
    model: VideoLlm,
    cache: Cache,
    workspace: Workspace,
}

impl Teacher {
    pub fn load(dir: &Path, device: &ComputeDevice) -> Result<Self, ModelError> {
        let model = VideoLlm::load_on(dir, device, &mut |_, _| {})?;
        let cache = model.decoder().cache(512);
        Ok(Self { model, cache, workspace: Workspace::default() })
    }

    pub fn model(&self) -> &VideoLlm {
        &self.model
    }

    /// Caption a clip greedily. `None` if a state is not finite.
    pub fn caption(&mut self, clip: &Pixels, options: &Options) -> Result<Option<Sample>, TrainError> {
        let (model, decoder) = (&self.model, self.model.decoder().clone());
        let grid = model.processor().visual_grid(clip.patches.grid).map_err(ModelError::from)?;
        let prompt = model.prompt(&options.prompt, &clip_facts(grid, &clip.plan))?;
        let going = &mut |_, _| std::ops::ControlFlow::Continue(());
        let embeddings = model.encode(&clip.patches, going)?;
        let rows: Vec<usize> = (0..prompt.ids.len()).collect();
        let input = model.embed(&prompt, Some(&embeddings), &rows)?;
        let middle = layers_of(model, 0.5) - 1;
        let layers = options.target_layers(decoder.config());
        let reads_layers = !layers.is_empty();
        let is_middle = !reads_layers && options.visual_rows == VisualRows::Middle;
        let taps = Taps { after_layers: if is_middle { vec![middle] } else { layers }, ..Taps::default() };
        let width = decoder.config().hidden;
        let visual: Vec<usize> = prompt.visual.rows().collect();
        let mut sample = Sample { visual_positions: prompt.positions.select(&visual), ..Sample::default() };
        if options.recipe == Recipe::Eagle3 {
            with_slice(&input.columns(0..width)?, |values| sample.embeddings.extend_from_slice(values))?;
        }
        if !reads_layers && options.visual_rows == VisualRows::Embeddings {
            // The head reads the input of the first layer, without later additions.
            with_slice(&embeddings.columns(0..width)?, |values| sample.visual.extend_from_slice(values))?;
        }
        if reads_layers {
            sample.context_positions = prompt.positions.clone();
        }
        self.cache.truncate(0);
        let mut last: Option<States> = None;
        for chunk in rows.chunks(CHUNK) {
            let (from, n) = (chunk[0], chunk.len());
            let at = prompt.positions.slice(from..from + n);
            let pass = self.pass(&input.narrow(from, n)?, &at, &taps)?;
            with_slice(&pass.states, |states| {
                for (row, state) in (from..).zip(states.chunks_exact(width)) {
                    if prompt.is_text(row) {
                        sample.states.extend_from_slice(state);
                    } else if row + 1 < rows.len() && prompt.is_text(row + 1) {
                        let visual = prompt.visual.tokens_before(row + 1);
                        sample.breaks.push(Break { text: sample.states.len() / width, visual });
                        sample.before_breaks.extend_from_slice(state);
                    }
                }
            })?;
            if reads_layers {
                with_slice(&tapped(&pass, &decoder)?, |states| sample.context.extend_from_slice(states))?;
            } else if let Some(states) = pass.after_layers.first() {
                with_slice(states, |states| {
                    let states = (from..).zip(states.chunks_exact(width));
                    for (_, state) in states.filter(|(row, _)| prompt.visual.contains(*row)) {
                        sample.visual.extend_from_slice(state);
                    }
                })?;
            }
            last = Some(pass.states.narrow(n - 1, 1)?);
        }
        let text: Vec<usize> = prompt.text_rows().collect();
        sample.ids = text.iter().map(|&row| prompt.ids[row]).collect();
        sample.positions = prompt.positions.select(&text);
        let first = sample.ids.len() - 1;

        let (vocab, ends) = (self.model.tokenizer().vocabulary(), self.model.tokenizer().end_ids().to_vec());
        for position in (prompt.next..).take(options.max_new_tokens) {
            let Some(state) = &last else { break };
            let logits = decoder.logits(state, &mut self.workspace)?;
            let needs = LogitNeeds { vocab, ..LogitNeeds::default() };
            let id = logits.read(&needs, |rows| rows[0].argmax())?;
            if ends.contains(&id) {
                break;
            }
            let at = Positions::text(position, 1);
            let taps = if reads_layers { taps.clone() } else { Taps::default() };
            let pass = self.pass(&[id][..], &at, &taps)?;
            with_slice(&pass.states, |state| sample.states.extend_from_slice(state))?;
            if reads_layers {
                with_slice(&tapped(&pass, &decoder)?, |states| sample.context.extend_from_slice(states))?;
                sample.context_positions.axes.iter_mut().for_each(|axis| axis.push(position));
            }
            sample.ids.push(id);
            sample.positions.axes.iter_mut().for_each(|axis| axis.push(position));
            last = Some(pass.states);
        }
        sample.answer = first..sample.ids.len();
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let parts =
            [&sample.states, &sample.visual, &sample.before_breaks, &sample.embeddings, &sample.context];
        let all_finite = parts.into_iter().all(|values| finite(values));
        Ok(all_finite.then_some(sample))
    }

    fn pass<'a>(
        &mut self,
        input: impl Into<Input<'a>>,
        at: &Positions,
        taps: &Taps,
    ) -> Result<Pass, TrainError> {
        let decoder = self.model.decoder();
        Ok(decoder.forward(input, at, &Mask::Causal, &mut self.cache, taps, &mut self.workspace)?)
    }
}
