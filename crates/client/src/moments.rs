//! Moments of a library of videos, by what is seen and said in them.

mod meaning;
pub mod question;

use std::path::PathBuf;

use serde_json::{Value, json};
use specreel_record::{Failure, clock};

use crate::present::text::clean_line;
pub use meaning::{Meaning, tells_meanings};
pub use question::LibraryQuestion;

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
    /// How well it fits; higher is better. By words alone it is the score of BM25, or 0 if each of the words is in most captions
    /// of a large index; with meanings it is a sum of reciprocal ranks.
    pub score: f64,
}

/// Says what a text is about; `None` if that is not known now.
pub type Reader<'a> = &'a dyn Fn(&str) -> Result<Option<Meaning>, Failure>;

/// How moments are looked for.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    pub filter: &'a Filter,
    /// At most so many.
    pub most: usize,
    /// Where the index has meanings by the same model, captions whose meanings are near count as well; none looks for words only.
    pub read: Option<Reader<'a>>,
}

/// Finds moments. Every call may block; call none on a face's thread.
pub trait MomentFinder: Send + Sync {
    /// The moments with all of these words, and those that are near, the best first. Fails if there is nothing to look for (class
    /// usage), or nothing to look in, and as `read`.
    fn find(&self, words: &str, search: Search<'_>) -> Result<Vec<Moment>, Failure>;

    /// The moments with some word of a question, and those that are near. Fails as [`find`](Self::find).
    fn about(&self, question: &str, search: Search<'_>) -> Result<Vec<Moment>, Failure>;

    /// The models whose meanings the index has. Fails if it cannot be read.
    fn meaning_models(&self) -> Result<Vec<String>, Failure>;
}

/// What is found while a text is typed: the moments of a question, if it ends as one, else those with all of its words; with a reader
/// also those that are near. Fails as [`MomentFinder::find`].
pub fn typed(
    finder: &dyn MomentFinder,
    text: &str,
    most: usize,
    read: Option<Reader<'_>>,
) -> Result<Vec<Moment>, Failure> {
    let search = Search { filter: &Filter::default(), most, read };
    if question::is_question(text) { finder.about(text, search) } else { finder.find(text, search) }
}

impl Moment {
    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "video": self.path.to_string_lossy(), "start": self.start, "end": self.end, "said": self.kind == Kind::Said,
            "text": self.text, "excerpt": self.excerpt(), "model": self.model, "score": (self.score * 1e6).round() / 1e6,
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
    pub fn is_same(&self, other: &Self) -> bool {
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
