//! A thread pool whose workers stay awake during a forward pass.
//!
//! A layer of a small model is some tens of microseconds of work; waking a sleeping thread costs as much. The workers spin for
//! about a millisecond after each job before they sleep, so that the many short jobs of one pass start at once, and an idle
//! program uses no CPU. While they spin, they give way to the threads of other programs. A job is split into units that idle
//! threads take; a worker that wakes up too late finds the job closed, and the caller does not wait for it.

use std::sync::{
    Arc, Mutex, OnceLock, TryLockError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// Set in the state word while a job is open; the bits below count the workers inside, the bits above number the jobs.
const OPEN: u64 = 1 << 31;
const JOB: u64 = 1 << 32;
/// Spins before a worker sleeps: about a millisecond, longer than a drafter takes for its chain.
const MAX_SPINS: u32 = 40_000;
/// Spins before a waiting thread lets another program's thread run: tens of microseconds.
const SPINS_PER_YIELD: u32 = 1_000;

type Job = *const (dyn Fn(usize) + Sync);

struct Shared {
    state: AtomicU64,
    next: AtomicUsize,
    units: AtomicUsize,
    work: std::cell::UnsafeCell<Option<Job>>,
    panicked: AtomicBool,
    asleep: Vec<AtomicBool>,
}

// SAFETY: `work` is written only while no job is open and no worker is inside, and read only by workers inside an open job.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer is only followed while `run` keeps its referent alive.
unsafe impl Send for Shared {}

/// A thread pool; see the [module docs](self).
pub struct ThreadPool {
    shared: Arc<Shared>,
    /// Each with its place in `asleep`.
    threads: Vec<(usize, std::thread::Thread)>,
    /// Held by the thread whose job is running.
    busy: Mutex<()>,
}

impl ThreadPool {
    /// The process's pool: one member per processor, or `SPECREEL_THREADS`, including the caller.
    pub fn global() -> &'static ThreadPool {
        static POOL: OnceLock<ThreadPool> = OnceLock::new();
        POOL.get_or_init(|| {
            let requested = std::env::var("SPECREEL_THREADS").ok().and_then(|s| s.parse::<usize>().ok());
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            ThreadPool::new(requested.unwrap_or(processors).clamp(1, 64))
        })
    }

    /// A pool of `members`, including the caller. It has fewer if threads cannot be started.
    pub fn new(members: usize) -> ThreadPool {
        Self::with_threads(members, |name, body| {
            let handle = std::thread::Builder::new().name(name).spawn(body)?;
            Ok(handle.thread().clone())
        })
    }

    fn with_threads(
        members: usize,
        start: impl Fn(String, Box<dyn FnOnce() + Send>) -> std::io::Result<std::thread::Thread>,
    ) -> ThreadPool {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            units: AtomicUsize::new(0),
            work: std::cell::UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
            asleep: (1..members).map(|_| AtomicBool::new(false)).collect(),
        });
        let threads = (0..members.saturating_sub(1))
            .filter_map(|i| {
                let shared = Arc::clone(&shared);
                let thread = start(format!("compute-{}", i + 1), Box::new(move || worker(&shared, i)));
                Some((i, thread.ok()?))
            })
            .collect();
        ThreadPool { shared, threads, busy: Mutex::new(()) }
    }

    /// Number of members, including the caller.
    pub fn members(&self) -> usize {
        self.threads.len() + 1
    }

    /// Call `work(unit)` once for each unit in `0..units`, on all members, and return when all are done.
    pub fn run(&self, units: usize, work: &(dyn Fn(usize) + Sync)) {
        if units <= 1 || self.threads.is_empty() {
            (0..units).for_each(work);
            return;
        }
        let _busy = match self.busy.try_lock() {
            Ok(busy) => busy,
            // A unit of an earlier job panicked; that job has ended.
            Err(TryLockError::Poisoned(busy)) => busy.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Another thread's job is running: do this one alone.
                (0..units).for_each(work);
                return;
            }
        };
        let shared = &*self.shared;
        // SAFETY: no job is open and no worker is inside (the last job waited for that). The lifetime is erased, but this
        // function neither returns nor unwinds before every worker has left.
        unsafe {
            *shared.work.get() = Some(std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(work));
        }
        shared.units.store(units, Ordering::Relaxed);
        shared.next.store(0, Ordering::Relaxed);
        let job = (shared.state.load(Ordering::Relaxed) & !(JOB - 1)).wrapping_add(JOB);
        shared.state.store(job | OPEN, Ordering::SeqCst);
        for (i, thread) in &self.threads {
            if shared.asleep[*i].load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let own = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| take_units(shared, work)));
        shared.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0;
        while shared.state.load(Ordering::Acquire) & (OPEN - 1) != 0 {
            wait(&mut spins);
        }
        let worker_panicked = shared.panicked.swap(false, Ordering::Relaxed);
        if let Err(panic) = own {
            std::panic::resume_unwind(panic);
        }
        assert!(!worker_panicked, "a compute thread panicked");
    }
}

/// Wait a moment. Where processors are short, the thread that is waited for may need this one.
fn wait(spins: &mut u32) {
    *spins = spins.wrapping_add(1);
    if spins.is_multiple_of(SPINS_PER_YIELD) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
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

fn worker(shared: &Shared, index: usize) {
    let mut last = 0;
    let mut spins = 0;
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
                spins = 0;
                // SAFETY: this worker is counted inside an open job, so the pointer was set before and is not written until the
                // count below goes down.
                let work = unsafe { *shared.work.get() };
                if let Some(work) = work {
                    // SAFETY: `run` keeps the closure alive until the count below goes down.
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
        if spins < MAX_SPINS {
            wait(&mut spins);
            continue;
        }
        shared.asleep[index].store(true, Ordering::SeqCst);
        let state = shared.state.load(Ordering::SeqCst);
        if state & OPEN == 0 || state & !(JOB - 1) == last {
            std::thread::park();
        }
        shared.asleep[index].store(false, Ordering::SeqCst);
        spins = 0;
    }
}

/// A mutable slice that the units of one job write at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointSliceMut<'a, T = f32> {
    start: *mut T,
    len: usize,
    _borrow: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: all access goes through `set` and `slice`, whose contracts make it disjoint.
unsafe impl<T: Send> Sync for DisjointSliceMut<'_, T> {}
// SAFETY: as a mutable slice, whose access it shares.
unsafe impl<T: Send> Send for DisjointSliceMut<'_, T> {}

impl<'a, T: Copy> DisjointSliceMut<'a, T> {
    /// Borrow a slice for the duration of a job.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), _borrow: std::marker::PhantomData }
    }

    /// Write one value. Panics if `at` is outside of the slice.
    ///
    /// # Safety
    /// No other unit may use the same place at the same time.
    #[inline]
    pub unsafe fn set(&self, at: usize, value: T) {
        assert!(at < self.len, "index outside of the borrowed slice");
        // SAFETY: within the borrow by the assertion, disjoint by contract.
        unsafe { self.start.add(at).write(value) };
    }

    /// The part `at..at + len`. Panics if the part is not within the slice.
    ///
    /// # Safety
    /// No two units may hold overlapping parts at the same time.
    pub unsafe fn slice(&self, at: usize, len: usize) -> &'a mut [T] {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "range outside of the borrowed slice");
        // SAFETY: within the borrow by the assertion, disjoint by contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Condvar,
        time::{Duration, Instant},
    };

    use super::*;

    /// Run a job of one unit for each member, in which each unit waits for all others: true if all of them met.
    fn all_meet(pool: &ThreadPool) -> bool {
        let (members, met) = (pool.members(), (Mutex::new(0), Condvar::new()));
        let missed = AtomicBool::new(false);
        pool.run(members, &|_| {
            let mut count = met.0.lock().unwrap();
            *count += 1;
            met.1.notify_all();
            // The first unit that waits in vain releases the others.
            let waits = |count: &mut usize| *count < members && !missed.load(Ordering::Relaxed);
            if met.1.wait_timeout_while(count, Duration::from_secs(20), waits).unwrap().1.timed_out() {
                missed.store(true, Ordering::Relaxed);
                met.1.notify_all();
            }
        });
        !missed.into_inner()
    }

    /// Wait until all workers of a pool sleep.
    fn sleep(pool: &ThreadPool) {
        let asleep = || pool.threads.iter().all(|(i, _)| pool.shared.asleep[*i].load(Ordering::SeqCst));
        let begun = Instant::now();
        while !asleep() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the workers stay awake");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

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
    fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
        let pool = ThreadPool::new(2);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.run(8, &|u| assert!(u != 5, "on purpose"));
        }));
        assert!(caught.is_err());
        assert!(all_meet(&pool), "one thread is left");
    }

    #[test]
    fn a_pool_wakes_all_workers_if_some_threads_cannot_be_started() {
        let pool = ThreadPool::with_threads(4, |name, body| match name.as_str() {
            "compute-1" => Err(std::io::ErrorKind::OutOfMemory.into()),
            _ => Ok(std::thread::spawn(body).thread().clone()),
        });
        assert_eq!(pool.members(), 3);
        for _ in 0..3 {
            sleep(&pool);
            assert!(all_meet(&pool));
        }
    }

    #[test]
    #[should_panic(expected = "index outside of the borrowed slice")]
    fn a_write_outside_of_the_slice_panics() {
        let mut values = [0.0; 4];
        // SAFETY: one call at a time.
        unsafe { DisjointSliceMut::new(&mut values[..3]).set(3, 1.0) };
    }

    #[test]
    #[should_panic(expected = "range outside of the borrowed slice")]
    fn a_range_that_overflows_panics() {
        let mut values = [0.0; 4];
        // SAFETY: one call at a time.
        let _ = unsafe { DisjointSliceMut::new(&mut values).slice(2, usize::MAX) };
    }
}
