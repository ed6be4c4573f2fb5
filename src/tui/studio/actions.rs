//! The effect of each action.

use std::path::PathBuf;

use super::back;
use crate::look::{Action, KeyContext};
use crate::tui::model::{Model, Tone};
use crate::tui::screens::{
    ask, batch, compare, compare_picker, export, filter, find as moments, help, history::PromptHistory,
    methods::MethodPicker, models, open::OpenLine, presets::PresetList, preview, sampling::SamplingScreen,
    search, segments, sessions, speech, themes, timeline,
};
use crate::tui::update::{
    engine_problem, export::write, inspect, methods, panes, search as find, steps, verify, watch,
};
use crate::tui::{effect::Effect, line::PathLine, pane::Pane, picker::Move};
use specreel_client::present::export::Format;
use specreel_os::signals::CAN_STOP;

/// Longest caption that is copied: terminals limit the length of the sequence.
const MAX_COPY_BYTES: usize = 74_000;

/// Let the screen on top do an action, or else do what it means everywhere.
pub(super) fn act(model: &mut Model, action: Action) {
    if model.config.server.is_some()
        && action.needs_engine()
        && let Some(problem) = engine_problem(model)
    {
        return model.note(Tone::Info, problem);
    }
    if !model.act_on_top(action) {
        act_everywhere(model, action);
    }
}

fn act_everywhere(model: &mut Model, action: Action) {
    match action {
        own if model.key_context() == KeyContext::Inspector && inspect::is_its_own(own) => {
            inspect::control(model, own);
        }
        Action::Run => batch::run(model),
        Action::Again => batch::run_again(model),
        Action::Timeline => timeline::open(model),
        Action::Back => back::back(model),
        Action::Interrupt => back::interrupt(model),
        Action::Quit => back::quit(model),
        Action::NextPane => panes::focus(model, model.focus.next(1)),
        Action::PreviousPane => panes::focus(model, model.focus.next(-1)),
        Action::Prompt => panes::focus(model, Pane::Prompt),
        Action::Methods => model.screens.open(MethodPicker::new(model)),
        Action::FollowUp => ask::open(model),
        Action::Presets => model.screens.open(PresetList::default()),
        Action::Sampling => model.screens.open(SamplingScreen::default()),
        Action::Help => help::open(model),
        Action::KnobUp => methods::turn(model, true),
        Action::KnobDown => methods::turn(model, false),
        Action::NextKnob => {
            model.methods.next_knob();
            methods::note_knob(model, model.key_context());
        }
        Action::Editor => {
            model.screens.close();
            model.emit(Effect::Editor(model.prompt.text()));
        }
        Action::Export => export::open(model),
        Action::Boundaries => {
            model.caption.boundaries = !model.caption.boundaries;
            let marks = model.caption.boundaries;
            model.note(Tone::Info, if marks { "steps end at ╎" } else { "steps are no longer marked" });
        }
        Action::Compare => compare_picker::open(model),
        Action::Comparison => compare::reopen(model),
        Action::Sweep => compare::sweep(model),
        Action::Inspect => inspect::toggle(model),
        Action::Steps => steps::toggle(model),
        Action::Verify => verify::start(model),
        Action::Copy => copy(model),
        Action::OlderRun => panes::show_run(model, model.runs.shown.saturating_sub(1)),
        Action::NewerRun => panes::show_run(model, model.runs.shown + 1),
        Action::Sessions => sessions::open(model),
        Action::Find => moments::open(model),
        Action::Models => models::open(model),
        Action::FirstModel => models::offer_first(model),
        Action::Theme => themes::open(model),
        Action::Redraw => model.emit(Effect::Redraw),
        Action::Suspend if CAN_STOP => model.emit(Effect::Suspend),
        Action::Suspend => model.note(Tone::Info, "this system cannot suspend a program"),
        Action::Up => go(model, Move::By(-1)),
        Action::Down => go(model, Move::By(1)),
        Action::PageUp => go(model, Move::Pages(-1)),
        Action::PageDown => go(model, Move::Pages(1)),
        Action::Top => go(model, Move::Top),
        Action::Bottom => go(model, Move::Bottom),
        Action::Preview => preview::open(model),
        Action::Mark => model.library.toggle_mark(),
        Action::MarkAll => model.library.toggle_all(),
        Action::Batch => batch::open(model),
        Action::Sort => model.library.sort_next(),
        Action::Filter => filter::open(model),
        Action::Segments => segments::open(model),
        Action::Speech => speech::open(model),
        Action::Search => search::open(model),
        Action::NextMatch => find::step(model, 1),
        Action::PreviousMatch => find::step(model, -1),
        Action::History => model.screens.open(PromptHistory::default()),
        Action::Open => model.screens.open(OpenLine::default()),
        Action::OpenPlayer => open_player(model),
        Action::Choose if model.screens.is_empty() => batch::run(model),
        Action::Newline => model.prompt.editor.insert_newline(),
        Action::HistoryOlder => model.prompt.older(),
        Action::HistoryNewer => model.prompt.newer(),
        Action::ClearLine => clear_line(model),
        Action::Complete => complete(model),
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
        // Only of the inspector and of screens.
        Action::TokenBack
        | Action::TokenForward
        | Action::Heat
        | Action::Choose
        | Action::Edit
        | Action::Reset
        | Action::Save
        | Action::Pick
        | Action::Delete
        | Action::FilterSessions
        | Action::Retry
        | Action::EditCaption
        | Action::SidecarForm
        | Action::Existing
        | Action::Yes => {}
    }
}

/// Move the cursor of the screen on top, or of the pane that has the focus.
pub(super) fn go(model: &mut Model, go: Move) {
    if model.with_top(|top, model| top.go(go, model)).is_none() {
        panes::go(model, go);
    }
}

fn clear_line(model: &mut Model) {
    model.with_top(|top, model| {
        if top.line().is_some_and(|line| line.clear()) {
            top.typed(model);
        }
    });
}

/// Complete the path that is typed.
fn complete(model: &mut Model) {
    let asked = |path: &mut PathLine| Effect::Complete(path.line.split().0.to_owned(), path.wanted);
    let effect = model.with_top(|top, _| top.path().map(asked));
    model.effects.extend(effect.flatten());
}

/// Open the clip that the screen on top is about, or the selected one.
fn open_player(model: &mut Model) {
    let selected = || model.library.selected().map(|entry| (entry.title.clone(), entry.path.clone()));
    let clip: Option<(String, PathBuf)> = model.screens.top().map_or_else(selected, |top| top.clip(model));
    let Some((title, video)) = clip else { return model.note(Tone::Info, "no clip selected") };
    model.note(Tone::Info, format!("opening {title}"));
    model.emit(Effect::Play(video));
}

fn copy(model: &mut Model) {
    let text = write(model, Format::Text).trim().to_owned();
    let (tone, words) = match text.len() {
        0 => (Tone::Info, "no caption to copy yet"),
        1..=MAX_COPY_BYTES => {
            model.emit(Effect::Copy(text));
            (Tone::Info, "caption copied (if the terminal supports OSC 52)")
        }
        _ => (Tone::Bad, "the caption is too long to copy through the terminal: export it with s"),
    };
    model.note(tone, words);
}
