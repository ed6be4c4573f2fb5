//! One run, put together from its events.

use super::{Event, EventKind, Failure, Stats, StopReason, Token};

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RunState {
    /// Nothing has come from it.
    #[default]
    Waiting,
    /// It has started.
    Running,
    /// It ended well, or was cancelled.
    Done(StopReason),
    /// It failed.
    Failed(Failure),
}

/// One run as its events told it. Feed it all events; those of other runs are left alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecord {
    /// The run's number.
    pub run: u64,
    /// The method's name.
    pub method: String,
    /// True if the method emits exactly what autoregressive decoding would.
    pub lossless: bool,
    /// Name of the target; empty until the run has started.
    pub target: String,
    /// Name of the drafter; none for methods without one.
    pub drafter: Option<String>,
    /// The target drafts for itself.
    pub own_drafter: bool,
    /// Device in words.
    pub device: String,
    /// Weight type of the language models.
    pub dtype: String,
    /// Indices of the visual tokens that the drafter sees; none if it sees all.
    pub kept: Option<Vec<u32>>,
    /// All tokens so far.
    pub tokens: Vec<Token>,
    /// The whole caption, once done.
    pub text: String,
    /// All emitted ids, once done.
    pub ids: Vec<u32>,
    /// The account, once done.
    pub stats: Stats,
    /// How far it is.
    pub state: RunState,
}

impl RunRecord {
    /// A run that waits.
    pub fn new(run: u64, method: &str, lossless: bool) -> Self {
        Self { run, method: method.to_owned(), lossless, ..Self::default() }
    }

    /// Note an event.
    pub fn event(&mut self, event: &Event) {
        if event.run != self.run {
            return;
        }
        match &event.kind {
            EventKind::Started { method, lossless, target, drafter, device, dtype, .. } => {
                self.state = RunState::Running;
                self.lossless = *lossless;
                self.target.clone_from(target);
                self.drafter.clone_from(drafter);
                self.own_drafter = method["drafter"]["kind"] == "self";
                self.device.clone_from(device);
                self.dtype.clone_from(dtype);
            }
            EventKind::Prompt { kept, .. } => self.kept.clone_from(kept),
            EventKind::Step(step) => self.tokens.extend(step.tokens.iter().cloned()),
            EventKind::Done { reason, text, ids, stats } => {
                self.state = RunState::Done(*reason);
                self.text.clone_from(text);
                self.ids.clone_from(ids);
                self.stats = (**stats).clone();
            }
            EventKind::Failed(failure) => self.state = RunState::Failed(failure.clone()),
            EventKind::Stage { .. } | EventKind::Ready { .. } => {}
        }
    }

    /// True if it came to its own end: its figures and its text are whole.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, RunState::Done(StopReason::Eos | StopReason::Length))
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.state {
            RunState::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FailureClass, Stage};

    fn started() -> EventKind {
        EventKind::Started {
            method: serde_json::json!({"name": "lvspec-self", "drafter": {"kind": "self"}}),
            lossless: false,
            target: "big".into(),
            drafter: Some("big".into()),
            device: "cpu".into(),
            dtype: "q8_0".into(),
            video: "v.mp4".into(),
            prompt: "p".into(),
            before: vec![],
            span: None,
            segment: None,
        }
    }

    fn done(reason: StopReason) -> EventKind {
        EventKind::Done { reason, text: "A disc".into(), ids: vec![1, 2], stats: Box::default() }
    }

    #[test]
    fn a_run_is_told_by_its_events() {
        let mut run = RunRecord::new(2, "lvspec-self", true);
        assert_eq!(run.state, RunState::Waiting);
        run.event(&Event::new(2, EventKind::Stage { stage: Stage::Decode, done: 0, total: 1 }));
        run.event(&Event::new(2, started()));
        assert!(run.state == RunState::Running && !run.lossless && run.own_drafter);
        run.event(&Event::new(2, done(StopReason::Eos)));
        assert!(run.is_finished());
        assert_eq!((run.text.as_str(), run.ids.len()), ("A disc", 2));
    }

    #[test]
    fn other_runs_are_left_alone() {
        let mut run = RunRecord::new(2, "naive", true);
        run.event(&Event::new(3, done(StopReason::Eos)));
        assert_eq!(run, RunRecord::new(2, "naive", true));
    }

    #[test]
    fn what_was_cancelled_or_failed_is_not_finished() {
        let mut run = RunRecord::new(1, "naive", true);
        run.event(&Event::new(1, done(StopReason::Cancelled)));
        assert!(!run.is_finished() && run.failure().is_none());
        let failure = Failure { class: FailureClass::Memory, error: "too large".into(), hint: None };
        run.event(&Event::new(1, EventKind::Failed(failure.clone())));
        assert!(!run.is_finished());
        assert_eq!(run.failure(), Some(&failure));
    }
}
