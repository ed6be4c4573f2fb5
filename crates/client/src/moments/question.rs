//! A question about a library, and the moments that may answer it.

use serde_json::{Value, json};
use specreel_engine::{Constraint, RunRequest};
use specreel_record::{Failure, Span};
use specreel_video::{Sampling, segments};

use super::{Filter, Kind, Moment, MomentFinder, Reader, Search};
use crate::present::text::{clean_line, shortened};

/// Moments that a model is given, unless a person says how many, and at most.
pub const SOME: u32 = 8;
pub const MOST: u32 = 32;
/// Bytes of their texts in the prompt: longer ones are cut, all alike.
const OUTLINE: usize = 8_000;
/// Frames of the best moment that the model sees.
pub const FRAMES: u32 = 4;

/// The beginning of every prompt.
const HEAD: &str = "These are moments of a library of videos, with what is seen or said in each. The video shows the first one.\n";
/// What precedes the question in it.
const BEFORE: &str = "\nQuestion: ";

/// True for a text that ends as a question does.
pub fn is_question(text: &str) -> bool {
    text.trim_end().ends_with(['?', '？', '؟'])
}

/// The question in a prompt about a library; any other prompt as it is.
pub fn asked(prompt: &str) -> &str {
    let question = prompt.strip_prefix(HEAD).and_then(|rest| rest.rsplit_once(BEFORE));
    question.map_or(prompt, |(_, question)| question)
}

/// A question with the moments that it is answered from, the best first; there is at least one.
///
/// The model sees frames of the best moment, and reads the texts of all of them. It cites them by number, as in `[2]`, and a grammar
/// lets it write neither the number of another moment nor a clock time of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct LibraryQuestion {
    question: String,
    moments: Vec<Moment>,
}

impl LibraryQuestion {
    /// Find the moments of a question; `None` if there are none. Fails as [`MomentFinder::about`].
    pub fn new(
        question: &str,
        finder: &dyn MomentFinder,
        filter: &Filter,
        most: u32,
        read: Option<Reader<'_>>,
    ) -> Result<Option<Self>, Failure> {
        let mut moments: Vec<Moment> = Vec::new();
        // Several prompts may have been answered about one moment, and files may be gone without being marked.
        for moment in finder.about(question, Search { filter, most: most as usize * 2, read })? {
            let is_same = |other: &Moment| {
                (&other.path, other.kind) == (&moment.path, moment.kind)
                    && (other.start, other.end) == (moment.start, moment.end)
            };
            if moments.len() < most as usize && !moments.iter().any(is_same) && moment.path.is_file() {
                moments.push(moment);
            }
        }
        let question = question.trim().to_owned();
        Ok((!moments.is_empty()).then_some(Self { question, moments }))
    }

    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// The moment that the model sees.
    pub fn shown(&self) -> &Moment {
        &self.moments[0]
    }

    /// The part of its video that this moment is; `None` is all of it. Reads the video.
    pub fn part(&self) -> Option<Span> {
        let Moment { path, start, end, .. } = self.shown();
        // Imported times may be those of another cut, and end after the video does.
        segments(path, Some(*start), Some((*end)?), None).ok()?.first().copied()
    }

    /// The same with other names for its moments, which are shown and no longer read.
    #[must_use]
    pub fn named(self, name: impl Fn(Moment) -> Moment) -> Self {
        Self { moments: self.moments.into_iter().map(name).collect(), ..self }
    }

    pub fn question(&self) -> &str {
        &self.question
    }

    /// The run that answers it from this [`part`](Self::part), with the options of `base`.
    pub fn request(&self, part: Option<Span>, base: RunRequest) -> RunRequest {
        RunRequest {
            video: self.shown().path.clone(),
            span: part,
            before: Vec::new(),
            prompt: self.prompt(),
            preset: None,
            sampling: match base.sampling {
                Sampling::Auto => Sampling::Frames(FRAMES as usize),
                chosen => chosen,
            },
            constraint: self.constraint(),
            ..base
        }
    }

    /// What the model is asked.
    pub fn prompt(&self) -> String {
        let all: usize = self.moments.iter().map(|moment| moment.text.len()).sum();
        let share = if all > OUTLINE { OUTLINE / self.moments.len() } else { all };
        let line = |(index, moment): (usize, &Moment)| {
            let name = moment.path.file_name().unwrap_or_default().to_string_lossy();
            let said = if moment.kind == Kind::Said { ", said" } else { "" };
            let text = clean_line(&moment.text);
            format!(
                "[{}] {}, {}{said}: {}\n",
                index + 1,
                clean_line(&name),
                moment.times(),
                shortened(&text, share)
            )
        };
        let lines: String = self.moments.iter().enumerate().map(line).collect();
        // No example of a number: small models would cite it.
        format!(
            "{HEAD}{lines}\nAnswer the question from these moments, and cite each moment that you use by its number in brackets, as it \
             stands in the list. If they do not answer it, say so.{BEFORE}{}",
            self.question
        )
    }

    /// What the answer may be: brackets are around numbers of moments only, and no number is followed by a colon. `None` in a build
    /// without grammars.
    pub fn constraint(&self) -> Option<Constraint> {
        let numbers: Vec<String> = (1..=self.moments.len()).map(|number| number.to_string()).collect();
        let cited = format!("\\[({})\\]", numbers.join("|"));
        let pattern = format!("([^0-9\\[\\]]|[0-9]+[^0-9:\\[\\]]|[0-9]*{cited})*[0-9]*");
        Some(Constraint::Regex { pattern }).filter(|constraint| constraint.check().is_ok())
    }

    /// The moments that an answer cites, in its order, as indices of [`moments`](Self::moments).
    pub fn cited(&self, answer: &str) -> Vec<usize> {
        let mut cited = Vec::new();
        for part in answer.split('[').skip(1) {
            let number = part.split_once(']').and_then(|(number, _)| number.parse::<usize>().ok());
            let index = number.and_then(|number| number.checked_sub(1));
            if let Some(index) = index.filter(|index| *index < self.moments.len() && !cited.contains(index)) {
                cited.push(index);
            }
        }
        cited
    }

    /// Lines of the moments that an answer cites, `[2] path  0:12–0:41`; of all that it was made from, if it cites none.
    pub fn sources(&self, answer: &str) -> String {
        let line = |index: usize| format!("[{}] {}\n", index + 1, self.moments[index].place());
        let cited = self.cited(answer);
        if cited.is_empty() {
            let all: String = (0..self.moments.len()).map(line).collect();
            return format!("The answer cites no moment. It was written from these:\n{all}");
        }
        cited.into_iter().map(line).collect()
    }

    /// The moments for programs, with their numbers, and whether the answer cites them.
    pub fn json(&self, answer: &str) -> Value {
        let cited = self.cited(answer);
        let moment = |(index, moment): (usize, &Moment)| {
            let mut value = moment.json();
            value["number"] = (index + 1).into();
            value["cited"] = cited.contains(&index).into();
            value
        };
        self.moments.iter().enumerate().map(moment).collect()
    }

    /// The line `moments` of `--json`, after the run that answers.
    pub fn event(&self, run: u64, answer: &str) -> Value {
        json!({ "run": run, "event": "moments", "question": self.question, "moments": self.json(answer) })
    }
}

#[cfg(test)]
mod tests {
    use specreel_model::{grammar::GrammarVocabulary, text::TextTokenizer};

    use super::*;

    struct Found(Vec<Moment>);

    impl MomentFinder for Found {
        fn find(&self, _: &str, _: Search<'_>) -> Result<Vec<Moment>, Failure> {
            Ok(Vec::new())
        }

        fn about(&self, _: &str, search: Search<'_>) -> Result<Vec<Moment>, Failure> {
            Ok(self.0.iter().take(search.most).cloned().collect())
        }

        fn meaning_models(&self) -> Result<Vec<String>, Failure> {
            Ok(Vec::new())
        }
    }

    fn asked(texts: &[(&str, f64)], most: u32) -> Option<LibraryQuestion> {
        let moment = |(text, start): &(&str, f64)| Moment {
            path: concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into(),
            start: *start,
            end: Some(start + 2.0),
            kind: if text.starts_with('"') { Kind::Said } else { Kind::Seen },
            parts: Vec::new(),
            text: (*text).to_owned(),
            model: None,
            score: 1.0,
        };
        let found = Found(texts.iter().map(moment).collect());
        LibraryQuestion::new(" Who falls? ", &found, &Filter::default(), most, None).unwrap()
    }

    #[test]
    fn the_prompt_has_each_moment_once_and_as_many_as_wanted() {
        let three = [("A man falls.", 1.0), ("A man slips.", 1.0), ("\"Ouch!\"", 1.0), ("A dog.", 70.0)];
        let question = asked(&three, 2).unwrap();
        let prompt = question.prompt();
        assert!(
            prompt.contains(
                "\n[1] Cargo.toml, 0:01–0:03: A man falls.\n[2] Cargo.toml, 0:01–0:03, said: \"Ouch!\"\n\n"
            ),
            "{prompt}"
        );
        assert!(
            prompt.ends_with(
                "as it stands in the list. If they do not answer it, say so.\nQuestion: Who falls?"
            ),
            "{prompt}"
        );
        assert_eq!((super::asked(&prompt), super::asked("Who falls?")), ("Who falls?", "Who falls?"));
        assert_eq!(asked(&three, 8).unwrap().moments().len(), 3);
        assert_eq!(asked(&[], 8), None);
        let long = "word ".repeat(2000);
        let long = asked(&[(&long, 1.0), (&long, 2.0), ("A dog.", 3.0)], 8).unwrap().prompt();
        assert!(
            long.len() < OUTLINE + 600 && long.contains("…\n[2]") && long.contains("A dog."),
            "{}",
            long.len()
        );
    }

    #[test]
    fn only_given_moments_are_cited() {
        let question = asked(&[("a", 1.0), ("b", 2.0)], 8).unwrap();
        assert_eq!(question.cited("It is there [2], and [1]; also [2], [3], [0], [x] and [1"), [1, 0]);
        assert_eq!(question.cited("Nothing."), [0; 0]);
        let event = question.event(1, "See [2].");
        assert_eq!(
            (&event["moments"][0]["cited"], &event["moments"][1]["cited"]),
            (&false.into(), &true.into())
        );
        assert_eq!(event["moments"][1]["number"], 2);
        let line = |number: usize| format!("[{number}] {}\n", question.moments()[number - 1].place());
        assert_eq!(question.sources("See [2], [1]."), line(2) + &line(1));
        assert!(question.sources("No.").ends_with(&(line(1) + &line(2))));
    }

    #[test]
    fn no_other_number_and_no_clock_time_can_be_written() {
        let question = asked(&[("a", 1.0), ("b", 2.0)], 8).unwrap();
        // None in a build without grammars.
        let Some(constraint) = question.constraint() else { return };
        let tokenizer = TextTokenizer::load(&specreel_demo::demo(None).unwrap().target).unwrap();
        let grammar = GrammarVocabulary::new(&tokenizer).unwrap().compile(&constraint).unwrap();
        let can = |text: &str| grammar.accepts(&tokenizer.encode_plain(text).unwrap());
        for text in ["", "Two men fall [1][2], at 12 to 15.", "In 2026[1]: \u{fc}\n[2]", "None: no. 7"] {
            assert!(can(text), "{text}");
        }
        for text in ["[3]", "[0]", "[12]", "at 0:12", "see ]", "[]", "[1"] {
            assert!(!can(text), "{text}");
        }
    }
}
