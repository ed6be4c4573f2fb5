//! A DFlash head in the published layout against PyTorch.

use std::ops::ControlFlow;

use specreel_model::{
    decoder::{Positions, Sequence, States},
    draft_head::{DraftHead, DraftHeadConfig, Recipe},
    family::VideoLlm,
};
use specreel_tensor::WeightType;

use super::{copy, devices, fixture, load_on, numbers, states, tensors, values};

/// Rows of the context before the first block.
const FIRST: usize = 12;

fn far(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The logits of a block after the sequence's context.
fn block(head: &DraftHead, sequence: &mut Sequence, root: u32) -> Vec<f32> {
    let (block, before) = (head.block().unwrap(), sequence.len());
    let pass = sequence.feed_block(&block.ids(root), &block.runs(before)).unwrap();
    assert_eq!(sequence.len(), before, "a block leaves nothing");
    sequence.logits(&pass.states).unwrap().to_vec().unwrap()
}

/// The logits of two blocks: after the first context rows, and after all, of which the last are injected `step` at a time.
fn two_blocks(head: &DraftHead, tapped: &States, roots: &[u32], step: usize) -> [Vec<f32>; 2] {
    let rows = head.reduce(tapped).unwrap();
    let mut sequence = Sequence::new(head.decoder().clone(), 24);
    let at = Positions::text(0, FIRST);
    let going = &mut |_, _| ControlFlow::Continue(());
    let first = rows.narrow(0, FIRST).unwrap();
    assert!(sequence.inject_prompt(&first, &at, FIRST as u32, going).unwrap());
    let one = block(head, &mut sequence, roots[0]);
    for from in (FIRST..rows.rows()).step_by(step) {
        sequence.inject(&rows.narrow(from, step.min(rows.rows() - from)).unwrap()).unwrap();
    }
    [one, block(head, &mut sequence, roots[1])]
}

#[test]
fn blocks_are_drafted_as_torch_drafts_them() {
    let reference = tensors("dflash/reference.safetensors");
    let roots: Vec<u32> = numbers(&reference["roots"]).into_iter().map(|root| root as u32).collect();
    let causal = copy("dflash");
    let config = std::fs::read_to_string(causal.path().join("config.json")).unwrap();
    // Where a file does not say it, layers with a window are causal.
    let unsaid = config.replace("\"is_causal\": false,", "");
    assert_ne!(unsaid, config);
    std::fs::write(causal.path().join("config.json"), unsaid).unwrap();
    for device in devices(WeightType::F32) {
        let target = load_on("gqa_untied_f16", &device);
        for (dir, name) in [(fixture("dflash"), "block"), (causal.path().to_owned(), "causal")] {
            let head = DraftHead::load(&dir, target.decoder()).unwrap();
            assert_eq!((head.taps(), head.config().recipe), (&[0, 2][..], Recipe::Dflash));
            let got = two_blocks(&head, &states(&reference["tapped"]), &roots, 2);
            for (got, which) in got.iter().zip(["first", "second"]) {
                let worst = far(got, &values(&reference[&format!("{name}.{which}")]));
                assert!(worst < 2e-4, "{} {name} {which}: {worst}", device.name());
            }
        }
    }
}

#[test]
fn context_rows_have_the_same_bits_however_they_come() {
    let reference = tensors("dflash/reference.safetensors");
    for dtype in [WeightType::F32, WeightType::Q8_0] {
        let target = VideoLlm::load(&fixture("gqa_untied_f16"), dtype, &mut |_, _| {}).unwrap();
        let head = DraftHead::load(&fixture("dflash"), target.decoder()).unwrap();
        let run = |step| two_blocks(&head, &states(&reference["tapped"]), &[17, 40], step);
        let whole = run(3);
        assert!([1, 2].into_iter().all(|step| run(step) == whole), "{dtype:?}");
        assert_ne!(whole[0], whole[1]);
    }
}

#[test]
fn another_target_or_block_is_refused() {
    let load = |name: &str| VideoLlm::load(&fixture(name), WeightType::F32, &mut |_, _| {}).unwrap();
    let error = DraftHead::load(&fixture("dflash"), load("gqa_tied").decoder()).err().unwrap().to_string();
    assert!(error.contains("trained for another target: it expects a `hidden_size` of 96"), "{error}");
    let dir = copy("dflash");
    let target = load("gqa_untied_f16");
    let config = std::fs::read_to_string(dir.path().join("config.json")).unwrap();
    let refused = |from: &str, to: &str| {
        assert!(config.contains(from), "{from}");
        std::fs::write(dir.path().join("config.json"), config.replace(from, to)).unwrap();
        assert!(DraftHeadConfig::is_in(dir.path()));
        DraftHead::load(dir.path(), target.decoder()).err().unwrap().to_string()
    };
    for (from, to, words) in [
        ("\"block_size\": 6", "\"block_size\": 1", "`block_size` is 1, expected 2 to 64"),
        ("\"block_size\": 6", "\"block_size\": 200", "`block_size` is 200"),
        ("\"sliding_window\": 9", "\"sliding_window\": 0", "less than a block"),
        (
            "\"num_target_layers\": 3",
            "\"num_target_layers\": 4",
            "a `num_hidden_layers` of 4, this target has 3",
        ),
        (
            "\"mask_token_id\": 5",
            "\"mask_token_id\": 352",
            "`mask_token_id` is 352, the target's embeddings have 352",
        ),
        ("\"intermediate_size\": 80", "\"intermediate_size\": 81", "expected shape"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(words), "{error}");
    }
    let layers = config.replace("  2\n", "  3\n");
    assert_ne!(layers, config);
    std::fs::write(dir.path().join("config.json"), layers).unwrap();
    let error = DraftHead::load(dir.path(), target.decoder()).err().unwrap().to_string();
    assert!(error.contains("it reads states after layer 3 (0 = the first), this target has 3"), "{error}");
}
