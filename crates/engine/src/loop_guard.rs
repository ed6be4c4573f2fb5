//! Detects answers that repeat themselves endlessly.
//!
//! Small models, decoded greedily, fall into loops: from some token on, the same tokens come again and again until the limit.
//! [`LoopGuard`] reads the tokens of an answer one by one and says so: late enough for refrains, lists and tables, which repeat
//! themselves too, but end, and early enough to save most of the rest. What it says depends on the tokens alone, not on the steps
//! in which they come.
//!
//! **The rule.** The end of an answer has period `p` as far as each of its tokens equals the one `p` before it. The answer is in a
//! loop once the end with a period of up to [`MAX_PERIOD`] tokens, its first period not counted, has
//!
//! ```text
//! max(p + 100, 2 p + 32)       tokens if there are letters in the period,
//! max(p + 100, 2 p + 32, 500)  tokens if there are none.
//! ```
//!
//! That is three whole periods and then 32 to 99 tokens: "ha" 102 times, a line of ten tokens 12 times, a paragraph of 80 tokens
//! 3.4 times. Three whole periods alone are no loop yet: songs and prayers say a line so often, pictures of characters and tables
//! of equal numbers consist of nothing else. The latter are long and have no letters.
//!
//! Repeated lines that differ in a number are no loop: numbered lists, multiplication tables, time stamps, lists of links and
//! counting songs look the same, for hundreds of lines.

/// The longest period that is looked for, in tokens.
pub const MAX_PERIOD: usize = 400;

/// A loop of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Tokens after which the answer repeats itself.
    pub period: usize,
    /// Tokens of the answer before the first period.
    pub start: usize,
    /// Whole periods so far, the first one included.
    pub repeats: usize,
}

impl Loop {
    /// How many tokens of the answer to keep: those up to the end of the first period.
    pub fn kept(&self) -> usize {
        self.start + self.period
    }

    /// The same, up to the next place where a line or sentence ends, within one more period: `ends` says so of the number of
    /// tokens before a place. A period begins where the text first repeats itself, often with the full stop of an earlier
    /// sentence; then `kept` ends before a full stop.
    pub fn kept_until(&self, ends: impl Fn(usize) -> bool) -> usize {
        (self.kept()..self.kept() + self.period).find(|&tokens| ends(tokens)).unwrap_or_else(|| self.kept())
    }
}

/// Watches an answer for loops. A token costs about 0.1 µs.
#[derive(Clone, Debug)]
pub struct LoopGuard {
    /// The latest ids, up to twice as many as periods, oldest first.
    recent: Vec<u32>,
    /// At `MAX_PERIOD - p`: how many of the latest tokens equal the one `p` before them.
    runs: Vec<u32>,
    /// Tokens so far.
    tokens: usize,
    /// Tokens up to the last one with a letter.
    lettered: usize,
}

impl Default for LoopGuard {
    fn default() -> Self {
        Self { recent: Vec::with_capacity(2 * MAX_PERIOD), runs: vec![0; MAX_PERIOD], tokens: 0, lettered: 0 }
    }
}

impl LoopGuard {
    /// Take the answer's next token with the text that it adds. The loop, if the answer is in one; of several the one with the
    /// shortest period.
    pub fn push(&mut self, id: u32, text: &str) -> Option<Loop> {
        self.tokens += 1;
        if text.chars().any(char::is_alphabetic) {
            self.lettered = self.tokens;
        }
        self.count(id).then(|| self.found()).flatten()
    }

    /// Count the token for every period. True if one of them has been repeated as long as it has to be with letters.
    fn count(&mut self, id: u32) -> bool {
        let before = &self.recent[self.recent.len().saturating_sub(MAX_PERIOD)..];
        let known = MAX_PERIOD - before.len()..;
        let mut due = false;
        // No branches, so that the processor takes several periods at once.
        for ((run, &earlier), &needed) in self.runs[known.clone()].iter_mut().zip(before).zip(&NEEDED[known])
        {
            *run = if earlier == id { *run + 1 } else { 0 };
            due |= *run >= needed;
        }
        if self.recent.len() == 2 * MAX_PERIOD {
            self.recent.drain(..MAX_PERIOD);
        }
        self.recent.push(id);
        due
    }

    fn found(&self) -> Option<Loop> {
        (1..=MAX_PERIOD).find_map(|period| {
            let run = self.runs[MAX_PERIOD - period] as usize;
            let letters = self.tokens - self.lettered < period;
            let enough = run >= needed(period) && (letters || run >= WITHOUT_LETTERS);
            let start = self.tokens.checked_sub(period + run)?;
            enough.then_some(Loop { period, start, repeats: 1 + run / period })
        })
    }
}

/// How many tokens have to equal the one a period before them.
const fn needed(period: usize) -> usize {
    let (short, long) = (period + 100, 2 * period + 32);
    if short > long { short } else { long }
}

/// The same at least, if the period has no letters.
const WITHOUT_LETTERS: usize = 500;

/// What is [`needed`], at `MAX_PERIOD - p` as the runs are.
const NEEDED: [u32; MAX_PERIOD] = {
    let mut table = [0; MAX_PERIOD];
    let mut at = 0;
    while at < MAX_PERIOD {
        table[at] = needed(MAX_PERIOD - at) as u32;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// The first loop in an answer, and the number of tokens after which it is detected. Tokens from 1000 on
    /// have no letters.
    fn first(ids: impl IntoIterator<Item = u32>) -> Option<(usize, Loop)> {
        let mut guard = LoopGuard::default();
        ids.into_iter().enumerate().find_map(|(at, id)| {
            let text = if id < 1000 { " a" } else { "-" };
            guard.push(id, text).map(|found| (at + 1, found))
        })
    }

    /// The same for a text, with a token for each word and the space before it, each digit and mark.
    fn of_text(text: &str) -> Option<Loop> {
        let (mut guard, mut ids, mut rest) = (LoopGuard::default(), HashMap::new(), text);
        while let Some(first) = rest.chars().next() {
            let word = rest.strip_prefix(' ').unwrap_or(rest);
            let letters = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
            let length = if letters > 0 { rest.len() - word.len() + letters } else { first.len_utf8() };
            let (token, after) = rest.split_at(length);
            let new = ids.len() as u32;
            let found = guard.push(*ids.entry(token).or_insert(new), token);
            if found.is_some() {
                return found;
            }
            rest = after;
        }
        None
    }

    /// The rule as it is written, from the whole answer.
    fn by_definition(ids: &[u32]) -> Option<Loop> {
        (1..=MAX_PERIOD.min(ids.len())).find_map(|period| {
            let equal = ids.iter().rev().zip(ids.iter().rev().skip(period));
            let run = equal.take_while(|(id, earlier)| id == earlier).count();
            let letters = ids[ids.len() - period..].iter().any(|&id| id < 1000);
            let most = (period + 100).max(2 * period + 32).max(if letters { 0 } else { 500 });
            let whole = period + run;
            (run >= most).then(|| Loop { period, start: ids.len() - whole, repeats: whole / period })
        })
    }

    #[test]
    fn a_loop_is_told_after_three_periods_and_some_tokens() {
        for (period, letters, tokens, repeats) in [
            (1, true, 102, 102),
            (2, true, 104, 52),
            (10, true, 120, 12),
            (50, true, 200, 4),
            (68, true, 236, 3),
            (80, true, 272, 3),
            (400, true, 1232, 3),
            (1, false, 501, 501),
            (10, false, 510, 51),
            (300, false, 932, 3),
        ] {
            let first_id = if letters { 0 } else { 1000 };
            let answer = (0..7).map(|n| 2000 + n).chain((first_id..first_id + period as u32).cycle());
            let found = Loop { period, start: 7, repeats };
            assert_eq!(first(answer.take(7 + 2000)), Some((7 + tokens, found)), "{period}");
        }
    }

    #[test]
    fn a_loop_is_told_by_its_shortest_period_as_long_as_it_lasts() {
        let mut guard = LoopGuard::default();
        let told: Vec<_> = (0..400).filter_map(|n| guard.push(n % 10, " a")).collect();
        assert_eq!(told.len(), 400 - 119);
        assert!(told.iter().all(|found| found.period == 10));
        assert_eq!(told.last().map(|found| found.repeats), Some(40));
        assert_eq!(guard.push(500, " a"), None);
    }

    #[test]
    fn longer_periods_and_texts_without_a_period_are_no_loop() {
        assert_eq!(first((0..401).cycle().take(5000)), None);
        assert_eq!(first(0..5000), None);
        // Each line differs from the others in one token.
        assert_eq!(first((0..5000).map(|n| if n % 10 == 0 { n } else { n % 10 })), None);
    }

    #[test]
    fn a_change_begins_the_count_anew() {
        let line = || 0..10u32;
        let times = |n: usize| (0..n).flat_map(move |_| line());
        assert_eq!(first(times(11).chain([500]).chain(times(11))), None);
        let (tokens, found) = first(times(11).chain([500]).chain(times(12))).unwrap();
        assert_eq!((tokens, found), (111 + 120, Loop { period: 10, start: 111, repeats: 12 }));
    }

    #[test]
    fn texts_that_repeat_themselves_and_end_are_no_loops() {
        let verse = "Row, row, row your boat,\nGently down the stream.\nMerrily, merrily, merrily, merrily,\n\
                     Life is but a dream.\n\n";
        let bottles = |n: u32| {
            format!(
                "{n} bottles of beer on the wall, {n} bottles of beer.\nTake one down and pass it around.\n\n"
            )
        };
        for text in [
            verse.repeat(3),
            (1..99).rev().map(bottles).collect(),
            (1..=100).map(|n| format!("{n}. What is a bridge?\n")).collect(),
            (1..=100).map(|n| format!("7 x {n} = {}\n", 7 * n)).collect(),
            (0..60).map(|n| format!("[00:{n:02}] [music]\n")).collect(),
            "[music]\n".repeat(20),
            "ha ".repeat(50),
            format!("[{}]", "0, ".repeat(150)),
            "| 0 | 0 | 0 | 0 | 0 |\n".repeat(20),
            "-".repeat(400),
            "+---+---+---+---+\n|   |   |   |   |\n".repeat(10),
        ] {
            assert_eq!(of_text(&text), None, "{text}");
        }
        let found = of_text(&"I see a man.\n".repeat(20)).unwrap();
        assert_eq!((found.period, found.start), (6, 0));
        assert_eq!(of_text(&"0, ".repeat(200)).map(|found| found.period), Some(3));
    }

    #[test]
    fn the_first_period_is_kept() {
        let found = Loop { period: 4, start: 6, repeats: 9 };
        assert_eq!(found.kept(), 10);
        assert_eq!(found.kept_until(|_| false), 10);
        assert_eq!(found.kept_until(|_| true), 10);
        assert_eq!(found.kept_until(|tokens| [5, 9, 11, 12].contains(&tokens)), 11);
        assert_eq!(found.kept_until(|tokens| tokens == 13), 13);
        // A period later the text is the same.
        assert_eq!(found.kept_until(|tokens| tokens == 14), 10);
    }

    /// Answers of few ids, in which pieces are repeated.
    fn answer() -> impl Strategy<Value = Vec<u32>> {
        let id = prop_oneof![3 => 0..3u32, 1 => 1000..1002u32];
        let piece = (prop::collection::vec(id, 1..30), 1..60usize);
        prop::collection::vec(piece, 1..6)
            .prop_map(|pieces| pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_loop_of_the_rule_is_told_at_once_and_no_other(ids in answer()) {
            let want = (1..=ids.len()).find_map(|n| by_definition(&ids[..n]).map(|found| (n, found)));
            prop_assert_eq!(first(ids), want);
        }

        #[test]
        fn endless_loops_are_told_within_100_tokens_of_their_third_period(
            before in prop::collection::vec(0..20u32, 0..900),
            period in prop::collection::vec(0..20u32, 1..=MAX_PERIOD),
        ) {
            let third = before.len() + 3 * period.len();
            let endless = before.iter().chain(period.iter().cycle()).copied();
            let (tokens, found) = first(endless.take(third + 100)).unwrap();
            prop_assert!(tokens < third + 100, "{} of {}", tokens, third);
            prop_assert!(found.kept() <= before.len() + period.len());
        }

        #[test]
        fn what_came_before_does_not_matter(before in 0..2000usize, ids in answer()) {
            let distinct = (0..before as u32).map(|n| 5000 + n);
            let after = first(ids.iter().copied()).map(|(tokens, found)| {
                (tokens + before, Loop { start: found.start + before, ..found })
            });
            prop_assert_eq!(first(distinct.chain(ids)), after);
        }
    }
}
