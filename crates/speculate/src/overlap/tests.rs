use super::*;
use crate::method::Acceptance;
use specreel_model::family::VideoLlm;
use specreel_tensor::WeightType;

/// What the target extracts of its rows gives the tokens of whole rows, for drafts that are right and wrong.
#[test]
fn the_target_reports_the_same_from_what_it_extracts_as_from_whole_rows() {
    let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/parity/fixtures/gqa_tied");
    let model = VideoLlm::load(&dir, WeightType::F32, &mut |_, _| {}).unwrap();
    let method = Method::preset("parallelvlm").unwrap();
    for (logprobs, vocab, drafted) in (0..4).zip([300, 20, 100, 7]).flat_map(|(logprobs, vocab)| {
        [vec![], vec![5], vec![5, 6, 2, 0, 1]].map(|drafted| (logprobs, vocab, drafted))
    }) {
        let config =
            GenerationConfig { logprobs, ..GenerationConfig::new(&method, Sampler::GREEDY, 8, vocab) };
        let mut sequence = Sequence::new(model.decoder().clone(), 16);
        sequence.feed(&[9, 31, 44], &Taps::default()).unwrap();
        let rows: Vec<u32> = [17].into_iter().chain(drafted.iter().copied()).collect();
        let pass = sequence.feed(&rows, &Taps::default()).unwrap();
        let values = sequence.logits(&pass.states).unwrap().to_vec2().unwrap();
        sequence.truncate(3);
        let mut target = TargetSide::new(config, &mut sequence);
        target.probabilities = vec![0.5; drafted.len()];
        target.verify(&TargetTask { truncate_to: 0, rows }).unwrap();
        assert!(target.rows.iter().all(|row| matches!(row, LogitRow::Summary(_))));
        let wanted = target.wanted(0);
        let report = |target: &TargetSide<'_>| -> Vec<Token> {
            let own = |row: usize| target.token(row, wanted[row], Verdict::Corrected, wanted[row]);
            let drafts = drafted.iter().enumerate();
            let drafts = drafts.map(|(row, &id)| target.token(row, id, Verdict::Exact, wanted[row]));
            (0..wanted.len()).map(own).chain(drafts).collect::<Result<_>>().unwrap()
        };
        let extracted = report(&target);
        target.rows = values
            .into_iter()
            .map(|row| LogitRow::Whole(row[..vocab].to_vec().into(), Default::default()))
            .collect();
        assert_eq!(target.wanted(0), wanted);
        assert_eq!(extracted, report(&target));
        assert!(extracted.iter().all(|token| token.logprobs.len() == logprobs));
    }
}

/// Parallelvlm with another acceptance and schedule.
fn fits(prefetched: &PrefetchedDraft, acceptance: Acceptance, schedule: Schedule, temperature: f32) -> bool {
    let mut method = Method::preset("parallelvlm").unwrap();
    (method.acceptance, method.schedule) = (acceptance, schedule);
    let sampler = Sampler { temperature, seed: 3, ..Sampler::GREEDY };
    prefetched.fits(&GenerationConfig::new(&method, sampler, 8, 8))
}

#[test]
fn a_prefetched_draft_fits_where_the_same_would_be_drafted() {
    let parallel = || Schedule::Parallel { window: WindowSize::By(WindowRule::Auto) };
    let of = |temperature, drawn| PrefetchedDraft {
        sampler: Sampler { temperature, seed: 3, ..Sampler::GREEDY },
        drawn,
        constraint: None,
        history: None,
        forced: 0,
        base: 0,
        window: Vec::new(),
        ms: 0.0,
    };
    let (best, drawn) = (of(0.8, false), of(0.8, true));
    assert!(fits(&best, Acceptance::Exact {}, parallel(), 0.8));
    assert!(fits(&drawn, Acceptance::Sampled {}, parallel(), 0.8));
    // Greedy drafts have no distribution to be judged by, and drawn ones are not the best tokens.
    assert!(!fits(&best, Acceptance::Sampled {}, parallel(), 0.8));
    assert!(!fits(&drawn, Acceptance::Exact {}, parallel(), 0.8));
    assert!(!fits(&drawn, Acceptance::Sampled {}, parallel(), 0.9));
    assert!(!fits(&best, Acceptance::Exact {}, Schedule::Sequential {}, 0.8));
    // When greedy nothing is drawn, and both acceptances are the same.
    assert!(fits(&of(0.0, false), Acceptance::Sampled {}, parallel(), 0.0));
}
