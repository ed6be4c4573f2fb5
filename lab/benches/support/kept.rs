//! A clip that both models have read once, from which any number of generations start.

use std::{cell::RefCell, ops::ControlFlow, path::Path};

use specreel_model::{
    decoder::Sequence,
    family::{Prompt, VideoLlm},
};
use specreel_record::Verdict;
use specreel_speculate::{
    CustomRule, GenerationConfig, GenerationInputs, Hooks, Method, Sampler, VisualContext, VisualStates,
    accept::Row,
    context::{self, PrefillInput, Preparation, Signals},
    generate_with,
};
use specreel_tensor::WeightType;

use super::{clip::Clip, target_copy::TargetCopy};

/// What went wrong.
pub type Problem = Box<dyn std::error::Error>;

/// A rule that knows the text before the drafts.
pub type TextRule<'a> = dyn Fn(&[u32], &[Row]) -> Vec<Option<Verdict>> + 'a;

pub struct Pair {
    pub target: VideoLlm,
    pub drafter: VideoLlm,
}

impl Pair {
    pub fn load(target: &Path, drafter: &Path) -> Result<Self, Problem> {
        let load = |dir| VideoLlm::load(dir, WeightType::Q8_0, &mut |_, _| {});
        let pair = Self { target: load(target)?, drafter: load(drafter)? };
        pair.target.tokenizer().same_vocabulary(pair.drafter.tokenizer())?;
        Ok(pair)
    }

    /// Let both read a clip; the drafter sees what `context` shows it.
    pub fn read(
        &self,
        clip: &Clip,
        prompt: &str,
        context: &VisualContext,
        room: usize,
    ) -> Result<Kept<'_>, Problem> {
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let target = &self.target;
        let prompt = target.prompt(prompt, &clip.facts)?;
        let seen = target.encode(&clip.patches, &mut |_, _| ControlFlow::Continue(()))?;
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
        let width = target.decoder().config().hidden;
        let mut states = Vec::new();
        let mut keep = |first: usize, chunk: &[f32]| {
            let rows = (first..).zip(chunk.chunks_exact(width));
            rows.filter(|(row, _)| prompt.visual.contains(*row))
                .for_each(|(_, s)| states.extend_from_slice(s));
        };
        let input = PrefillInput::new(target, &prompt, Some(&seen), &rows, room);
        let sequence = input.prefill(None, &mut keep, go_on)?.ok_or("the target's prefill was stopped")?;

        let embeddings = target.embed(&prompt, Some(&seen), &rows)?;
        let positions = prompt.positions.select(&rows);
        let layers = target.decoder().config().layers;
        let before = Sequence::new(target.decoder().clone(), rows.len())
            .prefill_below(&embeddings, &positions, layers, go_on)?
            .ok_or("the target's prefill was stopped")?
            .to_vec()?;
        let visual = prompt.visual.ranges().flat_map(|rows| &before[rows.start * width..rows.end * width]);
        let before: Vec<f32> = visual.copied().collect();

        let grid = [clip.facts.grid.t, clip.facts.grid.h, clip.facts.grid.w];
        let preparation = Preparation { target, prompt: &prompt, visual: Some(&seen), grid };
        let share = preparation.rows(&context::select(context, grid, &Signals::default()));
        let own = self.drafter.encode(&clip.patches, &mut |_, _| ControlFlow::Continue(()))?;
        let input = PrefillInput {
            placing: context.placing(),
            ..PrefillInput::new(&self.drafter, &prompt, Some(&own), &share, room)
        };
        let drafter =
            input.prefill(None, &mut |_, _| {}, go_on)?.ok_or("the drafter's prefill was stopped")?;
        Ok(Kept {
            pair: self,
            visual: VisualStates::new(&states, width),
            visual_before: VisualStates::new(&before, width),
            target: sequence,
            drafter,
            prompt,
        })
    }
}

/// A clip and a prompt that both models have read.
pub struct Kept<'a> {
    pair: &'a Pair,
    prompt: Prompt,
    target: Sequence,
    drafter: Sequence,
    /// The target's final states at the visual tokens.
    pub visual: VisualStates,
    /// The same before the norm.
    pub visual_before: VisualStates,
}

/// What a generation wrote.
#[derive(Default)]
pub struct Written {
    /// The tokens, without the end.
    pub ids: Vec<u32>,
    /// What the target wanted in the place of each.
    pub wanted: Vec<u32>,
    /// Which of them a rule let pass against the target's wish.
    pub loosened: Vec<bool>,
    pub steps: usize,
    pub accepted: usize,
}

impl Kept<'_> {
    /// Generate greedily under a method, `rule` judging in place of its acceptance where there is one.
    pub fn write(
        &mut self,
        method: &Method,
        rule: Option<&TextRule<'_>>,
        limit: usize,
    ) -> Result<Written, Problem> {
        let tokenizer = self.pair.target.tokenizer();
        let (target_len, drafter_len) = (self.target.len(), self.drafter.len());
        let text = RefCell::new(Vec::new());
        let own = |rows: &[Row]| rule.map_or_else(Vec::new, |rule| rule(&text.borrow(), rows));
        let own: &CustomRule<'_> = &own;
        let rules = GenerationConfig {
            ends: tokenizer.end_ids(),
            special: tokenizer.special_ids(),
            protected: &|id| tokenizer.is_special(id),
            ..GenerationConfig::new(method, Sampler::GREEDY, limit, tokenizer.vocabulary())
        };
        let parts = GenerationInputs {
            target: &mut self.target,
            drafter: Some(&mut self.drafter),
            head: None,
            visual: &self.visual,
            spans: self.prompt.visual.clone(),
            prompt: &self.prompt.ids,
            reserves: vec![],
            prefetched: None,
        };
        let mut written = Written::default();
        let hooks = Hooks { rule: rule.is_some().then_some(own), ..Hooks::default() };
        let finished = generate_with(rules, parts, hooks, &mut |step| {
            written.steps += 1;
            written.accepted += step.accepted;
            for token in &step.tokens {
                text.borrow_mut().push(token.id);
                written.wanted.push(token.target_id);
                written.loosened.push(!token.verdict.is_strict());
            }
            ControlFlow::Continue(())
        });
        self.target.truncate(target_len);
        self.drafter.truncate(drafter_len);
        finished?;
        written.ids = text.into_inner();
        Ok(written)
    }

    /// The target once more, to look at texts that a rule thinks about.
    pub fn target_copy(&self, room: usize) -> TargetCopy {
        let vocab = self.pair.target.tokenizer().vocabulary();
        TargetCopy::new(&self.target, self.prompt.ids.last().copied().unwrap_or_default(), vocab, room)
    }
}
