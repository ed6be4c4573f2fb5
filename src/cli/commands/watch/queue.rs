//! What the reader of a stream hands over, in order. At most one segment waits, so memory is bounded.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{collections::VecDeque, ops::ControlFlow};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::cli::args::watch::Behind;
use specreel_record::{Failure, Span};
use specreel_video::HeldFrames;

/// Most messages that wait.
const MOST_NEWS: usize = 64;

#[derive(Debug, PartialEq)]
pub enum Item<T = HeldFrames> {
    Segment(T),
    News(News),
    /// The stream has ended.
    End(Result<(), Failure>),
}

/// What happened to a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// This part is not captioned.
    Skipped(Span),
    /// It broke, and is opened again after this pause.
    Broken { error: String, pause_s: u64 },
    /// It is open again, after so many seconds.
    Reopened { seconds: f64 },
}

impl News {
    pub fn json(&self) -> Value {
        match self {
            Self::Skipped(Span { start, end }) => {
                json!({"run": 0, "event": "stream", "state": "skipped", "start": start, "end": end})
            }
            Self::Broken { error, pause_s } => {
                json!({"run": 0, "event": "stream", "state": "broken", "error": error, "pause_s": pause_s})
            }
            Self::Reopened { seconds } => {
                json!({"run": 0, "event": "stream", "state": "reopened", "seconds": seconds})
            }
        }
    }
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Skipped(span) => write!(f, "skipped {span}: captioning is slower than the stream"),
            Self::Broken { error, pause_s } => write!(f, "{error}; opening it again in {pause_s} s"),
            Self::Reopened { seconds } => write!(f, "the stream is open again, after {seconds:.1} s"),
        }
    }
}

/// A part of a stream that waits for its caption.
pub trait Waiting {
    fn span(&self) -> Span;
}

impl Waiting for HeldFrames {
    fn span(&self) -> Span {
        self.span
    }
}

pub struct Queue<T = HeldFrames> {
    behind: Behind,
    items: Mutex<VecDeque<Item<T>>>,
    filled: Notify,
    taken: Condvar,
}

impl<T: Waiting> Queue<T> {
    pub fn new(behind: Behind) -> Self {
        Self { behind, items: Mutex::default(), filled: Notify::new(), taken: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Item<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hand over a segment. If another one waits, it is skipped, or this call waits.
    pub fn segment(&self, segment: T) -> ControlFlow<()> {
        let is_segment = |item: &Item<T>| matches!(item, Item::Segment(_));
        let mut items = match self.behind {
            Behind::Skip => self.lock(),
            Behind::Wait => {
                let waits = |items: &mut VecDeque<Item<T>>| items.iter().any(is_segment);
                self.taken.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner)
            }
        };
        if let Some(at) = items.iter().position(is_segment) {
            skip(&mut items, at);
        }
        items.push_back(Item::Segment(segment));
        drop(items);
        self.filled.notify_one();
        ControlFlow::Continue(())
    }

    pub fn news(&self, news: News) {
        let is_full = |items: &mut VecDeque<Item<T>>| items.len() >= MOST_NEWS;
        let mut items = self.taken.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        items.push_back(Item::News(news));
        drop(items);
        self.filled.notify_one();
    }

    pub fn end(&self, ending: Result<(), Failure>) {
        self.lock().push_back(Item::End(ending));
        self.filled.notify_one();
    }

    pub async fn next(&self) -> Item<T> {
        loop {
            let item = self.lock().pop_front();
            if let Some(item) = item {
                self.taken.notify_one();
                return item;
            }
            self.filled.notified().await;
        }
    }
}

/// Replace a segment by the news that it is skipped, together with those skipped just before it.
fn skip<T: Waiting>(items: &mut VecDeque<Item<T>>, at: usize) {
    let Some(Item::Segment(segment)) = items.remove(at) else { return };
    let Span { start, end } = segment.span();
    let before = at.checked_sub(1).and_then(|before| items.get_mut(before));
    match before {
        Some(Item::News(News::Skipped(skipped))) if skipped.end == start => skipped.end = end,
        _ => items.insert(at, Item::News(News::Skipped(Span { start, end }))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cli::interrupt::runtime;

    impl Waiting for Span {
        fn span(&self) -> Span {
            *self
        }
    }

    fn tens(index: u64) -> Span {
        Span { start: index as f64 * 10.0, end: (index + 1) as f64 * 10.0 }
    }

    /// What is in the queue, up to the end.
    fn taken(queue: &Queue<Span>) -> Vec<Item<Span>> {
        let mut all = Vec::new();
        runtime().unwrap().block_on(async {
            while !matches!(all.last(), Some(Item::End(_))) {
                all.push(queue.next().await);
            }
        });
        all
    }

    #[test]
    fn skipped_segments_are_named_in_order_and_one_waits() {
        let queue = Queue::new(Behind::Skip);
        let _ = [0, 1, 2].map(|i| queue.segment(tens(i)));
        queue.news(News::Reopened { seconds: 1.0 });
        let _ = [3, 5].map(|i| queue.segment(tens(i)));
        queue.end(Ok(()));
        let skipped = |start, end| Item::News(News::Skipped(Span { start, end }));
        let reopened = Item::News(News::Reopened { seconds: 1.0 });
        let want =
            [skipped(0.0, 30.0), reopened, skipped(30.0, 40.0), Item::Segment(tens(5)), Item::End(Ok(()))];
        assert_eq!(taken(&queue), want);
    }

    #[test]
    fn who_waits_loses_nothing() {
        let queue = Arc::new(Queue::new(Behind::Wait));
        let filling = queue.clone();
        let thread = std::thread::spawn(move || {
            let _ = (0..20).map(|i| filling.segment(tens(i))).collect::<Vec<_>>();
            filling.end(Ok(()));
        });
        let all = taken(&queue);
        thread.join().unwrap();
        let want = (0..20).map(|i| Item::Segment(tens(i))).chain([Item::End(Ok(()))]);
        assert_eq!(all, want.collect::<Vec<_>>());
    }
}
