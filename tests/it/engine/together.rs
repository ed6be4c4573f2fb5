//! Engines that share their models: what they write together is what each would write alone.

use super::*;

const METHODS: [&str; 12] = [
    "autoregressive",
    "naive",
    "auto",
    "naive-tree",
    "lvspec",
    "lookup",
    "std",
    "parallelvlm",
    "sparrow-chain",
    "lenient",
    "specvlm",
    "naive-auto",
];

impl Rig {
    /// A rig for each of some engines that share the models, which the first one loads.
    fn together(count: usize, target: &str, drafter: &str) -> Vec<Self> {
        let engines = Engine::start_together(count, false).unwrap();
        engines.into_iter().map(|engine| Self::on(engine, target, drafter)).collect()
    }

    /// The ids and ends of runs with some of the methods, greedy and drawn.
    fn texts(&mut self, offset: usize) -> Vec<(String, StopReason, Vec<u32>)> {
        let methods: Vec<&str> = METHODS.into_iter().cycle().skip(offset).take(METHODS.len()).collect();
        let mut texts = Vec::new();
        for (number, method) in methods.into_iter().enumerate() {
            let prompt = ["What is seen?", "Describe every single thing in this video."][number % 2];
            let mut request = self.request(method, prompt);
            request.max_new_tokens = 12 + 5 * (number % 4);
            if number % 3 == 2 {
                request.text.temperature = Some(0.8);
                request.text.seed = Some(number as u64);
            }
            let (reason, ids, _) = done(&self.play(request));
            assert!(!ids.is_empty());
            texts.push((format!("{method}, {number}"), reason, ids));
        }
        texts
    }
}

#[test]
fn engines_that_share_their_models_write_what_each_would_write_alone() {
    let [target, drafter] = ["gqa_tied", "mha_tied_bf16"];
    let offsets = [0, 3, 6, 10];
    let mut alone = Rig::of(target, drafter);
    let expected: Vec<_> = offsets.iter().map(|&offset| alone.texts(offset)).collect();
    let mut rigs = Rig::together(offsets.len(), target, drafter);
    let written: Vec<_> = std::thread::scope(|scope| {
        let texts = rigs.iter_mut().zip(offsets).map(|(rig, offset)| scope.spawn(move || rig.texts(offset)));
        let texts: Vec<_> = texts.collect();
        texts.into_iter().map(|texts| texts.join().unwrap()).collect()
    });
    for (expected, written) in expected.iter().zip(&written) {
        for (expected, written) in expected.iter().zip(written) {
            assert_eq!(expected, written);
        }
    }
}

#[test]
fn a_run_that_is_cancelled_or_fails_leaves_the_others_alone() {
    let mut rigs = Rig::together(3, "qwen2_vl", "qwen2_vl_nested");
    let requests: Vec<RunRequest> = rigs
        .iter_mut()
        .map(|rig| RunRequest { max_new_tokens: 200, ..rig.request("naive", "What moves?") })
        .collect();
    let [cancelled, failing, whole] = &mut rigs[..] else { panic!("three engines") };
    let missing = RunRequest { video: "missing.mp4".into(), ..requests[1].clone() };
    let expected = {
        let mut rig = Rig::of("qwen2_vl", "qwen2_vl_nested");
        let request = RunRequest { max_new_tokens: 200, ..rig.request("naive", "What moves?") };
        done(&rig.play(request)).1
    };
    whole.send(requests[2].clone());
    failing.send(missing);
    cancelled.send(requests[0].clone());
    while !matches!(cancelled.event().kind, EventKind::Step(_)) {}
    cancelled.handle.cancel(requests[0].run);
    let ended = cancelled.finish(requests[0].run);
    assert_eq!(done(&ended).0, StopReason::Cancelled);
    assert_eq!(failed(&failing.finish(requests[1].run)).class, FailureClass::Input);
    let (_, ids, stats) = done(&whole.finish(requests[2].run));
    assert_eq!(ids, expected);
    // Its times say nothing about a run alone.
    assert!(stats.speedup.is_none());
    // All can go on.
    for rig in &mut rigs {
        let request = RunRequest { max_new_tokens: 200, ..rig.request("naive", "What moves?") };
        assert_eq!(done(&rig.play(request)).1, expected);
    }
}

#[test]
fn models_are_loaded_once_for_engines_that_share_them_and_replaced_for_each() {
    let mut rigs = Rig::together(2, "gqa_tied", "mha_tied_bf16");
    // What one loads instead changes nothing for the other.
    rigs[0].load("qwen2_vl", Some("qwen2_vl_nested"));
    assert!(rigs[0].ready().target.contains("qwen2_vl"));
    let first = done(&rigs[0].run("naive", "What is seen?")).1;
    let second = done(&rigs[1].run("naive", "What is seen?")).1;
    let alone = |target: &str, drafter: &str| done(&Rig::of(target, drafter).run("naive", "What is seen?")).1;
    assert_eq!(first, alone("qwen2_vl", "qwen2_vl_nested"));
    assert_eq!(second, alone("gqa_tied", "mha_tied_bf16"));
}
