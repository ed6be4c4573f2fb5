//! The engine as its faces see it: kept contexts, cancelling, failures that leave it usable.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use specreel_bench::methods;
use specreel_engine::{Command, Engine, EngineHandle, RunRequest, Turn};
use specreel_model::{ModelSpec, draft_head::Recipe};
use specreel_record::{
    Basis, Estimate, Event, EventKind, Failure, FailureClass, OnLoop, Promise, PromptSeen, Ready, RunLog,
    Span, Stage, Step, StopReason, Verification,
};
use specreel_scenes::{self as scenes, Scene};
use specreel_speculate::{Acceptance, Drafter, Method, Sampler, Schedule};
use specreel_tensor::{DeviceChoice, WeightType};
use specreel_video::Sampling;
use tokio::sync::mpsc::Receiver;

mod together;

use crate::fixture;

struct Rig {
    handle: EngineHandle,
    events: Receiver<Event>,
    clip: PathBuf,
    _dir: tempfile::TempDir,
    next: u64,
}

impl Rig {
    /// An engine with two tiny random models and a rendered clip.
    fn new() -> Self {
        Self::of("gqa_tied", "mha_tied_bf16")
    }

    fn of(target: &str, drafter: &str) -> Self {
        Self::on(Engine::start().unwrap(), target, drafter)
    }

    fn on((handle, events): (EngineHandle, Receiver<Event>), target: &str, drafter: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clip = dir.path().join("clip.mp4");
        scenes::encode::mp4(&Scene::from_seed(11), &clip, 64, 48).unwrap();
        let mut rig = Self { handle, events, clip, _dir: dir, next: 0 };
        rig.load(target, Some(drafter));
        rig.ready();
        rig
    }

    /// Wait for the models.
    fn ready(&mut self) -> Ready {
        match self.event().kind {
            EventKind::Ready(ready) => ready,
            other => panic!("not loaded: {other:?}"),
        }
    }

    fn load(&self, target: &str, drafter: Option<&str>) {
        self.handle
            .send(Command::Load(ModelSpec {
                target: fixture(target),
                drafter: drafter.map(fixture),
                // Its random layer serves for both recipes.
                heads: Vec::from_iter((target == "gqa_tied").then(|| fixture("sparrow"))),
                device: DeviceChoice::Cpu,
                ..ModelSpec::default()
            }))
            .unwrap();
    }

    /// The next event that is not load progress.
    fn event(&mut self) -> Event {
        loop {
            let event = self.events.blocking_recv().expect("the engine lives");
            if !matches!(event.kind, EventKind::Stage { stage: Stage::Load, .. }) {
                return event;
            }
        }
    }

    fn request(&mut self, method: &str, prompt: &str) -> RunRequest {
        self.next += 1;
        RunRequest {
            video: self.clip.clone(),
            prompt: prompt.into(),
            sampling: Sampling::Frames(4),
            max_new_tokens: 24,
            logprobs: 2,
            method: methods::preset(method).unwrap(),
            ..specreel_client::fake::request(self.next, "naive")
        }
    }

    fn send(&self, request: RunRequest) {
        self.handle.send(Command::Run(Box::new(request))).unwrap();
    }

    fn finish(&mut self, run: u64) -> Vec<EventKind> {
        let mut all = Vec::new();
        loop {
            let event = self.event();
            assert_eq!(event.run, run);
            let last = matches!(event.kind, EventKind::Done { .. } | EventKind::Failed(_));
            all.push(event.kind);
            if last {
                return all;
            }
        }
    }

    /// Send a request, and wait for all of its events.
    fn play(&mut self, request: RunRequest) -> Vec<EventKind> {
        let run = request.run;
        self.send(request);
        self.finish(run)
    }

    fn run(&mut self, method: &str, prompt: &str) -> Vec<EventKind> {
        let request = self.request(method, prompt);
        self.play(request)
    }
}

fn done(events: &[EventKind]) -> (StopReason, Vec<u32>, specreel_record::Stats) {
    match events.last() {
        Some(EventKind::Done { reason, ids, stats, .. }) => (*reason, ids.clone(), (**stats).clone()),
        other => panic!("expected a done event, got {other:?}"),
    }
}

fn failed(events: &[EventKind]) -> &Failure {
    match events.last() {
        Some(EventKind::Failed(failure)) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// What the event of one kind says.
macro_rules! found {
    ($events:expr, $kind:ident) => {
        $events.iter().find_map(|event| if let EventKind::$kind(found) = event { Some(found) } else { None })
    };
}

fn prompt(events: &[EventKind]) -> &PromptSeen {
    found!(events, Prompt).unwrap_or_else(|| panic!("no prompt: {events:?}"))
}

fn steps(events: &[EventKind]) -> impl Iterator<Item = &Step> {
    events.iter().filter_map(|event| if let EventKind::Step(step) = event { Some(step) } else { None })
}

fn stages(events: &[EventKind]) -> Vec<Stage> {
    let stage =
        |event: &EventKind| if let EventKind::Stage { stage, .. } = event { Some(*stage) } else { None };
    let mut stages: Vec<Stage> = events.iter().filter_map(stage).collect();
    stages.dedup();
    stages
}

/// Whole runs in every family: all ways to choose the drafter's tokens, both schedules, drafters of either kind.
#[test]
fn lossless_methods_are_lossless_in_every_family() {
    let pairs = [
        ("qwen2_vl", "qwen2_vl_nested", [2, 2, 2], 8),
        ("llava_ov", "llava_ov_newer", [4, 3, 3], 36),
        ("llava_ov_newer", "llava_ov", [4, 3, 3], 36),
    ];
    for (target, drafter, shape, tokens) in pairs {
        let mut rig = Rig::of(target, drafter);
        let (reason, plain, _) = done(&rig.run("autoregressive", "What is seen?"));
        assert_ne!(reason, StopReason::Cancelled);
        let compact = ["context.positions=\"compact\"".to_owned()];
        let names = "naive naive-tree sd-random sd-uniform sd-frames sd-uniform-tree sd-window-middle \
                 sd-attention sd-fastvid sd-dycoke text-only lookup streaming layerskip twin viskip pearl \
                 std specvlm specvlm-self parallelvlm parallelvlm-self";
        for name in names.split(' ') {
            for sets in [&compact[..0], &compact[..]] {
                let mut request = rig.request(name, "What is seen?");
                let Ok(method) = request.method.with_sets(sets.iter().map(String::as_str)) else { continue };
                request.method = method;
                let events = rig.play(request);
                let PromptSeen { grid, visual_tokens, kept, .. } = prompt(&events);
                assert_eq!((*grid, *visual_tokens), (shape, tokens), "{target}");
                assert!(kept.iter().flatten().all(|token| (*token as usize) < tokens), "{target} {name}");
                assert_eq!(done(&events).1, plain, "{target} {name} {sets:?}");
            }
        }
    }
}

#[test]
fn a_self_draft_stays_with_the_models_and_must_be_smaller() {
    let mut rig = Rig::new();
    let draft = |rig: &mut Rig, set: &str| {
        let mut request = rig.request("twin", "What is seen?");
        request.method = request.method.with_set(set).unwrap();
        rig.play(request)
    };
    let plain = done(&rig.run("autoregressive", "What is seen?")).1;
    for set in ["drafter.dtype=q4_0", "context.kind=none", "drafter.dtype=own", "drafter.dtype=q4_0"] {
        assert_eq!(done(&draft(&mut rig, set)).1, plain, "{set}");
    }
    let events = draft(&mut rig, "drafter.dtype=q4_0");
    assert_eq!(found!(events, Started).unwrap().drafter.as_deref(), Some("gqa_tied in q4_0"));
    // The target is in q8_0.
    for dtype in ["q8_0", "f16"] {
        let events = draft(&mut rig, &format!("drafter.dtype={dtype}"));
        let failure = failed(&events);
        assert_eq!(failure.class, FailureClass::Input);
        assert!(failure.error.contains("is not smaller than the target in q8_0"), "{failure:?}");
    }
    // The engine is usable afterwards.
    assert_eq!(done(&draft(&mut rig, "drafter.dtype=q4_0")).1, plain);
    rig.load("gguf/gqa_tied/model-q4_0.gguf", None);
    rig.ready();
    // A GGUF file is converted, if it gets smaller.
    let events = draft(&mut rig, "drafter.dtype=q4_0");
    assert!(
        failed(&events).error.contains("is not smaller than the target in q4_0"),
        "{:?}",
        failed(&events)
    );
}

#[test]
fn a_part_of_a_video_is_a_clip_of_its_own() {
    let mut rig = Rig::of("gqa_tied", "mha_tied_bf16");
    let mut ask = |span: Option<Span>| {
        let request = RunRequest { span, ..rig.request("naive", "What moves?") };
        let events = rig.play(request);
        let prompt = found!(events, Prompt).map(|seen| (seen.frames.clone(), seen.grid, seen.reused));
        assert_eq!(found!(events, Started).unwrap().span, span);
        (prompt, events)
    };
    let [first, second] = [(0.0, 1.0), (1.0, 2.0)].map(|(start, end)| Some(Span { start, end }));
    let (whole, _) = ask(None);
    let (one, _) = ask(first);
    let (two, _) = ask(second);
    let [(whole, _, _), (one, grid, kept), (two, same_grid, kept_too)] =
        [whole, one, two].map(Option::unwrap);
    assert!(one.iter().all(|t| (0.0..1.0).contains(t)) && two.iter().all(|t| (1.0..2.0).contains(t)));
    assert!(whole.last() > one.last() && whole != one);
    assert_eq!((grid, kept, kept_too), (same_grid, false, false), "nothing of another part is taken over");
    let (again, _) = ask(second);
    assert_eq!(again.unwrap(), (two, grid, true));
    let (none, events) = ask(Some(Span { start: 900.0, end: 901.0 }));
    assert!(none.is_none());
    let failure = failed(&events);
    assert!(failure.class == FailureClass::Input && failure.error.contains("past the end of the video"));
}

#[test]
fn a_question_that_goes_on_neither_encodes_nor_reads_the_video_again() {
    for (target, drafter) in [("gqa_tied", "mha_tied_bf16"), ("llava_ov", "llava_ov_newer")] {
        let mut rig = Rig::of(target, drafter);
        let first = rig.request("naive", "What moves?");
        let events = rig.play(first);
        let EventKind::Done { text, .. } = events.last().unwrap() else { panic!("{events:?}") };
        assert!(!prompt(&events).reused);
        let before = vec![Turn { prompt: "What moves?".into(), answer: text.clone(), ..Turn::default() }];
        let mut on = rig.request("naive", "What colour is it?");
        on.before = before;
        // Another question also reuses the video; the signals of the new text are computed again.
        let other = rig.request("specvlm", "What stands still?");
        for request in [on, other] {
            let events = rig.play(request.clone());
            assert!(prompt(&events).reused, "the video was read again");
            let stages = stages(&events);
            assert!(!stages.contains(&Stage::Decode) && stages.contains(&Stage::Prefill), "{stages:?}");
            // An engine that has seen nothing before writes the same.
            let mut fresh = Rig::of(target, drafter);
            let request = RunRequest { video: fresh.clip.clone(), ..request };
            let cold = fresh.play(request);
            assert!(!prompt(&cold).reused);
            assert_eq!(done(&cold).1, done(&events).1, "{target}");
        }
    }
}

#[test]
fn a_prompt_with_nul_is_no_conversation() {
    let mut rig = Rig::new();
    let ids = |rig: &mut Rig, prompt: &str, before: &[(&str, &str)]| {
        let mut request = rig.request("autoregressive", prompt);
        let turn = |(prompt, answer): &(&str, &str)| Turn {
            prompt: (*prompt).into(),
            answer: (*answer).into(),
            ..Turn::default()
        };
        request.before = before.iter().map(turn).collect();
        self::prompt(&rig.play(request)).prompt_ids.clone()
    };
    let joined = ids(&mut rig, "a\0b\0c", &[]);
    assert_ne!(joined, ids(&mut rig, "c", &[("a", "b")]));
    assert_ne!(ids(&mut rig, "c", &[("a\0b", "d")]), ids(&mut rig, "c", &[("a", "b\0d")]));
}

#[test]
fn a_new_method_starts_from_the_kept_context() {
    let mut rig = Rig::new();
    let cold = rig.run("autoregressive", "What is seen?");
    assert!(stages(&cold).contains(&Stage::Decode) && stages(&cold).contains(&Stage::Prefill));
    let (_, plain, stats) = done(&cold);
    assert!(stats.timings.prefill_target_ms > 0.0 && stats.timings.decode_video_ms > 0.0);

    let warm = rig.run("naive", "What is seen?");
    let seen = stages(&warm);
    assert!(!seen.contains(&Stage::Decode), "{seen:?}");
    assert!(prompt(&warm).reused);
    let (_, ids, stats) = done(&warm);
    assert_eq!(ids, plain);
    assert_eq!((stats.timings.decode_video_ms, stats.timings.prefill_target_ms), (0.0, 0.0));
    assert_eq!(stats.equality.as_ref().map(|e| e.equal), Some(true));

    // Another prompt: the clip is kept, its prefill is not.
    let other = rig.run("sd-uniform", "Another question?");
    assert!(!stages(&other).contains(&Stage::Decode));
    assert!(done(&other).2.timings.prefill_target_ms > 0.0);
}

#[test]
fn every_preset_accounts_for_every_token() {
    let mut rig = Rig::new();
    let plain = done(&rig.run("autoregressive", "Say it.")).1;
    // The target of this test has no layer for multi-token prediction.
    let own = |method: &&Method| matches!(method.drafter, Drafter::Head { recipe: Recipe::Mtp });
    for method in methods::presets().filter(|method| !own(method)) {
        let events = rig.run(&method.name, "Say it.");
        let (_, ids, stats) = done(&events);
        let steps: Vec<_> = steps(&events).collect();
        let told: Vec<u32> = steps.iter().flat_map(|s| s.tokens.iter().map(|t| t.id)).collect();
        assert_eq!(told, ids, "{}", method.name);
        assert_eq!(stats.verdicts.total(), ids.len() as u64);
        let judged = steps.iter().map(|s| s.drafted.len() as u64).sum::<u64>();
        assert_eq!((stats.steps, stats.judged), (steps.len() as u64, judged));
        match method.schedule {
            Schedule::Sequential {} => assert_eq!(stats.drafted, judged),
            // The drafts after a rejected one were also drafted. A drafted end token is neither kept nor thrown away.
            Schedule::Parallel { .. } => {
                assert!(stats.drafted > judged, "{}: {} of {judged}", method.name, stats.drafted);
                let ended = stats.drafted - stats.accepted - stats.discarded;
                assert!(ended <= 1, "{}: {ended}", method.name);
            }
        }
        assert_eq!(stats.accepted, steps.iter().map(|s| s.accepted as u64).sum::<u64>());
        let drafts =
            stats.verdicts.iter().filter(|(v, _)| v.is_accepted_draft()).map(|(_, n)| n).sum::<u64>();
        assert_eq!(drafts, stats.accepted, "{}", method.name);
        if method.lossless() {
            assert_eq!(ids, plain, "{}", method.name);
        }
    }
}

/// Rig::finish takes the events of one run only; this one reports about another.
fn verified(rig: &mut Rig, request: &RunRequest, ids: &[u32]) -> (Vec<EventKind>, Option<Verification>) {
    let plain = request.verifying(rig.next + 1, ids);
    rig.next += 1;
    rig.send(plain.clone());
    let (mut own, mut found) = (Vec::new(), None);
    loop {
        let event = rig.event();
        match event.kind {
            EventKind::Verified(verification) => {
                assert_eq!((event.run, found.replace(verification)), (request.run, None));
            }
            kind => {
                assert_eq!(event.run, plain.run);
                let is_end = matches!(kind, EventKind::Done { .. } | EventKind::Failed(_));
                own.push(kind);
                if is_end {
                    return (own, found);
                }
            }
        }
    }
}

#[test]
fn a_run_is_verified_over_its_own_context() {
    let mut rig = Rig::new();
    let warm = Sampler { temperature: 0.9, seed: 3, ..Sampler::GREEDY };
    for (method, text) in [("naive", Sampler::GREEDY), ("specvlm", Sampler::GREEDY), ("naive", warm)] {
        let request = RunRequest { text: text.into(), ..rig.request(method, "Is it the same?") };
        let (_, ids, _) = done(&rig.play(request.clone()));
        let (plain, found) = verified(&mut rig, &request, &ids);
        assert!(!stages(&plain).contains(&Stage::Prefill), "only decoding is repeated");
        let found = found.unwrap();
        assert!(found.equality.equal && found.promises == Promise::Tokens, "{method}: {found:?}");
        assert_eq!((found.tokens, found.plain_tokens, found.difference), (ids.len(), ids.len(), None));

        // A text that is not its own differs where it was changed, and says by how much.
        let mut other = ids.clone();
        other[3] = (ids[3] + 1) % 16;
        let difference = verified(&mut rig, &request, &other).1.unwrap().difference.unwrap();
        assert_eq!(difference.at, 3);
        assert!(!text.is_greedy() || difference.gap > 0.0 && !difference.near, "{difference:?}");
        let shorter = verified(&mut rig, &request, &ids[..5]).1.unwrap();
        assert_eq!(shorter.equality.first_difference, Some(5));
        assert!(shorter.is_broken());
    }
}

#[test]
fn a_verification_that_is_cancelled_finds_nothing() {
    let mut rig = Rig::new();
    let request = rig.request("naive", "Is it the same?");
    let (_, ids, _) = done(&rig.play(request.clone()));
    // It waits behind a run that cannot end before both are cancelled.
    let long = RunRequest { max_new_tokens: 1800, ..rig.request("autoregressive", "Go on.") };
    let first = long.run;
    rig.send(long);
    let plain = request.verifying(rig.next + 1, &ids);
    let second = plain.run;
    rig.next += 1;
    rig.send(plain);
    rig.handle.cancel(second);
    rig.handle.cancel(first);
    rig.finish(first);
    // An event of another run, such as a result of the verification, is a failure.
    assert_eq!(done(&rig.finish(second)).0, StopReason::Cancelled);
}

/// What is charged to the drafter before the first token, to the target, and what generating takes add up to the whole,
/// the more so where the two read side by side and the drafter drafts ahead.
#[test]
fn the_times_before_the_first_token_add_up() {
    for name in ["naive", "specvlm", "parallelvlm", "parallelvlm-self", "std"] {
        // On a busy machine the pairs may be too few: then a new engine, whose first run reads the video again, tries it again.
        let (stats, speedup) = (0..50)
            .find_map(|_| {
                let mut rig = Rig::new();
                let request = RunRequest { measure: true, ..rig.request(name, "What is seen?") };
                let stats = done(&rig.play(request)).2;
                loop {
                    // The first interval is as good as the last one.
                    match rig.event().kind {
                        EventKind::Speed { speedup: Some(speedup), .. } => return Some((stats, speedup)),
                        EventKind::Speed { measuring: false, .. } => return None,
                        _ => {}
                    }
                }
            })
            .unwrap();
        let t = &stats.timings;
        let target = t.decode_video_ms + t.encode_target_ms + t.prefill_target_ms;
        let drafter = t.total_ms() - target - t.generate_ms();
        assert!(drafter > 0.0, "{name}: {drafter} ms, {t:?}");
        // A busy machine may run the two sides one after the other, so how much overlaps depends on the clock. Which methods
        // overlap does not, nor that no more overlaps than the drafter takes.
        let most =
            if name.starts_with("parallelvlm") { t.encode_drafter_ms + t.prefill_drafter_ms } else { 0.0 };
        assert!((0.0..=most).contains(&t.overlapped_ms), "{name}: {t:?}");
        let plain = target + stats.emitted as f64 * 1000.0 / speedup.baseline.tokens_per_second;
        let whole = plain / speedup.end_to_end;
        let own = target + drafter + stats.emitted as f64 * 1000.0 / speedup.tokens_per_second;
        assert!((whole / own - 1.0).abs() < 1e-6, "{name}: {whole} for {own} ms");
    }
}

/// A run that is cancelled while the target alone is timed leaves the target at the prompt, and the first window that its drafter
/// wrote is not taken for another acceptance's.
#[test]
fn a_run_cancelled_before_its_first_token_leaves_nothing_to_the_next() {
    let sampled = |rig: &mut Rig| {
        let mut request = rig.request("parallelvlm", "Go on.");
        request.text = Sampler { temperature: 0.9, seed: 7, ..Sampler::GREEDY }.into();
        request.method.acceptance = Acceptance::Sampled {};
        request
    };
    let mut fresh = Rig::new();
    let request = sampled(&mut fresh);
    let cold = done(&fresh.play(request)).1;
    let mut rig = Rig::new();
    let mut first = sampled(&mut rig);
    first.method.acceptance = Acceptance::Exact {};
    let run = first.run;
    rig.send(first);
    // The drafter has drafted its first window when the first steps of a calibration are reported.
    loop {
        let event = rig.event();
        assert!(!matches!(event.kind, EventKind::Step(_) | EventKind::Done { .. }), "{event:?}");
        if matches!(event.kind, EventKind::Stage { stage: Stage::Calibrate, .. }) {
            break;
        }
    }
    rig.handle.cancel(run);
    assert_eq!(done(&rig.finish(run)).0, StopReason::Cancelled);
    let request = sampled(&mut rig);
    let events = rig.play(request);
    assert!(!stages(&events).contains(&Stage::Decode));
    assert_eq!(done(&events).1, cold);
}

/// Words that must stay strict are never loosened, neither as drafts nor in place of them.
#[test]
fn words_that_must_stay_strict_do() {
    let mut rig = Rig::new();
    let mut write = |words: &[String]| {
        let mut request = rig.request("lvspec", "Go on.");
        let Acceptance::Visual { always_strict, lambda, .. } = &mut request.method.acceptance else {
            panic!()
        };
        (*always_strict, *lambda) = (words.to_vec(), 1.0);
        request.max_new_tokens = 200;
        let events = rig.play(request);
        let tokens = steps(&events).flat_map(|step| &step.tokens);
        let word = |text: &str| text.trim().to_lowercase();
        let loosened = tokens.filter(|token| !token.verdict.is_strict());
        loosened
            .map(|t| (word(&t.text), word(t.target_text.as_deref().unwrap_or_default())))
            .collect::<Vec<_>>()
    };
    let before = write(&[]);
    // The words that were loosened most, as a draft or as the wanted word.
    let mut often = std::collections::BTreeMap::<&String, usize>::new();
    let printable = |word: &&String| !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic());
    let loosened = before.iter().flat_map(|(draft, wanted)| [draft, wanted]).filter(printable);
    loosened.for_each(|word| *often.entry(word).or_default() += 1);
    let mut often: Vec<_> = often.into_iter().collect();
    often.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = often.into_iter().take(2).map(|(word, _)| word.clone()).collect();
    assert_eq!(words.len(), 2, "{before:?}");
    let after = write(&words);
    assert!(!after.is_empty(), "nothing is loosened any more");
    for (draft, wanted) in &after {
        assert!(!words.contains(draft) && !words.contains(wanted), "{draft:?} for {wanted:?}: {words:?}");
    }
}

#[test]
fn a_drafter_of_a_shorter_range_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture("mha_tied_bf16")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let mut rig = Rig::new();
    let mut notes = |range: usize| {
        let config = std::fs::read_to_string(fixture("mha_tied_bf16").join("config.json")).unwrap();
        let other = config
            .replace("\"max_position_embeddings\": 4096", &format!("\"max_position_embeddings\": {range}"));
        std::fs::write(dir.path().join("config.json"), other).unwrap();
        rig.load("gqa_tied", Some(dir.path().to_str().unwrap()));
        rig.ready().notes.into_iter().filter(|note| note.contains("positions")).collect::<Vec<_>>()
    };
    assert!(notes(4096).is_empty() && notes(8192).is_empty());
    let told = notes(512);
    assert!(told.len() == 1 && told[0].contains("512 positions") && told[0].contains("4096"), "{told:?}");
}

#[test]
fn cancelling_ends_a_run_within_a_step_and_a_waiting_run_too() {
    let mut rig = Rig::new();
    let mut long = rig.request("autoregressive", "Go on.");
    // More than the events that may wait: it cannot end before it is cancelled.
    long.max_new_tokens = 1800;
    let waiting = rig.request("naive", "Go on.");
    let (first, second) = (long.run, waiting.run);
    rig.send(long);
    rig.send(waiting);
    rig.handle.cancel(second);
    loop {
        let event = rig.event();
        assert_eq!(event.run, first, "{event:?}");
        assert!(!matches!(event.kind, EventKind::Failed(_)), "{event:?}");
        if matches!(event.kind, EventKind::Step(_)) {
            break;
        }
    }
    let asked = Instant::now();
    rig.handle.cancel(first);
    let (reason, ids, stats) = done(&rig.finish(first));
    assert_eq!(reason, StopReason::Cancelled);
    assert!(asked.elapsed() < Duration::from_secs(5));
    assert!(!ids.is_empty() && stats.emitted == ids.len() as u64);
    let (reason, ids, _) = done(&rig.finish(second));
    assert_eq!((reason, ids.len()), (StopReason::Cancelled, 0));
    // The engine still works.
    assert_ne!(done(&rig.run("naive", "Go on.")).0, StopReason::Cancelled);
}

#[test]
fn failures_leave_the_engine_usable() {
    let mut rig = Rig::new();
    let mut missing = rig.request("naive", "x");
    missing.video = Path::new("no-such-file.mp4").into();
    let events = rig.play(missing);
    let failure = failed(&events);
    assert_eq!(failure.class, FailureClass::Input);
    assert!(failure.error.contains("no-such-file.mp4"), "{failure:?}");

    let mut long = rig.request("naive", "x");
    long.max_new_tokens = 10_000_000;
    let events = rig.play(long);
    let failure = failed(&events);
    assert_eq!(failure.class, FailureClass::Input);

    let mut mad = rig.request("naive", "x");
    mad.method.shape = specreel_speculate::Shape::Chain {
        length: specreel_speculate::Length::Fixed(0),
        gate: 0.0,
        confidence: 0.0,
    };
    failed(&rig.play(mad));

    assert_eq!(done(&rig.run("naive", "x")).0, done(&rig.run("autoregressive", "x")).0);
}

#[test]
fn models_can_be_changed_and_refused() {
    let mut rig = Rig::new();
    rig.load("gqa_tied", None);
    assert!(rig.ready().drafter.is_none());
    let events = rig.run("naive", "x");
    let failure = failed(&events);
    assert!(failure.error.contains("draft model"), "{failure:?}");
    assert!(!done(&rig.run("lvspec-self", "x")).1.is_empty());

    rig.load("gqa_tied", Some("processor"));
    let EventKind::Failed(failure) = rig.event().kind else { panic!("refused") };
    assert_eq!(failure.class, FailureClass::Input);
    assert!(failure.error.contains("config.json"), "{failure:?}");
    // Nothing is loaded now, and that is said.
    failed(&rig.run("autoregressive", "x"));
    rig.load("nested_bf16", None);
    rig.ready();
    assert!(!done(&rig.run("autoregressive", "x")).1.is_empty());
}

#[test]
fn loading_can_be_stopped_and_begun_again() {
    let mut rig = Rig::new();
    // The new models wait for a run that cannot end before both are cancelled.
    let long = RunRequest { max_new_tokens: 1800, ..rig.request("autoregressive", "Go on.") };
    let run = long.run;
    rig.send(long);
    rig.load("gqa_tied", Some("mha_tied_bf16"));
    rig.handle.cancel(0);
    rig.handle.cancel(run);
    let (mut failure, mut has_ended) = (None, false);
    while failure.is_none() || !has_ended {
        let event = rig.event();
        match event.kind {
            EventKind::Failed(why) if event.run == 0 => failure = Some(why.error),
            EventKind::Ready(_) => panic!("loading went on"),
            kind => has_ended |= event.run == run && matches!(kind, EventKind::Done { .. }),
        }
    }
    assert!(failure.as_ref().is_some_and(|why| why.contains("cancelled")), "{failure:?}");
    rig.load("gqa_tied", None);
    rig.ready();
}

#[test]
fn loading_tells_how_many_tensors_were_read() {
    let mut rig = Rig::new();
    rig.load("gqa_untied_f16", None);
    let mut seen = Vec::new();
    loop {
        match rig.events.blocking_recv().unwrap().kind {
            EventKind::Stage { stage: Stage::Load, done, total, .. } => seen.push((done, total)),
            EventKind::Ready(_) => break,
            other => panic!("{other:?}"),
        }
    }
    let total = seen[0].1;
    assert!(total > 20 && seen.iter().all(|s| s.1 == total) && seen.is_sorted());
    assert_eq!(seen.last().unwrap().0, total);
}

#[test]
fn odd_widths_are_told() {
    let mut rig = Rig::new();
    let spec = ModelSpec {
        target: fixture("gqa_tied"),
        device: DeviceChoice::Cpu,
        dtype: WeightType::Q4K,
        ..ModelSpec::default()
    };
    rig.handle.send(Command::Load(spec)).unwrap();
    let Ready { notes, dtype, .. } = rig.ready();
    assert_eq!(dtype, "q4_k");
    assert!(notes.iter().any(|note| note.contains("gqa_tied") && note.contains("q4_k")), "{notes:?}");
}

/// In the studio a key must not wait for a decoder.
#[cfg(target_os = "linux")]
#[test]
fn the_studios_engine_gives_way_to_everybody_else() {
    /// The niceness of the threads of this process whose names go so.
    fn niceness(goes: impl Fn(&str) -> bool) -> Vec<i64> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
        // The second field is the name, which may hold blanks; the nineteenth is what is asked.
        let parts = stats.map(|stat| {
            let (before, after) = stat.rsplit_once(") ").unwrap();
            let nice = after.split(' ').nth(16).unwrap().parse().unwrap();
            (before.split_once('(').unwrap().1.to_owned(), nice)
        });
        parts.filter(|(name, _)| goes(name)).map(|(_, nice)| nice).collect()
    }
    let here = niceness(|_| true)[0];
    let (_usual, _events) = Engine::start().unwrap();
    let engines = || niceness(|name| name == "engine");
    assert!(engines().iter().all(|nice| *nice == here));
    let mut rig = Rig::on(Engine::start_in_background().unwrap(), "gqa_tied", "mha_tied_bf16");
    rig.run("autoregressive", "What is shown?");
    let behind = (here + 5).min(19);
    // One is the usual engine's; threads without a name of their own are called as who started them.
    let (usual, others): (Vec<i64>, Vec<i64>) = engines().iter().partition(|nice| **nice == here);
    assert!(usual.len() == 1 && !others.is_empty(), "{:?}", engines());
    assert!(others.iter().all(|nice| *nice == behind), "{others:?}");
    // Those that compute with it are started by it.
    let pool = niceness(|name| name.starts_with("compute"));
    assert!(pool.iter().all(|nice| *nice == behind), "{pool:?}");
}

fn estimate(events: &[EventKind]) -> &Estimate {
    found!(events, Estimate).unwrap_or_else(|| panic!("no estimate: {events:?}"))
}

#[test]
fn an_estimate_comes_first_and_counts_what_is_left_to_do() {
    for (target, drafter) in
        [("gqa_tied", "mha_tied_bf16"), ("qwen2_vl", "qwen2_vl"), ("llava_ov", "llava_ov_newer")]
    {
        let mut rig = Rig::of(target, drafter);
        let events = rig.run("naive", "What moves?");
        let first = estimate(&events).clone();
        let PromptSeen { visual_tokens, prompt_ids, frames, .. } = prompt(&events);
        assert_eq!((first.visual_tokens, first.prompt_tokens), (*visual_tokens, prompt_ids.len()));
        assert_eq!((first.frames, first.max_new_tokens), (frames.len(), 24));
        assert!(first.width > 0 && first.height > 0 && first.peak_bytes.is_some());
        // Tiny models are not probed: that would take longer than it is worth.
        assert_eq!((first.basis, first.total_ms()), (None, None));
        let at = |wanted: &dyn Fn(&EventKind) -> bool| events.iter().position(wanted).unwrap();
        let stage = at(&|e| matches!(e, EventKind::Stage { .. }));
        assert!(at(&|e| matches!(e, EventKind::Estimate(_))) < stage, "{events:?}");

        // Everything is measured now. Another question about the clip neither encodes nor reads it again.
        let other = rig.run("naive", "What stands still?");
        let found = estimate(&other);
        assert_eq!((found.basis, found.tower_ms), (Some(Basis::Measured), Some(0.0)), "{target}");
        assert!(found.prompt_ms.unwrap() > 0.0 && found.writing_ms.unwrap() > 0.0);
        let again = rig.run("naive", "What stands still?");
        assert_eq!(estimate(&again).prompt_ms, Some(0.0), "{target}");

        // A limit makes another clip of it, whose stages know the time left.
        let least = first.visual_tokens / 2;
        let request = RunRequest { max_visual_tokens: Some(least), ..rig.request("naive", "What moves?") };
        let events = rig.play(request);
        let thinned = estimate(&events);
        assert!(thinned.visual_tokens <= least && thinned.notes[0].contains(" instead of "), "{thinned:?}");
        assert!(thinned.tower_ms.unwrap() > 0.0);
        let mut left = events.iter().filter_map(|e| match e {
            EventKind::Stage { stage: Stage::Encode | Stage::Prefill, done, total, left_ms } => {
                Some((*done == *total, left_ms.unwrap()))
            }
            _ => None,
        });
        assert!(left.all(|(ended, left_ms)| left_ms >= 0.0 && (!ended || left_ms == 0.0)), "{events:?}");

        // Asked for alone, it is all that happens.
        let request = RunRequest { estimate_only: true, ..rig.request("naive", "What else?") };
        let events = rig.play(request);
        assert!(estimate(&events).total_ms().unwrap() > 0.0);
        assert!(matches!(events.last(), Some(EventKind::Done { reason: StopReason::Cancelled, .. })));
        assert_eq!(events.len(), 3, "{events:?}");
    }
}

/// A text that repeats itself ends after the first of the repeated passages, at the same token under every schedule; unless it is to go
/// on.
#[test]
fn a_caption_in_a_loop_is_stopped() {
    let mut rig = Rig::new();
    let id = done(&rig.run("autoregressive", "What moves?")).1[1];
    for method in ["autoregressive", "naive", "parallelvlm", "lookup"] {
        for (on_loop, end) in [(OnLoop::Stop, StopReason::Loop), (OnLoop::Keep, StopReason::Length)] {
            let stop_loops = on_loop == OnLoop::Stop;
            let mut request = rig.request(method, "What moves?");
            request.max_new_tokens = 600;
            request.text.logit_bias = vec![(id, 1000.0)];
            request.on_loop = on_loop;
            let events = rig.play(request);
            let (reason, ids, _) = done(&events);
            assert_eq!(reason, end, "{method}");
            assert!(ids.iter().all(|other| *other == id), "{method}: {ids:?}");
            // Sooner if the token has letters.
            assert!(
                if stop_loops { [102, 501].contains(&ids.len()) } else { ids.len() == 600 },
                "{}",
                ids.len()
            );
            let Some(EventKind::Done { text, .. }) = events.last() else { panic!("{events:?}") };
            assert!(!stop_loops || text.len() < 30, "{method}: {text}");
        }
    }
}

/// A text that repeats itself is written again by itself, with a penalty of repetitions; the same under every schedule.
#[test]
fn a_caption_in_a_loop_is_written_again() {
    let mut rig = Rig::new();
    let id = done(&rig.run("autoregressive", "What moves?")).1[1];
    let mut alone = None;
    for method in ["autoregressive", "naive", "parallelvlm", "lookup"] {
        let mut request = rig.request(method, "What moves?");
        request.max_new_tokens = 600;
        request.text.logit_bias = vec![(id, 50.0)];
        request.on_loop = OnLoop::Retry;
        let events = rig.play(request);
        let (reason, ids, _) = done(&events);
        let tries: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                EventKind::Retry { tokens, sampling, note } => {
                    Some((*tokens, sampling.clone(), note.clone()))
                }
                _ => None,
            })
            .collect();
        let (tokens, sampling, note) = &tries[0];
        assert!([102, 501].contains(tokens) && tries.len() <= 2, "{method}: {tries:?}");
        assert!(note.contains("DRY 0.8") && sampling["dry_multiplier"].as_f64().unwrap() > 0.79, "{tries:?}");
        assert_ne!(reason, StopReason::Loop, "{method}: {ids:?}");
        // Withdrawn tokens are not part of it.
        let last = events.iter().rposition(|event| matches!(event, EventKind::Retry { .. })).unwrap();
        let steps = events[last..].iter().filter_map(|event| match event {
            EventKind::Step(step) => Some(step.tokens.iter().map(|token| token.id)),
            _ => None,
        });
        assert_eq!(steps.flatten().collect::<Vec<_>>(), ids, "{method}");
        let mut log = RunLog::new(1);
        for event in &events {
            log.apply(&Event::new(1, event.clone()));
        }
        assert_eq!(log.text().trim(), log.shown().trim());
        assert!(log.notes().contains(note) && log.stats().emitted == ids.len() as u64);
        assert_eq!(*alone.get_or_insert((reason, ids.clone())), (reason, ids), "{method}");
    }
}
