//! Moments of a library of videos, by what is seen and said in them.

pub mod question;

use std::path::PathBuf;

use serde_json::{Value, json};
use specreel_record::{Failure, clock};

use crate::present::text::clean_line;
pub use question::LibraryQuestion;
use specreel_engine::Meanings;

/// Where a text comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A caption: what is seen.
    #[default]
    Seen = 0,
    /// Speech.
    Said = 1,
}

/// Which moments count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Videos that are one of these, or below one of them; all if empty.
    pub below: Vec<PathBuf>,
    pub kind: Option<Kind>,
    /// Videos that were changed at this time or later, and before that one, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
    /// Videos of at least this many seconds, and of at most that many.
    pub longer_s: Option<f64>,
    pub shorter_s: Option<f64>,
    /// A part of the name of the model that wrote it.
    pub model: Option<String>,
    /// Also videos that are gone.
    pub missing: bool,
}

/// A part of an excerpt, and whether it is what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub text: String,
    pub is_match: bool,
}

/// A moment that has the words.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub path: PathBuf,
    /// In seconds. Without an end, the text is about the whole video.
    pub start: f64,
    pub end: Option<f64>,
    pub kind: Kind,
    /// An excerpt of the text.
    pub parts: Vec<Part>,
    pub text: String,
    /// The model that wrote it, or the file that it comes from.
    pub model: Option<String>,
    /// How well it fits; higher is better. By words it is that of BM25, by meaning a cosine, and where both are joined a sum of
    /// reciprocal ranks.
    pub score: f64,
}

/// What a text is about, as [`Meanings`](specreel_engine::Meanings) say it.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    pub model: String,
    pub vector: Vec<f32>,
}

impl Meaning {
    /// The first one.
    pub fn first(mut meanings: Meanings) -> Option<Self> {
        let vector = std::mem::take(meanings.vectors.first_mut()?);
        Some(Self { model: meanings.model, vector })
    }
}

/// Finds moments. Every call may block; call none on a face's thread.
pub trait MomentFinder: Send + Sync {
    /// At most so many moments with all of these words, the best first. Fails if there is nothing to look for (class usage), or nothing
    /// to look in.
    fn find(&self, words: &str, filter: &Filter, most: usize) -> Result<Vec<Moment>, Failure>;

    /// At most so many moments with some word of a question, those first that have more and rarer ones. Fails as
    /// [`find`](Self::find).
    fn about(&self, question: &str, filter: &Filter, most: usize) -> Result<Vec<Moment>, Failure>;

    /// At most so many moments whose captions are about the same, the nearest first. Fails if the index has none of this model (class
    /// usage), or cannot be read.
    fn near(&self, meaning: &Meaning, filter: &Filter, most: usize) -> Result<Vec<Moment>, Failure>;

    /// The model by which the index knows what captions are about; `None` if it does not. Fails if it cannot be read.
    fn meaning_model(&self) -> Result<Option<String>, Failure>;
}

/// Lists of moments as one: each moment counts by its ranks in them (reciprocal rank fusion; Cormack et al., SIGIR 2009).
pub fn joined(lists: [Vec<Moment>; 2], most: usize) -> Vec<Moment> {
    /// How much less the first rank counts than it would alone.
    const FLAT: f64 = 60.0;
    let mut joined: Vec<Moment> = Vec::new();
    for list in lists {
        for (rank, moment) in list.into_iter().enumerate() {
            let score = 1.0 / (FLAT + rank as f64 + 1.0);
            match joined.iter_mut().find(|other| other.is_same(&moment)) {
                Some(other) => other.score += score,
                None => joined.push(Moment { score, ..moment }),
            }
        }
    }
    // Stable: among equals, the list that comes first goes first.
    joined.sort_by(|a, b| b.score.total_cmp(&a.score));
    joined.truncate(most);
    joined
}

/// What is found while a text is typed: the moments of a question, if it ends as one, else those with all of its words.
/// Fails as [`MomentFinder::find`].
pub fn typed(finder: &dyn MomentFinder, text: &str, most: usize) -> Result<Vec<Moment>, Failure> {
    let filter = Filter::default();
    if question::is_question(text) {
        finder.about(text, &filter, most)
    } else {
        finder.find(text, &filter, most)
    }
}

impl Moment {
    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "video": self.path.to_string_lossy(), "start": self.start, "end": self.end, "said": self.kind == Kind::Said,
            "text": self.text, "excerpt": self.excerpt(), "model": self.model, "score": (self.score * 1000.0).round() / 1000.0,
        })
    }

    /// `path  0:12–0:41  said: …the red van turns…`, with each part of the excerpt as `write` has it.
    pub fn line(&self, write: impl Fn(&Part) -> String) -> String {
        let said = if self.kind == Kind::Said { "said: " } else { "" };
        let excerpt: String = self.parts.iter().map(write).collect();
        format!("{}  {said}{excerpt}", self.place())
    }

    /// Where it is: `path  0:12–0:41`.
    pub fn place(&self) -> String {
        format!("{}  {}", clean_line(&self.path.to_string_lossy()), self.times())
    }

    /// True if it is the same text at the same time.
    fn is_same(&self, other: &Self) -> bool {
        (&self.path, self.kind, self.start, self.end, &self.text)
            == (&other.path, other.kind, other.start, other.end, &other.text)
    }

    /// The excerpt as it is.
    pub fn excerpt(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    /// When it is: `0:12–0:41`, or `all` of the video.
    pub fn times(&self) -> String {
        match self.end {
            Some(end) => format!("{}–{}", clock(self.start), clock(end)),
            None => "all".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_high_in_both_lists_comes_first_and_words_before_meanings() {
        let list = |starts: &[f64]| -> Vec<Moment> {
            let moment = |start: &f64| Moment {
                path: "/a.mp4".into(),
                start: *start,
                end: None,
                kind: Kind::Seen,
                parts: Vec::new(),
                text: String::new(),
                model: None,
                score: 7.0,
            };
            starts.iter().map(moment).collect()
        };
        let starts = |lists, most| joined(lists, most).iter().map(|moment| moment.start).collect::<Vec<_>>();
        assert_eq!(starts([list(&[1.0, 2.0, 3.0]), list(&[3.0, 4.0])], 9), [3.0, 1.0, 2.0, 4.0]);
        assert_eq!(starts([list(&[1.0]), list(&[2.0])], 1), [1.0]);
        assert_eq!(starts([Vec::new(), list(&[2.0, 1.0])], 9), [2.0, 1.0]);
    }
}
