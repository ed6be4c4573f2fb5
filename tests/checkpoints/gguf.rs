//! Deliberately damaged GGUF files: always a message, never a panic, never more memory than the files justify.

use std::fs;

use proptest::prelude::*;
use specreel_model::family::{ClipFacts, VideoLlm};
use specreel_record::{Failure, FailureClass};
use specreel_tensor::WeightType;

use crate::{counting::peak, fixture};

/// Memory limit of loading these small files.
const MOST: usize = 96 << 20;
/// Where the list of tensors of the language model ends, roughly.
const HEADER: usize = 16_000;

/// Load a model and build a prompt; the error if it is refused.
fn load(text: &[u8], tower: &[u8]) -> Result<(), Failure> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    fs::write(&path, text).unwrap();
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
fn a_whole_pair_is_used() {
    let [text, tower] = files();
    load(&text, &tower).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn bytes_changed_anywhere_and_files_cut_anywhere(
        which in 0usize..2,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..8), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut files = files();
        let damaged = &mut files[which];
        for (at, byte, place) in changes {
            // Most changes hit the header, which is small.
            let end = if place == 0 { damaged.len() } else { damaged.len().min(HEADER) };
            damaged[at.index(end)] ^= byte;
        }
        if let Some(cut) = cut {
            damaged.truncate(cut.index(damaged.len()));
        }
        let [text, tower] = files;
        if let Err(failure) = load(&text, &tower) {
            prop_assert_eq!(failure.class, FailureClass::Input, "{:?}", failure);
            prop_assert!(!failure.error.is_empty() && failure.hint.is_some(), "{:?}", failure);
        }
    }
}
