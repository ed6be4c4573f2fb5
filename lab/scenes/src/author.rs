//! Captions by an author: style is a habit, not a coin toss.
//!
//! The captions of [`super::caption`] choose every phrase at random: a model is certain about facts and uncertain about
//! everything else, which favors rules that look at entropy. An author's style is as predictable as the facts: at nearly every
//! choice the author takes a favorite, which depends on the words before. Another author has other favorites, so two models
//! that know the same facts disagree about style without either being in doubt.
//!
//! Facts are stated in words and sentences of their own ([`super::facts`] reads both), each carried by one word. Style depends
//! only on what the text has said before, never on what it has yet to say: no filler gives a fact away.

mod words;

use std::sync::LazyLock;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::caption::{Caption, ORDINALS};
use super::world::{Figure, Motion, Relation, Scene, Shot};

/// Share of the choices in which authors follow their habit; the others are drawn from all variants, by a power law.
const HABIT: f64 = 0.94;
/// Share of the habits that all authors have in common.
const CONVENTION: f64 = 0.55;

const NUMBERS: [&str; 4] = ["no", "lone", "twin", "triple"];
/// Announces a slide, whose direction is the next word.
pub(super) const HEADS: &str = "heads";

// Plans of sentences. In braces are lists of `words` (with a capital letter for a capitalized word), an article, or parts that
// a caller fills in.

const OPENINGS: &[&str] = &[
    "{Adverb} {a} {genre} opens, {scenes} long.",
    "Here runs {a} {genre} of {scenes}, {adjective} and {adjective}.",
    "In {scenes} comes {a} {adjective} {genre}, {adverb} told.",
    "{A} {adjective} {genre} by {name} spans {scenes}.",
];
const SHOTS: &[&str] = &[
    "{scene}, {adjective} as {a} {noun}, keeps {background} ground with {figures}.",
    "{scene} {verb} the {noun} on {background} ground and holds {figures}.",
    "{scene} is {adjective}, {background} ground with {figures} and {abstract}.",
    "{scene} recalls {place} by {background} ground, with {figures} {adverb} set.",
];
const FIGURES: &[&str] = &[
    "A {figure}, {adjective} as {a} {noun}, {motion} {adverb} with {adjective} {abstract}.",
    "Behold a {figure} of {adjective} {abstract} that {motion} {adverb} like {a} {noun}.",
    "{Adverb} a {figure} {motion}, as {a} {noun} in {place} would, and {verb} the {noun}.",
    "There a {figure} full of {abstract} {motion} so {adverb} that it {verb} {abstract}.",
];
const RELATIONS: &[&str] = &[
    "{Adverb} the {subject} waits {relation} the {object}.",
    "The {subject} keeps {adverb} {relation} the {object}.",
    "With {adjective} {abstract} the {subject} rests {relation} the {object}.",
];
const REMARKS: &[&str] = &[
    "{Abstract} {verb} the {adjective} {noun}.",
    "{Name} of {place} would call it {adjective}.",
    "{Adjective} {abstract} and {adjective} {abstract} meet.",
    "It {verb} {name} like {a} {adjective} {noun}.",
];
const CLOSINGS: &[&str] = &[
    "So ends the {genre}, {adjective} with {abstract}.",
    "{Name} {verb} the {genre} {adverb}.",
    "{Abstract} {verb} {place} in the end.",
];

/// Somebody who words captions. Authors of different numbers share the language, not the taste.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author(pub u64);

impl Author {
    /// A caption of one paragraph that states every fact. The same scene and `rng_seed` give the same words.
    pub fn long(self, scene: &Scene, rng_seed: u64) -> Caption {
        let rng = ChaCha8Rng::seed_from_u64(rng_seed);
        let mut writer = Writer { author: self, rng, caption: Caption::default(), last: [0; 2] };
        writer.scene(scene);
        writer.caption
    }

    /// The facts of figures and backgrounds in plain sentences, alike for all authors.
    pub fn short(self, scene: &Scene) -> Caption {
        let mut caption = Caption::default();
        for (index, shot) in scene.shots.iter().enumerate() {
            caption.space().say(&scene_name(scene, index)).say(": ").fact(shot.background.author_word());
            caption.say(" ground");
            for figure in &shot.figures {
                caption.say(", a");
                for word in noun(figure).iter().chain(&motion(figure.motion)) {
                    word.write(caption.say(" "));
                }
            }
            caption.say(".");
        }
        caption
    }

    /// The variant that the author prefers after `context`.
    fn favorite(self, list: &str, context: u64, variants: usize) -> usize {
        let place = mix(hash(list), context);
        let conventional = (mix(place, 1) as f64) < CONVENTION * u64::MAX as f64;
        let taste = if conventional { 0 } else { self.0.wrapping_add(1) };
        (mix(place, mix(taste, 2)) % variants as u64) as usize
    }

    /// The author's choice: nearly always the favorite, else any variant, those that the author likes more often than others.
    fn choose(self, list: &str, context: u64, variants: usize, rng: &mut impl Rng) -> usize {
        if rng.random_bool(HABIT) {
            return self.favorite(list, context, variants);
        }
        // The power of a uniform number has ranks with probabilities of about 1 / rank.
        let rank = (variants as f64).powf(rng.random_range(0.0..1.0)) as usize - 1;
        // A prime larger than every list, so all ranks have different places.
        let first = mix(hash(list), mix(self.0, 3)) as usize % variants;
        (first + rank * 1009) % variants
    }
}

/// A caption while it is written.
struct Writer {
    author: Author,
    rng: ChaCha8Rng,
    caption: Caption,
    /// What the next choice depends on: the last word that was chosen, after [`CHOSEN`], or the last two of the scene.
    last: [u64; 2],
}

const CHOSEN: u64 = u64::MAX;

impl Writer {
    fn scene(&mut self, scene: &Scene) {
        self.sentence("opening", OPENINGS, &[("scenes", &counted(scene.shots.len(), ["scene", "scenes"]))]);
        for (index, shot) in scene.shots.iter().enumerate() {
            self.shot(shot, &scene_name(scene, index));
        }
        self.sentence("closing", CLOSINGS, &[]);
    }

    fn shot(&mut self, shot: &Shot, called: &str) {
        let parts: [(&str, &[Word<'_>]); 3] = [
            ("scene", &[Word::Name(called)]),
            ("background", &[Word::Fact(shot.background.author_word())]),
            ("figures", &counted(shot.figures.len(), ["figure", "figures"])),
        ];
        self.sentence("shot", SHOTS, &parts);
        for figure in &shot.figures {
            let parts: [(&str, &[Word<'_>]); 2] =
                [("figure", &noun(figure)), ("motion", &motion(figure.motion))];
            self.sentence("figure", FIGURES, &parts);
        }
        if let (Some(relation), [first, second]) = (shot.relation(), shot.figures.as_slice()) {
            let (first, relation, second) = match self.choose("order", 2) {
                0 => (first, relation, second),
                _ => (second, relation.inverse(), first),
            };
            let parts: [(&str, &[Word<'_>]); 3] =
                [("subject", &name(first)), ("relation", &position(relation)), ("object", &name(second))];
            self.sentence("relation", RELATIONS, &parts);
        }
        self.sentence("remark", REMARKS, &[]);
    }

    /// Writes a sentence by one of the plans, whose `parts` are filled in.
    fn sentence(&mut self, kind: &str, plans: &[&str], parts: &[(&str, &[Word<'_>])]) {
        self.caption.space();
        let plan = plans[self.choose(kind, plans.len())];
        let mut article = None;
        for piece in plan.split_inclusive('}') {
            let (text, slot) = piece.split_once('{').unwrap_or((piece, ""));
            if article.is_none() {
                self.caption.say(text);
            }
            let slot = slot.trim_end_matches('}');
            if let Some((_, words)) = parts.iter().find(|(name, _)| *name == slot) {
                self.part(words);
            } else if let "a" | "A" = slot {
                article = Some(slot);
            } else if !slot.is_empty() {
                let list = slot.to_lowercase();
                let words = LISTS.of(&list);
                let word = words[self.choose(&list, words.len())];
                if let Some(article) = article.take() {
                    self.caption.say(article).say(if has_vowel(word) { "n " } else { " " });
                }
                let capital = slot.starts_with(char::is_uppercase);
                self.caption.say(&if capital { capitalized(word) } else { word.to_owned() });
            }
        }
    }

    /// Writes words that the scene determines.
    fn part(&mut self, words: &[Word<'_>]) {
        for (index, word) in words.iter().enumerate() {
            word.write(self.caption.say(if index > 0 { " " } else { "" }));
            if let Word::Fact(text) | Word::Name(text) = word {
                let before = if self.last[0] == CHOSEN { 0 } else { self.last[1] };
                self.last = [before, hash(text)];
            }
        }
    }

    /// One of `variants`; what follows depends on it.
    fn choose(&mut self, list: &str, variants: usize) -> usize {
        let context = mix(self.last[0], self.last[1]);
        let choice = self.author.choose(list, context, variants, &mut self.rng);
        self.last = [CHOSEN, mix(hash(list), choice as u64)];
        choice
    }
}

/// "The scene" of a video of one, "The second scene" of others.
fn scene_name(scene: &Scene, index: usize) -> String {
    if scene.shots.len() == 1 { "The scene".into() } else { format!("The {} scene", ORDINALS[index]) }
}

/// A word that the scene determines.
#[derive(Clone, Copy)]
enum Word<'a> {
    Fact(&'a str),
    /// States no fact of its own; like a fact, what follows depends on it.
    Name(&'a str),
    /// Belongs to the adjacent word.
    Link(&'a str),
}

impl Word<'_> {
    fn write(self, caption: &mut Caption) {
        match self {
            Self::Fact(text) => caption.fact(text),
            Self::Name(text) | Self::Link(text) => caption.say(text),
        };
    }
}

/// "a lone scene", "twin scenes"
fn counted(count: usize, [noun, nouns]: [&'static str; 2]) -> Vec<Word<'static>> {
    let number = Word::Fact(NUMBERS[count]);
    if count == 1 { vec![Word::Link("a"), number, Word::Name(noun)] } else { vec![number, Word::Name(nouns)] }
}

/// "tiny banded scarlet hoop"
fn noun(figure: &Figure) -> [Word<'static>; 4] {
    let colour = figure.colour.author_word();
    [figure.size.author_word(), figure.texture.author_word(), colour, figure.shape.author_word()]
        .map(Word::Fact)
}

/// "scarlet hoop": unique among the figures of the clip.
fn name(figure: &Figure) -> [Word<'static>; 2] {
    [figure.colour.author_word(), figure.shape.author_word()].map(Word::Name)
}

fn motion(motion: Motion) -> Vec<Word<'static>> {
    let fact = Word::Fact(motion.author_word());
    if let Motion::Left | Motion::Right = motion { vec![Word::Link(HEADS), fact] } else { vec![fact] }
}

fn position(relation: Relation) -> Vec<Word<'static>> {
    let fact = Word::Fact(relation.author_word());
    let level = matches!(relation, Relation::LeftOf | Relation::RightOf);
    if level { vec![fact, Word::Link("of")] } else { vec![fact] }
}

/// Whether a word begins with the sound of a vowel.
fn has_vowel(word: &str) -> bool {
    let silent = ["honest", "heir", "hour", "honor"].iter().any(|start| word.starts_with(start));
    let spoken = ["uni", "use", "eu"].iter().any(|start| word.starts_with(start));
    silent || word.starts_with(['a', 'e', 'i', 'o', 'u']) && !spoken
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| mix(hash, u64::from(byte)))
}

/// Two numbers as one that looks random (the finalizer of SplitMix64).
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.rotate_left(23) ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The lists of `words`, by the names that plans use.
struct Lists(Vec<(&'static str, Vec<&'static str>)>);

static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    let lists = [
        ("adjective", words::ADJECTIVES),
        ("noun", words::NOUNS),
        ("adverb", words::ADVERBS),
        ("abstract", words::ABSTRACT),
        ("verb", words::VERBS),
        ("name", words::NAMES),
        ("place", words::PLACES),
        ("genre", words::GENRES),
    ];
    Lists(lists.map(|(name, words)| (name, words.split_ascii_whitespace().collect())).to_vec())
});

impl Lists {
    fn of(&self, name: &str) -> &[&'static str] {
        self.0.iter().find(|(list, _)| *list == name).map_or(&[], |(_, words)| words)
    }
}

#[cfg(test)]
mod tests;
