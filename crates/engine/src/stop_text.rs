//! Ends a text before the first of some stop texts, wherever its parts are cut.

/// Text on its way to the reader. What may be the beginning of a stop text is held back.
#[derive(Debug)]
pub struct StopText {
    stops: Vec<String>,
    held: String,
    found: bool,
}

impl StopText {
    /// Texts of which none may be empty.
    pub fn new(stops: Vec<String>) -> Self {
        Self { stops, held: String::new(), found: false }
    }

    /// True once a stop text was found: nothing follows.
    pub fn is_found(&self) -> bool {
        self.found
    }

    /// Take the next part, and append to `out` what is certain to be before every stop text.
    pub fn push(&mut self, part: &str, out: &mut String) {
        if self.found {
            return;
        }
        self.held.push_str(part);
        let first = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        self.found = first.is_some();
        let end = first.unwrap_or_else(|| self.held.len() - self.beginning());
        out.push_str(&self.held[..end]);
        self.held.drain(..end);
    }

    /// The text is over: what was held back belongs to it.
    pub fn finish(&mut self, out: &mut String) {
        if !self.found {
            out.push_str(&self.held);
        }
        self.held.clear();
    }

    /// Length of the longest end of the held text that begins a stop text.
    fn beginning(&self) -> usize {
        let ends = self.held.char_indices().map(|(at, _)| &self.held[at..]);
        let mut begins = ends.filter(|end| self.stops.iter().any(|stop| stop.starts_with(end)));
        begins.next().map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &[String], stops: &[&str]) -> (String, bool) {
        let mut stop = StopText::new(stops.iter().map(|stop| (*stop).to_owned()).collect());
        let mut out = String::new();
        for part in text {
            stop.push(part, &mut out);
        }
        stop.finish(&mut out);
        (out, stop.is_found())
    }

    #[test]
    fn a_text_ends_before_the_first_stop_text() {
        let parts = |text: &[&str]| text.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert_eq!(cut(&parts(&["a re", "d c", "ircle. It"]), &["circle"]), ("a red ".into(), true));
        assert_eq!(cut(&parts(&["abab", "ac"]), &["abac"]), ("ab".into(), true));
        assert_eq!(cut(&parts(&["one two"]), &["two", "one"]), (String::new(), true));
        assert_eq!(cut(&parts(&["end with cir"]), &["circle"]), ("end with cir".into(), false));
        assert_eq!(cut(&parts(&["a", "b"]), &[]), ("ab".into(), false));
    }

    proptest! {
        #[test]
        fn parts_do_not_matter(parts in prop::collection::vec("[abé]{0,4}", 0..8), stop in "[abé]{1,4}") {
            let whole = parts.concat();
            let expected = whole.find(&stop).map_or(&whole[..], |at| &whole[..at]);
            prop_assert_eq!(cut(&parts, &[&stop]), (expected.to_owned(), whole.contains(&stop)));
        }
    }
}
