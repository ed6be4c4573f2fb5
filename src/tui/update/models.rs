//! The models screen: choosing a pair, downloading, removing; and the effects of a new pair.

use super::*;
use crate::tui::{
    DrafterChoice, ModelList, ModelPair, OpenedPair, PullNews,
    model::models::{Change, Confirm, Pull, Row, Tab},
};
use specreel_client::present::formats::bytes;
use specreel_record::Ready;

/// Open the screen; close it if it is open.
pub(super) fn open(model: &mut Model) -> Vec<Effect> {
    if matches!(model.overlay, Some(Overlay::Models { .. })) {
        model.overlay = None;
        return Vec::new();
    }
    if model.config.models.is_none() {
        model.note(Tone::Info, "models cannot be changed here");
        return Vec::new();
    }
    model.models.confirm = None;
    model.overlay = Some(Overlay::Models { query: String::new(), cursor: 0 });
    go_to_loaded(model);
    list(model)
}

/// Offer the model for people who have none, then use it and caption the selected clip.
pub(super) fn offer_first(model: &mut Model) -> Vec<Effect> {
    if model.library.selected().is_none() {
        model.note(Tone::Bad, "no clip selected: paste a path, or press o to open one");
        return Vec::new();
    }
    if model.models.pull.is_some() || model.models.is_changing() {
        model.overlay = Some(Overlay::Models { query: String::new(), cursor: 0 });
        return Vec::new();
    }
    if !matches!(model.overlay, Some(Overlay::Models { .. })) {
        let effects = open(model);
        model.models.offers_first = model.overlay.is_some();
        return effects;
    }
    Vec::new()
}

/// Ask for the models, judged for the loaded pair and the selected clip.
fn list(model: &Model) -> Vec<Effect> {
    let video = model.library.selected().map(|entry| entry.path.clone()).unwrap_or_default();
    let run = specreel_engine::RunRequest { video, ..model.config.request.clone() };
    vec![Effect::ListModels(Box::new((model.models.loaded.clone(), run)))]
}

pub(super) fn listed(model: &mut Model, found: Result<ModelList, String>) -> Vec<Effect> {
    let is_first = model.models.list.is_none();
    match found {
        Ok(list) => model.models.list = Some(list),
        Err(problem) => {
            model.models.list.get_or_insert_default();
            model.note(Tone::Bad, problem);
        }
    }
    if !std::mem::take(&mut model.models.offers_first) {
        if is_first {
            go_to_loaded(model);
        }
        return Vec::new();
    }
    model.models.tab = Tab::Published;
    let Some(first) = model.models.list.as_ref().and_then(ModelList::first).cloned() else {
        model.note(Tone::Bad, "no published model fits the memory and the disk of this machine");
        return Vec::new();
    };
    let at = model.models.rows("").iter().position(|row| row.name() == first.id);
    model.overlay = Some(Overlay::Models { query: String::new(), cursor: at.unwrap_or(0) });
    match first.stored {
        true => use_published(model, &first.id, true),
        false => {
            let bytes = Some(first.bytes);
            model.models.confirm = Some(Confirm::Pull { id: first.id, bytes, runs: true });
            Vec::new()
        }
    }
}

pub(super) fn turn(model: &mut Model, by: isize) {
    model.models.tab = model.models.tab.next(by);
    model.models.confirm = None;
    go_to_loaded(model);
}

/// Go to the row of the loaded model, or the first one. With a filter or a question the cursor stays.
fn go_to_loaded(model: &mut Model) {
    let Some(Overlay::Models { query, cursor }) = &mut model.overlay else { return };
    if model.models.confirm.is_none() && query.is_empty() {
        let mut rows = model.models.rows("").into_iter();
        *cursor = rows.position(|row| model.models.is_loaded(row, model.config.embedded)).unwrap_or(0);
    }
}

/// Use the row under the cursor, or ask about its download.
pub(super) fn choose(model: &mut Model, query: String, cursor: usize) -> Vec<Effect> {
    let row = model.models.rows(&query).get(cursor).copied();
    let chosen = row.map(|row| (model.models.obstacle(row), Chosen::of(row)));
    model.overlay = Some(Overlay::Models { query, cursor });
    let Some((obstacle, chosen)) = chosen else { return Vec::new() };
    if let Some(obstacle) = obstacle {
        model.note(Tone::Bad, obstacle);
        return Vec::new();
    }
    let loaded = model.models.loaded.clone();
    match (model.models.tab, chosen) {
        (_, Chosen::Published { id, bytes, stored }) => match stored {
            true => use_published(model, &id, false),
            false => {
                model.models.confirm = Some(Confirm::Pull { id, bytes, runs: false });
                Vec::new()
            }
        },
        (Tab::Drafter, Chosen::NoDrafter) => {
            change(model, ModelPair { drafter: DrafterChoice::None, ..loaded }, false)
        }
        (Tab::Drafter, Chosen::Stored { path, .. }) => {
            change(model, ModelPair { drafter: DrafterChoice::Of(path), ..loaded }, false)
        }
        (_, Chosen::Stored { path, lacks_tower: true }) => {
            model.overlay = Some(Overlay::Tower { target: path, line: String::new() });
            Vec::new()
        }
        (_, Chosen::Stored { path, .. }) => {
            change(model, ModelPair { target: Some(path), ..ModelPair::default() }, false)
        }
        (_, Chosen::NoDrafter) => Vec::new(),
    }
}

/// What a row chooses, without the borrow of the list.
enum Chosen {
    NoDrafter,
    Stored { path: PathBuf, lacks_tower: bool },
    Published { id: String, bytes: Option<u64>, stored: bool },
}

impl Chosen {
    fn of(row: Row<'_>) -> Self {
        match row {
            Row::NoDrafter => Self::NoDrafter,
            Row::Stored(model) => Self::Stored {
                path: model.path.clone(),
                lacks_tower: model.facts.as_ref().is_ok_and(|facts| facts.lacks_tower),
            },
            Row::Published(model) => {
                Self::Published { id: model.id.clone(), bytes: Some(model.bytes), stored: model.stored }
            }
            Row::Named(id) => Self::Published { id: id.to_owned(), bytes: None, stored: false },
        }
    }
}

/// Use a target in GGUF with the vision tower that was typed.
pub(super) fn with_tower(model: &mut Model, target: PathBuf, typed: &str) -> Vec<Effect> {
    model.overlay = Some(Overlay::Models { query: String::new(), cursor: 0 });
    if typed.trim().is_empty() {
        return Vec::new();
    }
    let pair = ModelPair { target: Some(target), mmproj: Some(typed.trim().into()), ..ModelPair::default() };
    change(model, pair, false)
}

/// Use a published model that is on this machine as the target.
fn use_published(model: &mut Model, id: &str, runs: bool) -> Vec<Effect> {
    let stored =
        model.models.list.as_ref().and_then(|list| list.stored.iter().find(|stored| stored.name == id));
    match stored.map(|stored| stored.path.clone()) {
        Some(path) => change(model, ModelPair { target: Some(path), ..ModelPair::default() }, runs),
        None => Vec::new(),
    }
}

/// Change to a pair, which loads while the active run continues.
fn change(model: &mut Model, pair: ModelPair, runs: bool) -> Vec<Effect> {
    if batch::is_in_the_way(model) {
        return Vec::new();
    }
    let waits = !model.queue.is_empty() || !model.clip_queue.is_empty() || model.cutting.is_some();
    if waits {
        model.note(
            Tone::Info,
            "other runs wait for the loaded models: let them end, or drop them with Esc first",
        );
        return Vec::new();
    }
    if model.models.is_changing() {
        model.note(Tone::Info, "other models are being loaded: Esc cancels that");
        return Vec::new();
    }
    if matches!(model.engine, EngineState::Loading { .. }) {
        model.note(Tone::Info, "the first models are still being loaded");
        return Vec::new();
    }
    let effects = vec![Effect::OpenPair(pair.clone())];
    model.models.change = Some(Change { pair, opened: None, progress: None, cancelling: false, runs });
    effects
}

/// The files of the pair are there, or not.
pub(super) fn opened(model: &mut Model, outcome: Result<Box<OpenedPair>, Failure>) -> Vec<Effect> {
    let Some(change) = model.models.change.as_mut().filter(|change| change.opened.is_none()) else {
        return Vec::new();
    };
    match outcome {
        _ if change.cancelling => cancelled(model),
        Ok(pair) => {
            let spec = pair.spec.clone();
            change.opened = Some(*pair);
            return vec![Effect::Switch(Box::new(spec))];
        }
        Err(failure) => failed(model, &failure),
    }
    Vec::new()
}

/// Take in how much of the new pair is loaded. False if none is.
pub(super) fn progress(model: &mut Model, done: u64, total: u64, left_ms: Option<f64>) -> bool {
    let change = model.models.change.as_mut().filter(|change| change.opened.is_some());
    change.map(|change| change.progress = Some((done, total, left_ms))).is_some()
}

/// The loading of other models failed, or was cancelled. False if none were loaded.
pub(super) fn load_failed(model: &mut Model, failure: &Failure) -> bool {
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
pub(super) fn ready(model: &mut Model, ready: &Ready) -> Vec<Effect> {
    let Some(Change { pair, opened: Some(opened), runs, .. }) = model.models.change.take() else {
        return Vec::new();
    };
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
    let mut effects = list(model);
    if let Some(file) = model.config.models_file.clone() {
        effects.push(Effect::RememberPair(file, Box::new(model.models.loaded.clone())));
    }
    if runs {
        model.overlay = None;
        effects.extend(runs::run_selected(model));
    }
    effects
}

/// Choose the default method if the chosen one cannot run with these models. Returns its name.
fn other_method(model: &mut Model) -> Option<String> {
    model.unavailable(model.methods.chosen)?;
    let EngineState::Ready(Ready { parts: Some(parts), .. }) = &model.engine else { return None };
    let drafts = parts.drafter || !parts.heads.is_empty() || parts.mtp;
    let default = if drafts { "auto" } else { "autoregressive" };
    let at = model.methods.turned.iter().position(|method| method.name == default)?;
    model.methods.choose(at);
    model.methods.current().map(|method| method.name.clone())
}

/// Ask whether the model under the cursor is removed.
pub(super) fn ask_remove(model: &mut Model) {
    let Some(Overlay::Models { query, cursor }) = &model.overlay else { return };
    let rows = model.models.rows(query);
    let Some(Row::Stored(stored)) = rows.get(*cursor).copied() else { return };
    let is_loaded = model.models.is_in_use(stored, model.config.embedded);
    let problem = match stored {
        _ if is_loaded => Some(format!("{} is in use: change to another model first", stored.name)),
        stored if !stored.removable => Some(format!(
            "only models in the cache are removed here; the files of this one are in {}",
            stored.path.display()
        )),
        _ => None,
    };
    let (name, path) = (stored.name.clone(), stored.path.clone());
    let bytes = stored.facts.as_ref().map_or(0, |facts| facts.bytes);
    match problem {
        Some(problem) => model.note(Tone::Bad, problem),
        None => model.models.confirm = Some(Confirm::Remove { name, path, bytes }),
    }
}

/// Do the work that was confirmed.
pub(super) fn confirm(model: &mut Model) -> Vec<Effect> {
    match model.models.confirm.take() {
        Some(Confirm::Remove { name, path, .. }) => vec![Effect::RemoveModel(name, path)],
        Some(Confirm::Pull { .. }) if model.models.pull.is_some() => {
            model.note(Tone::Info, "another model is being downloaded: wait for it, or cancel it with Esc");
            Vec::new()
        }
        Some(Confirm::Pull { id, runs, .. }) => {
            model.models.pull = Some(Pull { id: id.clone(), progress: None, cancelling: false, runs });
            vec![Effect::Pull(id)]
        }
        None => Vec::new(),
    }
}

pub(super) fn removed(model: &mut Model, outcome: Result<(String, u64), String>) -> Vec<Effect> {
    match outcome {
        Ok((name, freed)) => model.note(Tone::Info, format!("{name} removed, {} freed", bytes(freed))),
        Err(problem) => model.note(Tone::Bad, problem),
    }
    list(model)
}

pub(super) fn pulled(model: &mut Model, news: PullNews) -> Vec<Effect> {
    let Some(pull) = &mut model.models.pull else { return Vec::new() };
    let outcome = match news {
        PullNews::Progress(progress) => {
            pull.progress = Some(progress);
            return Vec::new();
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
    list(model)
}

/// Go back one level: withdraw a question, cancel a loading or a download, clear the filter. `None` if the screen closes.
pub(super) fn back(model: &mut Model) -> Option<Vec<Effect>> {
    if model.models.confirm.take().is_some() {
        return Some(Vec::new());
    }
    if let Some(change) = model.models.change.as_mut().filter(|change| !change.cancelling) {
        change.cancelling = true;
        // Before the files are found the engine knows nothing of it.
        let is_loading = change.opened.is_some();
        return Some(is_loading.then_some(Effect::Cancel(0)).into_iter().collect());
    }
    if let Some(pull) = model.models.pull.as_mut().filter(|pull| !pull.cancelling) {
        pull.cancelling = true;
        return Some(vec![Effect::CancelPull]);
    }
    match &mut model.overlay {
        Some(Overlay::Models { query, cursor }) if !query.is_empty() => {
            (*query, *cursor) = (String::new(), 0);
            Some(Vec::new())
        }
        _ => None,
    }
}

/// The engine has stopped while models were loading.
pub(super) fn gone(model: &mut Model) {
    if model.models.change.take().is_some() {
        model.note(Tone::Bad, "the engine has stopped");
    }
}

/// True, with a notice, while other models are loaded: what takes several runs would mix both.
pub(super) fn are_in_the_way(model: &mut Model) -> bool {
    let is_changing = model.models.is_changing();
    if is_changing {
        model.note(Tone::Info, "other models are being loaded: wait for them, or cancel that with Esc in M");
    }
    is_changing
}
