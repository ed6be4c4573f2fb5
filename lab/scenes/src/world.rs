//! A scene as data made from a seed: shots, figures and their motions.
//!
//! The inventory is small on purpose (six backgrounds, eight colors, four shapes, three sizes, three textures, eight
//! motions) and every item looks clearly different at 112 pixels, so that a small model can learn it and wrong
//! words are unambiguous. Figures of a shot are in lanes, side by side or stacked, and are listed from left to right or
//! from top to bottom; their motion never leaves the lane, so the spatial relation holds for the whole shot.

use std::ops::Range;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Seeds for training. Everything below the start is held out (tests, demo clips, measurements).
pub const TRAINING_SEEDS: Range<u64> = 1_000_000..u64::MAX;

/// Nominal frame rate of a scene.
const FPS: f64 = 30.0;
/// Nominal frame rate of a lengthened scene.
const LONG_FPS: f64 = 10.0;

/// Declares an attribute: its values, the words that state each value (plain wording / an author's), and the list of all values.
macro_rules! attribute {
    ($(#[$about:meta])* $name:ident { $($value:ident = $word:literal / $other:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $(#[doc = $word] #[serde(rename = $word)] $value),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The word that states this value in a caption.
            pub fn word(self) -> &'static str {
                match self { $(Self::$value => $word),+ }
            }

            /// The word that states this value in an author's caption ([`crate::author`]).
            pub fn author_word(self) -> &'static str {
                match self { $(Self::$value => $other),+ }
            }

            /// The value stated by `word` (lower case) in either wording, if it is one of ours.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word | $other => Some(Self::$value),)+ _ => None }
            }
        }
    };
}

attribute!(
    /// Color of everything behind the figures. No figure has one of these colors.
    Background {
        Black = "black" / "coal", White = "white" / "chalk", Gray = "gray" / "slate",
        Brown = "brown" / "umber", Navy = "navy" / "midnight", Mint = "mint" / "pistachio",
    }
);
attribute!(
    /// Color of a figure.
    Colour {
        Red = "red" / "scarlet", Orange = "orange" / "tangerine", Yellow = "yellow" / "lemon", Green = "green" / "emerald",
        Cyan = "cyan" / "turquoise", Blue = "blue" / "azure", Purple = "purple" / "violet", Pink = "pink" / "rose",
    }
);
attribute!(
    /// Outline of a figure.
    Shape { Circle = "circle" / "disk", Triangle = "triangle" / "wedge", Ring = "ring" / "hoop", Cross = "cross" / "plus" }
);
attribute!(
    /// Largest extent a figure reaches, see [`Size::radius`].
    Size { Small = "small" / "tiny", Medium = "medium" / "middling", Large = "large" / "huge" }
);
attribute!(
    /// What covers a figure.
    Texture { Plain = "plain" / "solid", Striped = "striped" / "banded", Dotted = "dotted" / "speckled" }
);
attribute!(
    /// What a figure does during its shot. The word is the one that carries the fact.
    Motion {
        Left = "left" / "leftward", Right = "right" / "rightward", Rises = "rises" / "climbs", Falls = "falls" / "sinks",
        Grows = "grows" / "swells", Shrinks = "shrinks" / "dwindles", Spins = "spins" / "twirls", Stays = "stays" / "lingers",
    }
);
attribute!(
    /// Position of the first of two figures relative to the second.
    Relation { LeftOf = "left" / "west", RightOf = "right" / "east", Above = "above" / "atop", Below = "below" / "beneath" }
);

impl Size {
    /// Radius as a share of the shorter side of the frame.
    pub fn radius(self) -> f64 {
        match self {
            Self::Small => 0.16,
            Self::Medium => 0.235,
            Self::Large => 0.345,
        }
    }
}

impl Relation {
    /// The same relation seen from the other figure.
    pub(crate) fn inverse(self) -> Self {
        match self {
            Self::LeftOf => Self::RightOf,
            Self::RightOf => Self::LeftOf,
            Self::Above => Self::Below,
            Self::Below => Self::Above,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub size: Size,
    pub(crate) texture: Texture,
    pub(crate) colour: Colour,
    pub shape: Shape,
    pub motion: Motion,
    /// Centre half-way through the shot, as shares of the free space of its lane (0 = touching the left or
    /// upper edge of its lane, 1 = touching the other edge).
    pub home: (f64, f64),
    /// Share of the free space that a slide, rise or fall covers.
    pub(crate) travel: f64,
    /// Degrees per second when it spins; negative is counter-clockwise.
    pub(crate) spin: f64,
}

/// A stretch of the video without a cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shot {
    /// First moment, in seconds.
    pub start: f64,
    /// End, in seconds (exclusive, except for the last shot).
    pub end: f64,
    /// Color behind the figures.
    pub(crate) background: Background,
    /// Lanes lie side by side (figures listed from left to right) or are stacked (from top to bottom).
    pub(crate) side_by_side: bool,
    /// One to three figures, in the order of their lanes.
    pub figures: Vec<Figure>,
    /// How often the motions run from their beginning to their end.
    #[serde(default = "once")]
    pub(crate) repeats: u32,
}

fn once() -> u32 {
    1
}

impl Shot {
    /// How much of its motions has passed at `t` seconds, 0 to 1.
    pub(crate) fn progress(&self, t: f64) -> f64 {
        let share = ((t - self.start) / (self.end - self.start)).clamp(0.0, 1.0);
        let passed = share * f64::from(self.repeats);
        // The last run ends at its end, not at a new beginning.
        if share < 1.0 { passed.fract() } else { 1.0 }
    }

    /// Relation of the first figure to the second, where there are exactly two.
    pub(crate) fn relation(&self) -> Option<Relation> {
        (self.figures.len() == 2).then_some(if self.side_by_side {
            Relation::LeftOf
        } else {
            Relation::Above
        })
    }
}

/// A video as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scene {
    pub seed: u64,
    /// Length in seconds: 4 to 8, or more if [lengthened](Scene::lengthened).
    pub duration_s: f64,
    /// Frames per second of the nominal video.
    pub fps: f64,
    /// One to three shots that cover the whole duration.
    pub shots: Vec<Shot>,
}

impl Scene {
    /// The scene of a seed; the same seed always gives the same scene.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let counts = figure_counts(&mut rng);
        let shortest = if counts.len() == 3 { 6.0 } else { 4.0 };
        let duration_s = (rng.random_range(shortest..8.0_f64) * FPS).round() / FPS;
        let cuts = cuts(&mut rng, counts.len(), duration_s);
        let mut colours = shuffled(&mut rng, Colour::ALL);
        let mut backgrounds = shuffled(&mut rng, Background::ALL);
        let shots = counts
            .iter()
            .zip(cuts.windows(2))
            .filter_map(|(&count, span)| {
                let background = backgrounds.pop()?;
                let colours = colours.split_off(colours.len().checked_sub(count)?);
                Some(shot(&mut rng, (span[0], span[1]), background, &colours))
            })
            .collect();
        Self { seed, duration_s, fps: FPS, shots }
    }

    /// The scene in a video of about `seconds`, with the same facts: motions keep their pace and repeat, and cuts are anywhere
    /// that leaves every shot an eighth of the video. The scene itself where it is as long already.
    #[must_use]
    pub fn lengthened(&self, seconds: f64) -> Self {
        if seconds <= self.duration_s {
            return self.clone();
        }
        // Independent of what the seed has drawn for the scene.
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ 0x1e46_7e4e_d5ce_4e00);
        let duration_s = (seconds * LONG_FPS).round() / LONG_FPS;
        let least = 0.125;
        let weights: Vec<f64> = self.shots.iter().map(|_| rng.random_range(0.0..1.0)).collect();
        let free = (1.0 - least * weights.len() as f64) / weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let (mut share, mut start) = (0.0, 0.0);
        let shots = self.shots.iter().zip(&weights).enumerate().map(|(index, (shot, weight))| {
            share += least + free * weight;
            let last = index + 1 == weights.len();
            let end = if last { duration_s } else { (share * duration_s * LONG_FPS).round() / LONG_FPS };
            let repeats = ((end - start) / (shot.end - shot.start)).round().max(1.0) as u32;
            let long = Shot { start, end, repeats, ..shot.clone() };
            start = end;
            long
        });
        Self { seed: self.seed, duration_s, fps: LONG_FPS, shots: shots.collect() }
    }

    /// Number of frames of the nominal video.
    pub fn total_frames(&self) -> usize {
        (self.duration_s * self.fps).round() as usize
    }

    /// The shot on screen at `t` seconds (clamped into the video).
    pub(crate) fn shot_at(&self, t: f64) -> &Shot {
        let last = self.shots.len() - 1;
        self.shots.iter().find(|shot| t < shot.end).unwrap_or(&self.shots[last])
    }

    /// All figures of the clip in the order of the video.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.shots.iter().flat_map(|shot| &shot.figures)
    }
}

/// How many figures each shot has: at most four in the clip.
fn figure_counts(rng: &mut impl Rng) -> Vec<usize> {
    let one_or_two = |rng: &mut _, two: f64| if RngExt::random_bool(rng, two) { 2 } else { 1 };
    match rng.random_range(0..100) {
        0..36 => vec![1],
        36..60 => vec![2],
        60..66 => vec![3],
        66..90 => vec![one_or_two(rng, 0.2), one_or_two(rng, 0.2)],
        _ => vec![1, one_or_two(rng, 0.2), 1],
    }
}

/// Shot boundaries in seconds, both ends included. Cuts lie where even eight uniformly sampled frames leave every shot
/// at least one pair of frames of its own.
fn cuts(rng: &mut impl Rng, shots: usize, duration_s: f64) -> Vec<f64> {
    let inner: Vec<f64> = match shots {
        1 => vec![],
        2 => vec![rng.random_range(0.44..0.56)],
        _ => vec![rng.random_range(0.225..0.275), rng.random_range(0.725..0.775)],
    };
    let on_frame = |share: f64| (share * duration_s * FPS).round() / FPS;
    std::iter::once(0.0).chain(inner.into_iter().map(on_frame)).chain([duration_s]).collect()
}

fn shot(rng: &mut impl Rng, (start, end): (f64, f64), background: Background, colours: &[Colour]) -> Shot {
    let side_by_side = rng.random_bool(0.5);
    let mut shapes = shuffled(rng, Shape::ALL);
    let figures = colours
        .iter()
        .filter_map(|&colour| Some(figure(rng, colour, shapes.pop()?, colours.len(), side_by_side)))
        .collect();
    Shot { start, end, background, side_by_side, figures, repeats: 1 }
}

fn figure(rng: &mut impl Rng, colour: Colour, shape: Shape, neighbours: usize, side_by_side: bool) -> Figure {
    let sizes: &[Size] = match neighbours {
        1 => Size::ALL,
        2 => &[Size::Small, Size::Medium],
        _ => &[Size::Small],
    };
    let round = matches!(shape, Shape::Circle | Shape::Ring);
    // Along its own lane a figure may travel; across it only when it is alone. A round figure's spin cannot be seen.
    let motions: Vec<Motion> = Motion::ALL
        .iter()
        .copied()
        .filter(|motion| match motion {
            Motion::Left | Motion::Right => neighbours == 1 || !side_by_side,
            Motion::Rises | Motion::Falls => neighbours == 1 || side_by_side,
            Motion::Spins => !round,
            _ => true,
        })
        .collect();
    let turn = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
    Figure {
        size: pick(rng, sizes),
        texture: pick(rng, Texture::ALL),
        colour,
        shape,
        motion: pick(rng, &motions),
        home: (rng.random_range(0.15..0.85), rng.random_range(0.15..0.85)),
        travel: rng.random_range(0.75..1.0),
        spin: turn * rng.random_range(35.0..55.0),
    }
}

/// One item of a list that is known not to be empty.
pub(super) fn pick<T: Clone>(rng: &mut impl Rng, items: &[T]) -> T {
    items[rng.random_range(0..items.len())].clone()
}

fn shuffled<T: Copy>(rng: &mut impl Rng, items: &[T]) -> Vec<T> {
    use rand::seq::SliceRandom;
    let mut items = items.to_vec();
    items.shuffle(rng);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_scene() {
        assert_eq!(Scene::from_seed(7), Scene::from_seed(7));
        assert_ne!(Scene::from_seed(7), Scene::from_seed(8));
    }

    #[test]
    fn scenes_have_the_documented_ranges() {
        for scene in (0..2000).map(Scene::from_seed) {
            assert!((4.0..=8.0).contains(&scene.duration_s), "{scene:?}");
            assert!((1..=3).contains(&scene.shots.len()));
            assert!((1..=4).contains(&scene.figures().count()));
            assert_eq!(scene.shots[0].start, 0.0);
            assert_eq!(scene.shots[scene.shots.len() - 1].end, scene.duration_s);
            assert!(scene.shots.windows(2).all(|pair| pair[0].end == pair[1].start));
            let mut colours: Vec<_> = scene.figures().map(|figure| figure.colour).collect();
            colours.sort();
            colours.dedup();
            assert_eq!(colours.len(), scene.figures().count(), "colours name a figure within the clip");
        }
    }

    #[test]
    fn round_figures_do_not_spin_and_figures_stay_in_their_lanes() {
        for scene in (0..2000).map(Scene::from_seed) {
            for shot in &scene.shots {
                for figure in &shot.figures {
                    if matches!(figure.shape, Shape::Circle | Shape::Ring) {
                        assert_ne!(figure.motion, Motion::Spins);
                    }
                    if shot.figures.len() > 1 {
                        let across: &[Motion] = if shot.side_by_side {
                            &[Motion::Left, Motion::Right]
                        } else {
                            &[Motion::Rises, Motion::Falls]
                        };
                        assert!(!across.contains(&figure.motion));
                    }
                }
            }
        }
    }

    #[test]
    fn a_lengthened_scene_keeps_its_facts_its_pace_and_all_its_shots() {
        for short in (0..500).map(Scene::from_seed) {
            let long = short.lengthened(64.0);
            assert_eq!(long, short.lengthened(64.0));
            assert_eq!((long.duration_s, long.total_frames()), (64.0, 640));
            assert_eq!(crate::facts::of(&long), crate::facts::of(&short));
            for (long, short) in long.shots.iter().zip(&short.shots) {
                let seconds = long.end - long.start;
                assert!(seconds > 7.9, "{long:?}");
                let pace = seconds / f64::from(long.repeats) / (short.end - short.start);
                assert!((0.6..1.6).contains(&pace), "{pace} {long:?}");
            }
            assert!(long.shots.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(long.shots[long.shots.len() - 1].end, long.duration_s);
        }
        let scene = Scene::from_seed(7);
        assert_eq!(scene.lengthened(3.0), scene);
    }

    #[test]
    fn repeated_motions_begin_again_and_end_at_their_end() {
        let mut shot = Scene::from_seed(7).lengthened(64.0).shots.remove(0);
        (shot.start, shot.end, shot.repeats) = (10.0, 20.0, 4);
        let at = |t| shot.progress(t);
        assert_eq!((at(10.0), at(11.25), at(12.5), at(13.75)), (0.0, 0.5, 0.0, 0.5));
        assert_eq!((at(0.0), at(20.0), at(99.0)), (0.0, 1.0, 1.0));
    }

    #[test]
    fn words_round_trip() {
        for &motion in Motion::ALL {
            assert_eq!(Motion::from_word(motion.word()), Some(motion));
            assert_eq!(Motion::from_word(motion.author_word()), Some(motion));
        }
        assert_eq!(serde_json::to_string(&Colour::Cyan).unwrap(), "\"cyan\"");
    }
}
