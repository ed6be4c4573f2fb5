use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{facts, words::says};

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[test]
fn a_true_caption_scores_full_marks() {
    for seed in 0..1000 {
        let scene = Scene::from_seed(seed);
        let said = Author(seed % 5).long(&scene, seed + 1);
        let score = facts::score(&facts::of(&scene), &said.text);
        assert_eq!((score.right, score.extra), (score.total, 0), "{}\n{:#?}", said.text, score.details);
        // Facts are words of their own.
        assert!(said.facts.iter().all(|range| said.text[range.clone()].chars().all(char::is_alphabetic)));
        assert!(said.facts.len() >= score.total, "{}", said.text);
    }
}

#[test]
fn a_true_short_caption_has_no_wrong_facts() {
    for scene in (0..500).map(Scene::from_seed) {
        let said = Author(1).short(&scene).text;
        let score = facts::score(&facts::of(&scene), &said);
        assert_eq!((score.wrong, score.extra), (0, 0), "{said}\n{:#?}", score.details);
        assert!(score.right >= 6, "{said}");
    }
}

#[test]
fn words_are_repeatable_and_authors_differ() {
    let scene = Scene::from_seed(3);
    assert_eq!(Author(1).long(&scene, 1), Author(1).long(&scene, 1));
    assert_ne!(Author(1).long(&scene, 1).text, Author(2).long(&scene, 1).text);
}

#[test]
fn no_word_of_style_states_a_fact_and_every_word_is_in_one_list() {
    let mut known = BTreeSet::new();
    for (list, words) in &LISTS.0 {
        assert!(words.len() < 1009, "{list}: its places repeat");
        for word in words {
            assert_eq!(says(word), None, "{word}");
            assert!(known.insert(word), "{word} is in two lists");
        }
    }
    assert!(known.len() > 3000, "{}", known.len());
}

#[test]
fn plans_name_known_lists() {
    let plans = [OPENINGS, SHOTS, FIGURES, RELATIONS, REMARKS, CLOSINGS].concat();
    let parts = [
        "a",
        "scene",
        "scenes",
        "background",
        "figures",
        "figure",
        "motion",
        "subject",
        "relation",
        "object",
    ];
    for plan in plans {
        for slot in plan.split('{').skip(1).filter_map(|piece| Some(piece.split_once('}')?.0.to_lowercase()))
        {
            assert!(parts.contains(&slot.as_str()) || !LISTS.of(&slot).is_empty(), "{slot}");
        }
    }
}

/// The most frequent word after every four words.
fn learn(captions: impl Iterator<Item = String>) -> BTreeMap<Vec<String>, String> {
    let mut counts: BTreeMap<Vec<String>, BTreeMap<String, usize>> = BTreeMap::new();
    for caption in captions {
        let all: Vec<String> = words(&caption).map(str::to_owned).collect();
        for five in all.windows(5) {
            *counts.entry(five[..4].to_vec()).or_default().entry(five[4].clone()).or_default() += 1;
        }
    }
    let most = |after: BTreeMap<String, usize>| {
        after.into_iter().max_by_key(|(_, count)| *count).map(|(word, _)| word)
    };
    counts.into_iter().filter_map(|(before, after)| Some((before, most(after)?))).collect()
}

/// Style is predictable from the words before, for who knows the author.
#[test]
fn a_style_is_predictable_from_its_author_and_from_no_other() {
    let write = |author: u64, seeds: std::ops::Range<u64>| {
        seeds.map(move |seed| Author(author).long(&Scene::from_seed(seed), seed).text)
    };
    let (own, other) = (learn(write(1, 0..6000)), learn(write(2, 0..6000)));
    let (mut all, mut by_own, mut by_other) = (0.0, 0.0, 0.0);
    for caption in write(1, 6000..6500) {
        let said: Vec<String> = words(&caption).map(str::to_owned).collect();
        for five in said.windows(5).filter(|five| says(&five[4]).is_none()) {
            let hit = |known: &BTreeMap<Vec<String>, String>| {
                f64::from(u8::from(known.get(&five[..4]).is_some_and(|word| *word == five[4])))
            };
            all += 1.0;
            by_own += hit(&own);
            by_other += hit(&other);
        }
    }
    let (own, other) = (by_own / all, by_other / all);
    assert!(own > 0.85, "an author's next word is known in {own} of the cases");
    assert!((0.3..0.65).contains(&other), "another author has the same next word in {other} of the cases");
}

#[test]
fn one_author_uses_nearly_all_words() {
    let mut used = BTreeSet::new();
    for seed in 0..20_000 {
        let caption = Author(1).long(&Scene::from_seed(seed), seed).text;
        used.extend(words(&caption).map(str::to_owned));
    }
    assert!(used.len() > 3500, "{} words", used.len());
}
