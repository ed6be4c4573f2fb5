//! The parallel schedule on two threads.
//!
//! The target works on the calling thread, the drafter on one thread of its own that lives as long as the generation. Orders go
//! to it and windows come back, one at a time; no tensor crosses. The emitted text does not depend on which side is faster, though the
//! window may ([`WindowLength::auto`]): a [`Judge`] looks at one position at a time.
//!
//! A worker that fails or panics ends the generation with a [`WorkerError`]. No thread waits for another that will not answer: the
//! drafter's thread answers or closes its channel, and ends when its `DrafterThread` is dropped.

use std::{
    fmt,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{Builder, Scope},
    time::Instant,
};

use super::{
    judge::{DraftToken, Judge},
    parallel::Parallel,
    tick::{DrafterTask, Outcome, TargetTask},
    window::{Seen, WindowLength},
};
use specreel_record::{Busy, panic_words};

/// Owns the drafter's sequence.
pub trait DrafterWorker<E>: Send {
    type Error;

    /// Carry out a task.
    fn draft(&mut self, task: &DrafterTask) -> Result<Vec<DraftToken<E>>, Self::Error>;
}

/// Owns the target's sequence, and judges by the rows of its last pass.
pub trait TargetWorker<E>: Judge<E> {
    type Error;

    /// Carry out a task, and keep what its rows predict.
    fn verify(&mut self, task: &TargetTask) -> Result<(), Self::Error>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Target,
    Drafter,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Target => "target",
            Side::Drafter => "drafter",
        })
    }
}

/// Why a generation failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError<X> {
    #[error("the {0} failed: {1}")]
    Worker(Side, X),
    #[error("the {0} panicked: {1}")]
    Panicked(Side, String),
    /// The drafter's thread ended after an earlier failure.
    #[error("the drafter's thread has ended: restart the generation")]
    Gone,
    #[error("cannot start the drafter's thread: {0}")]
    Spawn(std::io::Error),
}

/// One applied tick with its times.
#[derive(Clone, Debug)]
pub struct Ticked {
    pub outcome: Outcome,
    /// Time of the verify pass.
    pub(crate) target_ms: f64,
    /// Time of drafting; 0 if nothing was drafted in this tick.
    pub drafter_ms: f64,
    /// When both were at work, from the tick's beginning.
    pub busy: Busy,
}

/// A window, or why there is none, and when it was drafted.
type Answer<E, X> = (Result<Vec<DraftToken<E>>, WorkerError<X>>, Worked);

pub(crate) struct DrafterThread<E, X> {
    tasks: SyncSender<DrafterTask>,
    answers: Receiver<Answer<E, X>>,
}

impl<E: Send, X: Send> DrafterThread<E, X> {
    /// Start the drafter's thread. It ends when the [`DrafterThread`] is dropped, after the window in progress.
    pub fn spawn<'scope, D>(
        scope: &'scope Scope<'scope, '_>,
        drafter: &'scope mut D,
    ) -> Result<Self, WorkerError<X>>
    where
        D: DrafterWorker<E, Error = X>,
        E: 'scope,
        X: 'scope,
    {
        let (tasks, inbox) = sync_channel::<DrafterTask>(1);
        let (outbox, answers) = sync_channel(1);
        let work = move || {
            for task in inbox {
                let (window, worked) = timed(|| guarded(Side::Drafter, || drafter.draft(&task)));
                let failed = window.is_err();
                if outbox.send((window, worked)).is_err() || failed {
                    break;
                }
            }
        };
        Builder::new().name("drafter".into()).spawn_scoped(scope, work).map_err(WorkerError::Spawn)?;
        Ok(Self { tasks, answers })
    }

    /// Run one tick of the machine; `None` once its generation has ended. `prefetched` is the drafter's window for this very
    /// tick with its time, drafted before; the drafter gets no task then. The generation cannot continue after an error.
    pub fn tick<T>(
        &self,
        machine: &mut Parallel<E>,
        window: &mut WindowLength,
        target: &mut T,
        prefetched: Option<(Vec<DraftToken<E>>, f64)>,
    ) -> Result<Option<Ticked>, WorkerError<X>>
    where
        T: TargetWorker<E, Error = X>,
    {
        let started = Instant::now();
        let Some(tick) = machine.tick(window.length()) else { return Ok(None) };
        let asked = tick.drafter.as_ref().filter(|_| prefetched.is_none());
        if let Some(task) = asked {
            self.tasks.send(task.clone()).map_err(|_| WorkerError::Gone)?;
        }
        let (verified, target_worked) = timed(|| guarded(Side::Target, || target.verify(&tick.target)));
        // The window is taken in even if the target failed, so that no answer is left over for a later tick.
        let (drafts, drafter_worked) = match asked {
            Some(_) => match self.answers.recv() {
                Ok((window, worked)) => (Some(window), Some(worked)),
                Err(_) => (Some(Err(WorkerError::Gone)), None),
            },
            None => (None, None),
        };
        let (drafts, drafter_ms) = match (drafts, prefetched) {
            (Some(drafts), _) => (drafts, drafter_worked.map_or(0.0, Worked::ms)),
            (None, Some((window, ms))) => (Ok(window), ms),
            (None, None) => (Ok(Vec::new()), 0.0),
        };
        let target_ms = target_worked.ms();
        let busy = Busy {
            target: target_worked.since(started),
            drafter: drafter_worked.map_or([0.0; 2], |worked| worked.since(started)),
        };
        verified?;
        let drafts = drafts?;
        let (rows, drafted) = (tick.target.rows.len(), drafts.len());
        let overlapped_ms = if asked.is_some() { drafter_ms } else { 0.0 };
        let outcome = guarded(Side::Target, || Ok(machine.apply(tick, drafts, target)))?;
        let (judged, accepted) = (outcome.judged.len(), outcome.accepted);
        window.saw(Seen { rows, target_ms, drafted, drafter_ms, judged, accepted });
        Ok(Some(Ticked { outcome, target_ms, drafter_ms: overlapped_ms, busy }))
    }
}

/// Run a generation to its end, or until `on` asks to stop. Tokens emitted before an error remain valid.
pub fn run<E, X, T, D>(
    machine: &mut Parallel<E>,
    window: &mut WindowLength,
    target: &mut T,
    drafter: &mut D,
    mut on: impl FnMut(Ticked) -> ControlFlow<()>,
) -> Result<(), WorkerError<X>>
where
    E: Send,
    X: Send,
    T: TargetWorker<E, Error = X>,
    D: DrafterWorker<E, Error = X>,
{
    std::thread::scope(|scope| {
        let drafter_thread = DrafterThread::spawn(scope, drafter)?;
        while let Some(ticked) = drafter_thread.tick(machine, window, target, None)? {
            if on(ticked).is_break() {
                break;
            }
        }
        Ok(())
    })
}

/// Turn a panic into a failure. A worker that panicked is not used again, so its state is not observed.
fn guarded<R, X>(side: Side, work: impl FnOnce() -> Result<R, X>) -> Result<R, WorkerError<X>> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| WorkerError::Worker(side, error)),
        Err(panic) => Err(WorkerError::Panicked(side, panic_words(&*panic).unwrap_or("no message").into())),
    }
}

/// When some work was done.
#[derive(Clone, Copy, Debug)]
struct Worked {
    from: Instant,
    to: Instant,
}

impl Worked {
    fn ms(self) -> f64 {
        (self.to - self.from).as_secs_f64() * 1e3
    }

    /// Begin and end, in milliseconds since an earlier time.
    fn since(self, earlier: Instant) -> [f64; 2] {
        [self.from, self.to].map(|at| at.saturating_duration_since(earlier).as_secs_f64() * 1e3)
    }
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, Worked) {
    let from = Instant::now();
    let result = work();
    (result, Worked { from, to: Instant::now() })
}

#[cfg(test)]
mod tests;
