//! The effect of each action.

use std::path::PathBuf;

use super::back;
use crate::tui::{
    action::Action,
    effect::Effect,
    keymap::KeyContext,
    model::{Model, Tone},
    pane::Pane,
    picker::Move,
    screens::{
        ask, batch, compare, compare_picker, export, filter, help, history::PromptHistory,
        methods::MethodPicker, models, open::OpenLine, presets::PresetList, preview, search, segments,
        sessions, speech, themes, timeline,
    },
    update::{engine_problem, export::write, inspect, methods, panes, search as find, steps, verify, watch},
};
use specreel_client::present::export::Format;

/// Longest caption that is copied: terminals limit the length of the sequence.
const MAX_COPY_BYTES: usize = 74_000;

/// Let the screen on top do an action, or else do what it means everywhere.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    if model.config.server.is_some()
        && action.needs_engine()
        && let Some(problem) = engine_problem(model)
    {
        model.note(Tone::Info, problem);
        return Vec::new();
    }
    match model.act_on_top(action) {
        Some(effects) => effects,
        None => act_everywhere(model, action),
    }
}

fn act_everywhere(model: &mut Model, action: Action) -> Vec<Effect> {
    if model.key_context() == KeyContext::Inspector && inspect::is_its_own(action) {
        inspect::control(model, action);
        return Vec::new();
    }
    match action {
        Action::Run => return batch::run(model),
        Action::Again => return batch::run_again(model),
        Action::Timeline => timeline::open(model),
        Action::Back => return back::back(model),
        Action::Interrupt => return back::interrupt(model),
        Action::Quit => return back::quit(model),
        Action::NextPane => panes::focus(model, model.focus.next(1)),
        Action::PreviousPane => panes::focus(model, model.focus.next(-1)),
        Action::Prompt => panes::focus(model, Pane::Prompt),
        Action::Methods => model.screens.open(MethodPicker::new(model)),
        Action::FollowUp => ask::open(model),
        Action::Presets => model.screens.open(PresetList::default()),
        Action::Help => help::open(model),
        Action::KnobUp => return methods::turn(model, true),
        Action::KnobDown => return methods::turn(model, false),
        Action::NextKnob => {
            model.methods.next_knob();
            methods::note_knob(model, model.key_context());
        }
        Action::Editor => {
            model.screens.close();
            return vec![Effect::Editor(model.prompt.text())];
        }
        Action::Export => export::open(model),
        Action::Boundaries => {
            model.caption.boundaries = !model.caption.boundaries;
            model.note(
                Tone::Info,
                if model.caption.boundaries { "steps end at ╎" } else { "steps are no longer marked" },
            );
        }
        Action::Compare => compare_picker::open(model),
        Action::Comparison => compare::reopen(model),
        Action::Sweep => return compare::sweep(model),
        Action::Inspect => inspect::toggle(model),
        Action::Steps => steps::toggle(model),
        Action::Verify => return verify::start(model),
        Action::Copy => return copy(model),
        Action::OlderRun => panes::show_run(model, model.runs.shown.saturating_sub(1)),
        Action::NewerRun => panes::show_run(model, model.runs.shown + 1),
        Action::Sessions => return sessions::open(model),
        Action::Models => return models::open(model),
        Action::FirstModel => return models::offer_first(model),
        Action::Theme => themes::open(model),
        Action::Redraw => return vec![Effect::Redraw],
        Action::Suspend => return vec![Effect::Suspend],
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
        Action::OpenPlayer => return open_player(model),
        Action::Choose if model.screens.is_empty() => return batch::run(model),
        Action::Newline => model.prompt.editor.insert_newline(),
        Action::HistoryOlder => model.prompt.older(),
        Action::HistoryNewer => model.prompt.newer(),
        Action::ClearLine => clear_line(model),
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
        | Action::Complete
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
    Vec::new()
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

/// Open the clip that the screen on top is about, or the selected one.
fn open_player(model: &mut Model) -> Vec<Effect> {
    let selected = || model.library.selected().map(|entry| (entry.title.clone(), entry.path.clone()));
    let clip: Option<(String, PathBuf)> = model.screens.top().map_or_else(selected, |top| top.clip(model));
    let Some((title, video)) = clip else {
        model.note(Tone::Info, "no clip selected");
        return Vec::new();
    };
    model.note(Tone::Info, format!("opening {title}"));
    vec![Effect::Play(video)]
}

fn copy(model: &mut Model) -> Vec<Effect> {
    let text = write(model, Format::Text).trim().to_owned();
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
