use std::path::Path;

use super::*;
use crate::{options::Served, videos::Hold};
use specreel_client::fake::{FakeEngine, done, request};
use specreel_record::{EventKind, StopReason};

fn about(clip: &str) -> RunRequest {
    RunRequest { video: clip.into(), ..request(0, "naive") }
}

/// The video of a run that is about `file`.
fn video(hold: Option<Hold>) -> Video {
    Video { path: "file".into(), name: "demo".into(), _hold: hold }
}

fn pool(capacity: usize, engines: usize) -> (Arc<Pool>, Vec<FakeEngine>) {
    let models = Arc::new(Models::new(vec![Served::default(); 2]));
    let pool = Pool::new(capacity, Feed::new(false), models);
    let fakes = (0..engines).map(|_| {
        let (fake, client) = FakeEngine::silent();
        pool.add(client, 0);
        fake
    });
    let fakes = fakes.collect();
    pool.begin();
    (pool, fakes)
}

/// Wait until this engine has been asked for so many runs, and return their clips.
async fn asked(fake: &FakeEngine, count: usize) -> Vec<PathBuf> {
    while fake.requests().len() < count {
        tokio::task::yield_now().await;
    }
    fake.requests().into_iter().map(|request| request.video).collect()
}

/// Wait until nothing runs.
async fn idle(pool: &Pool) {
    while pool.load().1 > 0 {
        tokio::task::yield_now().await;
    }
}

fn finish(fake: &FakeEngine, run: u64) {
    fake.emit(run, done(StopReason::Eos, "a"));
}

#[tokio::test]
async fn the_queue_is_bounded_and_in_order() {
    let (pool, fakes) = pool(1, 1);
    let mut first = pool.submit(about("a"), video(None), 0).unwrap();
    let mut second = pool.submit(about("b"), video(None), 0).unwrap();
    assert!(
        matches!(pool.submit(about("c"), video(None), 0), Err(Refused::Full(after)) if after.as_secs() >= 1)
    );
    assert_eq!(pool.load(), (1, 1));
    asked(&fakes[0], 1).await;
    finish(&fakes[0], first.run());
    assert!(first.next().await.is_some());
    assert_eq!(asked(&fakes[0], 2).await, [Path::new("a"), Path::new("b")]);
    finish(&fakes[0], second.run());
    assert!(second.next().await.is_some());
    drop((first, second));
    assert!(fakes[0].cancelled().is_empty(), "both were over");
}

#[tokio::test]
async fn a_dropped_ticket_ends_its_run_and_leaves_the_queue() {
    let (pool, fakes) = pool(2, 1);
    let running = pool.submit(about("a"), video(None), 0).unwrap();
    let hold: Hold = Arc::new(());
    let waiting = pool.submit(about("b"), video(Some(hold.clone())), 0).unwrap();
    let last = pool.submit(about("c"), video(None), 0).unwrap();
    asked(&fakes[0], 1).await;
    drop(waiting);
    assert_eq!((pool.load(), Arc::strong_count(&hold)), ((1, 1), 1));
    let run = running.run();
    drop(running);
    assert_eq!(asked(&fakes[0], 2).await, [Path::new("a"), Path::new("c")]);
    assert_eq!(fakes[0].cancelled(), [run]);
    drop(last);
    idle(&pool).await;
}

#[tokio::test]
async fn a_run_goes_to_the_engine_that_knows_its_clip() {
    let (pool, fakes) = pool(4, 2);
    for (engine, clip) in [(0, "a"), (1, "b"), (1, "b"), (0, "a")] {
        let before = fakes[engine].requests().len();
        let mut ticket = pool.submit(about(clip), video(None), 0).unwrap();
        assert_eq!(asked(&fakes[engine], before + 1).await.last().unwrap(), Path::new(clip));
        finish(&fakes[engine], ticket.run());
        assert!(ticket.next().await.is_some());
        idle(&pool).await;
    }
}

#[tokio::test]
async fn what_waits_ends_with_the_pool_and_with_the_engine() {
    let (pool, fakes) = pool(2, 1);
    let mut running = pool.submit(about("a"), video(None), 0).unwrap();
    let mut waiting = pool.submit(about("b"), video(None), 0).unwrap();
    asked(&fakes[0], 1).await;
    pool.close();
    assert!(waiting.next().await.is_none());
    assert_eq!(pool.submit(about("c"), video(None), 0).err(), Some(Refused::Closed));
    finish(&fakes[0], running.run());
    assert!(running.next().await.is_some());

    let (pool, fakes) = self::pool(2, 1);
    let (empty, _) = self::pool(1, 0);
    assert_eq!(empty.submit(about("a"), video(None), 0).err(), Some(Refused::Loading));
    fakes[0].stop_at(0);
    let mut running = pool.submit(about("a"), video(None), 0).unwrap();
    assert!(matches!(running.next().await.unwrap().kind, EventKind::Failed(_)));
    idle(&pool).await;
    assert_eq!(pool.submit(about("b"), video(None), 0).err(), Some(Refused::Lost));
}

#[tokio::test]
async fn a_run_waits_for_the_engine_that_has_its_model() {
    let (pool, fakes) = pool(9, 2);
    let mut state = pool.state();
    let mut next = |waiting: &[(usize, u32)], engines: [(Option<usize>, Option<usize>, Option<u64>); 2]| {
        for (engine, (model, loading, run)) in state.engines.iter_mut().flatten().zip(engines) {
            (engine.model, engine.loading, engine.run) = (model, loading, run);
        }
        let job = |&(model, passed): &(usize, u32)| {
            let (events, _) = mpsc::channel(1);
            Job { model, passed, request: about("a"), events, video: video(None) }
        };
        state.waiting = waiting.iter().map(job).collect();
        let next = state.next();
        state.waiting.clear();
        next
    };
    let (idle, busy) = (None, Some(9));
    // A later one passes the first, whose engine is busy, but not for ever; then that one waits.
    assert_eq!(next(&[(0, 0), (1, 0)], [(Some(0), None, busy), (Some(1), None, idle)]), Some(1));
    assert_eq!(next(&[(0, PASSED), (1, 0)], [(Some(0), None, busy), (Some(1), None, idle)]), None);
    assert_eq!(next(&[(0, 0)], [(None, Some(0), busy), (Some(1), None, idle)]), None, "it is being loaded");
    // What no engine has is loaded, once no other run can begin.
    assert_eq!(next(&[(2, 0), (1, 0)], [(Some(0), None, busy), (Some(1), None, idle)]), Some(1));
    assert_eq!(next(&[(0, 0), (2, 0)], [(Some(0), None, busy), (Some(1), None, idle)]), Some(1));
    assert_eq!(next(&[(2, 0)], [(None, None, idle), (Some(1), None, busy)]), Some(0));
    assert_eq!(next(&[(2, 0)], [(Some(0), None, busy), (Some(1), None, busy)]), None);
    drop(state);
    drop(fakes);
}

#[tokio::test]
async fn before_all_engines_are_there_no_model_takes_the_place_of_another() {
    let pool = Pool::new(2, Feed::new(false), Arc::new(Models::new(vec![Served::default(); 2])));
    let (_fake, client) = FakeEngine::silent();
    pool.add(client, 0);
    assert!(pool.has(0) && !pool.has(1));
    assert_eq!(pool.submit(about("a"), video(None), 1).err(), Some(Refused::Loading));
    assert!(pool.submit(about("a"), video(None), 0).is_ok());
}
