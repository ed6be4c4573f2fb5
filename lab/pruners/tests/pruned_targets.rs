//! Whole runs of pruned targets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use specreel_engine::{Command, Engine, EngineHandle, RunRequest};
use specreel_model::ModelSpec;
use specreel_pruners::{LabMethod, TargetPruner};
use specreel_record::{Event, EventKind, Failure, PromptSeen, Started, Stats};
use specreel_scenes::{self as scenes, Scene};
use specreel_speculate::Method;
use specreel_tensor::DeviceChoice;
use specreel_video::Sampling;

struct Rig {
    engine: EngineHandle,
    events: tokio::sync::mpsc::Receiver<Event>,
    dir: tempfile::TempDir,
    run: u64,
}

/// What a run reports.
#[derive(Default)]
struct Told {
    started: Started,
    prompt: PromptSeen,
    ids: Vec<u32>,
    stats: Stats,
}

impl Rig {
    fn of(target: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        scenes::encode::mp4(&Scene::from_seed(11), &dir.path().join("clip.mp4"), 64, 48).unwrap();
        let (engine, mut events) = Engine::start().unwrap();
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parity/fixtures").join(target);
        let spec = ModelSpec { target, device: DeviceChoice::Cpu, ..ModelSpec::default() };
        engine.send(Command::Load(spec)).unwrap();
        while !matches!(events.blocking_recv().unwrap().kind, EventKind::Ready(_)) {}
        Self { engine, events, dir, run: 0 }
    }

    fn run(&mut self, own: &LabMethod) -> Result<Told, Failure> {
        self.run += 1;
        let request = RunRequest {
            run: self.run,
            video: self.dir.path().join("clip.mp4"),
            prompt: "What is seen?".into(),
            sampling: Sampling::Frames(4),
            max_new_tokens: 24,
            method: own.method.clone(),
            pruner: own.pruner(),
            ..RunRequest::default()
        };
        self.engine.send(Command::Run(Box::new(request))).unwrap();
        let mut told = Told::default();
        loop {
            match self.events.blocking_recv().unwrap().kind {
                EventKind::Started(started) => told.started = started,
                EventKind::Prompt(prompt) => told.prompt = prompt,
                EventKind::Failed(failure) => return Err(failure),
                EventKind::Done { ids, stats, .. } => {
                    (told.ids, told.stats) = (ids, *stats);
                    return Ok(told);
                }
                _ => {}
            }
        }
    }
}

fn plain() -> LabMethod {
    Method::default().into()
}

/// In every family; and no other method reads its context.
#[test]
fn pruned_targets_read_what_they_keep() {
    for (target, tokens) in [("qwen2_vl", 8), ("llava_ov", 36)] {
        let mut rig = Rig::of(target);
        let whole = rig.run(&plain()).unwrap();
        assert!(whole.started.lossless && whole.started.pruner.is_none());
        let fastvid = TargetPruner::FastVid { keep: 0.5, unit: Default::default() };
        let fastvid = LabMethod { pruner: Some(fastvid), ..plain() };
        for own in LabMethod::presets().iter().chain([&fastvid]) {
            for keep in [0.0, 0.5, 1.0] {
                let own = own.with_sets([format!("pruner.keep={keep:?}").as_str()]).unwrap();
                let Told { started, prompt, ids, stats } = rig.run(&own).unwrap();
                let words = format!("{target} {:?}", own.pruner);
                assert!(!started.lossless && started.pruner.unwrap()["keep"] == keep, "{words}");
                let kept = prompt.kept.unwrap();
                assert!(kept.is_sorted_by(|a, b| a < b), "{words}");
                assert!(kept.iter().all(|token| (*token as usize) < tokens), "{words}");
                let share = stats.accepted_share.unwrap();
                assert!((0.0..=1.0).contains(&share), "{words}");
                match keep {
                    1.0 => assert_eq!((kept.len(), &ids, share), (tokens, &whole.ids, 1.0), "{words}"),
                    0.0 => assert!(kept.is_empty(), "{words}"),
                    _ => assert!(kept.len() <= tokens / 2, "{words}"),
                }
            }
        }
        assert_eq!(rig.run(&plain()).unwrap().ids, whole.ids, "{target}");
    }
}

#[test]
fn linear_attention_needs_all_rows() {
    let mut rig = Rig::of("qwen3_5");
    rig.run(&plain()).unwrap();
    for own in LabMethod::presets() {
        let failure = rig.run(own).err().unwrap();
        assert!(failure.error.contains("whose linear attention layers need all of them"), "{failure:?}");
    }
}
