//! Moving the token cursor.

use crate::tui::{
    Action,
    model::{Model, Pane, Tone, inspect::Inspector},
    view,
};

/// Open the inspector at the last token, or close it.
pub(super) fn toggle(model: &mut Model) {
    if model.inspector.take().is_some() {
        return;
    }
    let Some(n) = model.runs.shown().map(|r| r.log.token_count()).filter(|n| *n > 0) else {
        return model.note(Tone::Info, "no token to inspect yet");
    };
    if let Some(run) = model.playing().and_then(|at| model.runs.all.get_mut(at)) {
        run.log.pause();
    }
    model.overlay = None;
    model.focus = Pane::Caption;
    model.inspector = Some(Inspector { token: first_shown(model).min(n - 1), ..Inspector::default() });
    follow(model);
}

/// The first loosened token of a run that is over; the newest token of one that is being written.
fn first_shown(model: &Model) -> usize {
    let Some(run) = model.runs.shown() else { return 0 };
    if run.is_over() { run.next_loosened(0, true).unwrap_or(0) } else { run.log.token_count() }
}

/// True for actions that the inspector handles itself.
pub(super) fn is_its_own(action: Action) -> bool {
    use Action::{
        Bottom, Heat, NextLoosened, PreviousLoosened, StepBack, StepForward, TokenBack, TokenForward, Top,
    };
    let cursor = [TokenBack, TokenForward, StepBack, StepForward, NextLoosened, PreviousLoosened];
    cursor.contains(&action) || [Top, Bottom, Heat].contains(&action)
}

/// Do one of the inspector's own actions.
pub(super) fn control(model: &mut Model, action: Action) {
    let (Some(mut here), Some(run)) = (model.inspector, model.runs.shown()) else { return };
    let last = run.log.token_count().saturating_sub(1);
    let n = here.token.min(last);
    here.token = match action {
        Action::TokenBack => n.saturating_sub(1),
        Action::TokenForward => (n + 1).min(last),
        Action::StepBack => run.step_start(n, false),
        Action::StepForward => run.step_start(n, true),
        Action::NextLoosened => run.next_loosened(n, true).unwrap_or(n),
        Action::PreviousLoosened => run.next_loosened(n, false).unwrap_or(n),
        Action::Top => 0,
        Action::Bottom => last,
        _ => n,
    };
    let seeks = matches!(action, Action::NextLoosened | Action::PreviousLoosened);
    let words = match run.stats().loosened_share() > 0.0 {
        true => "no more loosened tokens",
        false => "this run has no loosened tokens",
    };
    let stays = seeks && here.token == n;
    if action == Action::Heat {
        here.heat = here.heat.next();
    }
    model.inspector = Some(here);
    if stays {
        model.note(Tone::Info, words);
    }
    follow(model);
}

/// Scroll the cursor into view.
pub(super) fn follow(model: &mut Model) {
    if let Some(up) = view::caption::scroll_to_cursor(model) {
        model.caption_up = up;
    }
}
