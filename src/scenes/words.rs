//! What single words say about a scene.
//!
//! [`super::facts`] reads whole texts; here a word is taken by itself, as a rule has to take it that judges one token. The
//! words are those of [`super::world`], their close relatives that the reader knows, and the verbs that announce a slide
//! ("glides to the left"): they state no fact, but whoever writes one has decided on the motion.

use super::{
    facts::{motion, number, ordinal, relation},
    phrases::SLIDES,
    world::{Background, Colour, Motion, Relation, Shape, Size, Texture},
};

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Says {
    /// How many.
    Count(usize),
    /// Which shot, from 0.
    Shot(usize),
    /// What is behind the figures.
    Background(Background),
    /// How large.
    Size(Size),
    /// What covers a figure.
    Texture(Texture),
    /// Which colour.
    Colour(Colour),
    /// Which outline.
    Shape(Shape),
    /// What a figure does. `left` and `right` are also where it stands.
    Motion(Motion),
    /// That it slides; where to, another word says.
    Slide,
    /// Where one stands, seen from another: above or below.
    Relation(Relation),
}

/// What `word` says, whatever its case; none for a word that says nothing about a scene.
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
        .or_else(|| SLIDES.contains(&word).then_some(Says::Slide))
}

/// The words of a text that say something.
pub fn telling(text: &str) -> impl Iterator<Item = (&str, Says)> {
    text.split(|c: char| !c.is_alphanumeric()).filter_map(|word| Some((word, says(word)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::{Scene, caption};

    #[test]
    fn relatives_say_the_same() {
        for (a, b) in [("rises", "rising"), ("under", "below"), ("one", "single"), ("glides", "moves")] {
            assert!(says(a).is_some() && says(a) == says(b), "{a} {b}");
        }
        assert_eq!(says("Red"), Some(Says::Colour(Colour::Red)));
        assert_eq!(says("left"), Some(Says::Motion(Motion::Left)));
        assert_ne!(says("first"), says("one"));
        assert_ne!(says("left"), says("right"));
    }

    #[test]
    fn fillers_say_nothing() {
        for word in ["", "the", "slowly", "background", "shapes", "overall", "toward", "that", "still", "re"]
        {
            assert_eq!(says(word), None, "{word}");
        }
    }

    #[test]
    fn every_word_that_carries_a_fact_says_something_and_nothing_else_but_slides_shots_and_names() {
        for seed in 0..300 {
            let said = caption::long_with_facts(&Scene::from_seed(seed), seed);
            for range in &said.facts {
                assert!(says(&said.text[range.clone()]).is_some(), "{}", &said.text[range.clone()]);
            }
            let all = telling(&said.text).count();
            let beside = telling(&said.text)
                .filter(|(_, says)| {
                    matches!(says, Says::Slide | Says::Shot(_) | Says::Colour(_) | Says::Shape(_))
                })
                .count();
            assert!(said.facts.len() <= all && all <= said.facts.len() + beside, "{}", said.text);
        }
    }
}
