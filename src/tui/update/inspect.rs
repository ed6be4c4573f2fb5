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
    let Some(n) = model.runs.shown().map(|r| r.token_count()).filter(|n| *n > 0) else {
        return model.note(Tone::Info, "there is no token to look at yet");
    };
    if let Some(replay) = &mut model.replay {
        replay.player.playing = false;
    }
    model.layer = None;
    model.focus = Pane::Caption;
    model.inspector = Some(Inspector { token: first_shown(model).min(n - 1), ..Inspector::default() });
    follow(model);
}

/// Where the eye is: the first loosened token of a run that is over, the newest one while it is written.
fn first_shown(model: &Model) -> usize {
    let Some(run) = model.runs.shown() else { return 0 };
    if run.is_over() { run.next_loosened(0, true).unwrap_or(0) } else { run.token_count() }
}

/// True for what the cursor answers to.
pub(super) fn is_its_own(action: Action) -> bool {
    use Action::{
        Bottom, Heat, NextLoosened, PreviousLoosened, StepBack, StepForward, TokenBack, TokenForward, Top,
    };
    let cursor = [TokenBack, TokenForward, StepBack, StepForward, NextLoosened, PreviousLoosened];
    cursor.contains(&action) || [Top, Bottom, Heat].contains(&action)
}

/// A key of the inspector.
pub(super) fn control(model: &mut Model, action: Action) {
    let (Some(mut here), Some(run)) = (model.inspector, model.runs.shown()) else { return };
    let last = run.token_count().saturating_sub(1);
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
    let words = match run.stats.loosened_share() > 0.0 {
        true => "there is no further one",
        false => "no token of this run was loosened",
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

/// Scroll so that the cursor is seen.
pub(super) fn follow(model: &mut Model) {
    if let Some(up) = view::caption::scroll_to_cursor(model) {
        model.caption_up = up;
    }
}
