//! The reducer: how each message changes the model, and which effects follow.
//!
//! Pure: no clock, no file, no terminal. Everything it needs is in the model or in the message.

mod actions;
mod back;
mod compare;
mod edit;
mod entry;
mod events;
pub(crate) mod export;
mod inspect;
mod mouse;
mod preview;
mod runs;
mod search;
mod segments;
mod sessions;

use std::path::Path;

use super::{
    Effect, Key, KeyContext, Msg,
    model::{EngineState, Model, Overlay, Pane, Tone, library, line::Caret},
    text, view,
};
use crate::record::{Failure, FailureClass};

/// A longer pasted text is not a path.
const MAX_PATH_BYTES: usize = 4096;

/// Change the model by one message.
pub(crate) fn update(model: &mut Model, msg: Msg) -> Vec<Effect> {
    let before = model.library.selected().map(|e| e.path.clone());
    let layer = model.layer.as_ref().map(std::mem::discriminant);
    let mut effects = match msg {
        Msg::Key(key) => on_key(model, key),
        Msg::Mouse(mouse) => {
            model.notice = None;
            mouse::on_mouse(model, mouse)
        }
        Msg::Paste(pasted) => on_paste(model, &pasted),
        Msg::Resize(columns, rows) => {
            let was_wide = !view::is_stacked(model.size);
            model.size = (columns, rows);
            // If panes become stacked, a caption that is being written is shown instead of the library.
            let now_low = was_wide && view::is_stacked(model.size);
            if now_low && model.focus == Pane::Library && model.runs.active().is_some() {
                model.focus = Pane::Caption;
            }
            actions::keep_caption_in_view(model);
            Vec::new()
        }
        Msg::Engine(event) => events::on_event(model, event),
        Msg::EngineGone => {
            events::engine_failed(
                model,
                Failure {
                    class: FailureClass::Internal,
                    error: "the engine has stopped".into(),
                    hint: Some("quit and restart specreel; the log has details".into()),
                },
            );
            Vec::new()
        }
        Msg::Scanned { folder, found, note } => {
            model.library.scanning = model.library.scanning.saturating_sub(1);
            let was_asked_for = model.opening;
            match found {
                Ok(found) => {
                    entry::opened(model);
                    let (n, before) = (found.len(), model.library.entries.len());
                    model.library.add_folder(&folder, found);
                    let new = model.library.entries.len() - before;
                    if was_asked_for && n > 0 {
                        let of = if n == 1 { "1 video".into() } else { format!("{n} videos") };
                        let words =
                            if new == 0 { ", already in the library".into() } else { format!(", {new} new") };
                        model.note(Tone::Info, format!("{}: {of}{words}", folder.display()));
                    }
                    if let Some(note) = note {
                        model.note(Tone::Info, note);
                    }
                    next_probe(model)
                }
                Err(problem) => {
                    model.opening = false;
                    model.note(Tone::Bad, problem);
                    Vec::new()
                }
            }
        }
        Msg::Recent(Ok(found)) => {
            model.library.add_recent(&found);
            next_probe(model)
        }
        Msg::Opened(Ok(file)) => {
            entry::opened(model);
            model.library.open(&file);
            let title = model.library.selected().map(|e| e.title.clone()).unwrap_or_default();
            model.note(Tone::Info, format!("opened {title}"));
            match model.settings.probes {
                // Only videos are added to the recent files.
                true => {
                    model.opened = Some(file.path);
                    Vec::new()
                }
                false => remember(model, &file.path),
            }
        }
        Msg::Opened(Err(problem)) => {
            model.opening = false;
            model.note(Tone::Bad, problem);
            Vec::new()
        }
        Msg::Recent(Err(problem)) | Msg::Trouble(problem) => {
            model.note(Tone::Bad, problem);
            Vec::new()
        }
        Msg::Probed { path, facts } => {
            let mut effects = Vec::new();
            if model.opened.as_ref() == Some(&path) {
                model.opened = None;
                match &facts {
                    Ok(_) => effects = remember(model, &path),
                    Err(problem) => model.note(Tone::Bad, problem),
                }
            }
            model.library.set_facts(&path, facts);
            // Then the clips around it, so that the list fills in.
            effects.extend(next_probe(model));
            effects
        }
        Msg::FrameRead(wish, frame) => {
            model.strips.add(&wish, frame);
            Vec::new()
        }
        Msg::FramesRead(wish, outcome) => {
            model.strips.end(&wish, outcome);
            Vec::new()
        }
        Msg::Listed(found) => {
            sessions::listed(model, found);
            Vec::new()
        }
        Msg::Loaded(session) => {
            sessions::loaded(model, session);
            Vec::new()
        }
        Msg::Edited(Ok(prompt)) => {
            model.prompt.set(prompt.trim_end());
            model.focus = Pane::Prompt;
            Vec::new()
        }
        Msg::Written(Ok(file)) => {
            model.note(Tone::Info, format!("saved as {}", file.display()));
            Vec::new()
        }
        Msg::Edited(Err(problem)) | Msg::Written(Err(problem)) => {
            model.note(Tone::Bad, problem);
            Vec::new()
        }
        Msg::Completed(outcome) => {
            entry::completed(model, outcome);
            Vec::new()
        }
        Msg::MethodSaved(outcome) => {
            edit::saved(model, outcome);
            Vec::new()
        }
        Msg::Cut(pieces) => segments::cut(model, pieces),
        Msg::Unrecorded(problem) => {
            model.note(Tone::Bad, format!("runs are not saved: {problem}"));
            Vec::new()
        }
        Msg::Advance(ms) => {
            match model.race() {
                Some(_) => compare::advance(model, ms),
                None => {
                    preview::advance(model, ms);
                    sessions::advance(model, ms);
                }
            }
            Vec::new()
        }
        Msg::Tick => {
            model.tick = model.tick.wrapping_add(1);
            Vec::new()
        }
    };
    // A new input line is edited at its end; a suggested value is selected, so that typing replaces it.
    if layer != model.layer.as_ref().map(std::mem::discriminant) {
        model.caret = match model.layer {
            Some(Overlay::Segments(_) | Overlay::Value { .. }) => Caret::ALL,
            _ => Caret::default(),
        };
    }
    if model.settings.probes
        && let Some(entry) = model.library.selected()
        && entry.facts.is_none()
        && before.as_deref() != Some(&entry.path)
    {
        effects.push(Effect::Probe(entry.path.clone()));
    }
    preview::follow(model);
    effects.extend(preview::ask(model));
    effects
}

/// Add a file of the user's to the recent files.
fn remember(model: &Model, file: &Path) -> Vec<Effect> {
    let entry = model.library.entries.iter().find(|e| e.path == file);
    let is_own = entry.is_none_or(|e| e.kind != library::Kind::Clip && e.problem().is_none());
    let list = model.settings.recent.clone().filter(|_| is_own);
    list.map(|list| Effect::Remember(list, file.into())).into_iter().collect()
}

/// Probe the nearest clip that was not probed yet.
fn next_probe(model: &Model) -> Vec<Effect> {
    let next = model.library.unknown_near().filter(|_| model.settings.probes);
    next.map(Effect::Probe).into_iter().collect()
}

/// The effects at the start.
pub(crate) fn begin(model: &mut Model, folders: &[std::path::PathBuf]) -> Vec<Effect> {
    let mut effects: Vec<_> = folders.iter().cloned().map(Effect::Scan).collect();
    model.library.scanning = effects.len();
    effects.extend(model.settings.recent.clone().map(Effect::Recent));
    if let Some(video) = model.start_video.take() {
        match model.library.entries.iter().any(|e| e.path == video) {
            true => model.library.select(&video),
            false => effects.push(Effect::Open(video.to_string_lossy().into_owned())),
        }
    }
    if model.settings.probes
        && let Some(entry) = model.library.selected()
    {
        effects.push(Effect::Probe(entry.path.clone()));
    }
    effects
}

fn on_key(model: &mut Model, key: Key) -> Vec<Effect> {
    model.notice = None;
    model.opening = false;
    let place = model.place();
    let action = model.keymap.action(place, key);
    // A key that must be pressed twice must be pressed twice in a row.
    model.asked = model.asked.filter(|asked| action == Some(*asked));
    match action {
        Some(action) => actions::act(model, action),
        None if model.layer.is_some() => entry::type_key(model, key),
        None if model.focus == Pane::Prompt => {
            if !model.prompt.input(key) {
                model.note(Tone::Bad, "the prompt is full");
            }
            Vec::new()
        }
        None => Vec::new(),
    }
}

fn on_paste(model: &mut Model, pasted: &str) -> Vec<Effect> {
    model.notice = None;
    if model.place() == KeyContext::Entry {
        let line = text::clean_line(pasted.get(..floor(pasted, MAX_PATH_BYTES)).unwrap_or_default());
        return entry::type_text(model, line.trim());
    }
    if let Some(path) = as_video_path(pasted) {
        return vec![Effect::Open(path)];
    }
    if model.layer.is_none() && model.focus == Pane::Prompt {
        if !model.prompt.paste(pasted) {
            model.note(Tone::Bad, "the pasted text is too long for a prompt and was truncated");
        }
    } else {
        model.note(Tone::Info, "paste the path of a video, or focus the prompt to paste text");
    }
    Vec::new()
}

/// The largest index up to `limit` on a character boundary.
fn floor(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

/// A pasted text as the path of a video: one line with a video's extension, quoted or escaped as terminals and file managers do
/// when a file is dropped.
fn as_video_path(pasted: &str) -> Option<String> {
    if pasted.len() > MAX_PATH_BYTES {
        return None;
    }
    let line = pasted.trim();
    let quoted = ['\'', '"'].into_iter().find_map(|q| line.strip_prefix(q)?.strip_suffix(q));
    let path = match quoted {
        Some(inside) => inside.to_owned(),
        None => match line.strip_prefix("file://") {
            Some(url) => unescape_url(url),
            None => line.replace("\\ ", " ").replace("\\(", "(").replace("\\)", ")"),
        },
    };
    let plain = !path.chars().any(char::is_control);
    (plain && library::is_video(Path::new(&path))).then_some(path)
}

/// Percent-decode a URL.
fn unescape_url(url: &str) -> String {
    let mut bytes = Vec::with_capacity(url.len());
    let mut rest = url.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%')
            .then(|| tail.get(..2).and_then(|h| std::str::from_utf8(h).ok()))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why no run can be requested, if the engine has failed.
fn engine_problem(model: &Model) -> Option<String> {
    match &model.engine {
        EngineState::Failed(failure) => Some(format!("no models: {}", failure.error)),
        _ => None,
    }
}

#[cfg(test)]
mod box_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod tests;
