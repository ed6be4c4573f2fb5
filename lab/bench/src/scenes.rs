//! Suite `scenes`: every system on every clip, the baseline first, with one prefill per clip.

use std::ops::Range;

use super::*;
use crate::{
    clips::{Clip, ClipRenderer, Clips},
    fronts::Fronts,
    plan::{Plan, System},
    report::Report,
    runs::{Runs, Written},
    videos::OwnVideos,
};
use specreel_modelled::profile::Modelled;
use specreel_record::{Limits, StopReason, stats::Equality};
use specreel_speculate::Drafter;

const WARM_UP_TOKENS: usize = 32;

#[derive(Debug)]
pub enum Source {
    /// Synthetic clips with these seeds, whose facts are known, of so many seconds, or as long as their seeds say.
    Scenes(Range<u64>, Option<u32>),
    Videos(OwnVideos),
}

/// Measure a plan, and report its tables. False if it was interrupted; then they show the results so far. Fails if the models cannot
/// be loaded, a clip cannot be rendered, a run failed, or the results cannot be written.
pub async fn run<R: Reporter>(
    plan: Plan,
    source: Source,
    mut runs: Runs,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let (seeds, videos, mut clips): (_, _, Box<dyn Clips>) = match source {
        Source::Scenes(seeds, seconds) => (seeds, Vec::new(), Box::new(ClipRenderer::open(seconds)?)),
        Source::Videos(own) => (0..own.count() as u64, own.names(), Box::new(own)),
    };
    let Some(loaded) = runs.load(reporter).await? else { return Ok(false) };
    let mut trials = Vec::new();
    let measured = measure(&plan.systems, seeds.clone(), &mut runs, &mut *clips, reporter, &mut trials);
    let whole = measured.await;
    reporter.ended();
    let Plan { common, systems, .. } = plan;
    let report = Report { seeds, videos, common, profile: runs.profiles().first().cloned(), systems, trials };
    report.write(&loaded, matches!(whole, Ok(true)), reporter)?;
    whole
}

/// Measure `systems` (the baseline first) on the clips of `seeds`, after a warm-up on another clip. Each trial is reported at
/// once. False if it was interrupted. Fails if a clip cannot be rendered, a run failed, or a trial cannot be written.
async fn measure<R: Reporter>(
    systems: &[System],
    seeds: Range<u64>,
    runs: &mut Runs,
    clips: &mut dyn Clips,
    reporter: &mut R,
    trials: &mut Vec<Trial>,
) -> Result<bool, R::Error> {
    // Not one of the measured clips: its prefill would be cached by the warm-up.
    let other = seeds.end;
    if !warm_up(systems, other, runs, clips, reporter).await? {
        return Ok(false);
    }
    let (mut done, all) = (0, (seeds.end - seeds.start) * systems.len() as u64);
    for seed in seeds {
        if runs.stopped() {
            return Ok(false);
        }
        reporter.stage(Stage::Generate, done, all);
        let clip = clips.take(seed)?;
        let mut results = ClipResults::new(&clip);
        for system in systems {
            let system = &system.drawn(seed, 0);
            reporter.stage(Stage::Generate, done, all);
            let limit = runs.limit();
            let Some(written) = runs.run(&clip.path, &system.lab, limit).await? else {
                return Ok(false);
            };
            let trial = results.trial(system, written);
            reporter.line("trial", &trial)?;
            trials.push(trial);
            done += 1;
        }
        clips.give_back(&clip);
    }
    Ok(true)
}

/// Load all weights and code once: a short run of the first system of each drafter. False if it was interrupted. Fails if the
/// clip cannot be rendered, or a run failed.
pub(crate) async fn warm_up<R: Reporter>(
    systems: &[System],
    seed: u64,
    runs: &mut Runs,
    clips: &mut dyn Clips,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let mut warm: Vec<&Drafter> = Vec::new();
    reporter.stage(Stage::Calibrate, 0, 0);
    let clip = clips.take(seed)?;
    for system in systems {
        if warm.contains(&&system.lab.method.drafter) {
            continue;
        }
        warm.push(&system.lab.method.drafter);
        let limit = runs.limit().min(WARM_UP_TOKENS);
        if runs.run(&clip.path, &system.lab, limit).await?.is_none() {
            return Ok(false);
        }
    }
    clips.give_back(&clip);
    Ok(true)
}

/// Results of one clip while its systems run.
pub(crate) struct ClipResults<'a> {
    clip: &'a Clip,
    fronts: Fronts,
    /// The time before the first token, if an earlier baseline on the same frames has it.
    front_ms: Option<f64>,
    /// The baseline's run, and its time before the first token.
    baseline: Option<(Written, f64)>,
}

impl<'a> ClipResults<'a> {
    pub fn new(clip: &'a Clip) -> Self {
        Self { clip, fronts: Fronts::default(), front_ms: None, baseline: None }
    }

    /// Further results on the same frames of the clip, with another baseline; the read clip is reused, and charged as measured.
    pub fn again(self) -> Self {
        let front_ms = self.baseline.map(|(_, ms)| ms).or(self.front_ms);
        Self { front_ms, baseline: None, ..self }
    }

    /// Compare a run with the true facts and with the baseline's run, which is the first one.
    pub fn trial(&mut self, system: &System, written: Written) -> Trial {
        let mut drafter_front_ms = self.fronts.drafter_ms(&system.lab.method, &written.stats);
        let earlier = self.front_ms;
        let (plain, front_ms) = self.baseline.get_or_insert_with(|| {
            (written.clone(), earlier.unwrap_or_else(|| Fronts::target_ms(&written.stats)))
        });
        let read_ms = written.stats.timings.prefill_target_ms;
        if system.lab.pruner.is_some() && read_ms > 0.0 {
            // What a pruned target saves of the time that every method is charged for.
            drafter_front_ms += read_ms - plain.stats.timings.prefill_target_ms;
        }
        let reason = written.reason.unwrap_or(StopReason::Length);
        let mut stats = written.stats;
        stats.speedup = None;
        let limits = if system.lab.pruner.is_some() { Limits::NONE } else { Limits::of(&stats, reason) };
        let (own, plain_speed) = (stats.tokens_per_second, plain.stats.tokens_per_second);
        let pair = (own > 0.0 && plain_speed > 0.0).then(|| {
            let decode_ratio = limits.clamp(own / plain_speed);
            let generate_ms = stats.timings.generate_ms();
            let whole_ms = *front_ms + drafter_front_ms + generate_ms;
            Pair { decode_ratio, end_to_end_ratio: (*front_ms + generate_ms * decode_ratio) / whole_ms }
        });
        stats.equality = Some(Equality::of(&written.ids, &plain.ids));
        let first = |modelled: &[Option<Modelled>]| modelled.first().copied().flatten();
        let speeds = first(&written.modelled).zip(first(&plain.modelled));
        let modelled = speeds.map(|(own, plain)| own.tokens_per_second() / plain.tokens_per_second());
        let facts = self.clip.count(&written.text);
        Trial {
            clip: self.clip.seed,
            system: system.label.clone(),
            reason,
            text: written.text,
            facts,
            front_ms: *front_ms,
            drafter_front_ms,
            stats,
            pair,
            modelled,
        }
    }
}

#[cfg(test)]
mod tests;
