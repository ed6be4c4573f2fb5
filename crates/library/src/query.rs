//! Parses searches: words, phrases, prefixes, and exclusions.

use std::fmt;

/// A search in FTS5's query language, parsed from typed text.
///
/// A caption must have all words, in any order. `"a phrase"` matches consecutive words, `turn*` matches every
/// word with this prefix, `-word` and `-"a phrase"` exclude, and `OR` between two of them requires only one.
/// Everything else is text: no character makes a search invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// For `MATCH`.
    pub(crate) expression: String,
    /// The exclusions, for `MATCH`.
    pub(crate) excluded: Option<String>,
    /// The wanted words, phrases and prefixes, each for `MATCH`.
    pub(crate) terms: Vec<String>,
    /// The wanted words, as they were typed.
    pub(crate) wanted: String,
}

/// Why a search is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// It has no letter and no digit.
    Empty,
    /// It has only exclusions.
    OnlyExcludes,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it contains no words",
            Self::OnlyExcludes => "it has only exclusions",
        })
    }
}

/// Stop words: words of questions that say nothing about the subject.
const COMMON: &str = " a about all am an and any are as at be been being but by can clip clips could did do does each every find for from had \
    has have he her here him his how i if in into is it its list many me moment moments my no not of on or our out part parts \
    please scene scenes see seen she should show showing shown shows so some somebody someone something tell than that the \
    their them then there these they thing things this those to up us video videos was we were what when where which while who \
    whom whose why will with would you your ";

/// A word or phrase as it was typed.
struct Term {
    text: String,
    is_phrase: bool,
    is_excluded: bool,
    is_beginning: bool,
}

impl Query {
    pub fn parse(typed: &str) -> Result<Self, QueryError> {
        let (mut wanted, mut excluded): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut joins, mut all, mut said) = (false, Vec::new(), Vec::new());
        for term in terms(typed) {
            if !term.is_phrase && !term.is_excluded && term.text == "OR" {
                joins = !wanted.is_empty();
                continue;
            }
            let Some(words) = term.words() else { continue };
            match (term.is_excluded, std::mem::take(&mut joins), wanted.last_mut()) {
                (true, ..) => {
                    excluded.push(words);
                    continue;
                }
                (false, true, Some(last)) => last.extend([" OR ", &words]),
                (false, ..) => wanted.push(words.clone()),
            }
            all.push(words);
            said.push(term.text);
        }
        match (wanted.is_empty(), excluded.is_empty()) {
            (true, true) => Err(QueryError::Empty),
            (true, false) => Err(QueryError::OnlyExcludes),
            (false, _) => {
                let groups: Vec<String> = wanted.iter().map(|group| format!("({group})")).collect();
                let not: String = excluded.iter().map(|words| format!(" NOT {words}")).collect();
                Ok(Self {
                    expression: format!("({}){not}", groups.join(" AND ")),
                    excluded: (!excluded.is_empty()).then(|| excluded.join(" OR ")),
                    terms: all,
                    wanted: said.join(" "),
                })
            }
        }
    }

    /// A search for any word of a question except stop words. Fails for a text without words.
    pub fn about(question: &str) -> Result<Self, QueryError> {
        let lower = question.to_lowercase();
        let words = || lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let is_common = |word: &&str| COMMON.contains(&format!(" {word} "));
        let own: Vec<&str> = words().filter(|word| !is_common(word)).collect();
        // "What is it?"
        let all = if own.is_empty() { words().collect() } else { own };
        let quoted: Vec<String> = all.iter().map(|word| format!("\"{word}\"")).collect();
        match quoted.is_empty() {
            true => Err(QueryError::Empty),
            false => Ok(Self {
                expression: quoted.join(" OR "),
                excluded: None,
                terms: quoted,
                wanted: question.trim().to_owned(),
            }),
        }
    }
}

impl Term {
    /// The term in FTS5's query language; `None` if it has no letter or digit.
    fn words(&self) -> Option<String> {
        let star = if self.is_beginning { "*" } else { "" };
        let has_words = self.text.chars().any(char::is_alphanumeric);
        let is_mark = |c: char| c == '"' || c.is_control();
        has_words.then(|| format!("\"{}\"{star}", self.text.replace(is_mark, " ")))
    }
}

fn terms(typed: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut rest = typed.trim_start();
    while !rest.is_empty() {
        let after = rest.strip_prefix('-');
        let is_excluded = after.is_some_and(|after| after.starts_with(|c: char| !c.is_whitespace()));
        let body = if is_excluded { after.unwrap_or(rest) } else { rest };
        let is_phrase = body.starts_with('"');
        let (text, left) = match body.strip_prefix('"') {
            // An unclosed phrase extends to the end of the search.
            Some(phrase) => phrase.split_once('"').unwrap_or((phrase, "")),
            None => body.split_at(body.find([' ', '\t', '\n', '"']).unwrap_or(body.len())),
        };
        let (text, is_beginning) = match (is_phrase, text.strip_suffix('*')) {
            (false, Some(beginning)) => (beginning, true),
            _ => (text, false),
        };
        terms.push(Term { text: text.to_owned(), is_phrase, is_excluded, is_beginning });
        rest = left.trim_start();
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(typed: &str) -> String {
        Query::parse(typed).unwrap().expression
    }

    #[test]
    fn words_phrases_beginnings_and_exclusions() {
        assert_eq!(parsed("red van"), r#"(("red") AND ("van"))"#);
        assert_eq!(parsed(r#""red van" turn*"#), r#"(("red van") AND ("turn"*))"#);
        assert_eq!(parsed("cat OR dog runs"), r#"(("cat" OR "dog") AND ("runs"))"#);
        assert_eq!(parsed(r#"car -"red car" -bus"#), r#"(("car")) NOT "red car" NOT "bus""#);
        assert_eq!(parsed(r#"he said "well"#), r#"(("he") AND ("said") AND ("well"))"#);
        let query = Query::parse(r#"car* OR "red van" -"red car" -bus"#).unwrap();
        assert_eq!(query.wanted, "car red van");
        assert_eq!(query.terms, [r#""car"*"#, r#""red van""#]);
        assert_eq!(query.excluded.as_deref(), Some(r#""red car" OR "bus""#));
        assert_eq!(parsed("OR a OR"), r#"(("a"))"#);
        assert_eq!(parsed("- a NOT NEAR(b"), r#"(("a") AND ("NOT") AND ("NEAR(b"))"#);
        assert_eq!(parsed("a\0b"), r#"(("a b"))"#);
        assert_eq!(Query::parse(" - * \"\" OR"), Err(QueryError::Empty));
        assert_eq!(Query::parse("-a -b"), Err(QueryError::OnlyExcludes));
    }

    #[test]
    fn a_question_looks_for_its_own_words() {
        let about = |question: &str| Query::about(question).map(|query| query.expression);
        assert_eq!(
            about("Which clips show someone falling, and when?").unwrap(),
            r#""falling""#,
            "the rest is in every question"
        );
        assert_eq!(about("Where is Zoë's RED van?").unwrap(), r#""zoë" OR "s" OR "red" OR "van""#);
        assert_eq!(about("What is it?").unwrap(), r#""what" OR "is" OR "it""#);
        assert_eq!(about(" ?\0\" "), Err(QueryError::Empty));
    }
}
