//! The facts of a scene, the facts a text states, and how the two compare.
//!
//! [`extract`] reads any text word by word: "a large striped red circle" introduces a figure, "the red circle" points at
//! one, a motion word belongs to the figure last mentioned, "the second shot" moves on. It never guesses: a fact
//! that is not stated in the words of [`super::world`], plain or an author's, (or a few synonyms) counts as missing.

use serde::{Deserialize, Serialize};

use super::world::{Background, Colour, Motion, Relation, Scene, Shape, Size, Texture};

/// The facts of a video, or those that a text states; `None` where a text does not state a fact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub(crate) shot_count: Option<usize>,
    pub shots: Vec<ShotFacts>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShotFacts {
    pub(crate) background: Option<Background>,
    pub(crate) shape_count: Option<usize>,
    pub figures: Vec<FigureFacts>,
    /// Relation of the first listed figure to the second.
    pub(crate) relation: Option<Relation>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FigureFacts {
    pub size: Option<Size>,
    pub(crate) texture: Option<Texture>,
    pub(crate) colour: Option<Colour>,
    pub shape: Option<Shape>,
    pub motion: Option<Motion>,
}

/// How a text compares with the truth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// True facts that the text states.
    pub right: usize,
    /// True facts that the text contradicts.
    pub wrong: usize,
    /// True facts that the text does not state.
    pub missing: usize,
    /// All true facts.
    pub total: usize,
    /// Figures in the text that are not in the video.
    pub extra: usize,
    /// Fact by fact.
    pub details: Vec<Detail>,
}

/// One true fact and the text's statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// For example `shot 1, shape 2, colour`.
    pub what: String,
    pub truth: String,
    /// The value that the text states.
    pub said: Option<String>,
}

impl Score {
    /// Share of the true facts that the text states, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.right as f64 / self.total as f64 }
    }

    fn add(&mut self, what: String, truth: Option<String>, said: Option<String>) {
        let Some(truth) = truth else { return };
        self.total += 1;
        match &said {
            None => self.missing += 1,
            Some(said) if *said == truth => self.right += 1,
            Some(_) => self.wrong += 1,
        }
        self.details.push(Detail { what, truth, said });
    }
}

pub fn of(scene: &Scene) -> Facts {
    let shots = scene.shots.iter().map(|shot| ShotFacts {
        background: Some(shot.background),
        shape_count: Some(shot.figures.len()),
        relation: shot.relation(),
        figures: shot
            .figures
            .iter()
            .map(|figure| FigureFacts {
                size: Some(figure.size),
                texture: Some(figure.texture),
                colour: Some(figure.colour),
                shape: Some(figure.shape),
                motion: Some(figure.motion),
            })
            .collect(),
    });
    Facts { shot_count: Some(scene.shots.len()), shots: shots.collect() }
}

/// Compares the statements of `text` with the truth.
///
/// Shots are compared in order. Within a shot, the text's figures are paired with the true ones so that the most facts agree.
pub fn score(truth: &Facts, text: &str) -> Score {
    let said = extract(text);
    let mut score = Score::default();
    let number = |count: usize| count.to_string();
    score.add("shots".into(), truth.shot_count.map(number), said.shot_count.map(number));
    let silent = ShotFacts::default();
    for (index, shot) in truth.shots.iter().enumerate() {
        let other = said.shots.get(index).unwrap_or(&silent);
        let at = format!("shot {}", index + 1);
        let word = |background: Background| background.word().to_owned();
        score.add(format!("{at}, background"), shot.background.map(word), other.background.map(word));
        score.add(format!("{at}, shapes"), shot.shape_count.map(number), other.shape_count.map(number));
        let pairs = pairing(&shot.figures, &other.figures);
        for (place, (figure, pair)) in shot.figures.iter().zip(&pairs).enumerate() {
            let unsaid = FigureFacts::default();
            let claimed = pair.and_then(|pair| other.figures.get(pair)).unwrap_or(&unsaid);
            for ((attribute, truth), (_, said)) in figure.words().into_iter().zip(claimed.words()) {
                score.add(
                    format!("{at}, shape {}, {attribute}", place + 1),
                    truth.map(str::to_owned),
                    said.map(str::to_owned),
                );
            }
        }
        let word = |relation: Relation| relation.word().to_owned();
        score.add(format!("{at}, relation"), shot.relation.map(word), other.relation.map(word));
        score.extra += other.figures.len() - pairs.iter().flatten().count();
    }
    score.extra += said.shots.iter().skip(truth.shots.len()).map(|shot| shot.figures.len()).sum::<usize>();
    score
}

impl FigureFacts {
    fn words(&self) -> [(&'static str, Option<&'static str>); 5] {
        [
            ("size", self.size.map(Size::word)),
            ("texture", self.texture.map(Texture::word)),
            ("colour", self.colour.map(Colour::word)),
            ("shape", self.shape.map(Shape::word)),
            ("motion", self.motion.map(Motion::word)),
        ]
    }

    fn agreement(&self, other: &Self) -> usize {
        self.words()
            .iter()
            .zip(other.words())
            .filter(|(mine, theirs)| mine.1.is_some() && mine.1 == theirs.1)
            .count()
    }
}

/// For every true figure the index of the matching figure of the text: the pairing with the most agreement, and on ties the
/// one in order.
fn pairing(truth: &[FigureFacts], said: &[FigureFacts]) -> Vec<Option<usize>> {
    fn best(
        truth: &[FigureFacts],
        said: &[FigureFacts],
        used: &mut Vec<usize>,
    ) -> (usize, Vec<Option<usize>>) {
        let Some((figure, rest)) = truth.split_first() else { return (0, Vec::new()) };
        let mut winner: Option<(usize, Vec<Option<usize>>)> = None;
        for (index, claim) in said.iter().enumerate().take(6) {
            if used.contains(&index) {
                continue;
            }
            used.push(index);
            let (value, tail) = best(rest, said, used);
            used.pop();
            let value = value + 1 + 10 * figure.agreement(claim);
            if winner.as_ref().is_none_or(|(most, _)| value > *most) {
                winner = Some((value, [vec![Some(index)], tail].concat()));
            }
        }
        winner.unwrap_or_else(|| {
            let (value, tail) = best(rest, said, used);
            (value, [vec![None], tail].concat())
        })
    }
    best(truth, said, &mut Vec::new()).1
}

pub fn extract(text: &str) -> Facts {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut reader = Reader { shots: vec![ShotFacts::default()], ..Reader::default() };
    for (index, word) in words.iter().enumerate() {
        reader.read(word, words.get(index + 1).copied().unwrap_or_default());
    }
    Facts { shot_count: reader.shot_count, shots: reader.shots }
}

/// State of the reader of a text.
#[derive(Default)]
struct Reader {
    shot_count: Option<usize>,
    shots: Vec<ShotFacts>,
    shot: usize,
    /// Attributes of the noun phrase being read.
    phrase: FigureFacts,
    /// The noun phrase began with "the": it refers to a known figure.
    definite: bool,
    /// The figure last mentioned, in the current shot.
    figure: Option<usize>,
    /// The relation last stated and its subject, waiting for its object.
    relation: Option<(Option<usize>, Relation)>,
}

impl Reader {
    fn read(&mut self, word: &str, next: &str) {
        if matches!(next, "shot" | "scene")
            && let Some(shot) = ordinal(word)
        {
            self.enter(shot);
        } else if let Some(count) =
            number(word).filter(|_| matches!(next, "shot" | "shots" | "scene" | "scenes"))
        {
            self.shot_count.get_or_insert(count);
        } else if let Some(count) = number(word)
            .filter(|_| matches!(next, "shape" | "shapes" | "figure" | "figures" | "object" | "objects"))
        {
            self.shots[self.shot].shape_count.get_or_insert(count);
        } else if let Some(size) = Size::from_word(word) {
            self.phrase.size = Some(size);
            return;
        } else if let Some(texture) = Texture::from_word(word) {
            self.phrase.texture = Some(texture);
            return;
        } else if let Some(colour) = Colour::from_word(word) {
            self.phrase.colour = Some(colour);
            return;
        } else if let Some(shape) = Shape::from_word(word) {
            self.mention(shape);
        } else if let Some(background) =
            Background::from_word(word).filter(|_| Shape::from_word(next).is_none())
        {
            self.shots[self.shot].background.get_or_insert(background);
        } else if let Some(relation) = relation(word, next) {
            self.relation = Some((self.figure, relation));
        } else if let Some(motion) = motion(word) {
            if let Some(figure) = self.figure {
                self.shots[self.shot].figures[figure].motion.get_or_insert(motion);
            }
        } else {
            match word {
                "a" | "an" | "another" | "one" => self.definite = false,
                "the" => self.definite = true,
                "and" => return,
                _ => {}
            }
        }
        self.phrase = FigureFacts::default();
    }

    fn enter(&mut self, shot: usize) {
        // A jump of more than one shot is read as the next one.
        self.shot = shot.min(self.shots.len());
        if self.shot == self.shots.len() {
            self.shots.push(ShotFacts::default());
        }
        self.figure = None;
        self.relation = None;
    }

    /// The noun of a noun phrase was read.
    fn mention(&mut self, shape: Shape) {
        let phrase = FigureFacts { shape: Some(shape), ..std::mem::take(&mut self.phrase) };
        let shot = &mut self.shots[self.shot];
        if !self.definite {
            shot.figures.push(phrase);
            self.figure = Some(shot.figures.len() - 1);
            return;
        }
        let same = |figure: &FigureFacts| {
            figure.shape == phrase.shape && (phrase.colour.is_none() || figure.colour == phrase.colour)
        };
        let pointed = shot.figures.iter().position(same);
        if let Some((subject, relation)) = self.relation.take() {
            shot.relation = shot.relation.or(match (subject, pointed) {
                (Some(0), _) | (None, Some(1)) => Some(relation),
                (Some(1), _) | (None, Some(0)) => Some(relation.inverse()),
                _ => None,
            });
        }
        self.figure = pointed;
    }
}

pub(super) fn ordinal(word: &str) -> Option<usize> {
    ["first", "second", "third", "fourth"].iter().position(|ordinal| *ordinal == word)
}

pub(super) fn number(word: &str) -> Option<usize> {
    match word {
        "one" | "single" | "lone" | "1" => Some(1),
        "two" | "twin" | "2" => Some(2),
        "three" | "triple" | "3" => Some(3),
        "four" | "4" => Some(4),
        _ => None,
    }
}

pub(super) fn relation(word: &str, next: &str) -> Option<Relation> {
    match word {
        "left" | "right" | "west" | "east" if next != "of" => None,
        "under" | "underneath" => Some(Relation::Below),
        _ => Relation::from_word(word),
    }
}

pub(super) fn motion(word: &str) -> Option<Motion> {
    match word {
        "rise" | "rising" => Some(Motion::Rises),
        "fall" | "falling" => Some(Motion::Falls),
        "grow" | "growing" => Some(Motion::Grows),
        "shrink" | "shrinking" => Some(Motion::Shrinks),
        "spin" | "spinning" | "rotates" | "rotating" => Some(Motion::Spins),
        "stay" | "staying" | "remains" | "stationary" | "motionless" => Some(Motion::Stays),
        _ => Motion::from_word(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "The clip has two shots. The first shot shows a navy background with two shapes. There is a small \
        plain red circle. It falls. Close by is a medium striped pink cross, which spins. The pink cross is to the right \
        of the red circle. The second shot has a mint background and one shape: a large, dotted blue ring that slides \
        to the left.";

    #[test]
    fn reads_what_is_stated() {
        let facts = extract(TEXT);
        assert_eq!(facts.shot_count, Some(2));
        assert_eq!(facts.shots.len(), 2);
        let first = &facts.shots[0];
        assert_eq!((first.background, first.shape_count), (Some(Background::Navy), Some(2)));
        assert_eq!(first.relation, Some(Relation::LeftOf));
        assert_eq!(first.figures[0].motion, Some(Motion::Falls));
        assert_eq!(first.figures[1].motion, Some(Motion::Spins));
        let ring = &facts.shots[1].figures[0];
        assert_eq!((ring.texture, ring.motion), (Some(Texture::Dotted), Some(Motion::Left)));
    }

    #[test]
    fn distinguishes_wrong_missing_and_extra() {
        let truth = extract(TEXT);
        let all = score(&truth, TEXT);
        assert_eq!((all.right, all.wrong, all.missing, all.extra), (all.total, 0, 0, 0));
        let wrong = score(&truth, &TEXT.replace("falls", "rises").replace("dotted", "plain"));
        assert_eq!((wrong.wrong, wrong.missing), (2, 0));
        let missing = score(&truth, &TEXT.replace(" It falls.", ""));
        assert_eq!((missing.wrong, missing.missing), (0, 1));
        let extra = score(&truth, &format!("{TEXT} There is also a green ring."));
        assert_eq!((extra.right, extra.extra), (extra.total, 1));
    }

    #[test]
    fn figures_out_of_order_are_paired_by_agreement() {
        let truth = extract("a small red circle. a large blue ring");
        let swapped = score(&truth, "There is a large blue ring and a small red circle");
        assert_eq!(swapped.right, swapped.total);
    }

    #[test]
    fn unstated_facts_are_missing_and_nothing_panics() {
        let truth = extract(TEXT);
        for text in ["", "the the the", "third shot", "left of the circle", "ümläut — 42 shots"] {
            let silent = score(&truth, text);
            assert_eq!(silent.right + silent.wrong + silent.missing, silent.total);
        }
    }
}
