use super::*;
use crate::{BASELINE, runs::Setup};
use specreel_client::{
    Interrupt,
    fake::{self, FakeEngine},
};
use specreel_engine::RunRequest;
use specreel_record::Failure;
use specreel_record::{EventKind, FailureClass, Stats, Timings};
use specreel_scenes::facts;
use specreel_speculate::Method;

/// Clips that are only names, all of one red circle.
struct Named(Vec<u64>);

impl Clips for Named {
    fn take(&mut self, seed: u64) -> Result<Clip, Failure> {
        self.0.push(seed);
        Ok(Clip { seed, path: seed.to_string().into(), truth: facts::extract("a red circle") })
    }

    fn give_back(&mut self, clip: &Clip) {
        self.0.retain(|seed| *seed != clip.seed);
    }
}

fn done(text: &str, ids: &[u32], tokens_per_second: f64, timings: Timings) -> EventKind {
    let emitted = ids.len() as u64;
    let stats = Stats { tokens_per_second, emitted, timings, ..Stats::default() };
    EventKind::Done { reason: StopReason::Eos, text: text.into(), ids: ids.into(), stats: Box::new(stats) }
}

/// The baseline writes four right tokens in 40 ms after 20 ms; others write three in 10 ms, one of them wrong.
fn plain_and_fast(request: &RunRequest) -> EventKind {
    let times = |verify_ms, decode_video_ms| Timings { verify_ms, decode_video_ms, ..Timings::default() };
    match request.method.name.as_str() {
        BASELINE => done("A red circle.", &[1, 2, 3, 4], 100.0, times(40.0, 20.0)),
        _ => done("A blue circle.", &[1, 9, 3], 300.0, times(10.0, 0.0)),
    }
}

/// Interrupts after so many trials.
struct Stopping {
    interrupt: Interrupt,
    after: Option<usize>,
    trials: usize,
}

impl Reporter for Stopping {
    type Error = Failure;

    fn stage(&mut self, _: Stage, _: u64, _: u64) {}

    fn ended(&mut self) {}

    fn note(&mut self, _: &str) {}

    fn line<T: serde::Serialize>(&mut self, _: &str, _: &T) -> Result<(), Failure> {
        self.trials += 1;
        if self.after == Some(self.trials) {
            self.interrupt.ask();
        }
        Ok(())
    }

    fn columns(&self) -> Option<usize> {
        None
    }

    fn table(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn wants_file(&self, _: &str) -> bool {
        false
    }

    fn file(&mut self, _: &str, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}

struct Outcome {
    whole: Result<bool, Failure>,
    trials: Vec<Trial>,
    asked: Vec<(String, String, usize)>,
    left: Vec<u64>,
}

fn play(methods: &str, answer: fn(&RunRequest) -> EventKind, stop_after: Option<usize>) -> Outcome {
    let models = crate::plan::tests::spec(true);
    let plan = Plan::new(Some(methods), &[], &[], &models, &crate::plan::tests::find).unwrap();
    let (engine, client) = FakeEngine::answering(move |request| vec![answer(request)]);
    let interrupt = Interrupt::default();
    let request = RunRequest { max_new_tokens: 99, ..fake::request(0, BASELINE) };
    let setup = Setup { models, ignore_memory: false, request, profiles: Vec::new() };
    let mut runs = Runs::new(client, interrupt.clone(), setup);
    let (mut clips, mut trials) = (Named(vec![]), Vec::new());
    let mut reporter = Stopping { interrupt, after: stop_after, trials: 0 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let measured = measure(&plan.systems, 7..9, &mut runs, &mut clips, &mut reporter, &mut trials);
    let whole = runtime.block_on(measured);
    let asked = engine
        .requests()
        .into_iter()
        .map(|r| (r.video.display().to_string(), r.method.name, r.max_new_tokens))
        .collect();
    Outcome { whole, trials, asked, left: clips.0 }
}

#[test]
fn a_warm_up_on_another_clip_then_the_baseline_first_on_each() {
    let outcome = play("naive,fly,lvspec-self", plain_and_fast, None);
    assert!(outcome.whole.unwrap());
    let asked: Vec<(&str, &str, usize)> =
        outcome.asked.iter().map(|(clip, name, limit)| (clip.as_str(), name.as_str(), *limit)).collect();
    assert_eq!(asked[..3], [("9", BASELINE, 32), ("9", "naive", 32), ("9", "lvspec-self", 32)]);
    assert_eq!(
        asked[3..7],
        [("7", BASELINE, 99), ("7", "naive", 99), ("7", "fly", 99), ("7", "lvspec-self", 99)]
    );
    assert_eq!((asked[7], asked.len()), (("8", BASELINE, 99), 11));
    assert_eq!((outcome.trials.len(), outcome.left), (8, vec![]));
}

#[test]
fn a_run_is_judged_by_the_truth_and_by_the_baseline_on_its_clip() {
    let outcome = play("naive", plain_and_fast, None);
    let [plain, fast] = &outcome.trials[..2] else { panic!("{:?}", outcome.trials) };
    assert_eq!((plain.facts.right, plain.facts.total), (2, 2));
    assert_eq!((fast.facts.right, fast.facts.wrong), (1, 1));
    assert_eq!(plain.pair, Some(Pair { decode_ratio: 1.0, end_to_end_ratio: 1.0 }));
    // Three tokens would have taken the baseline 20 + 30 ms.
    assert_eq!(fast.pair, Some(Pair { decode_ratio: 3.0, end_to_end_ratio: 50.0 / 30.0 }));
    assert_eq!(fast.front_ms, 20.0);
    let equality = |trial: &Trial| trial.stats.equality.clone().unwrap();
    assert!(equality(plain).equal);
    assert_eq!(equality(fast).first_difference, Some(1));
}

#[test]
fn further_results_on_the_same_frames_are_charged_for_reading_them() {
    let clip = Clip { seed: 7, path: "7".into(), truth: facts::extract("a red circle") };
    let plain = System { label: BASELINE.into(), lab: Method::preset(BASELINE).unwrap().into() };
    let written = |decode_video_ms| {
        let timings = Timings { verify_ms: 40.0, decode_video_ms, ..Timings::default() };
        Written { ids: vec![1], stats: Stats { timings, ..Stats::default() }, ..Written::default() }
    };
    let mut results = ClipResults::new(&clip);
    assert_eq!(results.trial(&plain, written(20.0)).front_ms, 20.0);
    // The engine has the frames already.
    let mut again = results.again();
    assert_eq!(again.trial(&plain, written(0.0)).front_ms, 20.0);
    assert_eq!(again.again().trial(&plain, written(0.0)).front_ms, 20.0);
    assert_eq!(ClipResults::new(&clip).trial(&plain, written(0.0)).front_ms, 0.0);
}

#[test]
fn an_interrupt_keeps_what_is_done_and_begins_nothing() {
    let outcome = play("naive", plain_and_fast, Some(3));
    assert!(!outcome.whole.unwrap());
    assert_eq!(outcome.trials.len(), 3);
    assert_eq!(outcome.asked.last().unwrap().0, "8");
}

#[test]
fn a_cancelled_run_is_no_trial() {
    let outcome = play(
        "naive",
        |request| match request.method.name.as_str() {
            "naive" if request.max_new_tokens == 99 => EventKind::Done {
                reason: StopReason::Cancelled,
                text: "A".into(),
                ids: vec![1],
                stats: Box::default(),
            },
            _ => plain_and_fast(request),
        },
        None,
    );
    assert!(!outcome.whole.unwrap());
    assert_eq!(outcome.trials.iter().map(|t| t.system.as_str()).collect::<Vec<_>>(), [BASELINE]);
}

#[test]
fn a_failure_ends_it() {
    let outcome = play(
        "naive",
        |request| match request.video.to_str() {
            Some("8") => EventKind::Failed(Failure {
                class: FailureClass::Memory,
                error: "too much".into(),
                hint: None,
            }),
            _ => plain_and_fast(request),
        },
        None,
    );
    assert!(matches!(outcome.whole, Err(f) if f.error == "too much"));
    assert_eq!(outcome.trials.len(), 2);
}
