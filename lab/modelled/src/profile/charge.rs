//! The time of a recorded run under a profile.

use super::{Cost, Profile};
use specreel_record::{Step, Verdict};

#[derive(Clone, Debug, PartialEq)]
pub enum Drafting {
    /// Nothing: the target decodes alone.
    Nothing,
    /// Something that costs no pass: prompt lookup.
    Free,
    Model,
    Head(String),
    /// The target's first layers, this share of them; 1 = the whole target.
    Target {
        /// Above 0, at most 1.
        share: f64,
        /// Bytes of its weights relative to the target's.
        weights: f64,
    },
}

/// How many tokens are drafted in a tick of the parallel schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    Fixed(usize),
    /// On two devices as many as the drafter writes in one target pass; on one device as many as the run drafted in the mean.
    Auto,
}

/// A run, pass by pass.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    pub drafting: Drafting,
    /// Set under the parallel schedule.
    pub window: Option<Window>,
    /// Set where each level of a tree expands that many nodes, some of which are dropped afterwards: (levels, nodes).
    pub grown: Option<(usize, usize)>,
    /// Tokens of the prompt that are not visual.
    pub text: usize,
    pub visual: usize,
    /// Share of the visual tokens that the drafter sees, 0 to 1.
    pub drafter_sees: f64,
    /// Share of the visual tokens that the target sees while it decodes; 1 unless the method prunes the target.
    pub target_sees: f64,
    pub steps: &'a [Step],
    /// Draft tokens, those that were never judged included.
    pub drafted: u64,
    /// True if an end token was written.
    pub ended: bool,
}

/// Modelled times of a run in milliseconds, from its first to its last token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Modelled {
    pub tokens: usize,
    /// Passes of the drafter, as far as no target pass hides them.
    pub draft_ms: f64,
    pub verify_ms: f64,
    pub other_ms: f64,
    /// Autoregressive decoding of as many tokens.
    pub plain_ms: f64,
}

impl Modelled {
    pub fn total_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.other_ms
    }

    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 * 1e3 / self.total_ms()
    }

    /// Decode speed relative to autoregressive decoding under the same profile.
    pub fn speedup(&self) -> f64 {
        self.plain_ms / self.total_ms()
    }
}

impl Profile {
    /// What a run takes here. `None` if it has no tokens, or this profile has no times of its drafter.
    pub fn charge(&self, work: &Workload<'_>) -> Option<Modelled> {
        let tokens: usize = work.steps.iter().map(|step| step.tokens.len()).sum();
        if tokens == 0 {
            return None;
        }
        let prompt = Prompt {
            text: self.text.unwrap_or(work.text) as f64,
            visual: self.visual.unwrap_or(work.visual) as f64,
        };
        let mut modelled = match work.window {
            Some(window) => self.parallel(work, prompt, window)?,
            None => self.sequential(work, prompt)?,
        };
        modelled.tokens = tokens;
        // The pass that finds the end emits nothing.
        let passes = tokens + usize::from(work.ended);
        modelled.plain_ms = (0..passes)
            .map(|at| self.target.ms(1.0, prompt.slots(1.0) + at as f64, 1.0) + self.step_ms.unwrap_or(0.0))
            .sum();
        Some(modelled)
    }

    fn sequential(&self, work: &Workload<'_>, prompt: Prompt) -> Option<Modelled> {
        let mut sum = Modelled::default();
        let mut emitted = 0;
        // Rows that the drafter reads first: the root, and drafts that were accepted but not read yet.
        let mut unread = 1;
        for step in work.steps {
            // What the grammar forced costs the drafter nothing but reading it.
            let (drafted, after) = (step.drafted.len() - step.forced_first(), emitted as f64);
            if drafted > 0 {
                let slots = prompt.slots(work.drafter_sees) + after;
                for (level, rows) in passes(step, unread, work.grown).into_iter().enumerate() {
                    sum.draft_ms += self.draft_ms(&work.drafting, rows as f64, slots + level as f64)?;
                }
            }
            sum.verify_ms +=
                self.target.ms((step.drafted.len() + 1) as f64, prompt.slots(work.target_sees) + after, 1.0);
            sum.other_ms += self.step_ms.unwrap_or(step.other_ms);
            if drafted > 0 && work.grown.is_some() {
                sum.other_ms += self.grow_ms;
            }
            emitted += step.tokens.len();
            unread = match work.drafting {
                // A head reads the accepted tokens again, with the target's states.
                Drafting::Head(_) => step.accepted + 1,
                // The last token of a branch was drafted, but not read.
                _ if drafted > 0 && step.accepted == longest(step) => 2,
                _ => 1,
            };
        }
        Some(sum)
    }

    /// Drafter and target at once.
    fn parallel(&self, work: &Workload<'_>, prompt: Prompt, window: Window) -> Option<Modelled> {
        let row =
            |emitted: f64| self.draft_ms(&work.drafting, 1.0, prompt.slots(work.drafter_sees) + emitted);
        let window = match window {
            Window::Fixed(length) => length,
            Window::Auto if self.two_devices => {
                let ratio = self.target.ms(1.0, prompt.slots(1.0), 1.0) / row(0.0)?;
                // One token is judged before the next can be drafted: nothing overlaps.
                (ratio.round() as usize).max(2)
            }
            Window::Auto => (work.drafted as f64 / work.steps.len() as f64).round().max(1.0) as usize,
        };
        let mut passed: Vec<bool> = work
            .steps
            .iter()
            .flat_map(|step| &step.tokens)
            .map(|token| token.verdict.is_accepted_draft() || token.verdict == Verdict::Bonus)
            .collect();
        if work.ended {
            passed.push(true);
        }
        let host = work.steps.iter().map(|step| step.other_ms).sum::<f64>() / work.steps.len() as f64;
        let mut sum = Modelled::default();
        let mut emitted = 0;
        for tick in ticks(&passed, window) {
            let after = emitted as f64;
            let verify = self.target.ms(tick.rows.max(1) as f64, prompt.slots(work.target_sees) + after, 1.0);
            let draft = row(after)? * tick.drafted as f64;
            sum.verify_ms += verify;
            sum.draft_ms += if self.two_devices { (draft - verify).max(0.0) } else { draft };
            sum.other_ms += self.step_ms.unwrap_or(host);
            emitted += tick.emitted;
        }
        Some(sum)
    }

    /// A drafter's pass. Where only passes of one row are known, more rows cost as many times more as for the target.
    fn draft_ms(&self, drafting: &Drafting, rows: f64, slots: f64) -> Option<f64> {
        let of = |cost: &Cost| {
            if cost.has_rows() {
                return cost.ms(rows, slots, 1.0);
            }
            let more = self.target.ms(rows, slots, 1.0) / self.target.ms(1.0, slots, 1.0);
            cost.ms(1.0, slots, 1.0) * more
        };
        match drafting {
            Drafting::Nothing | Drafting::Free => Some(0.0),
            Drafting::Model => self.drafter.as_ref().map(of),
            Drafting::Head(recipe) => self.heads.get(recipe).or_else(|| self.heads.get("")).map(of),
            Drafting::Target { share, weights } => match &self.target {
                Cost::Roofline(roofline) => {
                    let mut lighter = *roofline;
                    lighter.weight_bytes *= weights;
                    Some(Cost::Roofline(lighter).ms(rows, slots, *share))
                }
                // How much of a measured pass is reading weights is not known.
                Cost::Measured(_) if *weights < 1.0 => None,
                measured @ Cost::Measured(_) => Some(measured.ms(rows, slots, *share)),
            },
        }
    }
}

#[derive(Clone, Copy)]
struct Prompt {
    text: f64,
    visual: f64,
}

impl Prompt {
    /// Slots of a model that sees this share of the visual tokens.
    fn slots(self, share: f64) -> f64 {
        self.text + self.visual * share
    }
}

/// Depth of each draft, from 1.
fn depths(step: &Step) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(step.drafted.len());
    for at in 0..step.drafted.len() {
        let parent =
            if step.parents.is_empty() { at.checked_sub(1) } else { step.parents.get(at).copied().flatten() };
        depths.push(1 + parent.and_then(|parent| depths.get(parent)).copied().unwrap_or(0));
    }
    depths
}

fn longest(step: &Step) -> usize {
    depths(step).into_iter().max().unwrap_or(0)
}

/// The rows of each pass of the drafter: what it has not read, then the drafts of each level that have others after them.
fn passes(step: &Step, unread: usize, grown: Option<(usize, usize)>) -> Vec<usize> {
    let forced = step.forced_first();
    let mut passes = vec![unread + forced];
    if let Some((levels, width)) = grown {
        passes.extend(vec![width; levels.saturating_sub(1)]);
        return passes;
    }
    let depths = depths(step);
    let count = step.drafted.len();
    let inner = |at: usize| {
        if step.parents.is_empty() { at + 1 < count } else { step.parents.contains(&Some(at)) }
    };
    for level in 1 + forced..=depths.iter().copied().max().unwrap_or(0) {
        let rows = (0..count).filter(|&at| depths[at] == level && inner(at)).count();
        if rows > 0 {
            passes.push(rows);
        }
    }
    passes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Rows of the target's pass.
    pub rows: usize,
    pub drafted: usize,
    pub emitted: usize,
}

/// The parallel schedule over a text of which it is known whether the drafter writes each token so that it passes. Windows have
/// `window` tokens (at least one), and never reach beyond the text.
///
/// A pass judges the pending window and the first token of the next, which is written meanwhile. A rejected token discards
/// both, and the next pass has the root alone.
pub fn ticks(passed: &[bool], window: usize) -> Vec<Tick> {
    let (mut at, mut pending, mut ticks) = (0, 0, Vec::new());
    while at < passed.len() {
        let drafted = window.max(1).min(passed.len() - at - pending);
        // Without a next window nothing follows the last pending draft, and its row is not needed.
        let rows = pending + usize::from(drafted > 0);
        let judged = rows.min(pending + drafted);
        let right = passed[at..at + judged].iter().take_while(|passed| **passed).count();
        let rejected = right < judged;
        let emitted = right + usize::from(rejected);
        pending = if rejected { 0 } else { pending + drafted - judged };
        ticks.push(Tick { rows, drafted, emitted });
        at += emitted;
    }
    ticks
}

#[cfg(test)]
mod tests;
