//! Words of several styles, broken into lines.

use unicode_width::UnicodeWidthStr;

use super::text::Look;

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The word itself.
    pub text: String,
    /// Its style.
    pub sgr: &'static str,
    /// A space or a line break precedes it.
    pub spaced: bool,
}

/// The words of a plain sentence.
pub fn sentence(text: &str) -> Vec<Word> {
    text.split_whitespace().map(|word| Word { text: word.into(), sgr: "", spaced: true }).collect()
}

/// Lines of at most the look's width, indented; a longer word gets a line of its own.
pub fn wrap(words: &[Word], indent: usize, look: &Look) -> String {
    let margin = " ".repeat(indent);
    let mut out = margin.clone();
    let mut column = indent;
    // Words without a space between them stay together.
    for unit in words.chunk_by(|_, next| !next.spaced) {
        let width: usize = unit.iter().map(|word| word.text.width()).sum();
        if column > indent && look.width.is_some_and(|most| column + 1 + width > most) {
            out = out + "\n" + &margin;
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.extend(unit.iter().map(|word| look.paint(word.sgr, &word.text)));
        column += width;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_only() {
        let look = Look { width: Some(10), color: false };
        assert_eq!(
            wrap(&sentence("one two three fourteen-long five"), 2, &look),
            "  one two\n  three\n  fourteen-long\n  five\n"
        );
        let mut words = sentence("aaaa bbbb");
        words.push(Word { text: "cc".into(), sgr: "", spaced: false });
        assert_eq!(wrap(&words, 0, &look), "aaaa\nbbbbcc\n");
        assert_eq!(
            wrap(&sentence("one two three"), 1, &Look { width: None, color: false }),
            " one two three\n"
        );
    }

    #[test]
    fn styles_take_no_columns() {
        let words = [Word { text: "one".into(), sgr: "31", spaced: true }, sentence("two").remove(0)];
        let look = Look { width: Some(7), color: true };
        assert_eq!(wrap(&words, 0, &look), "\x1b[31mone\x1b[0m two\n");
    }
}
