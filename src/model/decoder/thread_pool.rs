//! A pool of threads that stay awake during a forward pass.
//!
//! A layer of a small model is some tens of microseconds of work; waking a sleeping thread costs as much. The pool's workers
//! watch for work for a moment after each job and only then go to sleep, so that the many short jobs of one pass start
//! at once, and an idle program costs nothing. Jobs are cut into units that whoever is free takes; a worker that comes late
//! finds the job closed and is not waited for.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// Set in the state word while a job is open; the bits below count the workers inside, the bits above number the jobs.
const OPEN: u64 = 1 << 31;
const JOB: u64 = 1 << 32;
/// Looks for work (a pause each) before a worker goes to sleep: about a millisecond, longer than a drafter takes for its chain.
const PATIENCE: u32 = 40_000;

type Work = *const (dyn Fn(usize) + Sync);

struct Shared {
    state: AtomicU64,
    next: AtomicUsize,
    units: AtomicUsize,
    work: std::cell::UnsafeCell<Option<Work>>,
    panicked: AtomicBool,
    asleep: Vec<AtomicBool>,
}

// SAFETY: `work` is written only while no job is open and no worker is inside, and read only by workers inside an open job.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer is only followed while `run` keeps its referent alive.
unsafe impl Send for Shared {}

/// See the module's text.
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<std::thread::Thread>,
    /// One job at a time, whoever calls.
    turn: Mutex<()>,
}

impl ThreadPool {
    /// The process's pool: as many members as the machine has processors (or `SPECREEL_THREADS`), the caller counted.
    pub fn global() -> &'static ThreadPool {
        static TEAM: OnceLock<ThreadPool> = OnceLock::new();
        TEAM.get_or_init(|| {
            let asked = std::env::var("SPECREEL_THREADS").ok().and_then(|s| s.parse::<usize>().ok());
            let here = std::thread::available_parallelism().map_or(1, usize::from);
            ThreadPool::new(asked.unwrap_or(here).clamp(1, 64))
        })
    }

    /// A pool of `members`, the caller counted. Threads that cannot be started are done without.
    pub fn new(members: usize) -> ThreadPool {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            units: AtomicUsize::new(0),
            work: std::cell::UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
            asleep: (1..members).map(|_| AtomicBool::new(false)).collect(),
        });
        let threads = (1..members)
            .filter_map(|i| {
                let shared = Arc::clone(&shared);
                let thread = std::thread::Builder::new().name(format!("compute-{i}"));
                thread.spawn(move || worker(&shared, i - 1)).ok().map(|handle| handle.thread().clone())
            })
            .collect();
        ThreadPool { shared, threads, turn: Mutex::new(()) }
    }

    /// Members, the caller counted.
    pub fn members(&self) -> usize {
        self.threads.len() + 1
    }

    /// Call `work(unit)` once for each unit in `0..units`, on all members, and return when all are done.
    ///
    /// # Panics
    /// If a unit panicked.
    pub fn run(&self, units: usize, work: &(dyn Fn(usize) + Sync)) {
        if units <= 1 || self.threads.is_empty() {
            (0..units).for_each(work);
            return;
        }
        let Ok(_turn) = self.turn.try_lock() else {
            // Another thread's job is under way: no harm in doing this one alone.
            (0..units).for_each(work);
            return;
        };
        let shared = &*self.shared;
        // SAFETY: no job is open and nobody is inside (the last job waited for that). The lifetime is erased, but this
        // function does not return, nor unwind, before every worker has left.
        unsafe {
            *shared.work.get() = Some(std::mem::transmute::<&(dyn Fn(usize) + Sync), Work>(work));
        }
        shared.units.store(units, Ordering::Relaxed);
        shared.next.store(0, Ordering::Relaxed);
        let job = (shared.state.load(Ordering::Relaxed) & !(JOB - 1)).wrapping_add(JOB);
        shared.state.store(job | OPEN, Ordering::SeqCst);
        for (thread, asleep) in self.threads.iter().zip(&shared.asleep) {
            if asleep.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let mine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| take_units(shared, work)));
        shared.state.fetch_and(!OPEN, Ordering::AcqRel);
        while shared.state.load(Ordering::Acquire) & (OPEN - 1) != 0 {
            std::hint::spin_loop();
        }
        let theirs = shared.panicked.swap(false, Ordering::Relaxed);
        if let Err(panic) = mine {
            std::panic::resume_unwind(panic);
        }
        assert!(!theirs, "a compute thread panicked");
    }
}

fn take_units(shared: &Shared, work: &(dyn Fn(usize) + Sync)) {
    let units = shared.units.load(Ordering::Relaxed);
    loop {
        let unit = shared.next.fetch_add(1, Ordering::Relaxed);
        if unit >= units {
            return;
        }
        work(unit);
    }
}

fn worker(shared: &Shared, me: usize) {
    let mut last = 0;
    let mut looks = 0;
    loop {
        let state = shared.state.load(Ordering::SeqCst);
        let job = state & !(JOB - 1);
        if state & OPEN != 0 && job != last {
            if shared
                .state
                .compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                last = job;
                looks = 0;
                // SAFETY: this worker is counted inside an open job, so the pointer was set for it and stays valid until
                // the count below goes down.
                let work = unsafe { *shared.work.get() };
                if let Some(work) = work {
                    // SAFETY: as above.
                    let work = unsafe { &*work };
                    let run = std::panic::AssertUnwindSafe(|| take_units(shared, work));
                    if std::panic::catch_unwind(run).is_err() {
                        shared.panicked.store(true, Ordering::Relaxed);
                    }
                }
                shared.state.fetch_sub(1, Ordering::AcqRel);
            }
            continue;
        }
        looks += 1;
        if looks < PATIENCE {
            std::hint::spin_loop();
            continue;
        }
        shared.asleep[me].store(true, Ordering::SeqCst);
        let state = shared.state.load(Ordering::SeqCst);
        if state & OPEN == 0 || state & !(JOB - 1) == last {
            std::thread::park();
        }
        shared.asleep[me].store(false, Ordering::SeqCst);
        looks = 0;
    }
}

/// A pointer to output that the units of one job fill at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointSliceMut<'a> {
    start: *mut f32,
    len: usize,
    _borrow: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: all access goes through `slice`, whose contract makes it disjoint.
unsafe impl Sync for DisjointSliceMut<'_> {}
// SAFETY: as above.
unsafe impl Send for DisjointSliceMut<'_> {}

impl<'a> DisjointSliceMut<'a> {
    /// Borrow a slice for the time of a job.
    pub fn new(slice: &'a mut [f32]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), _borrow: std::marker::PhantomData }
    }

    /// Write one value.
    ///
    /// # Safety
    /// No other unit may use the same place at the same time.
    #[inline]
    pub unsafe fn set(&self, at: usize, value: f32) {
        debug_assert!(at < self.len);
        if at < self.len {
            // SAFETY: within the borrow, and nobody else's by contract.
            unsafe { *self.start.add(at) = value };
        }
    }

    /// The part `at..at + len`.
    ///
    /// # Safety
    /// No two units may hold overlapping parts at the same time.
    pub unsafe fn slice(&self, at: usize, len: usize) -> &'a mut [f32] {
        assert!(at + len <= self.len, "part outside of the borrowed slice");
        // SAFETY: within the borrow by the assertion, disjoint by contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_runs_once() {
        let pool = ThreadPool::new(3);
        for round in 0..2000 {
            let units = round % 37;
            let counts: Vec<AtomicUsize> = (0..units).map(|_| AtomicUsize::new(0)).collect();
            pool.run(units, &|u| {
                counts[u].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            if round % 500 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_lives_on() {
        let pool = ThreadPool::new(2);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.run(8, &|u| assert!(u != 5, "on purpose"));
        }));
        assert!(caught.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(10, &|u| {
            sum.fetch_add(u, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 45);
    }
}
