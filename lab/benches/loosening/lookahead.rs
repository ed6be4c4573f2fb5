//! The oracle by sentences: it lets the target continue after the draft and after its own token, and compares what is true.
//!
//! From a mismatch on the target writes the sentence to its end, once after the draft and once after the token it wanted. The
//! draft passes if the text with it states no fewer true facts, no more false ones and no more figures that are not there.
//! A draft that only puts a sentence without facts first gets one sentence more to catch up.

use specreel_record::Verdict;
use specreel_scenes::facts::{self, Facts, Score};
use specreel_speculate::accept::Row;

use crate::{judge::Verdicts, kept::Problem, target_copy::TargetCopy, words::Words};

/// No sentence is longer than this many tokens.
const LONGEST: usize = 60;

/// What the oracle knows.
pub struct Scene<'a> {
    pub truth: &'a Facts,
    pub words: &'a Words,
    pub ends: &'a [u32],
}

impl Scene<'_> {
    /// Judge the drafts after a text. What follows a rejected one is not looked at.
    pub fn judge(&self, copy: &mut TargetCopy, text: &[u32], rows: &[Row]) -> Result<Verdicts, Problem> {
        let mut verdicts = vec![None; rows.len()];
        let mut text = text.to_vec();
        for (row, verdict) in rows.iter().zip(&mut verdicts) {
            *verdict = match row.draft == row.wanted {
                true => Some(Verdict::Exact),
                false if row.protected || !self.harmless(copy, &text, row)? => break,
                false => Some(Verdict::Loosened),
            };
            text.push(row.draft);
        }
        Ok(verdicts)
    }

    fn harmless(&self, copy: &mut TargetCopy, text: &[u32], row: &Row) -> Result<bool, Problem> {
        let with = |id: u32| [text, &[id]].concat();
        let wanted = self.score(&self.finish(copy, with(row.wanted), false)?);
        let mut drafted = self.finish(copy, with(row.draft), false)?;
        let score = self.score(&drafted);
        if no_worse(&score, &wanted) {
            return Ok(true);
        }
        if score.right >= wanted.right {
            return Ok(false);
        }
        drafted = self.finish(copy, drafted, true)?;
        Ok(no_worse(&self.score(&drafted), &wanted))
    }

    /// Write on to the end of the sentence, or of the next one where `more`.
    fn finish(&self, copy: &mut TargetCopy, mut text: Vec<u32>, more: bool) -> Result<Vec<u32>, Problem> {
        let over = |text: &[u32]| text.last().is_some_and(|&id| self.words.text(id).contains('.'));
        let mut going = more || !over(&text);
        let most = text.len() + LONGEST;
        while going && text.len() < most {
            let id = copy.next(&text)?;
            if self.ends.contains(&id) {
                break;
            }
            text.push(id);
            going = !over(&text);
        }
        Ok(text)
    }

    fn score(&self, text: &[u32]) -> Score {
        let text: String = text.iter().map(|&id| self.words.text(id)).collect();
        facts::score(self.truth, &text)
    }
}

fn no_worse(a: &Score, b: &Score) -> bool {
    a.right >= b.right && a.wrong <= b.wrong && a.extra <= b.extra
}
