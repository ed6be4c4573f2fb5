//! One step as a scene: drafts appear, the target reads them, its judgment sweeps over them, rejected ones are replaced.

use specreel_record::{Draft, RunLog, Step, Verdict};

/// Shares of a step's time: until the drafts are there and the target has read them, until one is struck, until all are judged
/// and the struck draft is replaced, and the moment at which stepping stops.
pub(super) const LOOKED: f64 = 0.5;
pub(super) const STRUCK: f64 = 0.7;
pub(super) const JUDGED: f64 = 0.8;
pub(super) const SETTLED: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Drafting,
    /// The target reads all of them in one pass.
    Verifying,
    /// They are judged, from the first to the first one that is rejected.
    Judging,
    /// The step is over; drafts outside of the text fade.
    Settling,
}

/// What becomes of a piece of a scene's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A draft that is not judged yet.
    Ghost,
    Emitted(Verdict),
    Rejected,
    /// A draft after the rejected one, or beyond the end of the text.
    Dropped,
    /// A draft of the next step, written while this one is verified.
    Ahead,
}

/// A piece of a scene's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The text of one token; never empty.
    pub text: String,
    pub fate: Fate,
}

/// What there is to see of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Number of the step, from 0.
    pub step: usize,
    /// Number of tokens before the step.
    pub first_token: usize,
    pub phase: Phase,
    /// The text that follows those tokens, in order; in a tree, the branch that is judged.
    pub parts: Vec<Part>,
    /// Drafts on the other branches of a tree.
    pub others: usize,
}

/// The branch of the drafts that is judged, and how many of it are accepted.
struct Branch {
    drafts: Vec<usize>,
    accepted: usize,
    /// True if the draft after the accepted ones was rejected.
    rejects: bool,
}

impl Branch {
    fn of(step: &Step) -> Self {
        let n = step.drafted.len();
        // The target's own token follows the accepted drafts; it replaces the next draft, unless all have passed.
        let own = step.tokens.iter().find(|token| !token.verdict.is_accepted_draft());
        let corrects = own.is_some_and(|token| token.verdict == Verdict::Corrected);
        let all_pass = own.is_some_and(|token| token.verdict == Verdict::Bonus);
        let mut drafts: Vec<usize> = match step.parents.is_empty() {
            true => (0..n).collect(),
            false => step.path.iter().copied().filter(|place| *place < n).collect(),
        };
        let accepted = step.accepted.min(drafts.len());
        if !step.parents.is_empty() && !all_pass {
            extend(&mut drafts, &step.parents);
        }
        if all_pass {
            drafts.truncate(accepted);
        }
        let rejects = corrects && accepted < drafts.len();
        Self { drafts, accepted, rejects }
    }
}

/// True if the target rejects a draft of this step and replaces it.
pub(super) fn rejects(step: &Step) -> bool {
    Branch::of(step).rejects
}

/// Follow a tree from the end of a branch down its first children.
fn extend(drafts: &mut Vec<usize>, parents: &[Option<usize>]) {
    let child = |of: Option<usize>| parents.iter().position(|parent| *parent == of);
    let mut next = child(drafts.last().copied());
    // A parent comes before its children; a damaged file ends here.
    while let Some(place) = next.filter(|place| drafts.last().is_none_or(|last| place > last)) {
        drafts.push(place);
        next = child(Some(place));
    }
}

impl Scene {
    /// A step of which this share of its time has passed; `None` if the step does not exist.
    pub(super) fn of_step(whole: &RunLog, number: usize, share: f64) -> Option<Self> {
        let step = whole.steps().get(number)?;
        let first_token = whole.steps()[..number].iter().map(|step| step.tokens.len()).sum();
        let branch = Branch::of(step);
        let n = branch.drafts.len();
        // Under the parallel schedule, drafts that follow an accepted window were written during the pass over that window.
        let overlaps = is_parallel(whole);
        let are_there = overlaps && number > 0 && !Branch::of(&whole.steps()[number - 1]).rejects;
        let drafting = match (n, are_there) {
            (0, _) | (_, true) => 0.0,
            _ => LOOKED * (step.draft_ms / (step.draft_ms + step.verify_ms)).clamp(0.3, 0.7),
        };
        let phase = match share {
            s if s < drafting => Phase::Drafting,
            s if s < LOOKED => Phase::Verifying,
            s if s < JUDGED => Phase::Judging,
            _ => Phase::Settling,
        };
        let parts = match phase {
            Phase::Drafting => ghosts(step, &branch, 1 + (share / drafting * n as f64) as usize),
            Phase::Verifying => ghosts(step, &branch, n),
            // The accepted drafts come up one after another, then the rejected one, and when all are judged its replacement.
            Phase::Judging if branch.rejects => {
                let share = (share - LOOKED) / (STRUCK - LOOKED);
                let acts = (share * (branch.accepted + 1) as f64) as usize;
                judged(step, &branch, acts.min(branch.accepted + 1))
            }
            Phase::Judging => {
                let share = (share - LOOKED) / (JUDGED - LOOKED);
                judged(step, &branch, (share * (step.tokens.len() + 1) as f64) as usize)
            }
            Phase::Settling => judged(step, &branch, usize::MAX),
        };
        let mut scene = Self { step: number, first_token, phase, parts, others: step.drafted.len() - n };
        if overlaps && !branch.rejects && phase != Phase::Drafting {
            scene.parts.extend(window(whole, number + 1, share));
        }
        Some(scene.trimmed())
    }

    /// A step that is being verified, of which this share of its expected time has passed.
    pub(super) fn of_draft(whole: &RunLog, draft: &Draft, share: f64) -> Self {
        let n = draft.drafted.len();
        let mut branch: Vec<usize> = Vec::new();
        if draft.parents.is_empty() {
            branch.extend(0..n)
        } else {
            extend(&mut branch, &draft.parents)
        }
        // They came at once; in half of the time until the target is expected to have read them, all have appeared.
        let drafting = LOOKED / 2.0;
        let visible = (1 + (share / drafting * branch.len() as f64) as usize).min(branch.len());
        let phase = if share < drafting { Phase::Drafting } else { Phase::Verifying };
        let texts = branch[..visible].iter().filter_map(|place| draft.drafted_text.get(*place));
        let parts = texts.map(|text| part(text, Fate::Ghost)).collect();
        let others = n - branch.len();
        let step = whole.steps().len();
        Self { step, first_token: whole.token_count(), phase, parts, others }.trimmed()
    }

    /// Without tokens that have no text, and without the leading space of a caption's first word.
    fn trimmed(mut self) -> Self {
        if self.first_token == 0
            && let Some(first) = self.parts.first_mut()
        {
            first.text = first.text.trim_start().to_owned();
        }
        self.parts.retain(|part| !part.text.is_empty());
        self
    }
}

fn part(text: &str, fate: Fate) -> Part {
    Part { text: text.to_owned(), fate }
}

fn text(step: &Step, place: usize) -> &str {
    step.drafted_text.get(place).map_or("", String::as_str)
}

/// The first drafts of a branch, before they are judged.
fn ghosts(step: &Step, branch: &Branch, visible: usize) -> Vec<Part> {
    branch.drafts.iter().take(visible).map(|place| part(text(step, *place), Fate::Ghost)).collect()
}

/// The drafts of which so many have been judged; a rejected draft is struck before it is replaced.
fn judged(step: &Step, branch: &Branch, acts: usize) -> Vec<Part> {
    let (accepted, tokens) = (branch.accepted, &step.tokens);
    let mut parts: Vec<Part> = Vec::new();
    let passed = tokens.iter().take(accepted.min(acts));
    parts.extend(passed.map(|token| part(&token.text, Fate::Emitted(token.verdict))));
    let rest = branch.drafts.iter().skip(parts.len());
    if acts <= accepted && acts < tokens.len() {
        parts.extend(rest.map(|place| part(text(step, *place), Fate::Ghost)));
        return parts;
    }
    let mut rest = rest;
    if branch.rejects {
        parts.extend(rest.next().map(|place| part(text(step, *place), Fate::Rejected)));
    }
    let shows = acts > accepted + usize::from(branch.rejects);
    let own = tokens.iter().skip(accepted).filter(|_| shows);
    parts.extend(own.map(|token| part(&token.text, Fate::Emitted(token.verdict))));
    parts.extend(rest.map(|place| part(text(step, *place), Fate::Dropped)));
    parts
}

/// Under the parallel schedule: the drafts of the next step, as far as they are written during this one.
fn window(whole: &RunLog, number: usize, share: f64) -> Vec<Part> {
    let Some(next) = whole.steps().get(number) else { return Vec::new() };
    let branch = Branch::of(next);
    let visible = (share / JUDGED * branch.drafts.len() as f64) as usize;
    let texts = branch.drafts.iter().take(visible).map(|place| text(next, *place));
    texts.map(|text| part(text, Fate::Ahead)).collect()
}

fn is_parallel(whole: &RunLog) -> bool {
    whole.started().is_some_and(|started| started.method["schedule"]["kind"] == "parallel")
}
