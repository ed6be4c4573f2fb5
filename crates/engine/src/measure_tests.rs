use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::*;
use crate::{
    Command, RunRequest,
    testing::{CANCELLED_LATER, PANICS_LATER},
    thread::tests::Rig,
};
use specreel_record::{Event, Speedup};

impl Rig {
    fn start(&mut self, prompt: &str, method: &str) -> u64 {
        let method = Method::preset(method).unwrap();
        let request = RunRequest { method, measure: true, ..self.request(prompt) };
        let run = request.run;
        self.handle.send(Command::Run(Box::new(request))).unwrap();
        run
    }

    /// The next event that is neither progress nor a step.
    fn next(&mut self) -> Event {
        loop {
            let event = self.events.blocking_recv().unwrap();
            if !matches!(event.kind, EventKind::Stage { .. } | EventKind::Step(_)) {
                return event;
            }
        }
    }

    fn ids_of(&mut self, run: u64) -> Vec<u32> {
        loop {
            let event = self.next();
            match event.kind {
                EventKind::Done { ids, .. } if event.run == run => return ids,
                EventKind::Failed(failure) => panic!("{failure:?}"),
                _ => {}
            }
        }
    }

    /// Run a method again and again until its speed has been measured: on a busy machine the pairs may be too few, or impossible.
    /// Also returns its ids.
    fn measured(&mut self, prompt: &str, method: &str) -> (Vec<u32>, Speedup) {
        for _ in 0..50 {
            let run = self.start(prompt, method);
            let ids = self.ids_of(run);
            // The first interval is enough.
            let told = self.next();
            assert!(matches!(told.kind, EventKind::Speed { .. }), "{method}: {told:?}");
            if let EventKind::Speed { measuring: false, speedup } = told.kind {
                match speedup {
                    Some(speedup) => return (ids, speedup),
                    None => continue,
                }
            }
            self.handle.cancel(run);
            let speeds = self.speeds_until(run);
            assert_eq!(speeds.len(), 1, "{method}");
            if let Some(speedup) = speeds[0].1.clone() {
                return (ids, speedup);
            }
        }
        panic!("the speed of {method} was never measured");
    }

    /// The final speed of each run, in order of arrival, until `last`'s has come.
    fn speeds_until(&mut self, last: u64) -> Vec<(u64, Option<Speedup>)> {
        let mut speeds = Vec::new();
        loop {
            let event = self.next();
            if let EventKind::Speed { speedup, measuring: false } = event.kind {
                speeds.push((event.run, speedup));
                if event.run == last {
                    return speeds;
                }
            }
        }
    }
}

#[test]
fn a_finished_run_gets_its_speed_and_the_context_stays_as_it_was() {
    let mut rig = Rig::new();
    for method in ["naive", "specvlm", "parallelvlm"] {
        let (ids, speedup) = rig.measured("first", method);
        let interval = speedup.interval;
        assert!(interval.pairs >= paired::LEAST && interval.low <= speedup.decode, "{method}: {interval:?}");
        assert!(speedup.decode <= interval.high, "{method}: {speedup:?}");
        // The repetitions have left no trace: the same run writes the same text.
        let again = rig.start("first", method);
        assert_eq!(rig.ids_of(again), ids, "{method}");
        rig.handle.cancel(again);
        rig.speeds_until(again);
    }
}

#[test]
fn autoregressive_runs_and_those_that_do_not_ask_are_not_measured() {
    let mut rig = Rig::new();
    let plain = rig.start("first", "autoregressive");
    rig.ids_of(plain);
    let request = rig.request("first");
    let silent = request.run;
    rig.handle.send(Command::Run(Box::new(request))).unwrap();
    rig.ids_of(silent);
    let measured = rig.start("first", "naive");
    rig.ids_of(measured);
    let speeds = rig.speeds_until(measured);
    assert_eq!(speeds.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [measured]);
}

#[test]
fn a_command_comes_first_and_runs_on_one_context_are_measured_together() {
    let mut rig = Rig::new();
    let (first, second) = (rig.start("first", "naive"), rig.start("first", "specvlm"));
    let mut speeds = rig.speeds_until(second);
    if !speeds.iter().any(|(run, _)| *run == first) {
        // Measured together, either may be settled before the other.
        speeds.extend(rig.speeds_until(first));
    }
    let mut runs: Vec<u64> = speeds.iter().map(|(run, _)| *run).collect();
    runs.sort_unstable();
    assert_eq!(runs, [first, second]);
}

#[test]
fn a_run_on_another_context_ends_the_measurement() {
    let mut rig = Rig::new();
    let (first, second) = (rig.start("first", "naive"), rig.start("second", "naive"));
    let runs: Vec<u64> = rig.speeds_until(second).into_iter().map(|(run, _)| run).collect();
    assert_eq!(runs, [first, second], "the first is reported as far as it was measured");
}

#[test]
fn a_cancelled_measurement_says_so() {
    let mut rig = Rig::new();
    for prompt in ["first", CANCELLED_LATER] {
        let run = rig.start(prompt, "naive");
        rig.ids_of(run);
        // A cancel that comes while the run itself ends is for that run: it is repeated until it is heard.
        let (handle, over) = (rig.handle.clone(), AtomicBool::new(false));
        let speeds = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    handle.cancel(run);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let speeds = rig.speeds_until(run);
            over.store(true, Ordering::Relaxed);
            speeds
        });
        assert_eq!(speeds.len(), 1, "{prompt}");
    }
}

#[test]
fn a_failure_of_a_measurement_costs_its_figures_only() {
    let mut rig = Rig::new();
    let run = rig.start(PANICS_LATER, "naive");
    rig.ids_of(run);
    assert_eq!(rig.speeds_until(run).len(), 1);
    let after = rig.start("first", "naive");
    assert!(!rig.ids_of(after).is_empty());
}
