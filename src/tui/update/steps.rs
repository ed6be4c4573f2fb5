//! Moving the cursor over the steps.

use crate::tui::model::{Model, Tone};
use crate::tui::pane::Pane;
use crate::tui::update::{inspect, panes};
use specreel_client::present::ledger::{is_notable, next_notable, previous_notable, step_of};

pub(crate) fn toggle(model: &mut Model) {
    let to = if model.focus == Pane::Steps && model.screens.is_empty() { Pane::Caption } else { Pane::Steps };
    panes::focus(model, to);
}

pub(crate) fn go(model: &mut Model, to: impl Fn(usize, usize) -> usize) {
    let Some(n) = model.runs.shown().map(|run| run.log.steps().len()).filter(|n| *n > 0) else { return };
    let here = model.shown_step().unwrap_or(n - 1);
    model.go_to_step(to(here, n));
    inspect::follow(model);
}

/// Go to the next or previous step with a rejected draft or a loosened token.
pub(crate) fn seek(model: &mut Model, forward: bool) {
    let Some(run) = model.runs.shown() else { return };
    let log = &run.log;
    // Tokens before the step, and before the one after it.
    let (start, end) = match model.shown_step() {
        Some(step) => {
            let before = |steps: usize| log.steps()[..steps].iter().map(|step| step.tokens.len()).sum();
            (before(step), before(step + 1))
        }
        None => (log.token_count(), 0usize),
    };
    let found = if forward { next_notable(log, end.checked_sub(1)) } else { previous_notable(log, start) };
    match found.and_then(|token| step_of(log, token)) {
        Some(step) => {
            model.go_to_step(step);
            inspect::follow(model);
        }
        None => model.note(Tone::Info, none_left(model)),
    }
}

pub(crate) fn none_left(model: &Model) -> &'static str {
    let has_any = model.runs.shown().is_some_and(|run| run.log.tokens().any(is_notable));
    if has_any {
        "no more rejected or loosened tokens"
    } else {
        "this run has no rejected or loosened tokens"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{
        Studio,
        testing::{after_a_run, done, notice, press, ready, step},
    };
    use specreel_record::{StopReason, Verdict};

    /// The step and the token under the cursor.
    fn at(studio: &mut Studio) -> (Option<usize>, Option<usize>) {
        let model = studio.model();
        (model.shown_step(), model.caption.inspector.map(|inspector| inspector.token))
    }

    #[test]
    fn ledger_and_inspector_share_their_cursor() {
        let mut studio = after_a_run();
        press(&mut studio, "i");
        assert_eq!(at(&mut studio), (Some(0), Some(1)), "the first loosened token");
        press(&mut studio, "down");
        assert_eq!(at(&mut studio), (Some(1), Some(3)), "the inspector moves the ledger");
        press(&mut studio, "d up");
        assert_eq!(studio.model().focus, Pane::Steps);
        assert_eq!(at(&mut studio), (Some(0), Some(1)), "the ledger moves the inspector");
        press(&mut studio, "esc");
        assert_eq!(at(&mut studio), (Some(0), None), "the cursor stays where it was");
        press(&mut studio, "G i");
        assert_eq!(at(&mut studio), (Some(1), Some(3)), "the inspector opens at the step");
    }

    #[test]
    fn rejected_and_loosened_tokens_are_found_in_both() {
        let mut studio = after_a_run();
        press(&mut studio, "i n");
        assert_eq!(at(&mut studio), (Some(0), Some(2)), "the corrected token");
        press(&mut studio, "n");
        assert_eq!(notice(&mut studio), "no more rejected or loosened tokens");
        press(&mut studio, "esc d esc n");
        assert_eq!(at(&mut studio), (Some(0), None), "from the beginning");
        press(&mut studio, "n");
        assert_eq!(notice(&mut studio), "no more rejected or loosened tokens");
        press(&mut studio, "G N");
        assert_eq!(at(&mut studio), (Some(0), None));
    }

    #[test]
    fn a_run_without_rejects_says_so() {
        let mut studio = ready();
        press(&mut studio, "enter");
        studio.handle(step(1, &[("A", Verdict::Exact), (" ball", Verdict::Bonus)], 1));
        studio.handle(done(1, StopReason::Eos, "A ball"));
        press(&mut studio, "d n");
        assert_eq!(notice(&mut studio), "this run has no rejected or loosened tokens");
        assert_eq!(at(&mut studio), (None, None));
    }

    #[test]
    fn the_newest_step_is_followed_until_the_cursor_moves() {
        let mut studio = ready();
        press(&mut studio, "d down");
        assert_eq!(at(&mut studio), (None, None), "there is no step");
        press(&mut studio, "tab shift-tab shift-tab shift-tab shift-tab enter d");
        for _ in 0..3 {
            studio.handle(step(1, &[(" a", Verdict::Exact), (" b", Verdict::Corrected)], 2));
        }
        assert_eq!(at(&mut studio).0, None);
        press(&mut studio, "up");
        studio.handle(step(1, &[(" c", Verdict::Exact)], 1));
        assert_eq!(at(&mut studio).0, Some(1), "the cursor stays at its step");
        studio.handle(done(1, StopReason::Eos, ""));
        // The cursor, then the pane.
        press(&mut studio, "esc");
        assert_eq!((studio.model().focus, at(&mut studio).0), (Pane::Steps, None));
        press(&mut studio, "esc");
        assert_eq!(studio.model().focus, Pane::Caption);
        // It belongs to one run.
        press(&mut studio, "d up r");
        studio.handle(step(2, &[(" a", Verdict::Exact)], 1));
        assert_eq!(at(&mut studio).0, None);
    }

    #[test]
    fn a_step_that_wrote_nothing_has_the_cursor_too() {
        let mut studio = ready();
        press(&mut studio, "enter");
        studio.handle(step(1, &[("A", Verdict::Corrected)], 2));
        studio.handle(step(1, &[], 2));
        studio.handle(done(1, StopReason::Eos, "A"));
        press(&mut studio, "i d G");
        assert_eq!(at(&mut studio), (Some(1), Some(0)));
        press(&mut studio, "up");
        assert_eq!(at(&mut studio), (Some(0), Some(0)));
    }
}
