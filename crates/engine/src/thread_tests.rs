use std::path::{Path, PathBuf};

use super::*;
use crate::testing::{ByPrompt, LOSES, PANICS, SLOW, TURNS};
use specreel_record::{Draft, PromptSeen, Stage, Stats, StopReason};
use specreel_scenes::{self as scenes, Scene};
use specreel_speculate::Method;
use specreel_tensor::{DeviceChoice, gpu::testing};
use specreel_video::Sampling;

/// Two tiny random models.
fn spec(device: DeviceChoice) -> ModelSpec {
    let fixture = |name| {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/parity/fixtures").join(name)
    };
    ModelSpec {
        target: fixture("gqa_tied"),
        drafter: Some(fixture("mha_tied_bf16")),
        device,
        ..ModelSpec::default()
    }
}

pub struct Rig {
    pub handle: EngineHandle,
    pub events: mpsc::Receiver<Event>,
    clip: PathBuf,
    _dir: tempfile::TempDir,
    next: u64,
}

impl Rig {
    pub fn new() -> Self {
        Self::on(DeviceChoice::Cpu)
    }

    fn on(device: DeviceChoice) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clip = dir.path().join("clip.mp4");
        scenes::encode::mp4(&Scene::from_seed(11), &clip, 64, 48).unwrap();
        let (handle, mut events) = Engine::start_after(|| {}, Some(Arc::new(ByPrompt)), None).unwrap();
        handle.send(Command::Load(spec(device))).unwrap();
        while !matches!(events.blocking_recv().unwrap().kind, EventKind::Ready(_)) {}
        Self { handle, events, clip, _dir: dir, next: 0 }
    }

    pub fn request(&mut self, prompt: &str) -> RunRequest {
        self.next += 1;
        RunRequest {
            run: self.next,
            video: self.clip.clone(),
            prompt: prompt.into(),
            method: Method::preset("naive").unwrap(),
            sampling: Sampling::Frames(4),
            max_new_tokens: 8,
            ..RunRequest::default()
        }
    }

    /// Look at the events of a request that succeeds. Returns how it ended, its ids and its figures.
    fn play(
        &mut self,
        request: RunRequest,
        mut each: impl FnMut(EventKind),
    ) -> (StopReason, Vec<u32>, Stats) {
        self.handle.send(Command::Run(Box::new(request))).unwrap();
        loop {
            match self.events.blocking_recv().unwrap().kind {
                EventKind::Done { reason, ids, stats, .. } => return (reason, ids, *stats),
                EventKind::Failed(failure) => panic!("{failure:?}"),
                kind => each(kind),
            }
        }
    }

    /// Run a request: whether its context was kept, and its failure.
    fn run(&mut self, request: RunRequest) -> (Option<bool>, Option<Failure>) {
        self.handle.send(Command::Run(Box::new(request))).unwrap();
        let mut kept = None;
        loop {
            match self.events.blocking_recv().unwrap().kind {
                EventKind::Prompt(PromptSeen { reused, .. }) => kept = Some(reused),
                EventKind::Done { .. } => return (kept, None),
                EventKind::Failed(failure) => return (kept, Some(failure)),
                _ => {}
            }
        }
    }

    /// True if this prompt's context, and not only the video's part of it, is kept: nothing is prefilled.
    fn is_kept(&mut self, prompt: &str) -> bool {
        let request = self.request(prompt);
        let mut prefilled = false;
        self.play(request, |kind| {
            prefilled |= matches!(kind, EventKind::Stage { stage: Stage::Prefill, .. });
        });
        !prefilled
    }
}

#[test]
fn a_run_that_panics_costs_only_its_own_context() {
    let mut rig = Rig::new();
    for prompt in ["first", "second"] {
        let request = rig.request(prompt);
        assert_eq!(rig.run(request).1, None);
    }
    let request = rig.request(PANICS);
    let (_, failure) = rig.run(request);
    let failure = failure.unwrap();
    assert_eq!(failure.class, FailureClass::Internal);
    assert_eq!(failure.error, "internal error: the engine panicked: out of luck");
    assert!(rig.is_kept("first") && rig.is_kept("second"));
}

#[test]
fn the_drafts_of_slow_steps_are_reported_before_they_are_verified() {
    let mut rig = Rig::new();
    for method in ["naive", "naive-tree", "parallelvlm"] {
        let mut request = RunRequest { max_new_tokens: 4, ..rig.request(SLOW) };
        request.method = Method::preset(method).unwrap();
        let (mut draft, mut steps, mut reported) = (None, 0, 0);
        rig.play(request, |kind| match kind {
            EventKind::Draft(Draft { index, drafted, drafted_text, parents }) => {
                assert_eq!((index, drafted.len()), (steps, drafted_text.len()), "{method}");
                assert!(draft.replace((drafted, parents)).is_none(), "{method}: two without a step");
            }
            EventKind::Step(step) => {
                steps += 1;
                let Some((drafted, parents)) = draft.take() else { return };
                reported += 1;
                // If drafting continues meanwhile, the first draft of the next window is judged as well.
                assert_eq!(drafted, step.drafted[..drafted.len()], "{method}");
                assert_eq!(parents, step.parents, "{method}");
            }
            _ => {}
        });
        // How long the first step takes is not known.
        let most = if method.starts_with("naive") { steps - 1 } else { 0 };
        assert!(reported >= most, "{method}: {reported} of {steps}");
    }
}

#[test]
fn a_refused_request_costs_nothing() {
    let mut rig = Rig::new();
    let request = rig.request("first");
    assert_eq!(rig.run(request), (Some(false), None));
    let wrong: [fn(&mut RunRequest); 7] = [
        |r| r.method = Method::preset("sparrow").unwrap(),
        |r| r.video = "no-such-file.mp4".into(),
        |r| r.prompt = " ".into(),
        |r| r.sampling = Sampling::Frames(0),
        |r| r.max_new_tokens = 0,
        |r| r.max_new_tokens = 10_000_000,
        |r| r.text.top_p = Some(0.0),
    ];
    for change in wrong {
        let mut request = rig.request("first");
        change(&mut request);
        let (_, failure) = rig.run(request);
        let class = failure.map(|f| f.class);
        assert!(matches!(class, Some(FailureClass::Input | FailureClass::Usage)), "{class:?}");
        assert!(rig.is_kept("first"));
    }
}

#[test]
fn a_cancel_that_comes_too_late_hits_nothing_else() {
    let mut rig = Rig::new();
    let request = rig.request("first");
    for _ in 0..2 {
        assert_ne!(rig.play(request.clone(), drop).0, StopReason::Cancelled);
        rig.handle.send(Command::Load(spec(DeviceChoice::Cpu))).unwrap();
        assert!(rig.switched().is_ok());
        // Both have ended; the next ones have the same numbers.
        rig.handle.cancel(request.run);
        rig.handle.cancel(0);
    }
}

#[test]
fn a_cancel_of_a_loading_that_failed_is_not_one_of_the_next() {
    let (events, _outbox) = mpsc::channel(EVENTS);
    let (sender, tokens) = (EventSender::new(events), CancelTokens::default());
    type Check = fn() -> Result<Option<Footprint>, Failure>;
    let outcomes: [Check; 2] = [|| Err(internal("not enough memory".into())), || panic!("on purpose")];
    for fits in outcomes {
        let cancel = tokens.create(0);
        tokens.cancel(0);
        assert!(cancel.is_cancelled());
        assert!(guarded(&sender, || load(&spec(DeviceChoice::Cpu), &sender, &cancel, fits)).is_none());
        assert!(!tokens.create(0).is_cancelled());
    }
}

#[test]
fn a_kept_context_grows_only_into_memory_that_is_there() {
    let mut rig = Rig::new();
    let (events, _outbox) = mpsc::channel(EVENTS);
    let (sender, cancel) = (EventSender::new(events).of(1), CancelToken::default());
    let pair = spec(DeviceChoice::Cpu);
    let spec = ModelSpec { heads: vec![pair.target.with_file_name("sparrow")], ..pair };
    let mut models = load(&spec, &sender, &cancel, || Ok(Footprint::read(&spec))).unwrap();
    let mut cache = PrefixCache::new(u64::MAX);
    let mut run = |models: &Models, new_tokens, method| {
        let method = Method::preset(method).unwrap();
        let request = RunRequest { method, max_new_tokens: new_tokens, ..rig.request("first") };
        let rates = None;
        let (sender, cancel) = (&sender, &cancel);
        let ignore_memory = false;
        let runner = Runner {
            request: &request,
            models,
            sender,
            cancel,
            ignore_memory,
            rates,
            idle: None,
            observer: None,
        };
        runner.run(&mut cache).map(drop).map_err(|failure| (failure.class, failure.error))
    };
    run(&models, 8, "naive").unwrap();
    // From here on no memory is left.
    models.footprint = models.footprint.map(|footprint| footprint.with_mapped(u64::MAX));
    run(&models, 8, "naive").unwrap();
    let (class, error) = run(&models, 1000, "autoregressive").unwrap_err();
    assert_eq!(class, FailureClass::Memory, "{error}");
    assert!(error.starts_with("a caption of up to 1000 tokens takes about "), "{error}");
    // The drafter's context is another one.
    let (class, _) = run(&models, 8, "specvlm").unwrap_err();
    assert_eq!(class, FailureClass::Memory);
    // A draft head keeps the target's states at the new tokens.
    let (class, _) = run(&models, 8, "sparrow").unwrap_err();
    assert_eq!(class, FailureClass::Memory);
}

#[test]
fn a_full_queue_refuses_a_run() {
    // Nothing takes commands from this queue.
    let ((commands, _inbox), (loader, _specs)) = (mpsc::channel(1), mpsc::channel(1));
    let handle = EngineHandle { commands, loader: Some(loader), tokens: CancelTokens::default() };
    for command in [Command::IgnoreMemory, Command::Switch(Box::default())] {
        handle.send(command.clone()).unwrap();
        assert!(handle.send(command).unwrap_err().error.contains("queue is full"));
    }
}

#[test]
fn after_a_gpu_is_lost_the_models_are_loaded_anew() {
    if testing::gpu_or_skip().is_none() {
        return;
    }
    let mut rig = Rig::on(DeviceChoice::Gpu(None));
    let request = rig.request("what is it");
    assert_eq!(rig.run(request), (Some(false), None));
    let request = rig.request(LOSES);
    let (_, failure) = rig.run(request);
    let failure = failure.expect("the run cannot continue");
    assert_eq!(failure.class, FailureClass::Internal);
    assert!(failure.error.contains("the GPU was lost"), "{}", failure.error);
    assert!(failure.hint.is_some_and(|hint| hint.contains("run it again")));
    // A cancel that came too late for the first loading does not mean the one that follows.
    rig.handle.cancel(0);
    // Nothing of the lost device is used again.
    for kept in [false, true] {
        let request = rig.request("what is it");
        assert_eq!(rig.run(request), (Some(kept), None));
    }
}

impl Rig {
    fn switched(&mut self) -> Result<Ready, Failure> {
        loop {
            match self.events.blocking_recv().unwrap().kind {
                EventKind::Ready(ready) => return Ok(ready),
                EventKind::Failed(failure) => return Err(failure),
                _ => {}
            }
        }
    }

    fn switch(&mut self, spec: ModelSpec) -> Result<Ready, Failure> {
        self.handle.send(Command::Switch(Box::new(spec))).unwrap();
        self.switched()
    }
}

#[test]
fn what_a_switch_keeps_is_what_both_pairs_load_alike() {
    let pair = spec(DeviceChoice::Cpu);
    let kept = |new: &ModelSpec| {
        let Kept { target, drafter } = Kept::between(&pair, new);
        (target, drafter)
    };
    assert_eq!(kept(&pair), (true, true));
    assert_eq!(kept(&ModelSpec { drafter: None, ..pair.clone() }), (true, false));
    assert_eq!(kept(&ModelSpec { target: "other".into(), ..pair.clone() }), (false, true));
    assert_eq!(kept(&ModelSpec { drafter: Some("other".into()), ..pair.clone() }), (true, false));
    assert_eq!(kept(&ModelSpec { lora: Some("adapter".into()), ..pair.clone() }), (false, true));
    assert_eq!(kept(&ModelSpec { dtype: specreel_tensor::WeightType::F32, ..pair.clone() }), (false, false));
    assert_eq!(kept(&ModelSpec { device: DeviceChoice::CpuTensors, ..pair.clone() }), (false, false));
    let drafters_own = DeviceChoice::CpuTensors;
    assert_eq!(kept(&ModelSpec { drafter_device: Some(drafters_own), ..pair.clone() }), (true, false));
}

#[test]
fn models_are_switched_on_any_device_and_a_run_is_the_same_as_with_them_alone() {
    let devices = [DeviceChoice::Cpu, DeviceChoice::Gpu(None)];
    for device in devices.into_iter().take(1 + usize::from(testing::gpu_or_skip().is_some())) {
        let text = |rig: &mut Rig| {
            let request = RunRequest { method: Method::default(), ..rig.request("what is it") };
            rig.play(request, drop).1
        };
        let (mut alone, mut rig) = (Rig::on(device), Rig::on(device));
        let pair = spec(device);
        let swapped = ModelSpec { target: pair.drafter.clone().unwrap(), drafter: None, ..pair.clone() };
        let first = text(&mut rig);
        assert_eq!(first, text(&mut alone));
        // Only the drafter goes, then both models change, then the target is the old one again.
        let ready = rig.switch(ModelSpec { drafter: None, ..pair.clone() }).unwrap();
        assert_eq!((ready.drafter, ready.parts.unwrap().drafter), (None, false));
        assert!(ready.freed_bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!(first, text(&mut rig));
        let ready = rig.switch(swapped.clone()).unwrap();
        assert_eq!(ready.target, "mha_tied_bf16");
        let other = text(&mut rig);
        alone.handle.send(Command::Load(swapped)).unwrap();
        assert!(alone.switched().is_ok());
        assert_eq!(other, text(&mut alone));
        assert_eq!(rig.switch(pair).unwrap().drafter.as_deref(), Some("mha_tied_bf16"));
        assert_eq!(first, text(&mut rig));
        let request = rig.request("what is it");
        assert_eq!(rig.run(request).1, None);
    }
}

#[test]
fn a_switch_that_fails_or_is_cancelled_leaves_the_old_models() {
    let mut rig = Rig::new();
    assert!(!rig.is_kept("first"));
    let pair = spec(DeviceChoice::Cpu);
    let fixture = |name: &str| pair.target.with_file_name(name);
    let missing = ModelSpec { target: fixture("no-such-model"), ..pair.clone() };
    let stranger = ModelSpec { drafter: Some(fixture("smolvlm")), ..pair.clone() };
    for (wrong, words) in [(missing, "no-such-model"), (stranger, "cannot draft for gqa_tied")] {
        let failure = rig.switch(wrong).unwrap_err();
        assert!(failure.error.contains(words), "{}", failure.error);
        // Not even the context is lost.
        assert!(rig.is_kept("first"), "{words}");
    }
    // One that waits for the end of a run is dropped by a cancel, and the next one is not, even if it is sent at once.
    let request = RunRequest { max_new_tokens: 4, ..rig.request(SLOW) };
    let alone = ModelSpec { drafter: None, ..pair };
    rig.handle.send(Command::Run(Box::new(request))).unwrap();
    rig.handle.send(Command::Switch(Box::new(alone.clone()))).unwrap();
    rig.handle.cancel(0);
    rig.handle.send(Command::Switch(Box::new(alone.clone()))).unwrap();
    let mut done = false;
    let failure = loop {
        match rig.events.blocking_recv().unwrap().kind {
            EventKind::Done { .. } => done = true,
            EventKind::Failed(failure) => break failure,
            EventKind::Ready(ready) => panic!("{ready:?}"),
            _ => {}
        }
    };
    assert_eq!(failure.error, CheckpointError::Stopped.to_string());
    while !done {
        done = matches!(rig.events.blocking_recv().unwrap().kind, EventKind::Done { .. });
    }
    assert_eq!(rig.switched().unwrap().drafter, None);
    assert_eq!(rig.switch(alone).unwrap().drafter, None);
}

/// One token is not worth a look at the video: what the drafter reads comes on top.
#[test]
fn an_automatic_context_is_chosen_by_what_it_costs_and_saves() {
    let mut rig = Rig::new();
    let method = Method::preset("naive-auto").unwrap();
    let request = RunRequest { max_new_tokens: 1, method, ..rig.request("what is it") };
    let (mut named, mut seen) = (None, None);
    let (.., stats) = rig.play(request, |kind| match kind {
        EventKind::Started(started) => named = Some(started.method["context"]["kind"].clone()),
        EventKind::Prompt(prompt) => seen = Some(prompt),
        _ => {}
    });
    assert_eq!(stats.drafter_visual_tokens, 0);
    let seen = seen.unwrap();
    assert_eq!((named.unwrap().as_str(), seen.kept), (Some("auto"), Some(vec![])));
    assert_eq!(seen.notes, ["chosen for this run: draft model that sees no visual tokens"]);
}

/// Any choice is lossless, and none is left open.
#[test]
fn an_automatic_method_says_what_it_chose_and_writes_the_same_text() {
    let mut rig = Rig::new();
    let mut texts = Vec::new();
    for method in ["autoregressive", "auto", "auto"] {
        let method = Method::preset(method).unwrap();
        let request = RunRequest { method, ..rig.request("what is it") };
        let mut chosen = None;
        let (_, ids, _) = rig.play(request, |kind| {
            if let EventKind::Prompt(prompt) = kind {
                chosen = prompt.chosen;
            }
        });
        texts.push((ids, chosen));
    }
    assert_eq!(texts[0].1, None);
    for (ids, chosen) in &texts[1..] {
        assert_eq!(ids, &texts[0].0);
        let chosen = chosen.as_ref().unwrap();
        let method: Method = serde_json::from_value(chosen.method.clone()).unwrap();
        assert_eq!(method.name, "auto");
        assert!(method.validate().is_ok() && !method.describe().contains("pay"), "{}", method.describe());
        // All that is loaded was considered.
        let drafters: Vec<&str> = chosen.expected.iter().map(|of| of.drafter.as_str()).collect();
        assert!(drafters.contains(&"no drafter") && drafters.len() == 3, "{drafters:?}");
        assert!(chosen.expected.is_sorted_by(|a, b| a.ms <= b.ms), "{chosen:?}");
    }
}

/// What takes over reads its share of the prompt within the run, and steps say who has drafted; the text is the target's own.
#[test]
fn drafters_take_turns_within_a_run() {
    let mut rig = Rig::new();
    let mut plain = Vec::new();
    for (method, most) in [("autoregressive", 1), ("naive-auto", 2), ("naive-auto", 2)] {
        let method = Method::preset(method).unwrap();
        let request = RunRequest { method, max_new_tokens: 24, ..rig.request(TURNS) };
        let mut names = std::collections::BTreeSet::new();
        let (_, ids, _) = rig.play(request, |kind| {
            if let EventKind::Step(step) = kind {
                assert_eq!(step.drafter.is_some(), most > 1 && !step.drafted.is_empty());
                names.extend(step.drafter);
            }
        });
        if plain.is_empty() {
            plain = ids;
            continue;
        }
        assert_eq!(ids, plain);
        assert!(names.len() >= most, "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("draft model that sees ")), "{names:?}");
    }
}

#[test]
fn texts_have_meanings_unless_nobody_waits_any_more() {
    let mut rig = Rig::new();
    let ask = |handle: &EngineHandle, until: Option<Instant>| {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        let texts = ["a star", "two stars", "a star"].map(str::to_owned).to_vec();
        handle.send(Command::Meanings(MeaningRequest { texts, until, reply })).unwrap();
        answer.recv().unwrap()
    };
    let Meanings { model, vectors } = ask(&rig.handle, None).unwrap();
    assert_eq!(model, "gqa_tied");
    assert!(vectors[0] == vectors[2] && vectors[0] != vectors[1]);
    let length = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    assert!(vectors.iter().all(|vector| (length(vector) - 1.0).abs() < 1e-5));
    assert!(ask(&rig.handle, Some(Instant::now())).unwrap_err().error.contains("nobody waits"));
    // Runs still work.
    let request = rig.request("first");
    assert_eq!(rig.run(request).1, None);
    let (empty, _events) = Engine::start().unwrap();
    assert!(ask(&empty, None).unwrap_err().error.contains("no models are loaded"));
}
