//! What is changed in a caption before it is written.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polish {
    /// Written before every caption, such as a trigger word.
    pub prefix: Option<String>,
    /// Cut phrases such as "The video shows" off its beginning.
    pub clean: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polished {
    pub text: String,
    pub cut: Option<String>,
}

const SUBJECTS: [&str; 10] =
    ["video", "video clip", "clip", "animation", "footage", "scene", "image", "picture", "recording", "film"];
const VERBS: [&str; 12] = [
    "shows",
    "depicts",
    "features",
    "captures",
    "highlights",
    "introduces",
    "presents",
    "displays",
    "portrays",
    "illustrates",
    "begins with",
    "opens with",
];

impl Polish {
    /// The caption as it is written.
    pub fn apply(&self, caption: &str) -> Polished {
        let Polished { text, cut } = self.cleaned(caption);
        Polished { text: prefixed(self.prefix.as_deref(), text), cut }
    }

    /// The caption without the prefix.
    pub fn cleaned(&self, caption: &str) -> Polished {
        match self.clean {
            true => clean(caption),
            false => Polished { text: caption.trim().to_owned(), cut: None },
        }
    }
}

/// A text after the prefix, which is followed by a space unless it ends in one.
pub fn prefixed(prefix: Option<&str>, text: String) -> String {
    let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else { return text };
    let space = if prefix.ends_with(char::is_whitespace) || text.is_empty() { "" } else { " " };
    format!("{prefix}{space}{text}")
}

/// Cut the first phrase about the video itself, and capitalize what follows. A caption never becomes empty.
fn clean(caption: &str) -> Polished {
    let caption = caption.trim();
    let cut = opening(caption);
    let (phrase, rest) = caption.split_at(cut);
    let rest = rest.trim_start();
    if cut == 0 || rest.is_empty() {
        return Polished { text: caption.to_owned(), cut: None };
    }
    let mut letters = rest.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    Polished { text: first + letters.as_str(), cut: Some(phrase.trim_end().to_owned()) }
}

/// The length of the phrase, in bytes; 0 without one.
fn opening(caption: &str) -> usize {
    // Only ASCII is lowered: lengths stay the same.
    let lower = caption.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("caption:") {
        return lower.len() - rest.len();
    }
    let after = |text: &str, words: &[&str]| {
        // The longest that ends at the end of a word.
        let fits = words.iter().filter_map(|word| text.strip_prefix(word));
        let whole = fits.filter(|rest| !rest.starts_with(char::is_alphanumeric));
        whole.map(|rest| text.len() - rest.len()).max()
    };
    let mut at = 0;
    let inside = lower.starts_with("in ");
    if inside {
        at += 3;
    }
    let Some(article) = after(&lower[at..], &["the", "this"]) else {
        return 0;
    };
    at += article;
    if !lower[at..].starts_with(' ') {
        return 0;
    }
    at += 1;
    let Some(subject) = after(&lower[at..], &SUBJECTS) else { return 0 };
    at += subject;
    if inside {
        // "In the video, …"
        return if lower[at..].starts_with(", ") { at + 1 } else { 0 };
    }
    if !lower[at..].starts_with(' ') {
        return 0;
    }
    match after(&lower[at + 1..], &VERBS) {
        // "shows that …" is a clause of its own.
        Some(verb)
            if lower[at + 1 + verb..].starts_with(' ') && !lower[at + 1 + verb..].starts_with(" that ") =>
        {
            at + 1 + verb
        }
        _ => 0,
    }
}

/// Text in one line: every run of white space becomes a space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(caption: &str) -> (String, Option<String>) {
        let polished = Polish { prefix: None, clean: true }.apply(caption);
        (polished.text, polished.cut)
    }

    #[test]
    fn phrases_about_the_video_are_cut() {
        for (caption, text, cut) in [
            ("The video shows a red disc.", "A red disc.", "The video shows"),
            ("This video clip depicts two cats.", "Two cats.", "This video clip depicts"),
            ("In the video, a man walks.", "A man walks.", "In the video,"),
            ("Caption: A dog.", "A dog.", "Caption:"),
            (" the scene opens with éclairs", "Éclairs", "the scene opens with"),
        ] {
            assert_eq!(cleaned(caption), (text.into(), Some(cut.into())), "{caption}");
        }
        for caption in [
            "A red disc moves.",
            "The video shows",
            "The videos show cats.",
            "The videographer shows a cat.",
            "The video showspiece",
            "In the videogame, a man walks.",
            "The video shows that it rains.",
            "The red video shows a disc.",
            "",
        ] {
            assert_eq!(cleaned(caption), (caption.into(), None), "{caption}");
        }
    }

    #[test]
    fn a_prefix_is_followed_by_a_space() {
        let with = |prefix: &str, clean| Polish { prefix: Some(prefix.into()), clean };
        assert_eq!(with("ohwx,", false).apply("A disc.\n").text, "ohwx, A disc.");
        assert_eq!(with("ohwx ", true).apply("The clip shows a disc.").text, "ohwx A disc.");
        assert_eq!(with("", false).apply("A disc.").text, "A disc.");
        assert_eq!(one_line(" a\n\n b\tc "), "a b c");
    }
}
