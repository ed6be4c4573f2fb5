//! What a run does: its [`RunPlan`], from the request and what is known here about speeds and acceptance.
//!
//! A method may leave its drafter and its context open. The drafter is chosen before the target reads the prompt, since some read
//! states of that pass; the context after it, when the target's speed is known. Then the plan is complete, and the stages follow it.
//! Within the run its contenders may take over from each other by what they show ([`specreel_speculate::auto`]).
//!
//! `choice` chooses, by the speeds of `timing` and by the `knowledge` that earlier runs have left; `estimate` says what a run takes,
//! before its clip is decoded; `advice` what drafters are expected to gain with models that need not be loaded; `notes` are what its user should know.

mod advice;
mod choice;
mod estimate;
mod knowledge;
mod notes;
mod profile;

use std::sync::{Arc, Mutex, PoisonError};

use self::{
    choice::{Answer, Question},
    profile::Profile,
};
use crate::{
    cache::{Clip, KV_HEADROOM, Prefill},
    command::RunRequest,
    events::internal,
    models::Models,
    timing::Rates,
};
use specreel_record::{Chosen, Expected, Failure};
use specreel_speculate::{
    Drafter, Method, Placing, TextSampling, VisualContext, auto::Contender, context::Pruner,
    processors::History,
};

pub use self::advice::{Advice, Advisor, Evidence, Expectation, measure_speeds};
pub(crate) use self::estimate::{Forecast, Layout};

/// What a run does.
pub(crate) struct RunPlan {
    /// The method with its choices made.
    pub method: Method,
    pub pruner: Option<Arc<dyn Pruner>>,
    /// How its text is sampled.
    pub sampling: TextSampling,
    /// Most tokens of the caption.
    pub max_new_tokens: usize,
    /// The drafters among which the run may change, the chosen one first; empty if its method chooses none.
    pub contenders: Vec<Contender>,
    /// The choices that were made; `None` if the method left nothing open.
    pub chosen: Option<Chosen>,
    /// What the target has written for other clips, in which prompt lookup searches too.
    pub earlier: Vec<u32>,
    /// What its user should know.
    pub notes: Vec<String>,
    /// What each drafter was expected to take, the fastest first, if the drafter was one of the choices.
    expected: Option<Vec<Expected>>,
}

impl RunPlan {
    /// True if it is what other runs are compared with: the target decodes alone, and reads everything.
    pub fn is_baseline(&self) -> bool {
        self.method.is_autoregressive() && self.pruner.is_none()
    }

    /// The history by which rows are processed after this prompt, if anything processes them.
    pub fn history(&self, prompt: &[u32]) -> Option<History> {
        History::new(&self.sampling.processors, prompt)
    }

    /// Cache slots for the caption and a verify pass.
    pub fn room(&self) -> usize {
        self.max_new_tokens + KV_HEADROOM
    }

    /// How its drafter reads the prompt.
    pub fn reader(&self) -> PromptReader<'_> {
        let Method { drafter, context, .. } = &self.method;
        PromptReader { drafter, placing: context.placing(), room: self.room() }
    }
}

/// A drafter that reads its share of a prompt.
#[derive(Clone, Copy)]
pub(crate) struct PromptReader<'a> {
    pub drafter: &'a Drafter,
    /// The positions of what it reads.
    pub placing: Placing,
    /// Cache slots that are left for what follows.
    pub room: usize,
}

/// Plans a run.
pub(crate) struct Planner<'a> {
    pub request: &'a RunRequest,
    pub models: &'a Models,
    /// Plan as if the available memory were enough.
    pub ignore_memory: bool,
    /// Speeds that are known, and that runs teach; `None` where a run is only repeated.
    pub rates: Option<&'a Mutex<Rates>>,
}

impl Planner<'_> {
    /// The plan before the target reads a prompt of so many tokens: the drafter is chosen.
    pub fn begin(&self, clip: &Clip, prompt: usize, max_new_tokens: usize) -> RunPlan {
        let mut plan = RunPlan {
            method: self.request.method.clone(),
            pruner: self.request.pruner.clone(),
            sampling: self.models.sampling(&self.request.text),
            max_new_tokens,
            contenders: Vec::new(),
            earlier: Vec::new(),
            chosen: None,
            notes: Vec::new(),
            expected: None,
        };
        if plan.method.drafter == (Drafter::Auto {})
            && let Some(Answer { method, expected, .. }) = self.answer(&plan, clip, prompt, 0.0)
        {
            // The context is chosen once the target's speed is known.
            plan.method = Method { context: VisualContext::Auto {}, ..method };
            plan.expected = Some(expected);
        }
        plan
    }

    /// The whole plan, once the target has read the prompt, and its speed is known if this was worth measuring.
    pub fn complete(&self, plan: RunPlan, clip: &Clip, read: &Prefill) -> Result<RunPlan, Failure> {
        let prompt = read.prompt.ids.len();
        let Some(answer) = self.answer(&plan, clip, prompt, read.t1_ms) else {
            return Ok(RunPlan { notes: self.notes(&plan.method), ..plan });
        };
        let contenders = match answer.contender {
            Some(chosen) => self.contenders(chosen, clip, read, plan.max_new_tokens),
            None => Vec::new(),
        };
        let method = answer.method;
        let mut notes = self.notes(&method);
        notes.push(self.choice_note(&method, plan.expected.as_deref()));
        let chosen = Chosen {
            method: serde_json::to_value(&method).map_err(|e| internal(e.to_string()))?,
            drafter: self.models.drafter_name(&method.drafter),
            expected: plan.expected.clone().unwrap_or_default(),
        };
        Ok(RunPlan { method, contenders, chosen: Some(chosen), notes, ..plan })
    }

    /// What the plan's method stands for, after a prompt of so many tokens; `target_ms` is the time of a target row, 0 if it is not
    /// known. `None` where it leaves nothing open.
    fn answer(&self, plan: &RunPlan, clip: &Clip, prompt: usize, target_ms: f64) -> Option<Answer> {
        let profile = Profile::of(self.models);
        let question = self.question(&profile, &plan.method, clip, prompt, plan.max_new_tokens);
        self.with_rates(|rates| question.answer(rates, target_ms))
    }

    /// The chosen drafter, and those that may take over from it in this run, among those that the request leaves open.
    fn contenders(
        &self,
        chosen: Contender,
        clip: &Clip,
        read: &Prefill,
        max_new_tokens: usize,
    ) -> Vec<Contender> {
        let (prompt, visual) = (read.prompt.ids.len(), clip.facts.grid.len());
        let profile = Profile::of(self.models);
        let question = self.question(&profile, &self.request.method, clip, prompt, max_new_tokens);
        // Draft heads that read states of the target which are there.
        let reads = |recipe| {
            self.models.head(recipe).is_some_and(|head| {
                head.taps().is_empty() && (!head.reads_all_rows() || read.states.read_by(head).is_some())
            })
        };
        let footprint = self.models.footprint.as_ref().filter(|_| !self.ignore_memory);
        // All of them may take over, one after the other.
        let mut taken = 0;
        let fits = |contender: &Contender| {
            let unseen = if contender.context.share() == Some(0.0) { visual } else { 0 };
            let slots = prompt - unseen + max_new_tokens + KV_HEADROOM;
            let bytes = taken + self.models.drafter_bytes(&contender.drafter, slots, max_new_tokens);
            let fits = footprint.is_none_or(|known| known.check_growth(bytes, max_new_tokens).is_ok());
            taken = if fits { bytes } else { taken };
            fits
        };
        let reserves = self.with_rates(|rates| question.reserves(rates, read.t1_ms, &chosen, reads));
        std::iter::once(chosen).chain(reserves.into_iter().filter(fits)).collect()
    }

    fn question<'q>(
        &self,
        profile: &'q Profile,
        method: &'q Method,
        clip: &Clip,
        prompt: usize,
        max_new_tokens: usize,
    ) -> Question<'q> {
        Question {
            method,
            profile,
            prompt,
            visual: clip.facts.grid.len(),
            patches: clip.patches.grid,
            max_new_tokens,
        }
    }

    fn with_rates<T>(&self, f: impl FnOnce(&Rates) -> T) -> T {
        match self.rates {
            Some(rates) => f(&rates.lock().unwrap_or_else(PoisonError::into_inner)),
            None => f(&Rates::default()),
        }
    }
}
