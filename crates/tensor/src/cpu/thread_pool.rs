//! A thread pool whose workers stay awake during a forward pass.
//!
//! A layer of a small model is some tens of microseconds of work; waking a sleeping thread costs as much. The workers spin for
//! about a millisecond after each job before they sleep, so that the many short jobs of one pass start at once, and an idle
//! program uses no CPU. While they spin, they give way to the threads of other programs. A job is split into units that idle
//! threads take; a worker that wakes up too late finds the job closed, and the caller does not wait for it.
//!
//! Several threads may have a job at a time: a target and its drafter side by side, or the engines of a server. Each works on its
//! own job, and the workers spread evenly over the jobs, as many as there are processors left. Between two units a worker leaves
//! a job for one with fewer workers. Which thread takes a unit never changes its result.

use std::{
    cell::UnsafeCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::Thread,
};

/// Members of the largest pool, including the caller.
const MOST_MEMBERS: usize = 64;
/// Jobs that may be open at a time. The caller of a further one works alone: as many processors as that are busy already.
const MOST_JOBS: usize = 8;
/// Spins before a worker sleeps: about a millisecond, longer than a drafter takes for its chain.
const MAX_SPINS: u32 = 40_000;
/// Spins before a waiting thread lets another program's thread run: tens of microseconds.
const SPINS_PER_YIELD: u32 = 1_000;
/// Values of all rows below which one thread is faster than several.
const SINGLE_THREADED: usize = 1536;

type UnitOfWork = *const (dyn Fn(usize) + Sync);

/// All jobs at one moment, a byte each: the highest bit is set while the job is open, the others count the workers inside.
#[derive(Clone, Copy)]
struct Jobs(u64);

impl Jobs {
    const ALL_OPEN: u64 = 0x8080_8080_8080_8080;

    /// The bit of an open job.
    fn open(at: usize) -> u64 {
        0x80 << (8 * at)
    }

    /// A worker inside a job.
    fn worker(at: usize) -> u64 {
        1 << (8 * at)
    }

    fn count(self) -> usize {
        (self.0 & Self::ALL_OPEN).count_ones() as usize
    }

    fn is_open(self, at: usize) -> bool {
        self.0 & Self::open(at) != 0
    }

    fn workers(self, at: usize) -> usize {
        (self.0 >> (8 * at)) as usize & 0x7f
    }

    fn all_workers(self) -> usize {
        // The highest byte of the product is the sum of all bytes.
        ((self.0 & !Self::ALL_OPEN).wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize
    }
}

/// A place for a job. On cache lines of its own, as threads with different jobs write it.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    /// Set from before a caller writes the job until all have left it.
    claimed: AtomicBool,
    next: AtomicUsize,
    units: AtomicUsize,
    work: UnsafeCell<Option<UnitOfWork>>,
    panicked: AtomicBool,
}

impl Slot {
    fn take(&self) -> Option<usize> {
        let unit = self.next.fetch_add(1, Ordering::Relaxed);
        (unit < self.units.load(Ordering::Relaxed)).then_some(unit)
    }

    fn has_units(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.units.load(Ordering::Relaxed)
    }
}

struct Shared {
    /// [`Jobs`], only changed by read-modify-write operations: a thread that sees a job open also sees
    /// everything that was written before.
    jobs: AtomicU64,
    slots: [Slot; MOST_JOBS],
    /// Processors for callers and workers.
    members: usize,
    asleep: Vec<AtomicBool>,
}

// SAFETY: `work` of a slot is written only by who has claimed it, while its job is not open and no worker is inside, and read
// only by workers inside.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointers are only followed while `run` keeps their referents alive.
unsafe impl Send for Shared {}

impl Shared {
    /// A free place, which is then the caller's until it is given back.
    fn claim(&self) -> Option<usize> {
        let claim = |slot: &Slot| {
            !slot.claimed.load(Ordering::Relaxed) && !slot.claimed.swap(true, Ordering::Acquire)
        };
        self.slots.iter().position(claim)
    }

    /// Workers that have a processor while these jobs run.
    fn room(&self, jobs: Jobs) -> usize {
        self.members.saturating_sub(jobs.count())
    }

    /// The open jobs with units left.
    fn waiting(&self, jobs: Jobs) -> impl Iterator<Item = usize> {
        (0..MOST_JOBS).filter(move |&at| jobs.is_open(at) && self.slots[at].has_units())
    }

    /// The job that an idle worker joins.
    fn to_join(&self, jobs: Jobs) -> Option<usize> {
        if jobs.count() == 0 || jobs.all_workers() >= self.room(jobs) {
            return None;
        }
        self.waiting(jobs).min_by_key(|&at| jobs.workers(at))
    }

    /// True if one of a job's workers is of more use to another job, or has no processor.
    fn is_crowded(&self, at: usize, jobs: Jobs) -> bool {
        let is_only = jobs.0 & Jobs::ALL_OPEN & !Jobs::open(at) == 0;
        !is_only
            && (jobs.all_workers() > self.room(jobs)
                || self.waiting(jobs).any(|other| jobs.workers(other) + 2 <= jobs.workers(at)))
    }

    /// Leave a job if it is crowded. The job may end at once: nothing of it is used after that.
    fn left_crowded(&self, at: usize) -> bool {
        let mut jobs = self.jobs.load(Ordering::Relaxed);
        while self.is_crowded(at, Jobs(jobs)) {
            let left = jobs - Jobs::worker(at);
            match self.jobs.compare_exchange_weak(jobs, left, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => jobs = now,
            }
        }
        false
    }

    /// Take units of a job, as one of its workers, until none is left or it is crowded, and leave it.
    fn help(&self, at: usize) {
        let slot = &self.slots[at];
        // SAFETY: this worker is counted inside a job that was open, so the pointer was set before and is not written until the
        // count goes down.
        let work = unsafe { *slot.work.get() };
        while let (Some(work), Some(unit)) = (work, slot.take()) {
            // SAFETY: `run` keeps the closure alive until the count goes down.
            if catch_unwind(AssertUnwindSafe(|| unsafe { (*work)(unit) })).is_err() {
                slot.panicked.store(true, Ordering::Relaxed);
                break;
            }
            if self.left_crowded(at) {
                return;
            }
        }
        self.jobs.fetch_sub(Jobs::worker(at), Ordering::AcqRel);
    }
}

/// A thread pool; see the [module docs](self).
pub struct ThreadPool {
    shared: Arc<Shared>,
    /// Each with its place in `asleep`.
    threads: Vec<(usize, Thread)>,
}

impl ThreadPool {
    /// The process's pool: one member per processor, or `SPECREEL_THREADS`, including the caller.
    pub fn global() -> &'static ThreadPool {
        static POOL: OnceLock<ThreadPool> = OnceLock::new();
        POOL.get_or_init(|| {
            let requested = std::env::var("SPECREEL_THREADS").ok().and_then(|s| s.parse::<usize>().ok());
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            ThreadPool::new(requested.unwrap_or(processors))
        })
    }

    /// A pool of `members`, including the caller, but at most 64. It has fewer if threads cannot be started.
    pub fn new(members: usize) -> ThreadPool {
        Self::with_threads(members, |name, body| {
            let handle = std::thread::Builder::new().name(name).spawn(body)?;
            Ok(handle.thread().clone())
        })
    }

    fn with_threads(
        members: usize,
        start: impl Fn(String, Box<dyn FnOnce() + Send>) -> std::io::Result<Thread>,
    ) -> ThreadPool {
        let members = members.clamp(1, MOST_MEMBERS);
        let shared = Arc::new(Shared {
            jobs: AtomicU64::new(0),
            slots: Default::default(),
            members,
            asleep: (1..members).map(|_| AtomicBool::new(false)).collect(),
        });
        let threads = (0..members - 1)
            .filter_map(|i| {
                let shared = Arc::clone(&shared);
                let thread = start(format!("compute-{}", i + 1), Box::new(move || worker(&shared, i)));
                Some((i, thread.ok()?))
            })
            .collect();
        ThreadPool { shared, threads }
    }

    /// Number of members, including the caller.
    pub fn members(&self) -> usize {
        self.threads.len() + 1
    }

    /// Call `work(unit)` once for each unit in `0..units`, on all members that other callers do not need, and return when all are
    /// done. Units may call it again. Panics if a unit does.
    pub fn run(&self, units: usize, work: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        let is_shared = units > 1 && !self.threads.is_empty();
        let Some(at) = is_shared.then(|| shared.claim()).flatten() else {
            (0..units).for_each(work);
            return;
        };
        let slot = &shared.slots[at];
        // SAFETY: the job is not open and no worker is inside (its last caller waited for that). The lifetime is erased, but this
        // function neither returns nor unwinds before every worker has left.
        unsafe {
            *slot.work.get() = Some(std::mem::transmute::<&(dyn Fn(usize) + Sync), UnitOfWork>(work));
        }
        slot.units.store(units, Ordering::Relaxed);
        slot.next.store(0, Ordering::Relaxed);
        // An addition, as its result is at hand at once: the bit was not set.
        let others = shared.jobs.fetch_add(Jobs::open(at), Ordering::SeqCst);
        self.wake(Jobs(others + Jobs::open(at)));
        let own = catch_unwind(AssertUnwindSafe(|| {
            while let Some(unit) = slot.take() {
                work(unit);
            }
        }));
        let others = shared.jobs.fetch_sub(Jobs::open(at), Ordering::SeqCst);
        // There is a processor more for the other jobs.
        self.wake(Jobs(others - Jobs::open(at)));
        let mut spins = 0;
        while Jobs(shared.jobs.load(Ordering::Acquire)).workers(at) != 0 {
            wait(&mut spins);
        }
        let worker_panicked = slot.panicked.swap(false, Ordering::Relaxed);
        slot.claimed.store(false, Ordering::Release);
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        assert!(!worker_panicked, "a compute thread panicked");
    }

    /// Wake sleeping workers for which there is room.
    fn wake(&self, jobs: Jobs) {
        if jobs.count() == 0 {
            return;
        }
        let room = self.shared.room(jobs).saturating_sub(jobs.all_workers());
        let asleep = |(i, _): &&(usize, Thread)| self.shared.asleep[*i].load(Ordering::SeqCst);
        self.threads.iter().filter(asleep).take(room).for_each(|(_, thread)| thread.unpark());
    }
}

/// Call `work` for every row, on all threads if there are many values.
pub(crate) fn each_row(rows: usize, width: usize, work: &(dyn Fn(usize) + Sync)) {
    if rows * width < SINGLE_THREADED {
        (0..rows).for_each(work)
    } else {
        ThreadPool::global().run(rows, work)
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

fn worker(shared: &Shared, index: usize) {
    let mut spins = 0;
    loop {
        let jobs = shared.jobs.load(Ordering::SeqCst);
        if let Some(at) = shared.to_join(Jobs(jobs)) {
            let joined = jobs + Jobs::worker(at);
            if shared.jobs.compare_exchange_weak(jobs, joined, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                spins = 0;
                shared.help(at);
            }
            continue;
        }
        if spins < MAX_SPINS {
            wait(&mut spins);
            continue;
        }
        shared.asleep[index].store(true, Ordering::SeqCst);
        if shared.to_join(Jobs(shared.jobs.load(Ordering::SeqCst))).is_none() {
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
#[path = "thread_pool_tests.rs"]
mod tests;
