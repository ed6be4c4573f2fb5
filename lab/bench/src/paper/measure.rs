//! Running what tables ask for: every method once per clip and condition, however many tables show it.

use std::{collections::BTreeMap, ops::Range};

use super::{
    catalog::{Condition, Paper, Table},
    clip_run::{ClipRun, Times},
    saved,
};
use crate::{
    BASELINE, Reporter,
    clips::Clips,
    plan::System,
    runs::Runs,
    scenes::{ClipResults, warm_up},
};
use specreel_engine::has_drafter;
use specreel_model::ModelSpec;
use specreel_modelled::profile::Modelled;
use specreel_record::{Failure, Stage};
use specreel_speculate::{Method, MethodError};

/// The runs of one condition, the baseline first.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub(crate) condition: Condition,
    /// The methods, named by method and condition.
    pub(crate) systems: Vec<System>,
}

/// What to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    pub(crate) groups: Vec<Group>,
    pub(crate) skipped: BTreeMap<String, String>,
}

impl Work {
    /// The runs of these tables. Fails if the embedded data name a value that a method does not take.
    pub fn of(tables: &[(&Paper, &Table)], models: &ModelSpec) -> Result<Work, Failure> {
        let mut work = Work::default();
        for (_, table) in tables {
            for row in &table.rows {
                let condition = table.condition(row);
                let key = |name: &str| condition.key(name, &row.set);
                let lab = match row.method() {
                    Ok(Some(lab)) => lab,
                    Ok(None) => continue,
                    Err(MethodError::Unknown { name, .. }) => {
                        work.skipped.insert(key(&name), format!("there is no method `{name}`"));
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                let name = row.method.as_deref().unwrap_or(&lab.method.name);
                if let Some(head) = row.head.as_deref().filter(|head| !has_head(models, head)) {
                    let why = format!("needs the draft head `{head}`, which bench.md says how to train");
                    work.skipped.insert(key(name), why);
                    continue;
                }
                if let Err(failure) = has_drafter(&lab.method, models) {
                    work.skipped.insert(key(name), failure.error);
                    continue;
                }
                let label = key(name);
                let group = work.group(&condition)?;
                if !group.systems.iter().any(|system| system.label == label) {
                    group.systems.push(System { label, lab });
                }
            }
        }
        Ok(work)
    }

    /// The group of a condition; a new one begins with its baseline.
    fn group(&mut self, condition: &Condition) -> Result<&mut Group, Failure> {
        let at = match self.groups.iter().position(|group| group.condition == *condition) {
            Some(at) => at,
            None => {
                let lab = Method::preset(BASELINE)?.into();
                let systems = vec![System { label: condition.key(BASELINE, &[]), lab }];
                self.groups.push(Group { condition: condition.clone(), systems });
                self.groups.len() - 1
            }
        };
        Ok(&mut self.groups[at])
    }

    /// Runs on each clip.
    pub(crate) fn runs(&self) -> u64 {
        self.groups.iter().flat_map(|group| &group.systems).map(System::draws).sum()
    }
}

/// True if the models have a draft head in a directory of this name.
fn has_head(models: &ModelSpec, name: &str) -> bool {
    models.heads.iter().any(|head| head.file_name().is_some_and(|own| own == name))
}

/// Do the work on the clips of `seeds`, after a warm-up on another clip. Each run is reported at once. False if it was
/// interrupted. Fails if a clip cannot be rendered, a run failed, or it cannot be written.
pub async fn measure<R: Reporter>(
    work: &Work,
    seeds: Range<u64>,
    runs: &mut Runs,
    clips: &mut dyn Clips,
    reporter: &mut R,
    kept: &mut Vec<ClipRun>,
) -> Result<bool, R::Error> {
    for group in &work.groups {
        runs.under(group.condition.temperature, group.condition.frames);
        if !warm_up(&group.systems, seeds.end, runs, clips, reporter).await? {
            return Ok(false);
        }
    }
    let (mut done, all) = (0, (seeds.end - seeds.start) * work.runs());
    let profiles: Vec<String> = runs.profiles().iter().map(|profile| profile.name.clone()).collect();
    for seed in seeds {
        let clip = clips.take(seed)?;
        // By number of frames: conditions of the same frames share the read clips.
        let mut seen: Vec<(Option<u32>, ClipResults<'_>)> = Vec::new();
        for group in &work.groups {
            let frames = group.condition.frames;
            runs.under(group.condition.temperature, frames);
            let mut results = match seen.iter().position(|(earlier, _)| *earlier == frames) {
                Some(at) => seen.swap_remove(at).1.again(),
                None => ClipResults::new(&clip),
            };
            let mut plain_right = None;
            let draws = |system| (0..System::draws(system)).map(move |draw| (system, draw));
            for (system, draw) in group.systems.iter().flat_map(draws) {
                let system = &system.drawn(seed, draw);
                reporter.stage(Stage::Generate, done, all);
                let limit = runs.limit();
                let Some(written) = runs.run(&clip.path, &system.lab, limit).await? else {
                    return Ok(false);
                };
                let (accepted, selected) = (written.accepted.clone(), written.kept.clone());
                let modelled = profiles.iter().zip(&written.modelled);
                let times = |times: &Modelled| Times { plain_ms: times.plain_ms, total_ms: times.total_ms() };
                let modelled =
                    modelled.filter_map(|(name, own)| Some((name.clone(), own.as_ref().map(times)?)));
                let modelled = modelled.collect();
                let trial = results.trial(system, written);
                // The baseline is the first.
                let plain = *plain_right.get_or_insert(trial.facts.right);
                let run = ClipRun::of(&trial, draw, accepted, selected, modelled, plain);
                reporter.line(saved::RUN, &run)?;
                kept.push(run);
                done += 1;
            }
            seen.push((frames, results));
        }
        clips.give_back(&clip);
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
