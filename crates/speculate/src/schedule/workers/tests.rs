//! Scripted workers on two threads: the result must not depend on which side is faster, and no failure may hang.

use std::time::Duration;

use super::*;
use crate::schedule::{
    Case, Limits,
    scripted::{ENDS, Script, ScriptedDrafter, ScriptedTarget, hash},
};
use specreel_record::Verdict;

const ROOT: u32 = 7;
const MOST: usize = 40;

#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    Error,
    Panic,
}

/// A worker that takes its time, and perhaps fails in its `at`th task.
struct Slow<W> {
    worker: W,
    seed: u64,
    tasks: u32,
    trouble: Option<(u32, Trouble)>,
}

impl<W> Slow<W> {
    fn new(worker: W, seed: u64) -> Self {
        Self { worker, seed, tasks: 0, trouble: None }
    }

    fn dawdle(&mut self) -> Result<(), String> {
        self.tasks += 1;
        std::thread::sleep(Duration::from_micros(hash(self.seed, 0, &[self.tasks]) % 300));
        match self.trouble {
            Some((at, Trouble::Error)) if at == self.tasks => Err("out of memory".into()),
            Some((at, Trouble::Panic)) if at == self.tasks => panic!("on purpose"),
            _ => Ok(()),
        }
    }
}

impl Judge<()> for Slow<ScriptedTarget> {
    fn accept(&mut self, case: &Case<'_, ()>) -> Vec<Verdict> {
        self.worker.accept(case)
    }

    fn replacement(&mut self, case: &Case<'_, ()>, row: usize) -> u32 {
        self.worker.replacement(case, row)
    }
}

impl TargetWorker<()> for Slow<ScriptedTarget> {
    type Error = String;

    fn verify(&mut self, task: &TargetTask) -> Result<(), String> {
        self.dawdle()?;
        self.worker.verify(task)
    }
}

impl DrafterWorker<()> for Slow<ScriptedDrafter> {
    type Error = String;

    fn draft(&mut self, task: &DrafterTask) -> Result<Vec<DraftToken>, String> {
        self.dawdle()?;
        self.worker.draft(task)
    }
}

fn script(seed: u64) -> Script {
    Script { seed, words: 5, agreement: 80, ending: 1 }
}

fn machine() -> Parallel {
    Parallel::new(ROOT, Limits { max_new_tokens: MOST, ends: (0..ENDS).collect() })
}

fn workers(seed: u64, timing: u64) -> (Slow<ScriptedTarget>, Slow<ScriptedDrafter>) {
    let script = script(seed);
    let target = Slow::new(ScriptedTarget::new(&script), timing);
    (target, Slow::new(ScriptedDrafter::new(&script), timing + 1))
}

#[test]
fn timing_changes_nothing() {
    for seed in 0..12 {
        let mut traces = Vec::new();
        for timing in [100, 200] {
            let (mut target, mut drafter) = workers(seed, timing);
            let (mut machine, mut trace) = (machine(), Vec::new());
            run(&mut machine, &mut WindowLength::fixed(4), &mut target, &mut drafter, |ticked| {
                trace.push(ticked.outcome);
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(machine.tokens(), script(seed).autoregressive(ROOT, MOST).0);
            traces.push(trace);
        }
        assert_eq!(traces[0], traces[1]);
    }
}

#[test]
fn an_automatic_window_changes_the_ticks_but_not_the_text() {
    for seed in 0..12 {
        let (mut target, mut drafter) = workers(seed, seed);
        let mut machine = machine();
        let go = |_| ControlFlow::Continue(());
        run(&mut machine, &mut WindowLength::auto(3, 8), &mut target, &mut drafter, go).unwrap();
        assert_eq!(machine.tokens(), script(seed).autoregressive(ROOT, MOST).0);
    }
}

#[test]
fn both_sides_work_at_the_same_time() {
    // A target that waits for the drafter within its own pass can only continue if the drafter runs meanwhile.
    struct Meet<W>(W, std::sync::Arc<std::sync::Barrier>);
    impl Judge<()> for Meet<ScriptedTarget> {
        fn accept(&mut self, case: &Case<'_, ()>) -> Vec<Verdict> {
            self.0.accept(case)
        }
        fn replacement(&mut self, case: &Case<'_, ()>, row: usize) -> u32 {
            self.0.replacement(case, row)
        }
    }
    impl TargetWorker<()> for Meet<ScriptedTarget> {
        type Error = String;
        fn verify(&mut self, task: &TargetTask) -> Result<(), String> {
            self.1.wait();
            self.0.verify(task)
        }
    }
    impl DrafterWorker<()> for Meet<ScriptedDrafter> {
        type Error = String;
        fn draft(&mut self, task: &DrafterTask) -> Result<Vec<DraftToken>, String> {
            self.1.wait();
            self.0.draft(task)
        }
    }
    let script = Script { seed: 1, words: 5, agreement: 100, ending: 0 };
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
    let mut target = Meet(ScriptedTarget::new(&script), barrier.clone());
    let mut drafter = Meet(ScriptedDrafter::new(&script), barrier);
    let (mut machine, mut ticks) = (machine(), 0);
    // Stopped before the last tick, which has no drafting in it.
    run(&mut machine, &mut WindowLength::fixed(4), &mut target, &mut drafter, |_| {
        ticks += 1;
        if ticks == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(machine.tokens().len(), 1 + 4 * 4);
}

#[test]
fn a_window_that_was_drafted_before_is_not_drafted_again() {
    for (seed, most) in (0..12).flat_map(|seed| [(seed, MOST), (seed, 2)]) {
        let (mut target, mut drafter) = workers(seed, seed);
        let limits = Limits { max_new_tokens: most, ends: (0..ENDS).collect() };
        let mut machine = Parallel::new(ROOT, limits);
        let task = DrafterTask { truncate_to: 0, feed: vec![ROOT], draft: 4, position: 0 };
        let mut prefetched = Some((drafter.worker.draft(&task).unwrap(), 1.0));
        std::thread::scope(|scope| {
            let drafter_thread = DrafterThread::spawn(scope, &mut drafter).unwrap();
            let mut window = WindowLength::fixed(4);
            let mut first = true;
            while let Some(ticked) =
                drafter_thread.tick(&mut machine, &mut window, &mut target, prefetched.take()).unwrap()
            {
                assert!(!first || ticked.drafter_ms == 0.0);
                first = false;
            }
        });
        assert_eq!(machine.tokens(), script(seed).autoregressive(ROOT, most).0);
        let asked = machine.tally().ticks - 1;
        assert!(u64::from(drafter.tasks) <= asked, "{} tasks in {asked} ticks", drafter.tasks);
    }
}

#[test]
fn a_failing_worker_is_an_error_and_not_a_hang() {
    for side in [Side::Target, Side::Drafter] {
        for trouble in [Trouble::Error, Trouble::Panic] {
            for at in [1, 2, 4] {
                let (mut target, mut drafter) = workers(5, u64::from(at));
                match side {
                    Side::Target => target.trouble = Some((at, trouble)),
                    Side::Drafter => drafter.trouble = Some((at, trouble)),
                }
                let mut machine = machine();
                let go = |_| ControlFlow::Continue(());
                let failure = run(&mut machine, &mut WindowLength::fixed(3), &mut target, &mut drafter, go)
                    .unwrap_err();
                let want = match trouble {
                    Trouble::Error => format!("the {side} failed: out of memory"),
                    Trouble::Panic => format!("the {side} panicked: on purpose"),
                };
                assert_eq!(failure.to_string(), want);
                let text = script(5).autoregressive(ROOT, MOST).0;
                assert!(text.starts_with(machine.tokens()));
            }
        }
    }
}

#[test]
fn a_companion_whose_drafter_failed_says_so() {
    let (mut target, mut drafter) = workers(5, 1);
    drafter.trouble = Some((1, Trouble::Panic));
    std::thread::scope(|scope| {
        let drafter_thread = DrafterThread::spawn(scope, &mut drafter).unwrap();
        let (mut machine, mut window) = (machine(), WindowLength::fixed(3));
        let first = drafter_thread.tick(&mut machine, &mut window, &mut target, None).unwrap_err();
        assert!(matches!(first, WorkerError::Panicked(Side::Drafter, _)));
        let second = drafter_thread.tick(&mut machine, &mut window, &mut target, None).unwrap_err();
        assert!(matches!(second, WorkerError::Gone));
    });
}
