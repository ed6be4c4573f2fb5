//! The meaning of single words of a caption.
//!
//! [`super::facts`] reads whole texts; this module classifies a word on its own, as a rule that judges one token must. The
//! words are those of [`super::world`], their synonyms, and the verbs that announce a slide ("glides to the left", "heads
//! leftward"): they state no fact themselves, but imply a motion.

use super::{
    author::HEADS,
    facts::{motion, number, ordinal, relation},
    phrases::SLIDES,
    world::{Background, Colour, Motion, Relation, Shape, Size, Texture},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Says {
    Count(usize),
    /// A shot, from 0.
    Shot(usize),
    Background(Background),
    Size(Size),
    Texture(Texture),
    Colour(Colour),
    Shape(Shape),
    /// A motion. `left` and `right` are also positions.
    Motion(Motion),
    /// A slide, whose direction is another word.
    Slide,
    /// A position relative to another figure: above or below.
    Relation(Relation),
}

/// The meaning of `word`, ignoring case; `None` for a word without one.
pub fn says(word: &str) -> Option<Says> {
    let word = word.to_lowercase();
    let word = word.as_str();
    number(word)
        .map(Says::Count)
        .or_else(|| ordinal(word).map(Says::Shot))
        .or_else(|| Background::from_word(word).map(Says::Background))
        .or_else(|| Size::from_word(word).map(Says::Size))
        .or_else(|| Texture::from_word(word).map(Says::Texture))
        .or_else(|| Colour::from_word(word).map(Says::Colour))
        .or_else(|| Shape::from_word(word).map(Says::Shape))
        .or_else(|| motion(word).map(Says::Motion))
        .or_else(|| relation(word, "of").map(Says::Relation))
        .or_else(|| (SLIDES.contains(&word) || word == HEADS).then_some(Says::Slide))
}

/// The words of a text that have a meaning.
pub fn meaningful(text: &str) -> impl Iterator<Item = (&str, Says)> {
    text.split(|c: char| !c.is_alphanumeric()).filter_map(|word| Some((word, says(word)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scene, author::Author, caption};

    #[test]
    fn synonyms_have_the_same_meaning() {
        for (a, b) in [
            ("rises", "rising"),
            ("under", "below"),
            ("one", "single"),
            ("glides", "moves"),
            ("glides", "heads"),
            ("rises", "climbs"),
            ("two", "twin"),
        ] {
            assert!(says(a).is_some() && says(a) == says(b), "{a} {b}");
        }
        assert_eq!(says("Red"), Some(Says::Colour(Colour::Red)));
        assert_eq!(says("left"), Some(Says::Motion(Motion::Left)));
        assert_ne!(says("first"), says("one"));
        assert_ne!(says("left"), says("right"));
    }

    #[test]
    fn fillers_have_no_meaning() {
        for word in ["", "the", "slowly", "background", "shapes", "overall", "toward", "that", "still", "re"]
        {
            assert_eq!(says(word), None, "{word}");
        }
    }

    #[test]
    fn only_fact_words_slides_shots_and_names_have_a_meaning() {
        for seed in 0..300 {
            let scene = Scene::from_seed(seed);
            for said in [caption::long_with_facts(&scene, seed), Author(seed).long(&scene, seed)] {
                for range in &said.facts {
                    assert!(says(&said.text[range.clone()]).is_some(), "{}", &said.text[range.clone()]);
                }
                let all = meaningful(&said.text).count();
                let beside = meaningful(&said.text)
                    .filter(|(_, says)| {
                        matches!(says, Says::Slide | Says::Shot(_) | Says::Colour(_) | Says::Shape(_))
                    })
                    .count();
                assert!(said.facts.len() <= all && all <= said.facts.len() + beside, "{}", said.text);
            }
        }
    }
}
