//! The effect of each action.

use super::*;
use crate::tui::{KeyContext, model::edit::rows};
use specreel_client::present::export::Format;

/// Longest caption that is copied: terminals limit the length of the sequence.
const MAX_COPY_BYTES: usize = 74_000;

pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    if model.key_context() == KeyContext::Inspector && inspect::is_its_own(action) {
        inspect::control(model, action);
        return Vec::new();
    }
    if model.overlay == Some(Overlay::Compare) && compare::is_its_own(action) {
        compare::control(model, action);
        return Vec::new();
    }
    if model.overlay == Some(Overlay::Preview) && preview::is_its_own(action) {
        preview::control(model, action);
        return Vec::new();
    }
    if model.config.server.is_some()
        && action.needs_engine()
        && let Some(problem) = engine_problem(model)
    {
        model.note(Tone::Info, problem);
        return Vec::new();
    }
    // Any other action withdraws the question.
    if model.sessions.confirm && !matches!(action, Action::Yes | Action::Back) {
        model.sessions.confirm = false;
    }
    if matches!(model.overlay, Some(Overlay::Models { .. })) {
        match action {
            Action::NextPane | Action::PreviousPane => {
                models::turn(model, if action == Action::NextPane { 1 } else { -1 });
                return Vec::new();
            }
            Action::Choose if model.models.confirm.is_some() => return models::confirm(model),
            Action::Back => {}
            // Any other action withdraws the question.
            _ => model.models.confirm = None,
        }
    }
    match action {
        Action::Run => {
            if model.overlay == Some(Overlay::Preview) {
                model.overlay = None;
                return runs::run_selected(model);
            }
            return runs::run(model);
        }
        Action::Again if matches!(model.overlay, Some(Overlay::Timeline { .. })) => {
            return timeline::again(model);
        }
        Action::Again => return runs::again(model),
        Action::Timeline => timeline::open(model),
        Action::Back => return back::back(model),
        Action::Interrupt => return back::interrupt(model),
        Action::Quit => return back::quit(model),
        Action::NextPane => focus(model, model.focus.next(1)),
        Action::PreviousPane => focus(model, model.focus.next(-1)),
        Action::Prompt => focus(model, Pane::Prompt),
        Action::Methods => open_picker(model),
        Action::FollowUp => {
            let done =
                model.runs.shown().is_some_and(|r| r.has_ended() && !r.log.whole().chunks().is_empty());
            match done {
                true => model.overlay = Some(Overlay::Ask(String::new())),
                false => model.note(Tone::Info, "no caption to ask about yet"),
            }
        }
        Action::Presets => model.overlay = Some(Overlay::Presets(0)),
        Action::Help => {
            let from = match model.overlay {
                Some(Overlay::Help { from, .. }) => from,
                _ => model.key_context(),
            };
            model.overlay = Some(Overlay::Help { from, query: String::new(), top: 0 });
        }
        Action::KnobUp | Action::KnobDown if matches!(model.overlay, Some(Overlay::Edit(_))) => {
            edit::turn(model, action == Action::KnobUp);
        }
        Action::KnobUp => return turn(model, true),
        Action::KnobDown => return turn(model, false),
        Action::Editor => {
            if model.batches.editor.is_none() {
                model.overlay = None;
            }
            return vec![Effect::Editor(model.editor().text())];
        }
        Action::Export => export::open(model),
        Action::Boundaries => {
            model.boundaries = !model.boundaries;
            model.note(
                Tone::Info,
                if model.boundaries { "steps end at ╎" } else { "steps are no longer marked" },
            );
        }
        Action::Edit if matches!(model.overlay, Some(Overlay::Edit(_))) => edit::ask_value(model),
        Action::Edit => edit::open(model),
        Action::Reset => edit::reset(model),
        Action::Save if model.overlay == Some(Overlay::EditCaption) => {
            return match model.edited.clone() {
                Some(segment) => timeline::save(model, &segment),
                None => batch::save(model),
            };
        }
        Action::Save => edit::ask_name(model),
        Action::NextKnob => {
            follow_picker(model);
            model.methods.next_knob();
            match model.methods.active_knob() {
                Some(knob) => {
                    let keys = model.keymap.shown(model.key_context(), &[Action::KnobDown, Action::KnobUp]);
                    model.note(Tone::Info, format!("{knob}: adjust with {keys}"));
                }
                None => model.note(Tone::Info, "this method has no adjustable parameter"),
            }
        }
        Action::Compare => compare::open(model),
        Action::Comparison => compare::reopen(model),
        Action::Sweep => return compare::sweep(model),
        Action::Pick => compare::pick(model),
        Action::Inspect => inspect::toggle(model),
        Action::Steps => steps::toggle(model),
        Action::Verify => return verify::start(model),
        Action::Copy => return copy(model),
        Action::OlderRun => show_run(model, model.runs.shown.saturating_sub(1)),
        Action::NewerRun => show_run(model, model.runs.shown + 1),
        Action::Sessions => return sessions::open(model),
        Action::Models => return models::open(model),
        Action::FirstModel => return models::offer_first(model),
        Action::Theme => theme::open(model),
        Action::Redraw => return vec![Effect::Redraw],
        Action::Suspend => return vec![Effect::Suspend],
        Action::Up => step(model, Move::By(-1)),
        Action::Down => step(model, Move::By(1)),
        Action::PageUp => step(model, Move::Pages(-1)),
        Action::PageDown => step(model, Move::Pages(1)),
        Action::Top => step(model, Move::Top),
        Action::Bottom => step(model, Move::Bottom),
        Action::Preview => preview::open(model),
        Action::Mark => model.library.toggle_mark(),
        Action::MarkAll => model.library.toggle_all(),
        Action::Batch => batch::open(model),
        Action::Retry => return batch::retry(model),
        Action::EditCaption if matches!(model.overlay, Some(Overlay::Timeline { .. })) => {
            timeline::edit(model)
        }
        Action::EditCaption => batch::edit(model),
        Action::SidecarForm => model.batches.next_sidecar(),
        Action::Existing => model.batches.next_existing(),
        Action::Sort => model.library.sort_next(),
        Action::Filter => {
            focus(model, Pane::Library);
            model.overlay = Some(Overlay::Filter);
        }
        Action::FilterSessions => model.overlay = Some(Overlay::SessionFilter),
        Action::Segments => segments::open(model),
        Action::Speech => speech::open(model),
        Action::Search => search::open(model),
        Action::NextMatch => search::step(model, 1),
        Action::PreviousMatch => search::step(model, -1),
        Action::History => {
            model.overlay = Some(Overlay::History { query: String::new(), cursor: 0 });
        }
        Action::Open => model.overlay = Some(Overlay::Open { line: String::new(), found: Vec::new() }),
        Action::OpenPlayer => return open_player(model),
        Action::Choose => return entry::choose(model),
        Action::Newline => model.editor().editor.insert_newline(),
        Action::HistoryOlder => model.prompt.older(),
        Action::HistoryNewer => model.prompt.newer(),
        Action::ClearLine => entry::clear(model),
        Action::Complete => return entry::complete(model),
        Action::Pause
        | Action::SeekBack
        | Action::SeekForward
        | Action::StepBack
        | Action::StepForward
        | Action::Slower
        | Action::Faster
        | Action::Skip => watch::control(model, action),
        Action::NextLoosened => steps::seek(model, true),
        Action::PreviousLoosened => steps::seek(model, false),
        // Only of the inspector.
        Action::TokenBack | Action::TokenForward | Action::Heat => {}
        Action::Delete if matches!(model.overlay, Some(Overlay::Models { .. })) => models::ask_remove(model),
        Action::Delete => sessions::ask_delete(model),
        Action::Yes => return sessions::delete(model),
    }
    Vec::new()
}

pub(super) fn focus(model: &mut Model, pane: Pane) {
    if pane == Pane::Prompt && model.focus != Pane::Prompt {
        model.before_prompt = model.focus;
    }
    model.overlay = None;
    if !matches!(pane, Pane::Caption | Pane::Steps) {
        model.inspector = None;
    }
    model.focus = pane;
}

/// In the method picker the parameters belong to the method under the cursor.
fn follow_picker(model: &mut Model) {
    if let Some(index) = model.picked_method()
        && index != model.methods.chosen
    {
        model.methods.choose(index);
    }
}

pub(super) fn open_picker(model: &mut Model) {
    model.overlay = Some(Overlay::Methods { query: String::new(), cursor: model.methods.chosen });
}

fn turn(model: &mut Model, up: bool) -> Vec<Effect> {
    follow_picker(model);
    let Some(knob) = model.methods.turn(up) else {
        model.note(Tone::Info, "this method has no adjustable parameter");
        return Vec::new();
    };
    let effects = if model.overlay.is_none() { runs::again_if_shown(model) } else { Vec::new() };
    model.note(Tone::Info, knob.to_string());
    effects
}

/// Open the clip under the cursor of the box or of the library.
fn open_player(model: &mut Model) -> Vec<Effect> {
    let clip = match &model.overlay {
        Some(Overlay::Batch | Overlay::EditCaption) => {
            let clip = model.batches.shown().and_then(|batch| batch.selected());
            clip.map(|clip| (clip.title.clone(), clip.clip.path()))
        }
        Some(Overlay::Sessions) => {
            let entry = model.sessions.selected();
            entry.map(|entry| (entry.name(), PathBuf::from(&entry.started.video)))
        }
        _ => model.library.selected().map(|entry| (entry.title.clone(), entry.path.clone())),
    };
    let Some((title, video)) = clip else {
        model.note(Tone::Info, "no clip selected");
        return Vec::new();
    };
    model.note(Tone::Info, format!("opening {title}"));
    vec![Effect::Play(video)]
}

fn copy(model: &mut Model) -> Vec<Effect> {
    let text = export::write(model, Format::Text).trim().to_owned();
    if text.is_empty() {
        model.note(Tone::Info, "no caption to copy yet");
        return Vec::new();
    }
    if text.len() > MAX_COPY_BYTES {
        model.note(Tone::Bad, "the caption is too long to copy through the terminal: export it with s");
        return Vec::new();
    }
    model.note(Tone::Info, "caption copied (if the terminal supports OSC 52)");
    vec![Effect::Copy(text)]
}

pub(super) fn show_run(model: &mut Model, index: usize) {
    if index < model.runs.all.len() && index != model.runs.shown {
        let before = model.runs.shown().and_then(|r| r.group());
        model.runs.shown = index;
        // The captions of all segments are in the pane already.
        match model.runs.shown().and_then(|r| r.group()).filter(|group| Some(*group) == before) {
            Some(_) => search::show(model, view::caption::lay(model).and_then(|laid| laid.segment)),
            None => model.caption_up = 0,
        }
    }
}

#[derive(Clone, Copy)]
enum Move {
    By(isize),
    Pages(isize),
    Top,
    Bottom,
    To(usize),
}

impl Move {
    fn apply(self, at: usize, n: usize, page: usize) -> usize {
        let last = n.saturating_sub(1);
        let page = page.max(1) as isize;
        match self {
            Move::By(d) => at.saturating_add_signed(d).min(last),
            Move::Pages(d) => at.saturating_add_signed(d * page).min(last),
            Move::Top => 0,
            Move::Bottom => last,
            Move::To(at) => at.min(last),
        }
    }
}

/// Select a row of the list in the box, or in the pane that has the focus.
pub(super) fn select(model: &mut Model, row: usize) {
    model.sessions.confirm = false;
    step(model, Move::To(row));
}

fn step(model: &mut Model, go: Move) {
    let page = usize::from(model.size.1 / 2).max(1);
    let n = list_length(model);
    if let Some(cursor) = model.overlay.as_mut().and_then(Overlay::cursor) {
        *cursor = go.apply(*cursor, n, page);
        if matches!(model.overlay, Some(Overlay::Methods { .. })) {
            model.methods.knob = 0;
        }
        theme::show(model);
        return;
    }
    match (&model.overlay, model.focus) {
        (Some(Overlay::Filter | Overlay::Preview), _) | (None, Pane::Library) => {
            model.library.cursor = go.apply(model.library.cursor, model.library.shown.len(), page);
        }
        (Some(Overlay::Search), _) => {
            if let Move::By(by) = go {
                search::step(model, by);
            }
        }
        (Some(Overlay::Batch), _) => {
            if let Some(batch) = model.batches.shown_mut() {
                batch.cursor = go.apply(batch.cursor, batch.clips.len(), page);
            }
        }
        (Some(Overlay::Compare), _) => {
            if let Some(comparison) = &mut model.comparison {
                comparison.cursor = go.apply(comparison.cursor, comparison.lanes.len(), page);
            }
        }
        (Some(Overlay::Sessions | Overlay::SessionFilter), _) => {
            model.sessions.cursor = go.apply(model.sessions.cursor, model.sessions.shown.len(), page);
        }
        (None, Pane::Caption) => {
            let most = view::caption::overflow(model);
            // Counted from the end, so that the stream can be followed.
            let down = most.saturating_sub(model.caption_up.min(most));
            model.caption_up = most - go.apply(down, most + 1, view::caption::page(model));
        }
        (None, Pane::Steps) => steps::go(model, |at, n| go.apply(at, n, page)),
        (None, Pane::Meters) => match go {
            Move::By(d) if d < 0 => show_run(model, model.runs.shown.saturating_sub(1)),
            Move::By(_) => show_run(model, model.runs.shown + 1),
            Move::Pages(_) => {}
            Move::To(run) => show_run(model, run),
            Move::Top => show_run(model, 0),
            Move::Bottom => show_run(model, model.runs.all.len().saturating_sub(1)),
        },
        (Some(_), _) | (None, Pane::Prompt) => {}
    }
}

fn list_length(model: &Model) -> usize {
    match &model.overlay {
        Some(Overlay::Methods { query, .. } | Overlay::Pick { query, .. }) => {
            model.methods.found(query).0.len()
        }
        Some(Overlay::Models { query, .. }) => model.models.rows(query).len(),
        Some(Overlay::Themes { .. }) => model.themes.len(),
        Some(Overlay::Presets(_)) => model.config.presets.len(),
        Some(Overlay::Export(_)) => export::choices(model),
        Some(Overlay::Edit(_)) => model.methods.current().map_or(0, |m| rows(m).len()),
        Some(Overlay::History { query, .. }) => model.prompt.found(query).len(),
        Some(Overlay::Timeline { query, .. }) => crate::tui::model::timeline::found(model, query).len(),
        Some(Overlay::Help { from, query, .. }) => view::help::line_count(model, *from, query),
        _ => 0,
    }
}

/// After a resize the caption may have fewer lines.
pub(super) fn keep_caption_in_view(model: &mut Model) {
    if model.caption_up > 0 {
        model.caption_up = model.caption_up.min(view::caption::overflow(model));
    }
}

/// True if runs can start at once.
pub(super) fn is_ready(model: &Model) -> bool {
    matches!(model.engine, EngineState::Ready(_))
}
