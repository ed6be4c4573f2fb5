//! Reads the rest of a request that is refused before its body was read to the end. A server that closes the connection instead
//! breaks off the client's sending, and the client never sees why.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::{pin::Pin, time::Duration};

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::{extract::Request, http::header::EXPECT, middleware::Next, response::Response};
use futures_util::{Stream, StreamExt};

/// How long the rest of a refused request is read.
const LONGEST: Duration = Duration::from_secs(10);

/// What was left of a body.
type Slot = Arc<Mutex<Option<BodyDataStream>>>;

/// A body that leaves what was not read of it in a slot.
struct Kept {
    inner: Option<BodyDataStream>,
    slot: Slot,
    /// The client sends it: without being asked, or since it was asked.
    comes: bool,
}

impl Stream for Kept {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.comes = true;
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let next = inner.poll_next_unpin(context);
        if !matches!(next, Poll::Pending | Poll::Ready(Some(Ok(_)))) {
            self.inner = None;
        }
        next
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.comes {
            *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = self.inner.take();
        }
    }
}

/// Answer a request; the answer follows what the client sends, for a while.
pub async fn linger(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let slot = Slot::default();
    let comes = !request.headers().contains_key(EXPECT);
    let kept = |body: Body| Kept { inner: Some(body.into_data_stream()), slot: slot.clone(), comes };
    let response = next.run(request.map(|body| Body::from_stream(kept(body)))).await;
    let rest = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut rest) = rest {
        let _ = tokio::time::timeout(LONGEST, async { while let Some(Ok(_)) = rest.next().await {} }).await;
    }
    response
}
