//! Lines of text that are typed over the panes, and lists to choose from.

use super::{compare, edit, export, runs, search, segments, sessions};
use crate::tui::{
    Effect, Key, KeyCode,
    model::{Layer, Model, Pane, Tone},
    text,
};

/// Longest text of a line.
const MAX_ENTRY_BYTES: usize = 4096;

/// Give a key to the line that is being typed.
pub(super) fn type_key(model: &mut Model, key: Key) -> Vec<Effect> {
    if let Some(c) = key.typed() {
        return type_text(model, c.encode_utf8(&mut [0; 4]));
    }
    let word = key == Key::ctrl('w') || (key.alt && key.code == KeyCode::Backspace);
    if word || key.code == KeyCode::Backspace || key == Key::ctrl('h') {
        change(model, |line| {
            if word {
                let end = line.trim_end_matches([' ', '/']).rfind([' ', '/']).map_or(0, |i| i + 1);
                line.truncate(end);
            } else {
                line.pop();
            }
        });
    }
    Vec::new()
}

/// Add to the line that is being typed.
pub(super) fn type_text(model: &mut Model, typed: &str) -> Vec<Effect> {
    let typed = text::clean_line(typed);
    change(model, |line| {
        if line.len() + typed.len() <= MAX_ENTRY_BYTES {
            line.push_str(&typed);
        }
    });
    Vec::new()
}

/// Empty the line that is being typed.
pub(super) fn clear(model: &mut Model) {
    change(model, String::clear);
}

fn change(model: &mut Model, change: impl FnOnce(&mut String)) {
    match &mut model.layer {
        Some(Layer::Filter) => {
            let mut filter = model.library.filter.clone();
            change(&mut filter);
            model.library.set_filter(filter);
        }
        Some(Layer::Open(line) | Layer::SaveMethod(line) | Layer::Ask(line) | Layer::Segments(line)) => {
            change(line)
        }
        Some(Layer::Search) => {
            change(&mut model.search.query);
            search::begin(model);
        }
        Some(Layer::SessionFilter) => {
            let mut filter = model.sessions.filter.clone();
            change(&mut filter);
            model.sessions.set_filter(filter);
        }
        Some(Layer::History { query, cursor }) => {
            change(query);
            *cursor = 0;
        }
        Some(Layer::Help { query, top }) => {
            change(query);
            *top = 0;
        }
        _ => {}
    }
}

/// Take what is typed or selected.
pub(super) fn choose(model: &mut Model) -> Vec<Effect> {
    match model.layer.take() {
        Some(Layer::Methods(cursor)) => {
            if cursor != model.methods.chosen {
                model.methods.choose(cursor);
            }
            let label = model.methods.label(model.methods.chosen);
            let hint = if model.runs.all.is_empty() { "" } else { "  ·  run again to compare" };
            model.note(Tone::Info, format!("method {label}{hint}"));
        }
        Some(Layer::Presets(cursor)) => {
            if let Some(preset) = model.presets.get(cursor) {
                model.prompt.set(&preset.text);
                model.focus = Pane::Prompt;
            }
        }
        Some(Layer::Open(path)) if !path.trim().is_empty() => {
            return vec![Effect::Open(path.trim().to_owned())];
        }
        Some(Layer::Segments(typed)) => return segments::choose(model, &typed),
        Some(Layer::History { query, cursor }) => {
            if let Some(prompt) = model.prompt.found(&query).get(cursor).map(|p| (*p).to_owned()) {
                model.prompt.set(&prompt);
            }
            model.focus = Pane::Prompt;
        }
        Some(Layer::SessionFilter) => model.layer = Some(Layer::Sessions),
        Some(Layer::Edit(_)) => return runs::again_if_shown(model),
        Some(Layer::Ask(question)) if !question.trim().is_empty() => {
            return runs::follow_up(model, question.trim());
        }
        Some(Layer::Export(cursor)) => return export::choose(model, cursor),
        Some(Layer::SaveMethod(name)) => return edit::save(model, &name),
        Some(Layer::Pick(_)) => return compare::start(model),
        Some(Layer::Compare) => compare::choose(model),
        Some(Layer::Sessions) => return sessions::choose(model),
        Some(Layer::Filter | Layer::Search | Layer::Open(_) | Layer::Ask(_) | Layer::Help { .. }) => {}
        Some(Layer::Preview) | None => return runs::run(model),
    }
    Vec::new()
}
