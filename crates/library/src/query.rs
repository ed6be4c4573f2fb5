//! What is looked for: words, phrases, beginnings of words, and what is not to be there.

use std::fmt;

/// A search that FTS5 understands, from what a person types.
///
/// All words have to be there, in any order, in one caption. `"a phrase"` is there word by word, `turn*` is any word that begins so,
/// `-word` and `-"a phrase"` are not there, and `OR` between two of them wants one. Everything else is text: no character can
/// break a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query(String);

/// Why nothing can be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// There is no letter and no digit in it.
    Empty,
    /// It says only what is not to be there.
    OnlyExcludes,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "there is no word in it",
            Self::OnlyExcludes => "it only says what is not to be there",
        })
    }
}

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
        let mut joins = false;
        for term in terms(typed) {
            if !term.is_phrase && !term.is_excluded && term.text == "OR" {
                joins = !wanted.is_empty();
                continue;
            }
            let Some(words) = term.words() else { continue };
            match (term.is_excluded, std::mem::take(&mut joins), wanted.last_mut()) {
                (true, ..) => excluded.push(words),
                (false, true, Some(last)) => last.extend([" OR ", &words]),
                (false, ..) => wanted.push(words),
            }
        }
        match (wanted.is_empty(), excluded.is_empty()) {
            (true, true) => Err(QueryError::Empty),
            (true, false) => Err(QueryError::OnlyExcludes),
            (false, _) => {
                let all: Vec<String> = wanted.iter().map(|group| format!("({group})")).collect();
                let not: String = excluded.iter().map(|words| format!(" NOT {words}")).collect();
                Ok(Self(format!("({}){not}", all.join(" AND "))))
            }
        }
    }

    /// For `MATCH`.
    pub(crate) fn expression(&self) -> &str {
        &self.0
    }
}

impl Term {
    /// In FTS5's language; `None` without a letter or digit.
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
            // A phrase that is not closed ends with the search.
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
        Query::parse(typed).unwrap().0
    }

    #[test]
    fn words_phrases_beginnings_and_exclusions() {
        assert_eq!(parsed("red van"), r#"(("red") AND ("van"))"#);
        assert_eq!(parsed(r#""red van" turn*"#), r#"(("red van") AND ("turn"*))"#);
        assert_eq!(parsed("cat OR dog runs"), r#"(("cat" OR "dog") AND ("runs"))"#);
        assert_eq!(parsed(r#"car -"red car" -bus"#), r#"(("car")) NOT "red car" NOT "bus""#);
        assert_eq!(parsed(r#"he said "well"#), r#"(("he") AND ("said") AND ("well"))"#);
        assert_eq!(parsed("OR a OR"), r#"(("a"))"#);
        assert_eq!(parsed("- a NOT NEAR(b"), r#"(("a") AND ("NOT") AND ("NEAR(b"))"#);
        assert_eq!(parsed("a\0b"), r#"(("a b"))"#);
        assert_eq!(Query::parse(" - * \"\" OR"), Err(QueryError::Empty));
        assert_eq!(Query::parse("-a -b"), Err(QueryError::OnlyExcludes));
    }
}
