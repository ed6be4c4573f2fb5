use super::*;
use crate::command::Reading;
use specreel_model::{
    decoder::{Sequence, States},
    draft_head::TextStates,
    family::{ClipFacts, VideoLlm},
    processor::{
        Patches,
        layout::{Grid, VisualGrid},
    },
};
use specreel_speculate::{Method, VisualStates, context::Selection};
use specreel_tensor::WeightType;
use specreel_video::Sampling;

#[test]
fn the_least_recently_used_value_goes_first() {
    let mut recent = Recent::new(2);
    recent.insert("a", 1);
    recent.insert("b", 2);
    assert_eq!(recent.touch(&"a"), Some(&mut 1));
    recent.insert("c", 3);
    assert_eq!(recent.touch(&"b"), None);
    assert_eq!(recent.touch(&"a"), Some(&mut 1));
    recent.insert("a", 9);
    assert_eq!(recent.touch(&"a"), Some(&mut 9));
    assert_eq!(recent.take_oldest(|_| true), Some(3));
    assert_eq!(recent.take_oldest(|key| *key != "a"), None);
}

fn key(name: &str) -> ClipKey {
    ClipKey {
        path: name.into(),
        bytes: 0,
        modified: None,
        span: None,
        sampling: Sampling::Auto,
        max_pixels: None,
        max_visual_tokens: None,
    }
}

fn asked(prompt: &str) -> Reading {
    Reading { prompt: prompt.into(), ..Reading::default() }
}

fn steady() -> ClipFacts {
    ClipFacts::steady(VisualGrid { t: 1, h: 1, w: 1 }, 2, 1.0)
}

fn clip(values: usize) -> Clip {
    Clip {
        recut: None,
        timestamps_s: vec![0.0],
        facts: steady(),
        patches: Patches { data: vec![0.0; values], grid: Grid { t: 1, h: 2, w: 2 }, row: values / 4 },
        notes: Vec::new(),
        thinned: None,
        decode_ms: 0.0,
        target: None,
        drafter: None,
    }
}

fn model() -> VideoLlm {
    let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/parity/fixtures/gqa_tied");
    VideoLlm::load(&dir, WeightType::F32, &mut |_, _| {}).unwrap()
}

fn context(model: &VideoLlm) -> Prefill {
    let prompt = model.prompt("x", &steady()).unwrap();
    let (width, visual) = (model.decoder().config().hidden, prompt.visual.clone());
    let target = Sequence::new(model.decoder().clone(), 64);
    let states = TextStates::new(width, visual);
    Prefill::new(prompt, target, VisualStates::new(&vec![1.0; width], width), states, 0.0)
}

#[test]
fn sizes_are_those_of_the_parts() {
    let model = model();
    let c = model.decoder().config();
    let mut kept = context(&model);
    let cache = (2 * c.layers * c.kv_heads * c.head_dim * 64 * 4) as u64;
    let rest = kept.visual.bytes() + kept.states.bytes() + 4 * kept.prompt.ids.len();
    assert_eq!(kept.bytes(), cache + rest as u64);
    // The states of one visual token take a whole block of sixteen.
    assert_eq!(kept.visual.bytes(), 16 * c.hidden * 4);

    let method = Method::preset("specvlm-self").unwrap();
    let sequence = Sequence::new(model.decoder().clone(), 64);
    let drafter = DrafterContext { sequence, prefill_ms: 0.0, prefetched: None, seen: Vec::new() };
    kept.drafters.insert(DrafterKey::new(&method, &Selection::default()), drafter);
    assert_eq!(kept.bytes(), 2 * cache + rest as u64);

    let mut clip = clip(100);
    assert_eq!(clip.bytes(), 400);
    let embeddings = States::new(vec![0.0; 3 * 8], 8).unwrap();
    clip.target = Some((embeddings, 0.0));
    assert_eq!(clip.bytes(), 400 + 96);
}

#[test]
fn the_cache_is_bounded_in_bytes() {
    let model = model();
    let size = context(&model).bytes();
    // Room for two contexts over one clip each, and a little more.
    let mut cache = PrefixCache::new(2 * (size + 400) + 100);
    let names = |cache: &PrefixCache| -> Vec<String> {
        cache.contexts.keys().map(|(clip, _)| clip.path.display().to_string()).collect()
    };
    let put = |cache: &mut PrefixCache, name: &str| {
        cache.clips.insert(key(name), clip(100));
        cache.make_room(size, &key(name), &|_| true);
        cache.contexts.insert((key(name), asked("x")), context(&model));
    };
    put(&mut cache, "a");
    put(&mut cache, "b");
    assert_eq!((names(&cache), cache.bytes()), (vec!["b".into(), "a".into()], 2 * (size + 400)));
    cache.entry(&(key("a"), asked("x"))).unwrap();
    put(&mut cache, "c");
    assert_eq!(names(&cache), ["c", "a"], "b was used longest ago");
    assert!(cache.clips.keys().all(|clip| *clip != key("b")), "its clip goes with it");

    // More than the machine has now, though it fits the budget.
    cache.make_room(1, &key("c"), &|_| false);
    assert!(cache.contexts.keys().next().is_none());
    assert_eq!(cache.clips.keys().collect::<Vec<_>>(), [&key("c")], "the clip in use stays");

    // The entry in use stays even if it is too large.
    let mut small = PrefixCache::new(1);
    put(&mut small, "d");
    put(&mut small, "e");
    small.trim(&(key("e"), asked("x")));
    assert_eq!(names(&small), ["e"]);
    small.writing = Some((key("e"), asked("x")));
    small.abandon();
    assert!(names(&small).is_empty() && small.writing.is_none());
}

#[test]
fn idle_clips_and_small_contexts_are_limited_in_number() {
    let model = model();
    let mut cache = PrefixCache::with_memory(Some(1 << 40));
    for n in 0..20 {
        cache.clips.insert(key(&format!("idle {n}")), clip(4));
        cache.make_room(0, &key("other"), &|_| true);
    }
    assert_eq!(cache.clips.keys().count(), IDLE_CLIPS);
    for n in 0..20 {
        cache.make_room(0, &key("idle 19"), &|_| true);
        cache.contexts.insert((key("idle 19"), asked(&n.to_string())), context(&model));
    }
    assert_eq!(cache.contexts.keys().count(), MAX_CONTEXTS);
}
