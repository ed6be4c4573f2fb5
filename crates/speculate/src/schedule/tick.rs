//! The messages of the machine: tasks for the two workers, and the outcome of a tick.
//!
//! Cache lengths are counted from the end of the prompt without its last token, which is what both caches hold at first. A
//! worker adds the number of slots that its own prompt takes.

use specreel_record::{StopReason, Verdict};

/// Which of PEARL's two modes a tick is in (ParallelVLM, appendix B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Pre-verify: no draft is pending; the first token of the window that is being drafted will be judged alone.
    Pre,
    /// Post-verify: the pending window is verified while the next one is drafted.
    Post,
}

/// One tick: two tasks that may run at the same time.
#[derive(Debug, PartialEq)]
pub struct Tick {
    pub stage: Mode,
    pub target: TargetTask,
    /// For the drafter; `None` if nothing can follow the pending drafts.
    pub drafter: Option<DrafterTask>,
}

/// The target's part of a tick: truncate, then feed the rows in one pass and keep each prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetTask {
    /// Slots to keep.
    pub truncate_to: usize,
    /// The root, then the pending drafts.
    pub rows: Vec<u32>,
}

/// The drafter's part of a tick: truncate, feed, then draft a chain after the last fed id.
///
/// The answer is a window of 1 to `draft` tokens that ends at the drafter's first end token. All but the last were fed. An empty
/// window means that the ids could not be fed at all; the cache then holds `truncate_to` slots.
#[derive(Clone, Debug, PartialEq)]
pub struct DrafterTask {
    /// Slots to keep.
    pub truncate_to: usize,
    /// Ids to feed, at least one.
    pub feed: Vec<u32>,
    /// Tokens to draft, at least one.
    pub draft: usize,
    /// Output position of the first of them.
    pub position: usize,
}

/// One token of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    pub id: u32,
    /// Why it is in the output.
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The mode the tick was in.
    pub stage: Mode,
    /// Output position of the first token.
    pub position: usize,
    /// The emitted tokens; token i was judged by row i of the verify pass. An end token is not among them.
    pub tokens: Vec<Emitted>,
    /// How many of them are accepted drafts.
    pub accepted: usize,
    /// Ids of the judged drafts: those that were pending, then the first of the new window.
    pub judged: Vec<u32>,
    /// Ids of the new window.
    pub drafted: Vec<u32>,
    /// Discarded drafts: the rejected one, and those after a rejected one or after the end.
    pub discarded: usize,
    /// Why the generation ended, if it did.
    pub finished: Option<StopReason>,
}
