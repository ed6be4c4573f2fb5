//! How each message changes the model, and which effects follow.
//!
//! Pure: no clock, no file, no terminal. Everything it needs is in the model or in the message.

use std::path::{Path, PathBuf};

use super::{actions, mouse, tour};
use crate::look::{Action, Key};
use crate::tui::effect::{Completion, Effect, Msg, VideoFile};
use crate::tui::model::{Model, Tone, library, stack::MAX_PATH_BYTES};
use crate::tui::screens::{
    caption_editor, filter, find, models as model_screen, open, preview, save_method, sessions, speech,
};
use crate::tui::update::{batch, clip_frames, events, export, models, notify, remember, segments, watch};
use crate::tui::{config::ClipFacts, pane::Pane, view};
use percent_encoding::percent_decode_str;
use specreel_client::present::formats::plural;
use specreel_os::names;
use specreel_record::Failure;

pub(super) fn update(model: &mut Model, msg: Msg) {
    let before = model.library.selected().map(|e| e.path.clone());
    handle(model, msg);
    let is_new = |entry: &library::Entry| entry.facts.is_none() && before.as_deref() != Some(&entry.path);
    if model.library.selected().is_some_and(is_new) {
        next_probe(model);
    }
    preview::follow(model);
    clip_frames::ask(model);
    tour::follow(model);
    let words = notify::follow(model);
    model.effects.extend(words);
}

fn handle(model: &mut Model, msg: Msg) {
    match msg {
        Msg::Key(key) => on_key(model, key),
        Msg::Mouse(mouse) => mouse::on_mouse(model, mouse),
        Msg::Focus(is_focused) => notify::focused(model, is_focused),
        Msg::Paste(pasted) => on_paste(model, &pasted),
        Msg::Resize(columns, rows) => {
            let shows_caption = |model: &Model| view::caption::lay(model).is_some();
            let was_shown = shows_caption(model);
            model.size = (columns, rows);
            // A caption that was in sight stays in sight, unless the user types into the library. On a screen that is too small
            // nothing is.
            let is_hidden = was_shown && model.runs.shown().is_some() && !shows_caption(model);
            let fits = view::areas((columns, rows), model.focus, false).is_some();
            if is_hidden && fits && model.screens.typed_on(Pane::Library).is_none() {
                model.focus = Pane::Caption;
            }
            // The caption may have fewer lines now.
            model.caption.up = model.caption.up.min(view::caption::overflow(model));
        }
        Msg::Engine(event) => events::on_event(model, event),
        Msg::EngineGone => {
            models::gone(model);
            let hint = "quit and restart specreel; the log has details";
            events::engine_failed(model, Failure::internal("the engine has stopped", hint));
        }
        Msg::Scanned { folder, found: Ok(found), note } => on_scanned(model, &folder, found, note),
        Msg::Scanned { found: Err(problem), .. } => {
            model.library.scanning = model.library.scanning.saturating_sub(1);
            model.library.opening = false;
            model.library.moment = None;
            model.note(Tone::Bad, problem);
        }
        Msg::EarlierPrompts(prompts) => model.prompt.remember_earlier(&prompts),
        Msg::Recent(Ok(found)) => {
            model.library.add_recent(&found);
            next_probe(model);
        }
        Msg::Opened(Ok(file)) => {
            open::opened(model);
            model.library.open(&file);
            filter::dropped(model);
            if let Some((path, _)) = &mut model.library.moment {
                path.clone_from(&file.path);
                preview::open(model);
            }
            let title = model.library.selected().map(|e| e.title.clone()).unwrap_or_default();
            model.note(Tone::Info, format!("opened {title}"));
            if model.config.probe.is_none() {
                return remember(model, &file.path);
            }
            // Only videos are added to the recent files.
            model.library.opened = Some(file.path);
        }
        Msg::Opened(Err(problem)) => {
            model.library.opening = false;
            model.note(Tone::Bad, problem);
        }
        Msg::Probed { path, facts } => on_probed(model, &path, facts),
        Msg::FrameRead(request, frame) => model.library.strips.add(&request, frame),
        Msg::FramesRead(request, outcome) => model.library.strips.end(&request, outcome),
        Msg::Listed(found) => sessions::listed(model, found),
        Msg::Moments(words, moments) => {
            filter::found(model, &words, &moments);
            find::found(model, &words, moments);
        }
        Msg::Near(words, moments) => find::near(model, &words, moments),
        Msg::Asked(asked) => find::asked(model, asked),
        Msg::Loaded(session) => sessions::loaded(model, session),
        Msg::Batch(news) => batch::news(model, news),
        Msg::CaptionSaved { video, caption, outcome } => {
            caption_editor::saved(model, &video, *caption, outcome)
        }
        Msg::Edited(Ok(text)) => {
            if !caption_editor::returned(model, &text) {
                model.prompt.set(text.trim_end());
                model.focus = Pane::Prompt;
            }
        }
        Msg::Written(Ok(file)) => model.note(Tone::Info, format!("saved as {}", file.display())),
        Msg::Sidecars(Ok(outcome)) => export::written(model, &outcome),
        Msg::Recent(Err(problem))
        | Msg::Sidecars(Err(problem))
        | Msg::Trouble(problem)
        | Msg::Unrecorded(problem)
        | Msg::Edited(Err(problem))
        | Msg::Written(Err(problem)) => model.note(Tone::Bad, problem),
        Msg::Completed(outcome) => completed(model, outcome),
        Msg::MethodSaved(outcome) => save_method::saved(model, outcome),
        Msg::Cut(segments) => segments::cut(model, segments),
        Msg::Speech(video, news) => speech::news(model, &video, news),
        Msg::Models(found) => model_screen::listed(model, found),
        Msg::PairOpened(outcome) => models::opened(model, outcome),
        Msg::Pull(news) => models::pulled(model, news),
        Msg::ModelRemoved(outcome) => models::removed(model, outcome),
        Msg::Advance(ms) => {
            if model.with_top(|top, model| top.advance(ms, model)) != Some(true) {
                watch::advance(model, ms);
            }
        }
        Msg::Tick => model.look.tick = model.look.tick.wrapping_add(1),
    }
}

fn on_scanned(model: &mut Model, folder: &Path, found: Vec<VideoFile>, note: Option<String>) {
    model.library.scanning = model.library.scanning.saturating_sub(1);
    let was_requested = model.library.opening;
    open::opened(model);
    let (n, before) = (found.len(), model.library.entries.len());
    model.library.add_folder(folder, found);
    let new = model.library.entries.len() - before;
    if was_requested && n > 0 {
        let new = if new == 0 { "already in the library".into() } else { format!("{new} new") };
        let words = format!("{}: {}, {new}", folder.display(), plural(n as u64, "video"));
        model.note(Tone::Info, words);
    }
    if let Some(note) = note {
        model.note(Tone::Info, note);
    }
    next_probe(model);
}

/// A clip's properties are known, or it cannot be read.
fn on_probed(model: &mut Model, path: &Path, facts: Result<ClipFacts, String>) {
    if model.library.opened.as_deref() == Some(path) {
        model.library.opened = None;
        match &facts {
            Ok(_) => remember(model, path),
            Err(problem) => model.note(Tone::Bad, problem),
        }
    }
    model.library.set_facts(path, facts);
    // Then the clips around it, so that the list fills in.
    next_probe(model);
}

/// Probe the nearest clip that was not probed yet.
fn next_probe(model: &mut Model) {
    let next = model.library.unknown_near().filter(|_| model.config.probe.is_some());
    model.effects.extend(next.map(Effect::Probe));
}

pub(super) fn begin(model: &mut Model, folders: &[PathBuf]) {
    model.effects.extend(folders.iter().cloned().map(Effect::Scan));
    model.library.scanning = folders.len();
    model.effects.extend(model.config.recent.clone().map(Effect::Recent));
    // The library marks clips that were captioned before.
    model.effects.extend(model.sessions.folder.clone().map(Effect::List));
    if let Some(video) = model.config.video.take() {
        match model.library.entries.iter().any(|e| e.path == video) {
            true => model.library.select(&video),
            false => model.emit(Effect::Open(video.to_string_lossy().into_owned())),
        }
    }
    next_probe(model);
}

fn on_key(model: &mut Model, key: Key) {
    let action = model.keymap.action(model.key_context(), key);
    begin_input(model, action);
    if let Some(action) = action {
        return actions::act(model, action);
    }
    if model.with_top(|top, model| top.key(key, model)).is_none()
        && model.focus == Pane::Prompt
        && !model.prompt.input(key)
    {
        model.note(Tone::Bad, "the prompt is full");
    }
}

/// The user presses a key or a button, which may stand for an action.
pub(super) fn begin_input(model: &mut Model, action: Option<Action>) {
    model.notices.shown = None;
    model.library.opening = false;
    // What must be pressed twice must be pressed twice in a row.
    model.input.asked = model.input.asked.filter(|asked| action == Some(*asked));
}

fn on_paste(model: &mut Model, pasted: &str) {
    model.notices.shown = None;
    if model.with_top(|top, model| top.paste(pasted, model)) == Some(true) {
        return;
    }
    if let Some(path) = as_video_path(pasted) {
        model.emit(Effect::Open(path));
    } else if !model.screens.is_empty() || model.focus != Pane::Prompt {
        model.note(Tone::Info, "paste the path of a video, or focus the prompt to paste text");
    } else if !model.prompt.paste(pasted) {
        model.note(Tone::Bad, "the pasted text is too long for a prompt and was truncated");
    }
}

/// The completion of a path that is typed, if it still is.
fn completed(model: &mut Model, outcome: Result<Completion, String>) {
    let problem = model.with_top(|top, _| match (top.path(), outcome) {
        (Some(path), Ok(done)) => {
            path.complete(&done.typed, &done.line, done.found);
            None
        }
        (path, outcome) => path.and(outcome.err()),
    });
    if let Some(problem) = problem.flatten() {
        model.note(Tone::Info, problem);
    }
}

/// A pasted text as the path of a video, quoted or escaped as terminals and file managers do.
fn as_video_path(pasted: &str) -> Option<String> {
    if pasted.len() > MAX_PATH_BYTES {
        return None;
    }
    let line = pasted.trim();
    let quoted = ['\'', '"'].into_iter().find_map(|q| line.strip_prefix(q)?.strip_suffix(q));
    let path = match quoted {
        Some(inside) => inside.to_owned(),
        None => match line.strip_prefix("file://") {
            Some(url) => {
                let path = names::path_of_url(&percent_decode_str(url).decode_utf8_lossy());
                path.to_string_lossy().into_owned()
            }
            None => names::unescaped(line),
        },
    };
    let plain = !path.chars().any(char::is_control);
    (plain && library::is_video(Path::new(&path))).then_some(path)
}
