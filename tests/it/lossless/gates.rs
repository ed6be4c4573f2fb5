//! Chains with a gate: steps without drafts where the target looks hard at the video.

use specreel_record::Verdict;
use specreel_speculate::{Acceptance, Drafter, Length, Method, Sampler, Shape, VisualContext};
use specreel_tensor::WeightType;

use super::{GREEDY, method, support::Bench};

#[test]
fn a_gate_leaves_steps_without_drafts_and_changes_no_token() {
    let warm = Sampler { temperature: 0.8, top_p: 0.95, seed: 3, ..Sampler::GREEDY };
    let (mut closed, mut open) = (0, 0);
    for (model, small) in [
        ("gqa_tied", "mha_tied_bf16"),
        ("qwen3_vl", "qwen3_vl_small"),
        ("smolvlm", "smolvlm_untied"),
        ("qwen3_5", "qwen3_5_untied"),
        ("minicpmv4_6_4x", "minicpmv4_6"),
    ] {
        let mut bench = Bench::new(model, small, WeightType::F32, 1);
        for (drafter, sampler) in
            [(Drafter::Model {}, GREEDY), (Drafter::SELF, GREEDY), (Drafter::Model {}, warm)]
        {
            let plain = bench.plain(sampler, 40);
            let ungated = method(drafter, VisualContext::Full {}, 3, Acceptance::Exact {});
            for gate in [0.0, 0.3, 1.0] {
                let shape = Shape::Chain { length: Length::Fixed(3), gate, confidence: 0.0 };
                let fast = bench.write(&Method { shape, ..ungated.clone() }, sampler, 40);
                fast.equals(&plain, format!("{model} {gate}"));
                for step in &fast.steps {
                    if step.gate.is_some() {
                        assert!(step.drafted.is_empty() && step.judged == 0, "{model} {gate}");
                        assert!(step.tokens.iter().all(|token| token.verdict == Verdict::Plain));
                    }
                }
                let gated = fast.steps.iter().filter(|step| step.gate.is_some()).count();
                match gate {
                    0.0 => assert_eq!(gated, 0),
                    // All but the first, before which the target has not looked at anything.
                    1.0 => assert_eq!(gated, fast.steps.len() - 1, "{model}"),
                    _ => (closed, open) = (closed + gated, open + fast.steps.len() - gated),
                }
            }
        }
    }
    assert!(closed > 0 && open > closed, "{closed} closed, {open} open");
}
