//! The cursor over the steps of the shown run, which the ledger and the inspector share.

use super::Model;
use specreel_client::present::ledger::{step_of, token_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepCursor {
    /// Number of the run that the cursor belongs to.
    pub run: u64,
    /// The step, from 0.
    pub step: usize,
}

impl Model {
    /// The step under the cursor of the ledger or of the inspector; `None` if neither has one in the shown run.
    pub fn shown_step(&self) -> Option<usize> {
        let run = self.runs.shown()?;
        let last = run.log.steps().len().checked_sub(1)?;
        let own =
            self.caption.step.filter(|cursor| cursor.run == run.id()).map(|cursor| cursor.step.min(last));
        let Some(inspector) = self.caption.inspector else { return own };
        // The ledger may be at a step that wrote nothing, which the inspector has no token of.
        if own.is_some_and(|own| run.log.steps()[own].tokens.is_empty()) {
            return own;
        }
        step_of(&run.log, inspector.token.min(run.log.token_count().saturating_sub(1)))
    }

    /// Move the cursor to a step of the shown run, and the inspector, if it is open, to a token of it.
    pub fn go_to_step(&mut self, step: usize) {
        let Some(run) = self.runs.shown() else { return };
        let token = token_of(&run.log, step);
        self.caption.step = Some(StepCursor { run: run.id(), step });
        if let (Some(inspector), Some(token)) = (&mut self.caption.inspector, token) {
            inspector.token = token;
        }
    }

    /// Move the inspector to a token, and the cursor over the steps with it.
    pub fn go_to_token(&mut self, token: usize) {
        let Some(run) = self.runs.shown() else { return };
        let (id, step) = (run.id(), step_of(&run.log, token));
        if let Some(step) = step {
            self.caption.step = Some(StepCursor { run: id, step });
        }
        if let Some(inspector) = &mut self.caption.inspector {
            inspector.token = token;
        }
    }
}
