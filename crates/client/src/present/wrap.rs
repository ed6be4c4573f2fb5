//! Word wrap for a terminal: of text that streams in, of lines that are complete, and of styled text whose lines must know where
//! they begin.

use unicode_segmentation::UnicodeSegmentation;

use super::text::{clean_line, width};

/// Wraps styled text while it streams in. Whole words go to the next line, so the last word is held back until it is complete.
/// Lines also break between wide characters; a word that is wider than the terminal breaks where it must.
#[derive(Debug)]
pub struct Wrapper<S> {
    /// Columns of the terminal; none leaves text as it is.
    columns: Option<usize>,
    used: usize,
    /// White space after the emitted text.
    gap: Run<S>,
    /// The incomplete word after that.
    word: Run<S>,
}

/// Pieces of text that stay together.
#[derive(Debug)]
struct Run<S> {
    pieces: Vec<(S, String)>,
    width: usize,
}

impl<S: Copy + PartialEq> Run<S> {
    const EMPTY: Self = Self { pieces: Vec::new(), width: 0 };

    fn push(&mut self, style: S, text: &str) {
        self.width += width(text);
        match self.pieces.last_mut() {
            Some((last, words)) if *last == style => words.push_str(text),
            _ => self.pieces.push((style, text.to_owned())),
        }
    }
}

impl<S: Copy + PartialEq> Wrapper<S> {
    /// A wrapper for a terminal with so many columns; none leaves text as it is.
    pub fn new(columns: Option<usize>) -> Self {
        Self { columns, used: 0, gap: Run::EMPTY, word: Run::EMPTY }
    }

    /// Something else was written on this line.
    pub fn skip(&mut self, columns: usize) {
        self.used += columns;
    }

    /// Add text, and take what can be written.
    pub fn push(&mut self, style: S, text: &str) -> Vec<(S, String)> {
        let Some(columns) = self.columns else { return vec![(style, text.to_owned())] };
        let mut out = Vec::new();
        for grapheme in text.graphemes(true) {
            if matches!(grapheme, "\n" | "\r\n") {
                self.release(columns, &mut out);
                self.gap = Run::EMPTY;
                self.used = 0;
                out.push((style, "\n".to_owned()));
            } else if grapheme.chars().all(char::is_whitespace) {
                self.release(columns, &mut out);
                self.gap.push(style, grapheme);
            } else {
                if self.breaks_before(grapheme) || self.word.width + width(grapheme) > columns {
                    self.release(columns, &mut out);
                }
                self.word.push(style, grapheme);
            }
        }
        out
    }

    /// Take the rest, at the end of the text. The next text begins on a new line.
    pub fn finish(&mut self) -> Vec<(S, String)> {
        let mut out = Vec::new();
        if let Some(columns) = self.columns {
            self.release(columns, &mut out);
        }
        (self.used, self.gap) = (0, Run::EMPTY);
        out
    }

    /// True if a line may break between the word so far and this grapheme.
    fn breaks_before(&self, grapheme: &str) -> bool {
        /// These never begin a line.
        const CLOSING: &str = "、。，．！？：；）」』】》〉…・ー";
        let Some(last) = self.word.pieces.last().and_then(|(_, word)| word.graphemes(true).next_back())
        else {
            return false;
        };
        let punctuates = |c: char| c.is_ascii_punctuation() || CLOSING.contains(c);
        (width(grapheme) > 1 || width(last) > 1) && !grapheme.starts_with(punctuates)
    }

    fn release(&mut self, columns: usize, out: &mut Vec<(S, String)>) {
        let word = std::mem::replace(&mut self.word, Run::EMPTY);
        let Some((style, _)) = word.pieces.first() else { return };
        let gap = std::mem::replace(&mut self.gap, Run::EMPTY);
        if self.used > 0 && self.used + gap.width + word.width > columns {
            out.push((*style, "\n".to_owned()));
            self.used = 0;
        } else {
            self.used += gap.width;
            out.extend(gap.pieces);
        }
        self.used += word.width;
        out.extend(word.pieces);
    }
}

/// Lines in at most this many columns, further ones `indent` columns from the left. Styles (`ESC [ … m`) take no columns.
pub fn hang(text: &str, columns: Option<usize>, indent: usize) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    // A deep indent would leave no room for the words.
    let indent = indent.min(columns / 2);
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            let bare = shown(word.trim_end());
            if used > indent && used + bare > columns {
                out.truncate(out.trim_end_matches(' ').len());
                out = out + "\n" + &" ".repeat(indent);
                used = indent;
            }
            out += word;
            used += shown(word);
        }
    }
    out
}

fn shown(text: &str) -> usize {
    width(&clean_line(text))
}

struct Cell<'a, S> {
    text: &'a str,
    columns: usize,
    style: S,
    /// Its position in the whole text, in bytes.
    at: usize,
}

/// The pieces of a line, each with its style.
pub type Line<S> = Vec<(S, String)>;

/// Complete text in lines of at most `columns`, each with the byte offset at which it begins. Lines break at spaces and around
/// wide characters; a longer word breaks where it must, and a character that is wider than a line is left out.
pub fn lines<'a, S: Copy + PartialEq>(
    pieces: impl IntoIterator<Item = (&'a str, S)>,
    columns: usize,
) -> Vec<(usize, Line<S>)> {
    let mut lines = Vec::new();
    let mut line: Vec<Cell<'a, S>> = Vec::new();
    let mut used = 0;
    // Index in `line` before which it may be broken.
    let mut gap = None;
    let mut at = 0;
    let finish = |line: &[Cell<'_, S>], end: usize| (line.first().map_or(end, |c| c.at), joined(line));
    for (text, style) in pieces {
        for grapheme in text.graphemes(true) {
            let here = at;
            at += grapheme.len();
            if grapheme == "\n" {
                lines.push(finish(&line, here));
                line.clear();
                (used, gap) = (0, None);
                continue;
            }
            let cell = Cell { text: grapheme, columns: width(grapheme), style, at: here };
            if cell.columns > columns {
                continue;
            }
            let blank = grapheme.chars().all(char::is_whitespace);
            if used + cell.columns > columns {
                // A blank at the end of a line is not drawn. A line may be broken before any wide character.
                let rest = match gap.filter(|g| *g > 0 && !blank && cell.columns < 2) {
                    Some(at) => line.split_off(at),
                    None => Vec::new(),
                };
                lines.push(finish(&line, here));
                line = rest;
                used = line.iter().map(|c| c.columns).sum();
                gap = None;
                if blank {
                    continue;
                }
            }
            if cell.columns == 2 && !line.is_empty() {
                gap = Some(line.len());
            }
            used += cell.columns;
            let wide = cell.columns == 2;
            line.push(cell);
            if blank || wide {
                gap = Some(line.len());
            }
        }
    }
    if !line.is_empty() {
        lines.push(finish(&line, at));
    }
    lines
}

/// The cells up to the last that is not blank.
fn joined<S: Copy + PartialEq>(cells: &[Cell<'_, S>]) -> Line<S> {
    let mut pieces: Line<S> = Vec::new();
    let end = cells.iter().rposition(|c| !c.text.chars().all(char::is_whitespace)).map_or(0, |i| i + 1);
    for cell in &cells[..end] {
        match pieces.last_mut() {
            Some((style, text)) if *style == cell.style => text.push_str(cell.text),
            _ => pieces.push((cell.style, cell.text.to_owned())),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrap(columns: usize, parts: &[&str]) -> String {
        let mut wrapper = Wrapper::new(Some(columns));
        let mut out: String = String::new();
        for (style, part) in parts.iter().enumerate() {
            out.extend(wrapper.push(style, part).into_iter().map(|(_, text)| text));
        }
        out.extend(wrapper.finish().into_iter().map(|(_, text)| text));
        out
    }

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrap(10, &["one two th", "ree", " four"]), "one two\nthree four");
        assert_eq!(wrap(10, &["one\n\n  two", "  \nthree"]), "one\n\n  two\nthree");
        assert_eq!(wrap(4, &["abcdefghij k"]), "abcd\nefgh\nij k", "too long for every line");
        assert_eq!(wrap(6, &["緑の星。赤"]), "緑の\n星。赤", "a full stop does not begin a line");
        assert_eq!(wrap(1, &["緑a"]), "緑\na");
    }

    #[test]
    fn the_last_word_is_held_back_until_it_is_complete() {
        let mut wrapper = Wrapper::new(Some(8));
        wrapper.skip(3);
        assert_eq!(wrapper.push('a', "red"), []);
        assert_eq!(wrapper.push('b', "dish"), []);
        let text = |text: &str| text.to_owned();
        assert_eq!(wrapper.push('c', " x"), [('a', text("\n")), ('a', text("red")), ('b', text("dish"))]);
        assert_eq!(wrapper.finish(), [('c', text("\n")), ('c', text("x"))]);
        assert_eq!(wrapper.push('a', "12345678 "), [('a', text("12345678"))]);
    }

    #[test]
    fn without_a_width_text_passes() {
        let mut wrapper = Wrapper::new(None);
        assert_eq!(wrapper.push(1, " a  b\n"), [(1, " a  b\n".to_owned())]);
        assert_eq!(wrapper.finish(), []);
    }

    #[test]
    fn complete_lines_hang() {
        assert_eq!(hang("name  one two three\nx\n", Some(12), 6), "name  one\n      two\n      three\nx\n");
        assert_eq!(hang("\x1b[1mone\x1b[0m two\n", Some(7), 2), "\x1b[1mone\x1b[0m two\n");
        assert_eq!(hang("one two\n", None, 2), "one two\n");
        assert_eq!(hang("abcdefgh ij\n", Some(4), 2), "abcdefgh\n  ij\n");
    }

    fn plain(text: &str, columns: usize) -> Vec<String> {
        let whole = |(_, line): (usize, Line<()>)| line.into_iter().map(|(_, text)| text).collect();
        lines([(text, ())], columns).into_iter().map(whole).collect()
    }

    #[test]
    fn lines_break_at_spaces_and_inside_words_only_if_necessary() {
        assert_eq!(plain("a red ball moves", 8), ["a red", "ball", "moves"]);
        assert_eq!(plain("a red ball", 5), ["a red", "ball"]);
        assert_eq!(plain("unbreakable", 4), ["unbr", "eaka", "ble"]);
        assert_eq!(plain("a\n\nb", 4), ["a", "", "b"]);
        assert_eq!(plain("", 4), Vec::<String>::new());
    }

    #[test]
    fn wide_characters_never_stick_out() {
        assert_eq!(plain("日本語の字", 5), ["日本", "語の", "字"]);
        assert_eq!(plain("日本", 1), Vec::<String>::new());
        for columns in 1..20 {
            for line in plain("a 日本語 👩‍👩‍👧 e\u{301}tude 장면 naïve text", columns) {
                assert!(width(&line) <= columns, "{line:?} in {columns}");
            }
        }
    }

    #[test]
    fn lines_know_where_they_begin() {
        let begin = |text: &str, columns| -> Vec<usize> {
            lines([(text, ())], columns).iter().map(|(at, _)| *at).collect()
        };
        assert_eq!(begin("a red ball moves", 8), [0, 6, 11]);
        assert_eq!(begin("a\n\nb", 4), [0, 2, 3]);
        assert_eq!(begin("日本語の字", 5), [0, 6, 12]);
    }

    #[test]
    fn a_word_of_two_styles_stays_one_word() {
        let text = |text: &str| text.to_owned();
        let expected = [(0, vec![(1, text("one"))]), (4, vec![(1, text("t")), (2, text("wo"))])];
        assert_eq!(lines([("one t", 1), ("wo", 2)], 6), expected);
    }

    proptest! {
        #[test]
        fn no_word_is_split_and_none_lost(parts in prop::collection::vec("[ a-f日。\n]{0,9}", 0..12), columns in 20usize..40) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let whole = wrap(columns, &parts);
            prop_assert!(whole.lines().all(|line| width(line) <= columns), "{}", whole);
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&whole), bare(&parts.concat()));
            let latin = |text: &str| -> Vec<String> {
                let joined = text.replace(['日', '。'], " ");
                joined.split_whitespace().filter(|word| word.len() <= columns).map(str::to_owned).collect()
            };
            let long = parts.concat().split_whitespace().any(|word| width(word) > columns);
            if !long {
                prop_assert_eq!(latin(&whole), latin(&parts.concat()));
            }
        }
    }
}
