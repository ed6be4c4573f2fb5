//! The list of saved runs.

use std::{cmp::Reverse, path::PathBuf};

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::replay::Replay;
use crate::tui::archive::SessionEntry;

/// The list, which is read again each time it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    /// Their directory; `None` if there is none.
    pub folder: Option<PathBuf>,
    /// `None` until the directory was read.
    pub entries: Option<Vec<SessionEntry>>,
    /// Words that a run must all match.
    pub filter: String,
    /// Indices of the entries that match the filter, the best first; of equal ones the newest.
    pub shown: Vec<usize>,
    pub cursor: usize,
    /// The one that is being read.
    pub loading: Option<PathBuf>,
    /// The runs that are played again.
    pub replay: Option<Replay>,
}

impl Sessions {
    pub fn selected(&self) -> Option<&SessionEntry> {
        self.entries.as_ref()?.get(*self.shown.get(self.cursor)?)
    }

    /// Replace the list. The selection stays on its file if that still exists; true if it does.
    pub fn set(&mut self, entries: Vec<SessionEntry>) -> bool {
        let selected = self.selected().map(|e| e.path.clone());
        self.entries = Some(entries);
        self.refresh(selected.clone());
        self.selected().map(|e| &e.path) == selected.as_ref()
    }

    pub fn set_filter(&mut self, filter: String) {
        let selected = self.selected().map(|e| e.path.clone());
        self.filter = filter;
        self.cursor = 0;
        // The best match is selected; without a filter, the earlier selection.
        self.refresh(selected.filter(|_| self.filter.is_empty()));
    }

    fn refresh(&mut self, selected: Option<PathBuf>) {
        let entries = self.entries.as_deref().unwrap_or_default();
        let mut ranking = Ranking::new(&self.filter);
        let score = |i: usize| Some((Reverse(ranking.score(&entries[i])?), i));
        let mut scored: Vec<_> = (0..entries.len()).filter_map(score).collect();
        scored.sort_unstable();
        self.shown = scored.into_iter().map(|(_, i)| i).collect();
        let at = selected.and_then(|path| self.shown.iter().position(|i| entries[*i].path == path));
        self.cursor = at.unwrap_or(self.cursor).min(self.shown.len().saturating_sub(1));
    }
}

/// How well runs match words: names by letters in order, texts by the whole word.
struct Ranking {
    /// Each word as it is looked for in names, and in texts.
    words: Vec<[Atom; 2]>,
    matcher: Matcher,
    buffer: Vec<char>,
}

impl Ranking {
    fn new(filter: &str) -> Self {
        let atom = |word, kind| Atom::new(word, CaseMatching::Smart, Normalization::Smart, kind, false);
        let both = |word| [atom(word, AtomKind::Fuzzy), atom(word, AtomKind::Substring)];
        Self {
            words: filter.split_whitespace().map(both).collect(),
            matcher: Matcher::new(Config::DEFAULT),
            buffer: Vec::new(),
        }
    }

    /// The sum of the best match of each word, where a match in the name of the clip or the method counts
    /// twice; `None` if a word does not match.
    fn score(&mut self, entry: &SessionEntry) -> Option<u32> {
        let (name, texts) = (entry.name(), entry.texts());
        let names = [name.as_str(), &entry.method];
        let Self { words, matcher, buffer } = self;
        let mut best = |atom: &Atom, texts: &[&str]| {
            texts.iter().filter_map(|text| atom.score(Utf32Str::new(text, buffer), matcher)).max()
        };
        let word = |[fuzzy, whole]: &[Atom; 2]| {
            let named = best(fuzzy, &names).map(|score| 2 * u32::from(score));
            named.max(best(whole, &texts).map(u32::from))
        };
        words.iter().map(word).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;
    use specreel_record::{Event, RunLog};

    /// Saved runs of these clips, methods and prompts, newest first.
    fn sessions(runs: &[(&str, &str, &str)]) -> Sessions {
        let entry = |(age, (video, method, prompt)): (usize, &(&str, &str, &str))| {
            let mut log = RunLog::new(1);
            let started =
                specreel_record::Started { prompt: (*prompt).into(), ..testing::about(video, method) };
            log.apply(&Event::new(1, specreel_record::EventKind::Started(started)));
            SessionEntry::new(format!("{age}.jsonl").as_ref(), age as u64, 1, vec![log]).unwrap()
        };
        let mut sessions = Sessions::default();
        sessions.set(runs.iter().enumerate().map(entry).collect());
        sessions
    }

    #[test]
    fn the_best_match_is_first_and_of_equal_ones_the_newest() {
        let mut all = sessions(&[
            ("/v/red-ball.mp4", "naive", "Does a star fall?"),
            ("/v/star.mp4", "lvspec", "Describe the video."),
            ("/v/star.mp4", "naive", "Describe the video."),
            ("/v/seat-and-tar.mp4", "naive", "Describe the video."),
        ]);
        for (filter, shown) in [
            ("", &[0, 1, 2, 3][..]),
            // Whole in a name, by its letters in a name, in a prompt.
            ("star", &[1, 2, 3, 0]),
            ("naive star", &[2, 3, 0]),
            ("lvs", &[1]),
            ("fall", &[0]),
            // Letters in order are not looked for in prompts.
            ("dvd", &[]),
            ("Star", &[]),
            ("describe nothing", &[]),
        ] {
            all.set_filter(filter.into());
            assert_eq!(all.shown, shown, "{filter:?}");
            assert_eq!(all.cursor, 0);
        }
        all.set_filter("lvs".into());
        all.set_filter(String::new());
        assert_eq!(all.selected().unwrap().method, "lvspec", "without a filter the selection stays");
    }
}
