//! What a device extracts of rows of logits suffices to judge them: the tokens are the same as from whole rows.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    method::{EntropyOver, StateAt},
    tree::Tree,
};

const ENDS: [u32; 1] = [3];

/// A rule; the numbers choose where it passes little and much.
fn rule() -> impl Strategy<Value = Acceptance> {
    let entropy = prop_oneof![Just(EntropyOver::Top3), Just(EntropyOver::Full)];
    let simple = prop_oneof![
        Just(Acceptance::Exact {}),
        Just(Acceptance::Sampled {}),
        (0.0f32..1.2, entropy.clone())
            .prop_map(|(threshold, entropy)| Acceptance::Entropy { threshold, entropy }),
        (1usize..4, 0.0f32..1.2, entropy).prop_map(|(length, threshold, entropy)| Acceptance::Window {
            length,
            threshold,
            entropy
        }),
        (0.0f64..1.0, any::<bool>()).prop_map(|(lambda, shift_tolerant)| Acceptance::Visual {
            lambda,
            top_n: 4,
            shift_tolerant,
            at: StateAt::Draft,
            always_strict: vec![]
        }),
        (0.0f64..1.0).prop_map(|lambda| Acceptance::Glance { lambda }),
        (0.0f32..1.0).prop_map(|rho| Acceptance::Lenient { rho }),
        (0.0f32..0.3, 0.0f32..1.0).prop_map(|(epsilon, delta)| Acceptance::Typical { epsilon, delta }),
        (0.0f32..4.0).prop_map(|threshold| Acceptance::Divergence { threshold }),
        (0.0f32..6.0, 0.0f32..1.0).prop_map(|(limit, ratio)| Acceptance::Cost { limit, ratio }),
        (0.0f64..1.0, any::<u64>()).prop_map(|(probability, seed)| Acceptance::Random { probability, seed }),
    ];
    let several = prop::collection::vec(simple.clone(), 1..4);
    prop_oneof![4 => simple, 1 => several.prop_map(|rules| Acceptance::AllOf { rules })]
}

/// One step: logits with padding, drafts after them, and the rules' other signals.
#[derive(Debug)]
struct Case {
    vocab: usize,
    rows: Vec<Vec<f32>>,
    proposal: Proposal,
    relevance: Vec<f32>,
    peaks: Vec<f32>,
    logprobs: usize,
    rule: Acceptance,
    custom: bool,
    position: usize,
}

prop_compose! {
    /// From a drafter that is often right: most nodes are the most likely ids of their row.
    fn case()(
        (vocab, padding) in (4usize..40, 0usize..4),
        parents in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..12),
    )(
        // Few different values, so that ties are common; the padding is likelier than all else.
        rows in prop::collection::vec(prop::collection::vec((0u8..9).prop_map(|v| f32::from(v) * 0.8 - 3.0), vocab), parents.len() + 1),
        drafts in prop::collection::vec((0..vocab as u32, 0usize..3), parents.len()),
        distributions in prop::collection::vec(prop::collection::vec(1u8..9, vocab), parents.len()),
        (relevance, peaks) in (prop::collection::vec(-1.0f32..1.0, parents.len()), prop::collection::vec(0.0f32..1.0, parents.len() + 1)),
        (drawn, logprobs, custom, position) in (any::<bool>(), 0usize..5, prop::bool::weighted(0.2), 0usize..100),
        (rule, parents, vocab, padding) in (rule(), Just(parents), Just(vocab), Just(padding)),
    ) -> Case {
        let mut tree = Tree::default();
        for (node, ((at, chained), (any, likely))) in parents.iter().zip(&drafts).enumerate() {
            let parent = if *chained { node.checked_sub(1) } else { at.index(node + 1).checked_sub(1) };
            let row = &rows[parent.map_or(0, |parent| parent + 1)];
            let id = if *likely > 0 { RowFacts::of(row).argmax } else { *any };
            tree.push(parent, id, Some(0.5));
        }
        let distributions = distributions.into_iter().map(|weights| {
            let sum: f32 = weights.iter().map(|&w| f32::from(w)).sum();
            Arc::new(weights.into_iter().map(|w| f32::from(w) / sum).collect())
        });
        // Greedy drafts of `sampled` have no distributions.
        let drawn = drawn && rule != Acceptance::Sampled {};
        let distributions = if drawn { distributions.collect() } else { Vec::new() };
        let rows = rows.into_iter().map(|row| [row, vec![50.0; padding]].concat()).collect();
        let proposal = Proposal { tree, distributions, ..Proposal::default() };
        Case { vocab, rows, proposal, relevance, peaks, logprobs, rule, custom, position }
    }
}

fn judged<'a>(
    case: &'a Case,
    config: &'a GenerationConfig<'a>,
    rule: Option<&'a CustomRule<'a>>,
    rows: Vec<LogitRow<'a>>,
) -> (Vec<Token>, Vec<usize>) {
    let needs = RuleNeeds::of(&case.rule);
    let mut verified = VerifiedRows::new(config, needs, &case.proposal, rows, case.position).unwrap();
    verified.rule = rule;
    verified.relevance = needs.relevance.map(|_| case.relevance.clone());
    verified.attention_peaks = needs.attention_peaks.then(|| case.peaks.clone());
    verified.judge().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn judging_what_was_requested_is_judging_whole_rows(case in case()) {
        let method = Method { acceptance: case.rule.clone(), ..Method::preset("naive").unwrap() };
        // A custom rule sees probabilities, even if the method's own rule needs none.
        let lenient = |rows: &[Row]| -> Vec<Option<Verdict>> {
            let near = |row: &Row| row.log_p_draft >= row.log_p_max - 1.0 && row.entropy_top3 > 0.1;
            rows.iter().map(|row| near(row).then_some(Verdict::Lenient)).collect()
        };
        let config = GenerationConfig {
            ends: &ENDS,
            protected: &|id| id % 5 == 1,
            logprobs: case.logprobs,
            ..GenerationConfig::new(&method, Sampler { seed: 7, ..Sampler::GREEDY }, 1000, case.vocab)
        };
        let lenient: &CustomRule<'_> = &lenient;
        let rule = case.custom.then_some(lenient);
        let needs = logit_needs(&config, &RuleNeeds::of(&case.rule), &case.proposal.tree);
        prop_assert_eq!((needs.vocab, needs.ids.len()), (case.vocab, case.rows.len()));
        let whole = || case.rows.iter().map(|row| LogitRow::whole(&row[..case.vocab])).collect::<Vec<_>>();
        let want = judged(&case, &config, rule, whole());
        let some: Vec<LogitRow<'_>> =
            whole().into_iter().enumerate().map(|(index, row)| row.extract(&needs, index)).collect();
        prop_assert_eq!(some.iter().all(|row| matches!(row, LogitRow::Summary(_))), !needs.whole);
        let got = judged(&case, &config, rule, some);
        prop_assert_eq!(&got, &want);
        // A device may give more.
        let more = LogitNeeds { whole: true, ..needs };
        let more = whole().into_iter().enumerate().map(|(index, row)| row.extract(&more, index)).collect();
        prop_assert_eq!(&judged(&case, &config, rule, more), &want);
    }
}
