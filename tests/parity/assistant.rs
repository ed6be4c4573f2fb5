//! Gemma 4's assistants against transformers. See `make_gemma4_assistant.py`.

use std::ops::ControlFlow;

use specreel_model::{
    decoder::{Positions, Sequence, States, Taps, argmax},
    draft_head::{DraftHead, DraftHeadConfig, Recipe},
    family::VideoLlm,
};
use specreel_tensor::WeightType;

use super::{
    copy, fixture,
    newer::{Case, from_levels, grid_of, load},
    tensors, values,
};

const PAIRS: [(&str, &str); 2] = [("gemma4", "gemma4_assistant"), ("gemma4_plain", "gemma4_plain_assistant")];

/// Greedy ids that the target has read after the prompt; the next one is the root.
const READ: usize = 9;

/// The target after the clip and its first greedy ids, its final state before the root, and the root.
fn read(model: &VideoLlm, name: &str) -> (Sequence, States, u32) {
    let case = Case(tensors(&format!("{name}/frames.safetensors")), "noise");
    let patches = from_levels(model.processor().config(), grid_of(&case), case.part("levels"));
    let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let grid = model.processor().visual_grid(patches.grid).unwrap();
    let prompt = model.prompt(super::frames::PROMPT, &case.facts(grid)).unwrap();
    let rows: Vec<usize> = (0..prompt.ids.len()).collect();
    let embeddings = model.embed(&prompt, Some(&visual), &rows).unwrap();
    let mut target = Sequence::new(model.decoder().clone(), rows.len() + 16);
    let positions = Positions::text(0, rows.len());
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let next = rows.len() as u32;
    assert!(target.prefill(&embeddings, &positions, next, &mut |_, _| {}, go_on).unwrap());
    let greedy: Vec<u32> = case.numbers("greedy_ids").into_iter().map(|id| id as u32).collect();
    let pass = target.feed(&greedy[..READ], &Taps::default()).unwrap();
    (target, pass.states.narrow(READ - 1, 1).unwrap(), greedy[READ])
}

fn far(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn assistants_draft_what_transformers_drafts() {
    for (target, assistant) in PAIRS {
        let model = load(&fixture(target));
        let reference = tensors(&format!("{assistant}/reference.safetensors"));
        let head = DraftHead::load(&fixture(assistant), model.decoder()).unwrap();
        assert_eq!(
            (head.config().recipe, head.assists(), head.reads_all_rows()),
            (Recipe::Assistant, true, false)
        );
        let (mut sequence, before, root) = read(&model, target);
        let slots = sequence.len();
        let off = far(&before.to_vec().unwrap(), &values(&reference["before"]));
        assert!(off < 3e-4, "{target}: the state before the root is off by {off}");
        let mut own = Sequence::new(head.decoder().clone(), 0);
        let mut after = |ids: &[u32], before: &States| {
            let rows = head.fuse_for(&mut own, ids, before).unwrap();
            let pass = sequence.assist(head.decoder(), &rows, own.workspace()).unwrap();
            assert_eq!(sequence.len(), slots, "nothing is left in the target");
            let logits = head.logits(&mut own, &pass.states).unwrap().to_vec().unwrap();
            (logits, head.own_states(&pass).unwrap())
        };
        let (chain, vocab) = (values(&reference["chain"]), model.decoder().config().vocab);
        let bound = 1e-4 * chain.iter().fold(0f32, |peak, value| peak.max(value.abs()));
        let (mut id, mut state, mut first) = (root, before, None);
        for (step, want) in chain.chunks(vocab).enumerate() {
            let (logits, own) = after(&[id], &state);
            let off = far(&logits, want);
            assert!(off < bound, "{assistant}: draft {step} is off by {off}");
            (id, state) = (argmax(&logits), own);
            first.get_or_insert_with(|| (logits, state.clone()));
        }
        // Siblings in one pass have the bits of rows alone, and stand beside each other without seeing it.
        let (mut logits, state) = first.unwrap();
        let best = argmax(&logits);
        logits[best as usize] = f32::NEG_INFINITY;
        let second = argmax(&logits);
        let (both, _) = after(&[best, second], &States::cat(&[state.clone(), state.clone()]).unwrap());
        let (alone, _) = after(&[second], &state);
        assert_eq!(both[vocab..], alone[..], "{assistant}");
        let off = far(&alone, &values(&reference["branch"]));
        assert!(off < bound, "{assistant}: the branch is off by {off}");
    }
}

#[test]
fn other_targets_and_forms_are_refused() {
    let load = |name: &str| VideoLlm::load(&fixture(name), WeightType::F32, &mut |_, _| {}).unwrap();
    let refused = |dir: &std::path::Path, target: &VideoLlm| {
        DraftHead::load(dir, target.decoder()).err().unwrap().to_string()
    };
    let error = refused(&fixture("gemma4_assistant"), &load("gemma4_plain"));
    assert!(error.contains("trained for another target: it expects a `hidden_size` of 64"), "{error}");
    let target = load("gemma4");
    let dir = copy("gemma4_assistant");
    assert!(DraftHeadConfig::is_in(dir.path()));
    let path = dir.path().join("config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    for (from, to, words) in [
        ("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", "it reads keys and values of the form"),
        ("\"global_head_dim\": 32", "\"global_head_dim\": 64", "it reads keys and values of the form"),
        ("\"num_kv_shared_layers\": 4", "\"num_kv_shared_layers\": 3", "an assistant has no keys and values"),
        ("\"num_centroids\": 29", "\"num_centroids\": 30", "a vocabulary of 348 ids has no such clusters"),
        (
            "\"hidden_size_per_layer_input\": 0",
            "\"hidden_size_per_layer_input\": 8",
            "there are 0 embeddings",
        ),
        ("\"backbone_hidden_size\": 64", "\"backbone_hidden_size\": 32", "a `hidden_size` of 32"),
        ("\"intermediate_size\": 80", "\"intermediate_size\": 81", "expected shape"),
        ("\"num_centroids\": 29", "\"num_centroids\": 58", "expected shape"),
        ("Gemma4AssistantFor", "Gemma4UnifiedAssistantFor", "a draft head of Gemma 4 12B"),
    ] {
        assert!(config.contains(from), "{from}");
        std::fs::write(&path, config.replace(from, to)).unwrap();
        let error = refused(dir.path(), &target);
        assert!(error.contains(words), "{error}");
    }
}
