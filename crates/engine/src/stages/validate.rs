//! Checks of a request before anything is computed or evicted.

use std::sync::PoisonError;

use crate::{
    cache::{ClipKey, ContextKey, PrefixCache},
    command::RunRequest,
    events::Stop,
    models::{memory_check::Work, sampling::clip_facts},
    planner::{Forecast, Layout, RunPlan},
    stages::Runner,
};
use specreel_model::{
    family::{ClipFacts, Prompt},
    inspect::VideoInputs,
    processor::{FrameSize, Grid, VisualGrid},
};
use specreel_record::{EventKind, Failure, FailureClass};
use specreel_speculate::{Length, Shape};
use specreel_video::{Plan, sampling};

impl Runner<'_> {
    /// Check what does not need the video: the method, whether its drafter is loaded, sampling. The failure names what cannot be
    /// used (class input).
    pub(crate) fn validate(&self) -> Result<(), Failure> {
        let (request, method) = (self.request, &self.request.method);
        method.validate()?;
        method.check_parts(&self.models.parts(), self.models.target.name())?;
        if request.pruner.is_some() && self.models.parts().linear_attention {
            let error = format!(
                "method `{}` drops visual tokens within the target, whose linear attention layers need all of them",
                method.name
            );
            return Err(input(error, "use a method that drops them for the drafter only, such as specvlm"));
        }
        self.check_block()?;
        sampling::check(request.sampling).map_err(|e| Failure::from(specreel_video::Error::from(e)))?;
        if request.prompt.trim().is_empty() {
            return Err(input("the prompt is empty".into(), "ask something about the video"));
        }
        if request.max_new_tokens == 0 {
            return Err(input("the limit of new tokens is 0".into(), "set a limit of at least 1"));
        }
        self.grammar(&[])?;
        request.text.check().map_err(|e| input(e.to_string(), "see `Sampling` in docs/methods.md"))?;
        let vocabulary = self.models.target.tokenizer().vocabulary();
        match request.text.logit_bias.iter().find(|(id, _)| *id as usize >= vocabulary) {
            None => Ok(()),
            Some((id, _)) => Err(input(
                format!("logit_bias: id {id} is outside of the vocabulary of {vocabulary} ids"),
                "name ids of the target's tokenizer",
            )),
        }
    }

    /// Check that a draft head that drafts blocks drafts chains as long as the method's.
    fn check_block(&self) -> Result<(), Failure> {
        let (Shape::Chain { length: Length::Fixed(length), .. } | Shape::TwoBranch { length, .. }) =
            &self.request.method.shape
        else {
            return Ok(());
        };
        let block = self
            .models
            .head_of(&self.request.method.drafter)
            .and_then(|head| Some((head.name(), head.block()?)));
        match block.filter(|(_, block)| *length > block.most_drafts()) {
            None => Ok(()),
            Some((name, block)) => Err(input(
                format!(
                    "the method drafts {length} tokens, but {name} drafts {} at once (its blocks have {} rows)",
                    block.most_drafts(),
                    block.block_size
                ),
                "set shape.length to at most that number, or to auto",
            )),
        }
    }

    /// Check the prompt's length and the memory for a video that has been opened but not decoded: the frames of `plan`, resized to
    /// `size`. Returns what will be read.
    pub(crate) fn check_video(
        &self,
        cache: &mut PrefixCache,
        key: &ClipKey,
        size: FrameSize,
        plan: &Plan,
    ) -> Result<Layout, Stop> {
        let processor = self.models.target.processor();
        let patches = processor.config().grid(size, plan.indices.len());
        let grid = processor.visual_grid(patches)?;
        let prompt = self.lay_out(&clip_facts(grid, plan))?;
        let work = self.work(prompt.ids.len(), patches, grid, plan.indices.len());
        let layout = Layout::new(&prompt, patches, grid, work);
        self.make_room(cache, key, &layout.work)?;
        Ok(layout)
    }

    /// What a run over such a clip adds to the loaded models, with a prompt of so many tokens.
    pub(crate) fn work(&self, tokens: usize, patches: Grid, grid: VisualGrid, frames: usize) -> Work {
        let row = self.models.target.processor().config().row();
        let sample = VideoInputs::new(grid.len(), patches, row);
        Work { sample, frames, new_tokens: self.new_tokens(tokens) }
    }

    /// How many tokens the caption may have after a prompt of so many.
    pub(crate) fn new_tokens(&self, tokens: usize) -> usize {
        let RunRequest { max_new_tokens, cut_to_window, .. } = *self.request;
        let left = self.models.target.decoder().config().max_positions.saturating_sub(tokens);
        if cut_to_window { max_new_tokens.min(left.max(1)) } else { max_new_tokens }
    }

    /// The prompt for a clip. Fails if it is longer than the target's context window.
    pub(crate) fn lay_out(&self, clip: &ClipFacts) -> Result<Prompt, Stop> {
        let prompt = self.models.target.prompt_for(&self.request.question(), clip)?;
        self.check_length(prompt.ids.len(), clip.grid.len())?;
        Ok(prompt)
    }

    /// Check that a prompt of so many tokens, and the caption, fit the target's context window.
    pub(crate) fn check_length(&self, tokens: usize, visual: usize) -> Result<(), Failure> {
        let (target, new_tokens) = (&self.models.target, self.new_tokens(tokens));
        let limit = target.decoder().config().max_positions;
        if tokens + new_tokens <= limit {
            return Ok(());
        }
        Err(input(
            format!(
                "the prompt has {tokens} tokens ({visual} of them visual) and the caption up to {new_tokens}, but the context \
                 window of {} is {limit}",
                target.name(),
            ),
            "use fewer frames (--frames), smaller ones (--max-pixels), a shorter prompt or --max-new-tokens",
        ))
    }

    /// Report time and memory of this run. `cache` has what earlier runs left for it. Fails with
    /// [`Stop::Cancelled`] after the report if the request only asks for the estimate.
    pub(crate) fn announce(
        &self,
        cache: &PrefixCache,
        key: &ContextKey,
        layout: &Layout,
    ) -> Result<(), Stop> {
        let Some(rates) = self.rates else { return Ok(()) };
        let forecast = Forecast { request: self.request, models: self.models, cache, key, layout };
        let estimate = forecast.estimate(&mut rates.lock().unwrap_or_else(PoisonError::into_inner));
        self.sender.send(EventKind::Estimate(estimate));
        if self.request.estimate_only { Err(Stop::Cancelled) } else { Ok(()) }
    }

    /// Evict kept contexts until this run fits, and refuse it if it does not fit without them.
    pub(crate) fn make_room(&self, cache: &mut PrefixCache, key: &ClipKey, work: &Work) -> Result<(), Stop> {
        let Some(footprint) = self.models.footprint.as_ref() else {
            cache.make_room(0, key, &|_| true);
            return Ok(());
        };
        let bytes = footprint.run_bytes(work);
        if self.ignore_memory {
            cache.make_room(bytes, key, &|_| true);
            return Ok(());
        }
        cache.make_room(bytes, key, &|bytes| footprint.check_available(bytes));
        Ok(footprint.check_run(work)?)
    }

    /// Evict other contexts until this run's may grow by so many bytes, and refuse it if that does not suffice.
    pub(crate) fn make_room_in(
        &self,
        plan: &RunPlan,
        cache: &mut PrefixCache,
        key: &ContextKey,
        bytes: u64,
    ) -> Result<(), Stop> {
        let footprint = self.models.footprint.as_ref().filter(|_| !self.ignore_memory);
        let check = |bytes| footprint.map_or(Ok(()), |known| known.check_growth(bytes, plan.max_new_tokens));
        if bytes == 0 {
            return Ok(());
        }
        cache.make_room_in(key, bytes, &|bytes| check(bytes).is_ok());
        Ok(check(bytes)?)
    }
}

fn input(error: String, hint: &str) -> Failure {
    Failure { class: FailureClass::Input, error, hint: Some(hint.into()) }
}
