//! What a run takes, said before its first slow stage: frames and tokens, memory, and time from speeds that are known.
//!
//! The work of each stage is counted in multiply-adds; finished stages teach how long those take here ([`Rates`]).
//! Models that have never run are probed if that costs next to nothing compared with the run.
//!
//! [`Rates`]: crate::timing::Rates

use super::{choice::Question, knowledge::writing_key, profile::Profile};
use crate::{
    cache::{ContextKey, PrefixCache},
    command::RunRequest,
    models::{Models, memory_check::Work},
    timing::{Part, Rates, probe, rates},
};
use specreel_model::{
    family::{Prompt, VideoLlm},
    mac_count::{self, MacCount},
    processor::{Grid, VisualGrid},
};
use specreel_record::{Basis, Estimate};
use specreel_speculate::{
    Drafter, Method,
    context::{self, Signals},
};

/// A model is probed only if the run is at least this many times the work of the probe, which then costs less than 2 % of it.
const WORTH: f64 = 50.0;

/// What a run will read.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// What it adds to the loaded models.
    pub work: Work,
    /// Patches of the video.
    pub patches: Grid,
    /// Visual tokens.
    pub grid: VisualGrid,
    /// Tokens of the prompt, and how many of them follow the video.
    pub prompt: usize,
    pub(crate) after_video: usize,
    /// Rows of the time stamp of each temporal grid; empty without stamps.
    pub stamps: Vec<usize>,
    /// What a limit of visual tokens changed.
    pub notes: Vec<String>,
}

impl Layout {
    pub fn new(prompt: &Prompt, patches: Grid, grid: VisualGrid, work: Work) -> Self {
        let (tokens, after_video) = (prompt.ids.len(), prompt.ids.len() - prompt.video_end());
        let stamps = prompt.stamps.iter().map(|rows| rows.iter().map(ExactSizeIterator::len).sum()).collect();
        Self { work, patches, grid, prompt: tokens, after_video, stamps, notes: Vec::new() }
    }
}

/// A stage of a run, and its model.
struct Todo<'m> {
    part: Part,
    model: &'m VideoLlm,
    work: MacCount,
}

/// A run that has not begun, and what earlier runs have left for it.
pub(crate) struct Forecast<'a> {
    pub request: &'a RunRequest,
    pub models: &'a Models,
    pub cache: &'a PrefixCache,
    pub key: &'a ContextKey,
    pub layout: &'a Layout,
}

impl Forecast<'_> {
    /// What the run takes. Models whose speed is not known may be probed for it.
    pub fn estimate(&self, rates: &mut Rates) -> Estimate {
        let layout = self.layout;
        let config = self.models.target.processor().config();
        let mut estimate = Estimate {
            frames: layout.work.frames,
            width: layout.patches.w * config.patch,
            height: layout.patches.h * config.patch,
            visual_tokens: layout.grid.len(),
            prompt_tokens: layout.prompt,
            max_new_tokens: layout.work.new_tokens,
            notes: layout.notes.clone(),
            ..Estimate::default()
        };
        let footprint = self.models.footprint.as_ref();
        estimate.peak_bytes = footprint.map(|footprint| footprint.peak_bytes(&layout.work));
        // What an automatic method will do is known once the speeds are.
        let todo = self.todo(&self.request.method);
        self.probe(rates, &todo);
        let method = self.method(rates);
        self.time(rates, &method, &self.todo(&method), &mut estimate);
        estimate
    }

    /// The run's method, with the choices that it leaves open made.
    fn method(&self, rates: &Rates) -> Method {
        let (request, layout) = (self.request, self.layout);
        let profile = Profile::of(self.models);
        let question = Question {
            method: &request.method,
            profile: &profile,
            prompt: layout.prompt,
            visual: layout.grid.len(),
            patches: layout.patches,
            max_new_tokens: layout.work.new_tokens,
        };
        question.answer(rates, 0.0).map_or_else(|| request.method.clone(), |answer| answer.method)
    }

    /// The stages of this run with this method, without those that earlier runs left in the cache.
    fn todo(&self, method: &Method) -> Vec<Todo<'_>> {
        let Self { cache, key, layout, .. } = *self;
        let target = &self.models.target;
        let clip = cache.clips.find(|other, _| *other == key.0);
        let context = cache.contexts.find(|other, _| other == key);
        let same_clip = cache.contexts.find(|other, _| other.0 == key.0).is_some();
        let mut todo = Vec::new();
        let tower = |model: &VideoLlm| model.tower_config().mac_count(layout.patches).total();
        let read = |model: &VideoLlm, before: usize, rows: usize| {
            mac_count::prompt(model.decoder().config(), before, rows)
        };
        if context.is_none() {
            if clip.is_none_or(|clip| clip.target.is_none()) {
                todo.push(Todo { part: Part::Tower, model: target, work: tower(target) });
            }
            // Another question about the same clip reads only the text after the video.
            let rows = if same_clip { layout.after_video } else { layout.prompt };
            let work = read(target, layout.prompt - rows, rows.saturating_sub(1));
            todo.push(Todo { part: Part::Prompt, model: target, work });
        }
        let is_read = context.is_some_and(|context| context.drafters.values().next().is_some());
        if let (Drafter::Model {}, Some(drafter), false) = (&method.drafter, &self.models.drafter, is_read) {
            let grid = layout.grid.shape();
            // Which ones depends on the prefill; how many does not.
            let selection = context::select(&method.context, grid, &Signals::default());
            let visual = selection.kept.map_or(layout.grid.len(), |kept| kept.len());
            let stamps: usize =
                selection.dropped_stamps.iter().filter_map(|grid| layout.stamps.get(*grid)).sum();
            if visual > 0 && clip.is_none_or(|clip| clip.drafter.is_none()) {
                todo.push(Todo { part: Part::Tower, model: drafter, work: tower(drafter) });
            }
            let rows = layout.prompt - layout.grid.len() + visual - stamps;
            todo.push(Todo {
                part: Part::Prompt,
                model: drafter,
                work: read(drafter, 0, rows.saturating_sub(1)),
            });
        }
        let new_tokens = layout.work.new_tokens;
        let slots = layout.prompt + new_tokens / 2;
        let token = mac_count::token(target.decoder().config(), slots);
        todo.push(Todo { part: Part::Token, model: target, work: token * new_tokens as f64 });
        todo
    }

    /// Time short passes of the models whose speed is not known, where that is worth it.
    fn probe(&self, rates: &mut Rates, todo: &[Todo<'_>]) {
        let grid = self.layout.patches;
        let all = todo.iter().map(|todo| todo.work.total()).sum::<f64>();
        for todo in todo {
            let key = rates::key(todo.part, todo.model);
            if rates.get(&key).is_some() {
                continue;
            }
            let cost = match todo.part {
                Part::Tower => probe::tower_work(todo.model, grid),
                Part::Prompt | Part::Token => probe::decoder_work(todo.model),
            };
            if cost.total() * WORTH > all && !self.request.estimate_only {
                continue;
            }
            let failed = |error: &dyn std::fmt::Display| {
                tracing::warn!("probing {} of {} failed: {error}", todo.part.name(), todo.model.name());
            };
            match todo.part {
                Part::Tower => match probe::tower(todo.model, grid) {
                    Ok(rate) => rate.into_iter().for_each(|rate| rates.probed(&key, rate)),
                    Err(error) => failed(&error),
                },
                Part::Prompt | Part::Token => match probe::decoder(todo.model) {
                    Ok(found) => {
                        for (part, rate) in [Part::Prompt, Part::Token].into_iter().zip(found) {
                            rate.into_iter()
                                .for_each(|rate| rates.probed(&rates::key(part, todo.model), rate));
                        }
                    }
                    Err(error) => failed(&error),
                },
            }
        }
    }

    /// Fill in the times of an estimate, unless the speed of some stage is not known.
    fn time(&self, rates: &Rates, method: &Method, todo: &[Todo<'_>], estimate: &mut Estimate) {
        let mut times = [0.0; 3];
        let mut basis = Basis::Measured;
        for Todo { part, model, work } in todo {
            let Some((rate, known)) = rates.get(&rates::key(*part, model)) else { return };
            times[*part as usize] += rate.ms(work);
            basis = basis.max(known);
        }
        if let Some(share) = rates.number(&writing_key(method, &Profile::of(self.models))) {
            times[Part::Token as usize] *= share;
        }
        let [tower, prompt, writing] = times.map(Some);
        (estimate.tower_ms, estimate.prompt_ms, estimate.writing_ms) = (tower, prompt, writing);
        estimate.basis = Some(basis);
    }
}
