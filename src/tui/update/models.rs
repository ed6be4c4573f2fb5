//! Changing to another pair of models, downloading one, and the effects of a new pair.

use crate::tui::effect::{Effect, PullNews};
use crate::tui::model::models::{Change, Tab};
use crate::tui::model::{EngineState, Model, Tone};
use crate::tui::update::{batch, runs};
use specreel_client::catalog::{DrafterChoice, ModelPair, OpenedPair};
use specreel_client::present::formats::bytes;
use specreel_record::{Failure, Ready};

/// Ask for the models, judged for the loaded pair and the selected clip.
pub(crate) fn list(model: &mut Model) {
    let video = model.library.selected().map(|entry| entry.path.clone()).unwrap_or_default();
    let run = specreel_engine::RunRequest { video, ..model.config.request.clone() };
    model.emit(Effect::ListModels(Box::new((model.models.loaded.clone(), run))));
}

/// Use a published model that is on this machine as the target.
pub(crate) fn use_published(model: &mut Model, id: &str, runs: bool) {
    let stored =
        model.models.list.as_ref().and_then(|list| list.stored.iter().find(|stored| stored.name == id));
    if let Some(path) = stored.map(|stored| stored.path.clone()) {
        change(model, ModelPair { target: Some(path), ..ModelPair::default() }, runs);
    }
}

/// Change to a pair, which loads while the active run continues.
pub(crate) fn change(model: &mut Model, pair: ModelPair, runs: bool) {
    if batch::is_in_the_way(model) {
        return;
    }
    let waits =
        !model.queue.runs.is_empty() || !model.queue.clips.is_empty() || model.queue.cutting.is_some();
    let obstacle = match model.models.engine {
        _ if waits => "other runs wait for the loaded models: let them end, or drop them with Esc first",
        _ if model.models.is_changing() => "other models are being loaded: Esc cancels that",
        EngineState::Loading { .. } => "the first models are still being loaded",
        _ => {
            model.emit(Effect::OpenPair(pair.clone()));
            model.models.change =
                Some(Change { pair, opened: None, progress: None, cancelling: false, runs });
            return;
        }
    };
    model.note(Tone::Info, obstacle);
}

/// The files of the pair are there, or not.
pub(crate) fn opened(model: &mut Model, outcome: Result<Box<OpenedPair>, Failure>) {
    let Some(change) = model.models.change.as_mut().filter(|change| change.opened.is_none()) else {
        return;
    };
    match outcome {
        _ if change.cancelling => cancelled(model),
        Ok(pair) => {
            let spec = pair.spec.clone();
            change.opened = Some(*pair);
            model.emit(Effect::Switch(Box::new(spec)));
        }
        Err(failure) => failed(model, &failure),
    }
}

/// Take in how much of the new pair is loaded. False if none is.
pub(crate) fn progress(model: &mut Model, done: u64, total: u64, left_ms: Option<f64>) -> bool {
    let change = model.models.change.as_mut().filter(|change| change.opened.is_some());
    change.map(|change| change.progress = Some((done, total, left_ms))).is_some()
}

/// The loading of other models failed, or was cancelled. False if none were loaded.
pub(crate) fn load_failed(model: &mut Model, failure: &Failure) -> bool {
    match model.models.change.as_ref().map(|change| change.cancelling) {
        None => return false,
        Some(true) => cancelled(model),
        Some(false) => failed(model, failure),
    }
    true
}

fn cancelled(model: &mut Model) {
    model.models.change = None;
    model.note(Tone::Info, "cancelled: the models stay as they are");
}

fn failed(model: &mut Model, failure: &Failure) {
    model.models.change = None;
    model.note(Tone::Bad, format!("{}; the models stay as they are", with_hint(failure)));
}

/// A failure and the way out of it.
fn with_hint(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{}; {hint}", failure.error),
        None => failure.error.clone(),
    }
}

/// Other models are loaded: what depends on them follows.
pub(crate) fn ready(model: &mut Model, ready: &Ready) {
    let Some(Change { pair, opened: Some(opened), runs, .. }) = model.models.change.take() else { return };
    let spec = &opened.spec;
    let drafter = spec.drafter.as_ref().or(spec.heads.last()).cloned();
    model.models.loaded = ModelPair {
        target: pair.target.filter(|_| !opened.embedded),
        mmproj: pair.mmproj,
        drafter: match drafter {
            Some(drafter) if !opened.embedded || pair.drafter != DrafterChoice::Best => {
                DrafterChoice::Of(drafter)
            }
            Some(_) => DrafterChoice::Best,
            None => DrafterChoice::None,
        },
    };
    model.config.embedded = opened.embedded;
    model.config.rule = opened.rule;
    model.config.presets = opened.presets;
    // Their limits of pixels and tokens stay; a system message of a preset does not outlive it.
    let freed = ready.freed_bytes.filter(|freed| *freed > 0);
    let freed = freed.map_or_else(String::new, |freed| format!("; {} freed", bytes(freed)));
    let with = ready.drafter.as_ref().map_or_else(String::new, |drafter| format!(" with {drafter}"));
    let mut words = format!("{}{with} in use{freed}", ready.target);
    if let Some(method) = other_method(model) {
        words += &format!("; method {method}");
    }
    model.note(Tone::Info, words);
    list(model);
    if let Some(file) = model.config.models_file.clone() {
        model.emit(Effect::RememberPair(file, Box::new(model.models.loaded.clone())));
    }
    if runs {
        model.screens.close();
        runs::run_selected(model);
    }
}

/// Choose the default method if the chosen one cannot run with these models. Returns its name.
fn other_method(model: &mut Model) -> Option<String> {
    model.unavailable(model.methods.chosen)?;
    let EngineState::Ready(Ready { parts: Some(parts), .. }) = &model.models.engine else { return None };
    let drafts = parts.drafter || !parts.heads.is_empty() || parts.mtp;
    let default = if drafts { "auto" } else { "autoregressive" };
    let at = model.methods.turned.iter().position(|method| method.name == default)?;
    model.methods.choose(at);
    model.methods.current().map(|method| method.name.clone())
}

pub(crate) fn removed(model: &mut Model, outcome: Result<(String, u64), String>) {
    match outcome {
        Ok((name, freed)) => model.note(Tone::Info, format!("{name} removed, {} freed", bytes(freed))),
        Err(problem) => model.note(Tone::Bad, problem),
    }
    list(model);
}

pub(crate) fn pulled(model: &mut Model, news: PullNews) {
    let Some(pull) = &mut model.models.pull else { return };
    let outcome = match news {
        PullNews::Progress(progress) => {
            pull.progress = Some(progress);
            return;
        }
        PullNews::Ended(outcome) => outcome,
    };
    let (id, runs, cancelling) = (pull.id.clone(), pull.runs, pull.cancelling);
    model.models.pull = None;
    match outcome {
        Ok(path) if runs => {
            let pair = ModelPair { target: Some(path), ..ModelPair::default() };
            return change(model, pair, true);
        }
        Ok(_) => {
            model.note(Tone::Info, format!("{id} is downloaded: Enter uses it"));
            model.models.tab = Tab::Published;
        }
        Err(_) if cancelling => {
            model.note(Tone::Info, format!("the download of {id} is cancelled; the next one resumes it"));
        }
        Err(failure) => model.note(Tone::Bad, with_hint(&failure)),
    }
    list(model);
}

/// The engine has stopped while models were loading.
pub(crate) fn gone(model: &mut Model) {
    if model.models.change.take().is_some() {
        model.note(Tone::Bad, "the engine has stopped");
    }
}

/// True, with a notice, while other models are loaded: what takes several runs would mix both.
pub(crate) fn are_in_the_way(model: &mut Model) -> bool {
    let is_changing = model.models.is_changing();
    if is_changing {
        model.note(Tone::Info, "other models are being loaded: wait for them, or cancel that with Esc in M");
    }
    is_changing
}

/// Cancel the loading of other models, or the download; false if there is neither.
pub(crate) fn cancel(model: &mut Model) -> bool {
    if let Some(change) = model.models.change.as_mut().filter(|change| !change.cancelling) {
        change.cancelling = true;
        // Before the files are found the engine knows nothing of it.
        let is_loading = change.opened.is_some();
        model.effects.extend(is_loading.then_some(Effect::Cancel(0)));
        return true;
    }
    let Some(pull) = model.models.pull.as_mut().filter(|pull| !pull.cancelling) else { return false };
    pull.cancelling = true;
    model.emit(Effect::CancelPull);
    true
}
