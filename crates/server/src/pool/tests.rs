use std::path::Path;

use super::*;
use crate::videos::Hold;
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
    let pool = Pool::new(capacity, Feed::new(false));
    let fakes = (0..engines).map(|_| {
        let (fake, client) = FakeEngine::silent();
        pool.add(client);
        fake
    });
    let fakes = fakes.collect();
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
    let mut first = pool.submit(about("a"), video(None)).unwrap();
    let mut second = pool.submit(about("b"), video(None)).unwrap();
    assert!(
        matches!(pool.submit(about("c"), video(None)), Err(Refused::Full(after)) if after.as_secs() >= 1)
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
    let running = pool.submit(about("a"), video(None)).unwrap();
    let hold: Hold = Arc::new(());
    let waiting = pool.submit(about("b"), video(Some(hold.clone()))).unwrap();
    let last = pool.submit(about("c"), video(None)).unwrap();
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
        let mut ticket = pool.submit(about(clip), video(None)).unwrap();
        assert_eq!(asked(&fakes[engine], before + 1).await.last().unwrap(), Path::new(clip));
        finish(&fakes[engine], ticket.run());
        assert!(ticket.next().await.is_some());
        idle(&pool).await;
    }
}

#[tokio::test]
async fn what_waits_ends_with_the_pool_and_with_the_engine() {
    let (pool, fakes) = pool(2, 1);
    let mut running = pool.submit(about("a"), video(None)).unwrap();
    let mut waiting = pool.submit(about("b"), video(None)).unwrap();
    asked(&fakes[0], 1).await;
    pool.close();
    assert!(waiting.next().await.is_none());
    assert_eq!(pool.submit(about("c"), video(None)).err(), Some(Refused::Closed));
    finish(&fakes[0], running.run());
    assert!(running.next().await.is_some());

    let (pool, fakes) = self::pool(2, 1);
    assert_eq!(Pool::new(1, Feed::new(false)).submit(about("a"), video(None)).err(), Some(Refused::Loading));
    fakes[0].stop_at(0);
    let mut running = pool.submit(about("a"), video(None)).unwrap();
    assert!(matches!(running.next().await.unwrap().kind, EventKind::Failed(_)));
    idle(&pool).await;
    assert_eq!(pool.submit(about("b"), video(None)).err(), Some(Refused::Lost));
}
