//! ParallelVLM's schedule (section 4.2 and appendix B; PEARL's loop) as a state machine that knows token ids only.
//!
//! A tick gives the target rows [root, pending drafts…] and the drafter a window to write after the pending drafts. Both work
//! at the same time. Then the pending drafts and the first token of the new window are judged, as many as there are rows:
//!
//! * all pass: they are emitted. The last one is the new root, the rest of the new window is pending. Post-verify.
//! * one is rejected: those before it and the target's token in its place are emitted. That token is the new root, all other
//!   drafts are thrown away, both workers roll back. Pre-verify.
//!
//! Pre-verify is the same tick with nothing pending: the target is given the root alone, one token is judged. There is no bonus
//! token, because the row that would give it judges the next window. Only where the drafter offers no next window is the
//! target's token of that row taken as one. Nothing is emitted that was not judged.
//!
//! The first tick may run while the target is still in its prefill: its task is the last row of it (stage I of the paper).

use super::{
    cached::Cached,
    judge::{Case, DraftToken, Judge},
    tally::Tally,
    tick::{DrafterTask, Emitted, Mode, Outcome, TargetTask, Tick},
};
use specreel_record::{StopReason, Verdict};

/// Where a generation ends.
#[derive(Clone, Debug)]
pub struct Limits {
    /// At most this many tokens are emitted. Nothing beyond is drafted or verified.
    pub max_new_tokens: usize,
    /// End tokens. They end the output and are not a part of it.
    pub ends: Vec<u32>,
}

/// One generation. Ask for a [`tick`](Self::tick), carry it out, [`apply`](Self::apply) it, until there is no tick.
///
/// ```
/// use specreel_speculate::schedule::{DraftToken, Exact, Limits, Parallel};
///
/// // The target counts up; the drafter does so too, but takes 3 for 4.
/// let target = |id: u32| id + 1;
/// let drafter = |id: u32| if id == 3 { 5 } else { id + 1 };
/// let mut machine = Parallel::new(0, Limits { max_new_tokens: 6, ends: vec![] });
/// while let Some(tick) = machine.tick(2) {
///     let wanted: Vec<u32> = tick.target.rows.iter().map(|&id| target(id)).collect();
///     let mut window: Vec<DraftToken> = Vec::new();
///     if let Some(task) = &tick.drafter {
///         let mut last = task.feed[task.feed.len() - 1];
///         for _ in 0..task.draft {
///             last = drafter(last);
///             window.push(last.into());
///         }
///     }
///     machine.apply(tick, window, &mut Exact { wanted: &wanted });
/// }
/// assert_eq!(machine.tokens(), [1, 2, 3, 4, 5, 6]);
/// assert_eq!(machine.tally().rejects, 1);
/// ```
#[derive(Clone, Debug)]
pub struct Parallel<E = ()> {
    limits: Limits,
    /// The prompt's last token, then all that was emitted. The last of these is the root.
    text: Vec<u32>,
    /// Drafts after the root, not judged yet.
    pending: Vec<DraftToken<E>>,
    target: Cached,
    drafter: Cached,
    finished: Option<StopReason>,
    tally: Tally,
}

impl<E> Parallel<E> {
    /// Begin after a prompt whose last token is `root`. Both caches hold the prompt without it.
    pub fn new(root: u32, limits: Limits) -> Self {
        let finished = (limits.max_new_tokens == 0).then_some(StopReason::Length);
        Self {
            limits,
            text: vec![root],
            pending: Vec::new(),
            target: Cached::default(),
            drafter: Cached::default(),
            finished,
            tally: Tally::default(),
        }
    }

    /// The mode of the next tick.
    pub fn stage(&self) -> Mode {
        if self.pending.is_empty() { Mode::Pre } else { Mode::Post }
    }

    /// The drafts that the next tick judges, if they were written during the last one.
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        self.pending.iter().map(|draft| draft.id)
    }

    /// Everything emitted so far.
    pub fn tokens(&self) -> &[u32] {
        &self.text[1..]
    }

    /// Why the generation ended, once it has.
    pub fn finished(&self) -> Option<StopReason> {
        self.finished
    }

    /// The counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The tasks of the next tick, with a window of at most `window` tokens; none once the generation has ended. Nothing
    /// changes until it is applied.
    pub fn tick(&self, window: usize) -> Option<Tick> {
        if self.finished.is_some() {
            return None;
        }
        let position = self.tokens().len() + self.pending.len();
        let closed = self.pending.last().is_some_and(|draft| self.is_end(draft.id));
        let draft = if closed { 0 } else { window.max(1).min(self.limits.max_new_tokens - position) };
        let mut text = self.text.clone();
        text.extend(self.pending.iter().map(|draft| draft.id));
        let drafter = (draft > 0).then(|| {
            let (truncate_to, feed) = self.drafter.toward(&text, text.len() - 1);
            DrafterTask { truncate_to, feed: feed.to_vec(), draft, position }
        });
        if drafter.is_none() {
            // No token follows the last pending draft, so its row is not needed.
            text.pop();
        }
        let (truncate_to, rows) = self.target.toward(&text, self.text.len() - 1);
        Some(Tick { stage: self.stage(), target: TargetTask { truncate_to, rows: rows.to_vec() }, drafter })
    }

    /// Apply the results of the last tick: the drafter's window, and the target's rows through a judge.
    pub fn apply(
        &mut self,
        tick: Tick,
        mut window: Vec<DraftToken<E>>,
        judge: &mut impl Judge<E>,
    ) -> Outcome {
        let (stage, rows) = (tick.stage, tick.target.rows.len());
        self.target.fed(tick.target.truncate_to, tick.target.rows);
        let drafted: Vec<u32> = window.iter().map(|draft| draft.id).collect();
        self.note_window(tick.drafter, &mut window);

        let position = self.tokens().len();
        let ahead = self.pending.len();
        let mut drafts = std::mem::take(&mut self.pending);
        drafts.extend(window);
        let judged = drafts.len().min(rows);
        let case = Case { position, drafts: &drafts[..judged], rows };
        let verdicts = judge.accept(&case);
        let passed = verdicts.len().min(judged);

        let kept = drafts.iter().zip(verdicts).take(passed);
        let mut tokens: Vec<Emitted> =
            kept.map(|(draft, verdict)| Emitted { id: draft.id, verdict }).collect();
        let end = tokens.iter().position(|token| self.is_end(token.id));
        tokens.truncate(end.unwrap_or(passed));
        let accepted = tokens.len();
        let rejected = end.is_none() && passed < judged;
        if end.is_some() {
            self.finished = Some(StopReason::Eos);
        } else if passed < rows {
            let id = judge.replacement(&case, passed);
            if self.is_end(id) {
                self.finished = Some(StopReason::Eos);
            } else {
                let verdict = if rejected { Verdict::Corrected } else { Verdict::Bonus };
                tokens.push(Emitted { id, verdict });
            }
        }
        let judged_ids = case.drafts.iter().map(|draft| draft.id).collect();
        self.text.extend(tokens.iter().map(|token| token.id));
        if self.finished.is_none() && self.tokens().len() >= self.limits.max_new_tokens {
            self.finished = Some(StopReason::Length);
        }
        if self.finished.is_none() && !rejected {
            self.pending = drafts.split_off(judged);
        }

        let used = accepted + usize::from(end.is_some()) + self.pending.len();
        let outcome = Outcome {
            stage,
            position,
            tokens,
            accepted,
            judged: judged_ids,
            discarded: ahead + drafted.len() - used,
            drafted,
            finished: self.finished,
        };
        self.tally.add(&outcome, rejected);
        outcome
    }

    /// Note the new contents of the drafter's cache, and cut the window to the requested length.
    fn note_window(&mut self, task: Option<DrafterTask>, window: &mut Vec<DraftToken<E>>) {
        let Some(task) = task else { return window.clear() };
        // The last drafted token was not fed. If nothing was drafted, nothing was fed.
        let fed = window.split_last().map(|(_, seen)| task.feed.into_iter().chain(seen.iter().map(|d| d.id)));
        self.drafter.fed(task.truncate_to, fed.into_iter().flatten());
        let end = window.iter().position(|draft| self.is_end(draft.id));
        window.truncate(task.draft.min(end.map_or(usize::MAX, |end| end + 1)));
    }

    fn is_end(&self, id: u32) -> bool {
        self.limits.ends.contains(&id)
    }
}

#[cfg(test)]
mod sampled_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod traces;
