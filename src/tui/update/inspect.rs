//! Moving the token cursor.

use crate::look::Action;
use crate::tui::model::inspect::{Heat, Inspector};
use crate::tui::model::{Model, Tone};
use crate::tui::{pane::Pane, picker::cycle, update::steps, view};
use specreel_client::present::ledger::{next_notable, previous_notable, token_of};

pub(crate) fn toggle(model: &mut Model) {
    if model.caption.inspector.take().is_some() {
        return;
    }
    let Some(n) = model.runs.shown().map(|r| r.log.token_count()).filter(|n| *n > 0) else {
        return model.note(Tone::Info, "no token to inspect yet");
    };
    if let Some(run) = model.playing().and_then(|at| model.runs.all.get_mut(at)) {
        run.log.pause();
    }
    model.screens.close();
    model.focus = Pane::Caption;
    let first = first_shown(model).min(n - 1);
    model.caption.inspector = Some(Inspector::default());
    model.go_to_token(first);
    follow(model);
}

/// A token of the step under the cursor; else the first rejected or loosened one of a run that is over, or the newest.
fn first_shown(model: &Model) -> usize {
    let Some(run) = model.runs.shown() else { return 0 };
    match model.shown_step().and_then(|step| token_of(&run.log, step)) {
        Some(token) => token,
        None if run.is_over() => next_notable(&run.log, None).unwrap_or(0),
        None => run.log.token_count(),
    }
}

pub(crate) fn is_its_own(action: Action) -> bool {
    use Action::{
        Bottom, Heat, NextLoosened, PreviousLoosened, StepBack, StepForward, TokenBack, TokenForward, Top,
    };
    let cursor = [TokenBack, TokenForward, StepBack, StepForward, NextLoosened, PreviousLoosened];
    cursor.contains(&action) || [Top, Bottom, Heat].contains(&action)
}

pub(crate) fn control(model: &mut Model, action: Action) {
    let (Some(mut here), Some(run)) = (model.caption.inspector, model.runs.shown()) else { return };
    let last = run.log.token_count().saturating_sub(1);
    let n = here.token.min(last);
    here.token = match action {
        Action::TokenBack => n.saturating_sub(1),
        Action::TokenForward => (n + 1).min(last),
        Action::StepBack => run.step_start(n, false),
        Action::StepForward => run.step_start(n, true),
        Action::NextLoosened => next_notable(&run.log, Some(n)).unwrap_or(n),
        Action::PreviousLoosened => previous_notable(&run.log, n).unwrap_or(n),
        Action::Top => 0,
        Action::Bottom => last,
        _ => n,
    };
    let seeks = matches!(action, Action::NextLoosened | Action::PreviousLoosened);
    let stays = seeks && here.token == n;
    if action == Action::Heat {
        here.heat = cycle(&Heat::ALL, here.heat, 1);
    }
    model.caption.inspector = Some(here);
    model.go_to_token(here.token);
    if stays {
        model.note(Tone::Info, steps::none_left(model));
    }
    follow(model);
}

pub(crate) fn follow(model: &mut Model) {
    if let Some(up) = view::caption::scroll_to_cursor(model) {
        model.caption.up = up;
    }
}
