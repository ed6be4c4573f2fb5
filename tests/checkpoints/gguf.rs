//! Deliberately damaged GGUF files: always a message, never a panic, never more memory than the files justify.

use std::fs;

use proptest::prelude::*;
use specreel_model::family::{ClipFacts, VideoLlm};
use specreel_record::{Failure, FailureClass};
use specreel_tensor::WeightType;

use crate::{
    counting::peak,
    fixture,
    gguf_parts::{part_name, split},
};

/// Memory limit of loading these small files.
const MOST: usize = 96 << 20;
/// Where the list of tensors of the language model ends, roughly.
const HEADER: usize = 16_000;

/// Load a model and build a prompt; the error if it is refused. A language model of several files is a split one.
fn load(text: &[Vec<u8>], tower: &[u8]) -> Result<(), Failure> {
    let dir = tempfile::tempdir().unwrap();
    let name = |number: usize| match text.len() {
        1 => dir.path().join("m.gguf"),
        count => dir.path().join(part_name("m", number, count)),
    };
    (1..).zip(text).for_each(|(number, bytes)| fs::write(name(number), bytes).unwrap());
    let path = name(text.len());
    fs::write(dir.path().join("mmproj.gguf"), tower).unwrap();
    let (loaded, most) = peak(|| {
        let model = VideoLlm::load(&path, WeightType::Auto, &mut |_, _| {})?;
        let grid = specreel_model::processor::layout::Grid { t: 1, h: 4, w: 4 };
        let grid = specreel_model::processor::layout::VisualGrid::from_patches(grid, 2).unwrap();
        model.prompt("What?", &ClipFacts::steady(grid, 2, 2.0)).map(|_| ())
    });
    assert!(most < MOST, "{most} bytes");
    loaded.map_err(Failure::from)
}

fn files() -> [Vec<u8>; 2] {
    ["model-q8_0.gguf", "mmproj-f32.gguf"].map(|name| fs::read(fixture("gguf/gqa_tied").join(name)).unwrap())
}

#[test]
fn whole_files_and_parts_are_used() {
    let [text, tower] = files();
    load(&split(&text, 3), &tower).unwrap();
    load(&[text], &tower).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn bytes_changed_anywhere_and_files_cut_anywhere(
        which in 0usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..8), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let [text, mut tower] = files();
        // One file, or one of three parts, is damaged.
        let mut text = if which < 2 { vec![text] } else { split(&text, 3) };
        let damaged = match which {
            0 => &mut tower,
            1 => &mut text[0],
            _ => &mut text[which - 2],
        };
        for (at, byte, place) in changes {
            // Most changes hit the header, which is small.
            let end = if place == 0 { damaged.len() } else { damaged.len().min(HEADER) };
            damaged[at.index(end)] ^= byte;
        }
        if let Some(cut) = cut {
            damaged.truncate(cut.index(damaged.len()));
        }
        if let Err(failure) = load(&text, &tower) {
            prop_assert_eq!(failure.class, FailureClass::Input, "{:?}", failure);
            prop_assert!(!failure.error.is_empty() && failure.hint.is_some(), "{:?}", failure);
        }
    }
}
