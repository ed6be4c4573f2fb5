//! Texts about a scene: long captions, short captions, questions and answers.
//!
//! Facts follow the video shot by shot and each is carried by one word from [`super::world`]; everything around them is
//! chosen at random from `phrases`. A language model trained on such texts is certain about facts only if it
//! attends to the video, and always uncertain about fillers: the situation that loosened verification exploits.

use std::ops::Range;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::phrases::*;
use super::world::{Figure, Motion, Relation, Scene, Shot, pick};

const NUMBERS: [&str; 5] = ["no", "one", "two", "three", "four"];
pub(super) const ORDINALS: [&str; 3] = ["first", "second", "third"];

/// A text and where its facts are stated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caption {
    pub text: String,
    /// Byte ranges of the words that carry facts.
    pub facts: Vec<Range<usize>>,
}

impl Caption {
    /// Appends words that state no fact.
    pub(super) fn say(&mut self, words: &str) -> &mut Self {
        self.text.push_str(words);
        self
    }

    pub(super) fn fact(&mut self, word: &str) -> &mut Self {
        let start = self.text.len();
        self.text.push_str(word);
        self.facts.push(start..self.text.len());
        self
    }

    /// Appends a phrase whose `{}` stands for one fact.
    fn phrase(&mut self, phrase: &str, fact: &str) -> &mut Self {
        match phrase.split_once("{}") {
            Some((before, after)) => self.say(before).fact(fact).say(after),
            None => self.say(phrase),
        }
    }

    /// Starts a new sentence.
    pub(super) fn space(&mut self) -> &mut Self {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        self
    }
}

/// A caption of one paragraph that states every fact. The same scene and `rng_seed` give the same words.
pub fn long(scene: &Scene, rng_seed: u64) -> String {
    long_with_facts(scene, rng_seed).text
}

/// A caption of a sentence or two: backgrounds and figures only.
pub fn short(scene: &Scene, rng_seed: u64) -> String {
    short_with_facts(scene, rng_seed).text
}

/// All questions about a scene, with their answers.
pub fn questions(scene: &Scene) -> Vec<(String, String)> {
    questions_with_facts(scene).into_iter().map(|(question, answer)| (question, answer.text)).collect()
}

pub(super) fn long_with_facts(scene: &Scene, rng_seed: u64) -> Caption {
    let rng = &mut ChaCha8Rng::seed_from_u64(rng_seed);
    let mut caption = Caption::default();
    let shots = scene.shots.len();
    let opening = pick(rng, OPENINGS).replace("{shots}", plural("shot", shots));
    caption.phrase(&opening, NUMBERS[shots]);
    let brief = scene.figures().count() <= 2;
    if brief || chance(rng) {
        caption.space().say(pick(rng, STYLE));
    }
    for (index, shot) in scene.shots.iter().enumerate() {
        caption.space();
        describe_shot(&mut caption, rng, shot, index, shots);
        if brief || index == 0 && chance(rng) {
            caption.space().say(pick(rng, REMARKS));
        }
    }
    caption.space().say(pick(rng, CLOSINGS));
    caption
}

fn describe_shot(caption: &mut Caption, rng: &mut impl Rng, shot: &Shot, index: usize, shots: usize) {
    let view = match (shots, index) {
        (1, _) => pick(rng, ONLY_SHOT),
        (_, 0) => pick(rng, FIRST_SHOT),
        _ => pick(rng, NEXT_SHOT),
    };
    let count = shot.figures.len();
    caption.phrase(&view.replace("{nth}", ORDINALS[index]), shot.background.word());
    caption.phrase(&pick(rng, COUNT).replace("{shapes}", plural("shape", count)), NUMBERS[count]);
    for (place, figure) in shot.figures.iter().enumerate() {
        caption.space().say(pick(rng, if place == 0 { FIRST_FIGURE } else { OTHER_FIGURE })).say(" ");
        noun(caption, figure);
        caption.say(pick(rng, JOINTS)).say(pick(rng, MANNER)).say(" ");
        action(caption, rng, figure.motion);
        caption.say(pick(rng, TAILS)).say(".");
    }
    if let (Some(relation), [first, second]) = (shot.relation(), shot.figures.as_slice()) {
        caption.space();
        let stands = pick(rng, STANDS);
        if chance(rng) {
            relate(caption, first, stands, relation, second);
        } else {
            relate(caption, second, stands, relation.inverse(), first);
        }
    }
}

/// "large striped red circle"
fn noun(caption: &mut Caption, figure: &Figure) {
    caption.fact(figure.size.word()).say(" ").fact(figure.texture.word()).say(" ");
    caption.fact(figure.colour.word()).say(" ").fact(figure.shape.word());
}

/// "slides to the left", "rises toward the top"
fn action(caption: &mut Caption, rng: &mut impl Rng, motion: Motion) {
    let extra = match motion {
        Motion::Left | Motion::Right => {
            caption.say(pick(rng, SLIDES)).say(" to the ").fact(motion.word());
            return;
        }
        Motion::Rises => UPWARD,
        Motion::Falls => DOWNWARD,
        Motion::Grows | Motion::Shrinks => RESIZED,
        Motion::Spins => TURNED,
        Motion::Stays => STILL,
    };
    caption.fact(motion.word()).say(pick(rng, extra));
}

/// "The red circle stands to the left of the blue star."
fn relate(caption: &mut Caption, subject: &Figure, stands: &str, relation: Relation, object: &Figure) {
    caption.say(&format!("The {} {stands} ", name(subject)));
    place(caption, relation);
    caption.say(&format!(" the {}.", name(object)));
}

fn place(caption: &mut Caption, relation: Relation) {
    match relation {
        Relation::LeftOf | Relation::RightOf => caption.say("to the ").fact(relation.word()).say(" of"),
        Relation::Above | Relation::Below => caption.fact(relation.word()),
    };
}

pub(super) fn short_with_facts(scene: &Scene, rng_seed: u64) -> Caption {
    let rng = &mut ChaCha8Rng::seed_from_u64(rng_seed);
    let mut caption = Caption::default();
    for (index, shot) in scene.shots.iter().enumerate() {
        caption.space();
        if scene.shots.len() > 1 {
            caption.say(["First shot: a ", "Second shot: a ", "Third shot: a "][index]);
        } else {
            caption.say("A ");
        }
        for (place, figure) in shot.figures.iter().enumerate() {
            if place > 0 {
                caption.say(if place + 1 == shot.figures.len() { " and a " } else { ", a " });
            }
            noun(&mut caption, figure);
            caption.say(" ");
            action(&mut caption, rng, figure.motion);
        }
        caption.say(", on a ").fact(shot.background.word()).say(" background.");
    }
    caption
}

pub(super) fn questions_with_facts(scene: &Scene) -> Vec<(String, Caption)> {
    let mut all = Vec::new();
    let mut ask = |question: String, before: &str, fact: &str, after: &str| {
        let mut answer = Caption::default();
        answer.say(before).fact(fact).say(after);
        all.push((question, answer));
    };
    let shots = scene.shots.len();
    let there = |count: usize| if count == 1 { "There is " } else { "There are " };
    ask(
        "How many shots are there in the video?".into(),
        there(shots),
        NUMBERS[shots],
        &format!(" {}.", plural("shot", shots)),
    );
    for (index, shot) in scene.shots.iter().enumerate() {
        let place = if shots == 1 { "video".to_owned() } else { format!("{} shot", ORDINALS[index]) };
        let count = shot.figures.len();
        ask(
            format!("What is the background of the {place}?"),
            "The background is ",
            shot.background.word(),
            ".",
        );
        ask(
            format!("How many shapes are in the {place}?"),
            there(count),
            NUMBERS[count],
            &format!(" {}.", plural("shape", count)),
        );
    }
    for figure in scene.figures() {
        let name = name(figure);
        let shape = figure.shape.word();
        if scene.figures().filter(|other| other.shape == figure.shape).count() == 1 {
            ask(
                format!("What color is the {shape}?"),
                &format!("The {shape} is "),
                figure.colour.word(),
                ".",
            );
        }
        ask(format!("What shape is the {} one?", figure.colour.word()), "It is a ", shape, ".");
        ask(format!("How big is the {name}?"), "It is ", figure.size.word(), ".");
        ask(format!("What is the texture of the {name}?"), "It is ", figure.texture.word(), ".");
        let (before, after) = match figure.motion {
            Motion::Left | Motion::Right => ("It slides to the ", "."),
            Motion::Stays => ("It ", " in its place."),
            _ => ("It ", "."),
        };
        ask(format!("What does the {name} do?"), before, figure.motion.word(), after);
    }
    for shot in &scene.shots {
        if let (Some(relation), [first, second]) = (shot.relation(), shot.figures.as_slice()) {
            for (subject, relation, object) in
                [(first, relation, second), (second, relation.inverse(), first)]
            {
                let mut answer = Caption::default();
                answer.say("It is ");
                place(&mut answer, relation);
                answer.say(&format!(" the {}.", name(object)));
                all.push((
                    format!("Where is the {} compared with the {}?", name(subject), name(object)),
                    answer,
                ));
            }
        }
    }
    all
}

/// "red circle": unique among the figures of the clip.
fn name(figure: &Figure) -> String {
    format!("{} {}", figure.colour.word(), figure.shape.word())
}

fn plural(noun: &str, count: usize) -> &'static str {
    match (noun, count == 1) {
        ("shot", true) => "shot",
        ("shot", false) => "shots",
        (_, true) => "shape",
        (_, false) => "shapes",
    }
}

fn chance(rng: &mut impl Rng) -> bool {
    rand::RngExt::random_bool(rng, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts;

    #[test]
    fn a_true_long_caption_scores_full_marks() {
        for seed in 0..1000 {
            let scene = Scene::from_seed(seed);
            let text = long(&scene, seed + 1);
            let score = facts::score(&facts::of(&scene), &text);
            assert_eq!((score.right, score.extra), (score.total, 0), "{text}\n{:#?}", score.details);
        }
    }

    #[test]
    fn a_true_short_caption_has_no_wrong_facts() {
        for seed in 0..500 {
            let scene = Scene::from_seed(seed);
            let text = short(&scene, seed);
            let score = facts::score(&facts::of(&scene), &text);
            assert_eq!((score.wrong, score.extra), (0, 0), "{text}\n{:#?}", score.details);
            assert!(score.right >= 6);
        }
    }

    #[test]
    fn words_vary_but_are_repeatable() {
        let scene = Scene::from_seed(3);
        assert_eq!(long(&scene, 1), long(&scene, 1));
        assert_ne!(long(&scene, 1), long(&scene, 2));
    }

    #[test]
    fn fact_ranges_are_fact_words() {
        let caption = long_with_facts(&Scene::from_seed(5), 5);
        for range in &caption.facts {
            assert!(caption.text[range.clone()].chars().all(char::is_alphabetic));
        }
        assert!(caption.facts.len() >= 8);
    }

    /// The studio offers these while the embedded models are loaded.
    #[test]
    fn prompts_for_the_embedded_models_are_ones_they_were_trained_on() {
        let file: toml::Table = include_str!("../../../assets/prompts/embedded.toml").parse().unwrap();
        let mut known: Vec<String> =
            LONG_PROMPTS.iter().chain(SHORT_PROMPTS).map(|p| (*p).to_owned()).collect();
        known.extend((0..20).flat_map(|seed| questions(&Scene::from_seed(seed))).map(|(asked, _)| asked));
        for prompt in file["prompt"].as_array().unwrap() {
            let text = prompt["text"].as_str().unwrap();
            assert!(known.iter().any(|known| known == text), "{text}");
        }
    }

    #[test]
    fn every_question_has_one_fact_in_its_answer() {
        for (question, answer) in questions_with_facts(&Scene::from_seed(11)) {
            assert!(question.ends_with('?'));
            assert_eq!(answer.facts.len(), 1, "{question} {}", answer.text);
        }
    }
}
