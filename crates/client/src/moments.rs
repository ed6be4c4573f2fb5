//! Moments of a library of videos, by what is seen and said in them.

pub mod question;

use std::path::PathBuf;

use serde_json::{Value, json};
use specreel_record::{Failure, clock};

use crate::present::text::clean_line;
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
    /// How well it fits by BM25; higher is better.
    pub score: f64,
}

/// Finds moments. Every call may block; call none on a face's thread.
pub trait MomentFinder: Send + Sync {
    /// At most so many moments with all of these words, the best first. Fails if there is nothing to look for (class usage), or nothing
    /// to look in.
    fn find(&self, words: &str, filter: &Filter, most: usize) -> Result<Vec<Moment>, Failure>;

    /// At most so many moments with some word of a question, those first that have more and rarer ones. Fails as
    /// [`find`](Self::find).
    fn about(&self, question: &str, filter: &Filter, most: usize) -> Result<Vec<Moment>, Failure>;
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
