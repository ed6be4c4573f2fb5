//! Text input in boxes, and accepting a selection.

use super::*;
use crate::tui::{Completion, Wanted, model::line::Caret};

pub(super) fn type_key(model: &mut Model, key: Key) -> Vec<Effect> {
    if let Some(c) = key.typed() {
        return type_text(model, c.encode_utf8(&mut [0; 4]));
    }
    change(model, |line, caret| caret.press(line, key));
    Vec::new()
}

pub(super) fn type_text(model: &mut Model, typed: &str) -> Vec<Effect> {
    let typed = text::clean_line(typed);
    // Where typing searches at once, the key that starts a search elsewhere starts another one.
    let searches =
        matches!(model.overlay, Some(Overlay::Help { .. } | Overlay::Methods { .. } | Overlay::Pick { .. }));
    if searches && typed == "/" {
        change(model, |line, caret| {
            line.clear();
            *caret = Caret::default();
        });
        return Vec::new();
    }
    change(model, |line, caret| caret.insert(line, &typed));
    Vec::new()
}

pub(super) fn clear(model: &mut Model) {
    change(model, |line, caret| caret.clear(line));
}

fn change(model: &mut Model, change: impl FnOnce(&mut String, &mut Caret)) {
    let mut caret = model.caret;
    let Some(line) = typed_line(model) else { return };
    let before = line.clone();
    change(line, &mut caret);
    let is_another = *line != before;
    model.caret = caret;
    if is_another {
        changed(model);
    }
}

fn typed_line(model: &mut Model) -> Option<&mut String> {
    match model.overlay.as_mut()? {
        Overlay::Open { line, .. }
        | Overlay::SaveMethod(line)
        | Overlay::Tower { line, .. }
        | Overlay::Ask(line)
        | Overlay::Segments(line)
        | Overlay::Speech { line, .. }
        | Overlay::Value { line, .. } => Some(line),
        Overlay::History { query, .. }
        | Overlay::Help { query, .. }
        | Overlay::Methods { query, .. }
        | Overlay::Models { query, .. }
        | Overlay::Pick { query, .. }
        | Overlay::Timeline { query, .. } => Some(query),
        Overlay::Filter => Some(&mut model.library.filter),
        Overlay::Search => Some(&mut model.search.query),
        Overlay::SessionFilter => Some(&mut model.sessions.filter),
        _ => None,
    }
}

fn changed(model: &mut Model) {
    match &mut model.overlay {
        Some(Overlay::Open { found, .. } | Overlay::Speech { found, .. }) => found.clear(),
        Some(Overlay::Models { cursor, .. } | Overlay::Timeline { cursor, .. }) => *cursor = 0,
        Some(Overlay::History { cursor: first, .. } | Overlay::Help { top: first, .. }) => *first = 0,
        Some(Overlay::Methods { query, cursor } | Overlay::Pick { query, cursor }) => {
            *cursor = model.methods.found(query).1;
        }
        Some(Overlay::Filter) => model.library.set_filter(model.library.filter.clone()),
        Some(Overlay::SessionFilter) => model.sessions.set_filter(model.sessions.filter.clone()),
        Some(Overlay::Search) => search::begin(model),
        _ => {}
    }
}

pub(super) fn opened(model: &mut Model) {
    if std::mem::take(&mut model.opening) && matches!(model.overlay, Some(Overlay::Open { .. })) {
        model.overlay = None;
    }
}

pub(super) fn complete(model: &Model) -> Vec<Effect> {
    let (line, wanted) = match &model.overlay {
        Some(Overlay::Open { line, .. }) => (line, Wanted::Videos),
        Some(Overlay::Speech { line, .. }) => (line, Wanted::Transcripts),
        _ => return Vec::new(),
    };
    vec![Effect::Complete(model.caret.split(line).0.to_owned(), wanted)]
}

pub(super) fn completed(model: &mut Model, outcome: Result<Completion, String>) {
    let Some(Overlay::Open { line, found } | Overlay::Speech { line, found }) = &mut model.overlay else {
        return;
    };
    match outcome {
        Ok(done) if model.caret.split(line).0 == done.typed => {
            model.caret.clear(line);
            model.caret.insert(line, &done.line);
            *found = if done.found.len() > 1 { done.found } else { Vec::new() };
        }
        Ok(_) => {}
        Err(problem) => model.note(Tone::Info, problem),
    }
}

pub(super) fn choose(model: &mut Model) -> Vec<Effect> {
    match model.overlay.take() {
        Some(Overlay::Methods { query, cursor }) => {
            let Some(index) = model.methods.found(&query).0.get(cursor).copied() else {
                model.overlay = Some(Overlay::Methods { query, cursor });
                return Vec::new();
            };
            if let Some(why) = model.unavailable(index) {
                model.note(Tone::Bad, why);
                model.overlay = Some(Overlay::Methods { query, cursor });
                return Vec::new();
            }
            if index != model.methods.chosen {
                model.methods.choose(index);
            }
            return runs::with_method(model);
        }
        Some(Overlay::Themes { over, .. }) => {
            model.overlay = over.map(|over| *over);
            return theme::keep(model);
        }
        Some(Overlay::Presets(cursor)) => {
            if let Some(preset) = model.config.presets.get(cursor) {
                model.prompt.set(&preset.text);
                model.focus = Pane::Prompt;
            }
        }
        Some(Overlay::Open { line, .. }) if !line.trim().is_empty() => {
            // The line stays until the file is known to exist.
            model.opening = true;
            let typed = line.trim().to_owned();
            model.overlay = Some(Overlay::Open { line, found: Vec::new() });
            return vec![Effect::Open(typed)];
        }
        Some(Overlay::Segments(typed)) => return segments::choose(model, &typed),
        Some(Overlay::Speech { line, .. }) => return speech::choose(model, &line),
        Some(Overlay::Models { query, cursor }) => return models::choose(model, query, cursor),
        Some(Overlay::Tower { target, line }) => {
            return models::with_tower(model, target, &line);
        }
        Some(Overlay::History { query, cursor }) => {
            if let Some(prompt) = model.prompt.found(&query).get(cursor).map(|p| (*p).to_owned()) {
                model.prompt.set(&prompt);
            }
            model.focus = Pane::Prompt;
        }
        Some(Overlay::SessionFilter) => model.overlay = Some(Overlay::Sessions),
        Some(Overlay::Edit(_)) => return runs::again_if_shown(model),
        Some(Overlay::Ask(question)) if !question.trim().is_empty() => {
            return runs::follow_up(model, question.trim());
        }
        Some(Overlay::Export(cursor)) => return export::choose(model, cursor),
        Some(Overlay::SaveMethod(name)) => return edit::save(model, &name),
        Some(Overlay::Value { row, line }) => edit::set(model, row, line),
        Some(Overlay::Pick { .. }) => return compare::start(model),
        Some(Overlay::Timeline { query, cursor }) => timeline::choose(model, &query, cursor),
        Some(Overlay::Compare) => compare::choose(model),
        Some(Overlay::Sessions) => return sessions::choose(model),
        Some(
            Overlay::Filter | Overlay::Search | Overlay::Open { .. } | Overlay::Ask(_) | Overlay::Help { .. },
        ) => {}
        Some(Overlay::Preview) => return runs::run_selected(model),
        Some(Overlay::Batch) => return batch::choose(model),
        // Its keys are the editor's own.
        Some(Overlay::EditCaption) => model.overlay = Some(Overlay::EditCaption),
        None => return runs::run(model),
    }
    Vec::new()
}
