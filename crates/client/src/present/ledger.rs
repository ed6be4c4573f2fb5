//! The ledger of a run: a row for each step, with the drafts, the accepted ones, and the target's replacement.
//!
//! ```text
//! 1  4/10  A small green star ~~falls and~~ → down
//! 2  5/5   it moves to the left + side
//! ```
//!
//! A face styles the [`Piece`]s by their [`Mark`]; [`plain`] writes them without styles. [`fit`] cuts a row to the columns
//! that there are, and never the end, where the target's own token is.

use std::ops::Range;

use super::{
    formats::{NOTHING, plural},
    reason::visible,
    text,
};
use specreel_record::{RunLog, Step, Token, Verdict};

/// Shown instead of drafts whose text was not recorded.
const UNKNOWN: &str = "…";
/// At most this many rejected alternatives of a tree are named.
const ALTERNATIVES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An emitted token: an accepted draft, or the target's own.
    Token(Verdict),
    Rejected,
    /// A draft after a rejected one, which falls with it.
    Discarded,
    /// A draft after the end of the caption.
    Unused,
    /// A separator between drafts and tokens: an arrow, a space.
    Between,
}

impl Mark {
    pub fn is_struck(self) -> bool {
        matches!(self, Mark::Rejected | Mark::Discarded)
    }
}

/// A piece of a row's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its text, sanitized and on one line.
    pub text: String,
    pub mark: Mark,
}

/// A step, as the ledger shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Number of the step, from 1.
    pub number: usize,
    /// Numbers of its tokens, counted over the run from 0.
    pub tokens: Range<usize>,
    /// What was drafted and what came of it: accepted drafts, struck ones, the target's own token.
    pub pieces: Vec<Piece>,
    /// How many drafts were accepted; what the grammar forced is not counted here, nor as judged.
    pub accepted: usize,
    /// How many drafts were judged; 0 without speculation.
    pub judged: usize,
    /// Why the step ended where it did, which tokens were loosened, what the drafter gave the token before which it stopped, and who drafts
    /// from here on if that has changed.
    pub reason: String,
    /// Time of drafting, in milliseconds.
    pub draft_ms: f64,
    /// Time of the target's pass, in milliseconds.
    pub verify_ms: f64,
}

impl Row {
    /// Accepted of judged drafts: `4/10`.
    pub fn counts(&self) -> String {
        match self.judged {
            0 => NOTHING.into(),
            judged => format!("{}/{judged}", self.accepted),
        }
    }
}

/// The rows of these steps; steps after the last one are left out.
pub fn rows(log: &RunLog, steps: Range<usize>) -> Vec<Row> {
    let mut first = 0;
    let mut rows = Vec::new();
    for (at, step) in log.steps().iter().enumerate().take(steps.end) {
        if at >= steps.start {
            rows.push(row(at, step, first));
        }
        first += step.tokens.len();
    }
    rows
}

/// The step that wrote this token, counted from 0.
pub fn step_of(log: &RunLog, token: usize) -> Option<usize> {
    let mut end = 0;
    log.steps().iter().position(|step| {
        end += step.tokens.len();
        token < end
    })
}

/// The token of a step that a cursor stops at: the first that is [notable](is_notable), else the first, if any.
pub fn token_of(log: &RunLog, step: usize) -> Option<usize> {
    let before = log.steps().get(..step)?.iter().map(|step| step.tokens.len()).sum::<usize>();
    let tokens = &log.steps().get(step)?.tokens;
    (!tokens.is_empty()).then(|| before + tokens.iter().position(is_notable).unwrap_or(0))
}

/// True for tokens by which a step differs from autoregressive decoding or from its draft: corrected and loosened ones.
pub fn is_notable(token: &Token) -> bool {
    token.verdict == Verdict::Corrected || !token.verdict.is_strict()
}

/// The nearest notable token after this one; from the beginning without one.
pub fn next_notable(log: &RunLog, after: Option<usize>) -> Option<usize> {
    let from = after.map_or(0, |token| token + 1);
    log.tokens().enumerate().skip(from).find(|(_, token)| is_notable(token)).map(|(number, _)| number)
}

/// The nearest notable token before this one.
pub fn previous_notable(log: &RunLog, before: usize) -> Option<usize> {
    let tokens = log.tokens().enumerate().take(before);
    tokens.filter(|(_, token)| is_notable(token)).last().map(|(number, _)| number)
}

fn row(at: usize, step: &Step, first: usize) -> Row {
    Row {
        number: at + 1,
        tokens: first..first + step.tokens.len(),
        pieces: pieces(step),
        accepted: step.accepted_freely(),
        judged: step.judged_freely(),
        reason: reason(step),
        draft_ms: step.draft_ms,
        verify_ms: step.verify_ms,
    }
}

/// The accepted drafts, and the target's own token.
fn tokens(step: &Step) -> (&[Token], Option<&Token>) {
    let (accepted, own) = step.tokens.split_at(step.accepted.min(step.tokens.len()));
    (accepted, own.first())
}

/// Where in the draft the branch of the accepted drafts continues: the drafts of which the target accepted none.
fn refused(step: &Step) -> Vec<usize> {
    let drafts = step.drafted.len();
    if step.parents.is_empty() {
        return (step.accepted.min(drafts)..drafts).collect();
    }
    let last = step.accepted.checked_sub(1).and_then(|at| step.path.get(at).copied());
    (0..drafts).filter(|draft| step.parents.get(*draft).copied().flatten() == last).collect()
}

/// Leaves of a drafted tree, and how many of them are not the end of the accepted branch.
fn leaves(step: &Step) -> (usize, usize) {
    let is_leaf = |draft: &usize| !step.parents.contains(&Some(*draft));
    let leaves: Vec<usize> = (0..step.drafted.len()).filter(is_leaf).collect();
    let end = step.accepted.checked_sub(1).and_then(|at| step.path.get(at));
    (leaves.len(), leaves.iter().filter(|leaf| Some(*leaf) != end).count())
}

fn pieces(step: &Step) -> Vec<Piece> {
    let piece = |text: String, mark| Piece { text, mark };
    let (accepted, own) = tokens(step);
    let mut out: Vec<Piece> = Vec::new();
    for token in accepted {
        let text = inline(&token.text);
        let text = if out.is_empty() { text.trim_start().to_owned() } else { text };
        match out.last_mut().filter(|last| last.mark == Mark::Token(token.verdict)) {
            Some(last) => last.text += &text,
            None => out.push(piece(text, Mark::Token(token.verdict))),
        }
    }
    let refused = refused(step);
    if !refused.is_empty() {
        if !out.is_empty() {
            out.push(piece(" ".into(), Mark::Between));
        }
        out.extend(struck(step, &refused, own.is_some()));
    }
    if let Some(own) = own {
        let sign = match (step.drafted.is_empty(), refused.is_empty()) {
            (true, _) => "",
            (false, true) => " + ",
            (false, false) => " → ",
        };
        if !sign.is_empty() {
            out.push(piece(sign.into(), Mark::Between));
        }
        out.push(piece(visible(&own.text), Mark::Token(own.verdict)));
    }
    out
}

/// The drafts that were not accepted. In a chain the first one was rejected, and the others fall with it; in a tree all are
/// alternatives of one place. Where the target has no token of its own, the caption ended before them.
fn struck(step: &Step, refused: &[usize], is_rejected: bool) -> Vec<Piece> {
    let (first, rest) =
        if is_rejected { (Mark::Rejected, Mark::Discarded) } else { (Mark::Unused, Mark::Unused) };
    let piece = |text: String, mark| Piece { text, mark };
    let known: Vec<&str> =
        refused.iter().filter_map(|draft| step.drafted_text.get(*draft).map(String::as_str)).collect();
    if known.is_empty() {
        return vec![piece(UNKNOWN.into(), first)];
    }
    if !step.parents.is_empty() {
        let named = known.iter().take(ALTERNATIVES).map(|text| visible(text));
        let more = known.len().checked_sub(ALTERNATIVES + 1).map(|_| UNKNOWN.to_owned());
        return vec![piece(named.chain(more).collect::<Vec<_>>().join("|"), first)];
    }
    let behind: String = known[1..].iter().map(|text| inline(text)).collect();
    let mut out = vec![piece(visible(known[0]), first)];
    if !behind.is_empty() {
        out.push(piece(behind, rest));
    }
    out
}

/// A token's text inside a row: with its space, line ends made visible. Without text, as part of a character, a dot.
fn inline(text: &str) -> String {
    if text.is_empty() { "·".into() } else { text::clean(&text.replace('\n', "⏎")).into_owned() }
}

fn reason(step: &Step) -> String {
    let unsure = step.unsure.map(|probability| format!("unsure: {:.0} %", 100.0 * probability));
    let switched = step.switched.as_ref().map(|switched| format!("from here on drafted by: {}", switched.to));
    let parts = [Some(outcome(step)), unsure, switched].into_iter().flatten();
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

fn outcome(step: &Step) -> String {
    let (accepted, own) = tokens(step);
    if step.drafted.is_empty() {
        return match step.gate {
            Some(peak) => format!("no draft: the target's attention peaks on one visual token ({peak:.3})"),
            None => "no draft".into(),
        };
    }
    let is_tree = !step.parents.is_empty();
    let is_refused = !refused(step).is_empty();
    let mut parts = Vec::new();
    match own {
        _ if is_tree => {
            let (all, rejected) = leaves(step);
            parts.push(format!("{rejected} of {all} leaves rejected"));
        }
        Some(_) if is_refused => {
            // The same two numbers as in the count.
            parts.push(match step.accepted_freely() {
                0 => "first draft rejected".into(),
                accepted => {
                    format!("rejected after {accepted} of {}", plural(step.judged_freely() as u64, "draft"))
                }
            });
        }
        _ if step.judged_freely() == 0 => parts.push("no draft: the grammar leaves no choice".into()),
        _ if !is_refused && step.accepted == step.drafted.len() => {
            parts.push("all drafts accepted".into());
        }
        _ => {}
    }
    if own.is_none() && is_refused {
        parts.push("end of the caption".into());
    }
    for token in accepted.iter().filter(|token| !token.verdict.is_strict()) {
        let name = format!("{} “{}”", token.verdict, visible(&token.text));
        parts.push(match token.target_text.as_deref().filter(|text| !text.is_empty()) {
            Some(wanted) => format!("{name} for “{}”", visible(wanted)),
            None => name,
        });
    }
    parts.join(" · ")
}

/// A row's text without styles: struck drafts between `~~`.
pub fn plain(pieces: &[Piece]) -> String {
    marked(pieces).iter().map(|piece| piece.text.as_str()).collect()
}

/// The pieces with `~~` around struck drafts, for faces that cannot strike text out.
pub fn marked(pieces: &[Piece]) -> Vec<Piece> {
    let edge = || Piece { text: "~~".into(), mark: Mark::Between };
    let mut out = Vec::with_capacity(pieces.len() + 2);
    let mut is_open = false;
    for piece in pieces {
        if piece.mark.is_struck() != is_open {
            out.push(edge());
            is_open = !is_open;
        }
        out.push(piece.clone());
    }
    if is_open {
        out.push(edge());
    }
    out
}

/// The columns that pieces take.
pub fn width(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| text::width(&piece.text)).sum()
}

/// The pieces cut to so many columns. The target's own token is kept as long as it fits; the struck drafts lose their end, the
/// accepted ones their beginning, and neither takes more than half of the rest if the other needs it.
pub fn fit(pieces: &[Piece], columns: usize) -> Vec<Piece> {
    if width(pieces) <= columns {
        return pieces.to_vec();
    }
    // The first of the pieces after the accepted drafts, and the arrow before the target's own token.
    let is_refused = |piece: &Piece| piece.mark.is_struck() || piece.mark == Mark::Unused;
    let own = pieces.iter().rposition(|piece| piece.mark == Mark::Between);
    let own = own.filter(|own| !pieces[*own..].iter().any(is_refused)).unwrap_or(pieces.len());
    let struck = pieces[..own].iter().position(is_refused).unwrap_or(own);
    let (head, middle, tail) = (&pieces[..struck], &pieces[struck..own], &pieces[own..]);
    let tail = cut_end(tail, columns);
    let room = columns - width(&tail);
    let for_middle = width(middle).min((room / 2).max(room.saturating_sub(width(head))));
    let middle = cut_end(middle, for_middle);
    let head = cut_start(head, room - width(&middle));
    [head, middle, tail].concat()
}

/// The beginning of pieces, with `…` at its end if something was cut off.
fn cut_end(pieces: &[Piece], columns: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut room = columns;
    for (at, piece) in pieces.iter().enumerate() {
        let is_last = at + 1 == pieces.len();
        let taken = text::width(&piece.text);
        if taken + usize::from(!is_last) <= room {
            room -= taken;
            out.push(piece.clone());
            continue;
        }
        // A space more than there is, so that the cut is shown even if this piece itself would fit.
        out.push(Piece { text: text::fit(&format!("{} ", piece.text), room), mark: piece.mark });
        break;
    }
    out.retain(|piece| !piece.text.is_empty());
    out
}

/// The end of pieces, with `…` before it if something was cut off.
fn cut_start(pieces: &[Piece], columns: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut room = columns;
    for (at, piece) in pieces.iter().enumerate().rev() {
        let taken = text::width(&piece.text);
        if taken + usize::from(at > 0) <= room {
            room -= taken;
            out.push(piece.clone());
            continue;
        }
        out.push(Piece { text: text::fit_end(&format!(" {}", piece.text), room), mark: piece.mark });
        break;
    }
    out.retain(|piece| !piece.text.is_empty());
    out.reverse();
    out
}

#[cfg(test)]
mod tests;
