//! The target in fewer bits, drafting for itself.

use std::{ops::ControlFlow, sync::Arc};

use specreel_checkpoint::ModelFiles;
use specreel_model::{
    decoder::{Taps, with_slice},
    family::{ClipFacts, VideoLlm},
    processor::FrameSize,
};
use specreel_speculate::{
    Acceptance, Drafter, Method, Sampler, Schedule, SelfDraftType, WindowSize, context::PrefillInput,
};
use specreel_tensor::{KvType, WeightType};

use super::{GREEDY, are_lossless, context, method, support::Bench};
use crate::fixture;

const SELF_DRAFT: Drafter = Drafter::Target { dtype: SelfDraftType::Of(WeightType::Q4_0) };

#[test]
fn self_drafts_change_no_token() {
    let warm = Sampler { temperature: 0.8, top_p: 0.95, seed: 3, ..Sampler::GREEDY };
    let (mut accepted, mut rejected) = (0, 0);
    for (name, small, dtype) in [
        ("gqa_tied", "mha_tied_bf16", WeightType::F32),
        ("qwen2_vl", "qwen2_vl_nested", WeightType::Q8_0),
        ("llava_ov", "llava_ov_newer", WeightType::F32),
        ("qwen3_vl", "qwen3_vl_small", WeightType::F16),
        ("smolvlm", "smolvlm_untied", WeightType::F32),
        ("qwen3_5", "qwen3_5_untied", WeightType::F32),
        ("minicpmv4_6", "minicpmv4_6_4x", WeightType::Q8_0),
        ("gemma4", "gemma4_plain", WeightType::F32),
        ("qwen3_vl_moe", "qwen3_vl_moe_split", WeightType::F32),
    ] {
        let mut bench = Bench::with_kv_type(name, small, dtype, KvType::F16, 1);
        for words in ["full", "uniform keep=0.5"] {
            let chain = method(SELF_DRAFT, context(words), 4, Acceptance::Exact {});
            let parallel =
                Method { schedule: Schedule::Parallel { window: WindowSize::Fixed(3) }, ..chain.clone() };
            for sampler in [GREEDY, warm] {
                let drafts = are_lossless(&mut bench, sampler, 32, [chain.clone(), parallel.clone()]);
                (accepted, rejected) = (accepted + drafts[0], rejected + drafts[1]);
            }
        }
    }
    assert!(accepted > 50 && rejected > 0, "both paths are walked: {accepted} and {rejected}");
}

/// A self-draft is the same decoder as a checkpoint that was loaded in its weight type.
#[test]
fn a_self_draft_is_the_checkpoint_in_its_weight_type() {
    for name in ["gqa_tied", "qwen3_vl", "llava_ov", "qwen3_5", "minicpmv4_6", "gemma4"] {
        let load = |dtype| VideoLlm::load(&fixture(name), dtype, &mut |_, _| {}).unwrap();
        let (target, loaded) = (load(WeightType::F32), load(WeightType::Q4_0));
        let checkpoint = VideoLlm::open(&ModelFiles::open(&fixture(name), None).unwrap()).unwrap();
        let draft = Arc::new(target.self_draft(&checkpoint, WeightType::Q4_0).unwrap());
        assert!(draft.bytes() < target.decoder().bytes());
        let config = target.processor().config();
        let token = config.patch * config.merge;
        let size = config.fixed.unwrap_or(FrameSize::new(2 * token, 3 * token));
        let grid = config.grid(size, 2 * config.temporal);
        let row = config.row();
        let data = (0..grid.t * grid.h * grid.w * row).map(|i| (i as f32 * 0.37).sin()).collect();
        let patches = specreel_model::processor::Patches { data, grid, row };
        let visual = target.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let grid = target.processor().visual_grid(grid).unwrap();
        let clip = ClipFacts::steady(grid, grid.t * config.temporal, 2.0);
        let prompt = target.prompt("What moves?", &clip).unwrap();
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
        let logits = |model: &VideoLlm, decoder: &Arc<_>| {
            let input =
                PrefillInput { decoder, ..PrefillInput::new(model, &prompt, Some(&visual), &rows, 8) };
            let read = input.prefill(None, &mut |_, _| {}, &mut |_, _| ControlFlow::Continue(()));
            let mut sequence = read.unwrap().unwrap();
            let pass = sequence.feed(&prompt.ids[rows.len()..], &Taps::default()).unwrap();
            with_slice(&pass.states, |states| states.iter().map(|v| v.to_bits()).collect::<Vec<_>>()).unwrap()
        };
        let [one, other] = [logits(&target, &draft), logits(&loaded, loaded.decoder())];
        assert_eq!(one, other, "{name}");
        assert_ne!(one, logits(&target, target.decoder()), "{name}: the self-draft rounds");
    }
}
