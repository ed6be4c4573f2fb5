//! DFlash heads in the published layout against PyTorch.

use std::{collections::HashMap, ops::ControlFlow};

use candle_core::Tensor;
use specreel_model::{
    decoder::{Positions, Sequence, States, argmax},
    draft_head::{DraftHead, DraftHeadConfig, Recipe},
    family::VideoLlm,
};
use specreel_speculate::draft::{BlockDrafter, DraftRequest, Form, Proposer};
use specreel_tensor::WeightType;

use super::{copy, devices, eagle3::far, fixture, load_on, numbers, states, tensors, values};

/// Rows of the context before the first block.
const FIRST: usize = 12;

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

/// A copy of a head whose description does not say if later rows of a block are seen: layers with a window are causal.
fn unsaid(name: &str) -> tempfile::TempDir {
    let causal = copy(name);
    let config = std::fs::read_to_string(causal.path().join("config.json")).unwrap();
    let unsaid = config.replace("\"is_causal\": false,", "");
    assert_ne!(unsaid, config);
    std::fs::write(causal.path().join("config.json"), unsaid).unwrap();
    causal
}

fn roots(reference: &HashMap<String, Tensor>) -> Vec<u32> {
    numbers(&reference["roots"]).into_iter().map(|root| root as u32).collect()
}

#[test]
fn blocks_are_drafted_as_torch_drafts_them() {
    for version in ["dflash", "dflash2"] {
        let reference = tensors(&format!("{version}/reference.safetensors"));
        let (roots, causal) = (roots(&reference), unsaid(version));
        for device in devices(WeightType::F32) {
            let target = load_on("gqa_untied_f16", &device);
            for (dir, name) in [(fixture(version), "block"), (causal.path().to_owned(), "causal")] {
                let head = DraftHead::load(&dir, target.decoder()).unwrap();
                assert_eq!((head.taps(), head.config().recipe), (&[0, 2][..], Recipe::Dflash));
                let got = two_blocks(&head, &states(&reference["tapped"]), &roots, 2);
                for (got, which) in got.iter().zip(["first", "second"]) {
                    let worst = far(got, &values(&reference[&format!("{name}.{which}")]));
                    assert!(worst < 2e-4, "{} {version} {name} {which}: {worst}", device.name());
                }
            }
        }
    }
}

/// The drafts of a DFlash 2 head, and the probability of each among the candidates of its place.
#[test]
fn the_selector_walks_the_chain_that_torch_walks() {
    let reference = tensors("dflash2/reference.safetensors");
    let root = roots(&reference)[1];
    for device in devices(WeightType::F32) {
        let target = load_on("gqa_untied_f16", &device);
        let head = DraftHead::load(&fixture("dflash2"), target.decoder()).unwrap();
        let rows = head.reduce(&states(&reference["tapped"])).unwrap();
        let mut sequence = Sequence::new(head.decoder().clone(), 24);
        let going = &mut |_, _| ControlFlow::Continue(());
        let count = rows.rows();
        assert!(sequence.inject_prompt(&rows, &Positions::text(0, count), count as u32, going).unwrap());
        let mut draft = |form| {
            let request = DraftRequest {
                unsure: specreel_speculate::draft::Unsure::Never,
                form,
                depth: 5,
                room: 5,
                ends: &[],
                special: &[],
                vocab: target.decoder().config().vocab,
                sampler: None,
                distributions: true,
                others: false,
                position: 0,
                grammar: None,
                history: None,
                forced: &[],
            };
            BlockDrafter::new(&mut sequence, root, &head).unwrap().draft(&request, None).unwrap()
        };
        let proposal = draft(Form::Chain);
        let want: Vec<u32> =
            numbers(&reference["block.second.chain"]).into_iter().map(|id| id as u32).collect();
        let scores = values(&reference["block.second.scores"]);
        let plain = two_blocks(&head, &states(&reference["tapped"]), &[root, root], 3);
        let vocab = plain[1].len() / 6;
        let alone: Vec<u32> = plain[1].chunks(vocab).skip(1).map(argmax).collect();
        let nodes = proposal.tree.nodes();
        assert_eq!(nodes.iter().map(|node| node.id).collect::<Vec<_>>(), want, "{}", device.name());
        assert_ne!(alone, want, "the selector changes the chain");
        for ((node, scores), q) in nodes.iter().zip(scores.chunks(6)).zip(&proposal.distributions) {
            let largest = scores.iter().copied().fold(f32::MIN, f32::max);
            let probability = 1.0 / scores.iter().map(|score| (score - largest).exp()).sum::<f32>();
            assert!((node.probability.unwrap() - probability).abs() < 2e-4, "{}", device.name());
            assert!((q[node.id as usize] - probability).abs() < 2e-4);
            assert_eq!(q.iter().filter(|q| **q > 0.0).count(), 6, "the candidates alone");
        }
        // A tree's branches each have their own choices after them.
        let tree = draft(Form::TwoBranch).tree;
        let first: Vec<u32> = tree.path(tree.len() - 1).iter().map(|&node| tree.nodes()[node].id).collect();
        assert_eq!((tree.len(), first.len()), (10, 5));
        assert!(want.starts_with(&[tree.nodes()[0].id]));
    }
}

#[test]
fn context_rows_have_the_same_bits_however_they_come() {
    let reference = tensors("dflash/reference.safetensors");
    for (dtype, version) in
        [WeightType::F32, WeightType::Q8_0].into_iter().flat_map(|t| [(t, "dflash"), (t, "dflash2")])
    {
        let target = VideoLlm::load(&fixture("gqa_untied_f16"), dtype, &mut |_, _| {}).unwrap();
        let head = DraftHead::load(&fixture(version), target.decoder()).unwrap();
        let run = |step| two_blocks(&head, &states(&reference["tapped"]), &[17, 40], step);
        let whole = run(3);
        assert!([1, 2].into_iter().all(|step| run(step) == whole), "{dtype:?} {version}");
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
    let dir = copy("dflash2");
    let config = std::fs::read_to_string(dir.path().join("config.json")).unwrap();
    for (from, to, words) in [
        ("\"conv_group_size\": 8", "\"conv_group_size\": 7", "`conv_group_size` is 7, which does not divide"),
        ("\"conv_kernel_size\": 3", "\"conv_kernel_size\": 2", "expected shape"),
        ("\"selector_rank\": 12", "\"selector_rank\": 13", "expected shape"),
        ("\"selector_top_k\": 6", "\"selector_top_k\": 0", "`selector_top_k` is 0"),
    ] {
        assert!(config.contains(from), "{from}");
        std::fs::write(dir.path().join("config.json"), config.replace(from, to)).unwrap();
        let error = DraftHead::load(dir.path(), target.decoder()).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
}
