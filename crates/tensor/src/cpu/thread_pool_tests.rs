use std::{
    sync::{Barrier, Condvar, Mutex},
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

/// Without the workers for both it would hang.
#[test]
fn two_callers_share_the_workers() {
    let pool = ThreadPool::new(4);
    for asleep in [false, true] {
        if asleep {
            sleep(&pool);
        }
        // Both jobs have a worker at the same moment.
        let all = Barrier::new(4);
        let call = || pool.run(2, &|_| _ = all.wait());
        std::thread::scope(|scope| {
            scope.spawn(call);
            call();
        });
    }
}

/// If all stayed in the first job, it would hang.
#[test]
fn a_worker_leaves_a_long_job_for_another_callers() {
    let pool = ThreadPool::new(4);
    let (begun, both, over) = (Barrier::new(5), Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pool.run(usize::MAX / 2, &|unit| {
                if unit < 4 {
                    begun.wait();
                } else if over.load(Ordering::Relaxed) {
                    // The rest is left out.
                    pool.shared.slots[0].next.store(usize::MAX / 2, Ordering::Relaxed);
                }
                std::thread::yield_now();
            });
        });
        // All are in the first job.
        begun.wait();
        pool.run(2, &|_| _ = both.wait());
        over.store(true, Ordering::Relaxed);
    });
    assert!(all_meet(&pool), "all are there for the next");
}

#[test]
fn workers_spread_evenly_over_the_jobs_on_processors_that_callers_leave() {
    let none = |_: String, _: Box<dyn FnOnce() + Send>| Err(std::io::ErrorKind::OutOfMemory.into());
    let pools = [2, 4].map(|members| ThreadPool::with_threads(members, none).shared);
    for pool in &pools {
        pool.slots[..2].iter().for_each(|slot| slot.units.store(10, Ordering::Relaxed));
    }
    let [two, four] = pools;
    // Open jobs with so many workers each.
    let jobs = |workers: &[u64]| {
        let all = workers.iter().enumerate();
        Jobs(all.map(|(at, workers)| Jobs::open(at) + workers * Jobs::worker(at)).sum())
    };
    let joins: [(&[u64], Option<usize>); 6] =
        [(&[], None), (&[2], Some(0)), (&[3], None), (&[1, 0], Some(1)), (&[0, 1], Some(0)), (&[1, 1], None)];
    for (workers, joined) in joins {
        assert_eq!(four.to_join(jobs(workers)), joined, "{workers:?}");
    }
    for (workers, crowded) in [
        (&[3][..], false),
        (&[3, 0], true),
        (&[2, 0], true),
        (&[1, 0], false),
        (&[1, 1], false),
        (&[1, 2], true),
    ] {
        assert_eq!(four.is_crowded(0, jobs(workers)), crowded, "{workers:?}");
    }
    assert_eq!(two.to_join(jobs(&[0])), Some(0));
    assert_eq!(two.to_join(jobs(&[0, 0])), None);
    assert!(two.is_crowded(0, jobs(&[1, 0])) && !two.is_crowded(0, jobs(&[1])));
    // Nothing is left of the second job.
    four.slots[1].next.store(10, Ordering::Relaxed);
    assert_eq!(four.to_join(jobs(&[1, 0])), Some(0));
    assert!(!four.is_crowded(0, jobs(&[2, 0])));
}

/// Callers, jobs within jobs and panics at once, more of them than there are places: every unit runs once.
#[test]
fn any_number_of_callers_at_once() {
    for members in [1, 2, 3, 5] {
        let pool = ThreadPool::new(members);
        std::thread::scope(|scope| {
            for caller in 0..MOST_JOBS + 4 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..300 {
                        let units = (round * 7 + caller) % 23;
                        let counts: Vec<AtomicUsize> = (0..units).map(|_| AtomicUsize::new(0)).collect();
                        let inner = AtomicUsize::new(0);
                        let fails = round % 29 == caller && units > 3;
                        let run = catch_unwind(AssertUnwindSafe(|| {
                            pool.run(units, &|unit| {
                                counts[unit].fetch_add(1, Ordering::Relaxed);
                                if round % 5 == 0 {
                                    pool.run(4, &|_| {
                                        inner.fetch_add(1, Ordering::Relaxed);
                                    });
                                }
                                if fails && unit == 3 {
                                    // Without the message of a panic.
                                    resume_unwind(Box::new("on purpose"));
                                }
                            });
                        }));
                        assert_eq!(run.is_err(), fails, "the caller's own panic, and no other");
                        let ran: Vec<usize> = counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
                        // After a panic units may be left.
                        assert!(ran.iter().all(|ran| *ran == 1 || fails && *ran == 0), "{ran:?}");
                        if round % 5 == 0 && !fails {
                            assert_eq!(inner.into_inner(), 4 * units);
                        }
                    }
                });
            }
        });
        assert_eq!(pool.shared.jobs.load(Ordering::SeqCst), 0, "no job is open and no worker is inside");
        assert!(pool.shared.slots.iter().all(|slot| !slot.claimed.load(Ordering::SeqCst)));
        assert!(all_meet(&pool));
    }
}

#[test]
fn a_pool_of_one_and_jobs_within_jobs_end() {
    for members in [0, 1, 2] {
        let pool = ThreadPool::new(members);
        let count = AtomicUsize::new(0);
        // Deeper than there are places for jobs.
        fn nested(pool: &ThreadPool, depth: usize, count: &AtomicUsize) {
            pool.run(2, &|_| match depth {
                0 => drop(count.fetch_add(1, Ordering::Relaxed)),
                _ => nested(pool, depth - 1, count),
            });
        }
        nested(&pool, MOST_JOBS + 1, &count);
        assert_eq!(count.into_inner(), 1 << (MOST_JOBS + 2));
        let unwound =
            catch_unwind(AssertUnwindSafe(|| pool.run(3, &|unit| assert!(unit != 1, "on purpose"))));
        assert!(unwound.is_err() && all_meet(&pool));
    }
}

#[test]
fn jobs_are_counted() {
    let mut jobs = Jobs(0);
    for at in 0..MOST_JOBS {
        assert!(!jobs.is_open(at));
        jobs.0 += Jobs::open(at) + at as u64 * Jobs::worker(at);
        assert!(jobs.is_open(at) && jobs.workers(at) == at && jobs.count() == at + 1);
    }
    assert_eq!(jobs.all_workers(), 28);
    assert_eq!(Jobs((MOST_MEMBERS as u64 - 1) * Jobs::worker(7)).all_workers(), MOST_MEMBERS - 1);
}
