//! Texts that are written side by side, each by a thread, so that their passes share one reading of the weights.
//!
//! Of the threads of a group only one computes at a time: it has the turn. A thread that needs a pass over rows of text, or logits,
//! asks for it, and passes the turn on. Once all threads have asked, the requests to one model become one pass: first those to the
//! smallest, so that drafters have drafted before their targets verify. Rows do not depend on the rows beside them, so every
//! text is the one that would be written alone.
//!
//! The group of a thread is what it has entered ([`Together::enter`]); [`Sequence`](super::Sequence) asks it for passes.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
};

use specreel_tensor::{Error, Result};

use super::{Cache, Decoder, Input, Logits, Mask, Pass, PassRequest, Positions, States, Taps, Workspace};

/// A group of threads that compute together.
#[derive(Clone, Default)]
pub struct Together(Arc<Group>);

/// The passes of a group so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passes that were asked for.
    pub asked: u64,
    /// Passes that were computed: each answers at least one request.
    pub computed: u64,
}

/// Membership in a group, of the thread that entered it. It ends when this is dropped.
pub struct Turn {
    /// The group that the thread was in before.
    outer: Option<Seat>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

#[derive(Clone)]
struct Seat {
    group: Arc<Group>,
    number: u64,
}

#[derive(Default)]
struct Group(Mutex<Table>);

#[derive(Default)]
struct Table {
    threads: BTreeMap<u64, Thread>,
    /// Who computes.
    turn: Option<u64>,
    /// Seats that can continue, in the order of their turns.
    ready: VecDeque<u64>,
    /// Those that wait for an answer.
    asked: Vec<Asked>,
    answers: BTreeMap<u64, Answer>,
    entered: u64,
    counts: Counts,
}

struct Asked {
    seat: u64,
    decoder: Arc<Decoder>,
    /// Bytes that it reads.
    bytes: usize,
    request: Request,
}

enum Request {
    Pass(Box<TextPass>),
    Logits(States),
}

struct TextPass {
    ids: Vec<u32>,
    positions: Positions,
    mask: Mask,
    cache: Cache,
    taps: Taps,
}

enum Answer {
    Pass(Cache, Result<Pass>),
    Logits(Result<Logits>),
}

thread_local! {
    static SEAT: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

impl Together {
    /// Make the calling thread one of the group, and wait for its turn. Only threads that compute may be in a group: all others wait
    /// while one of them sleeps.
    pub fn enter(&self) -> Turn {
        let mut table = self.0.lock();
        table.entered += 1;
        let number = table.entered;
        table.threads.insert(number, thread::current());
        table.ready.push_back(number);
        if table.turn.is_none() {
            table.pass_on();
        }
        drop(table);
        let seat = Seat { group: self.0.clone(), number };
        seat.wait();
        Turn { outer: SEAT.replace(Some(seat)), _thread: PhantomData }
    }

    /// The passes so far that were, or could have been, computed with others.
    pub fn counts(&self) -> Counts {
        self.0.lock().counts
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(Seat { group, number }) = SEAT.replace(self.outer.take()) else { return };
        let mut table = group.lock();
        table.threads.remove(&number);
        table.pass_on();
    }
}

/// Give the turn to the other threads of the calling thread's group, if it is in one, until all of them wait for it or have ended:
/// between parts of work that is not done together. This computes passes that wait for others, so a thread that is about to ask for
/// one does not pause.
pub fn pause() {
    if let Some(seat) = SEAT.with_borrow(Option::clone) {
        seat.pause();
    }
}

/// [`Decoder::forward`] of text, together with other threads of the group.
pub(super) fn pass(
    decoder: &Arc<Decoder>,
    request: PassRequest<'_>,
    workspace: &mut Workspace,
) -> Result<Pass> {
    let PassRequest { input, positions, mask, cache, taps } = request;
    let seat = SEAT.with_borrow(Option::clone);
    let (Some(seat), Input::Ids(ids), true) = (&seat, input, taps.layers.is_none() && decoder.joins()) else {
        return decoder.forward(input, positions, mask, cache, taps, workspace);
    };
    let pass = TextPass {
        ids: ids.to_vec(),
        positions: positions.clone(),
        mask: mask.clone(),
        cache: std::mem::replace(cache, decoder.cache(0)),
        taps: taps.clone(),
    };
    match seat.ask(decoder, Request::Pass(Box::new(pass)), workspace) {
        Answer::Pass(own, pass) => {
            *cache = own;
            pass
        }
        Answer::Logits(_) => specreel_tensor::bail!("logits in place of a pass"),
    }
}

/// Logits of final states, together with other threads of the group.
pub(super) fn logits(decoder: &Arc<Decoder>, states: &States, workspace: &mut Workspace) -> Result<Logits> {
    let seat = SEAT.with_borrow(Option::clone).filter(|_| decoder.joins());
    let Some(seat) = seat else { return decoder.logits(states, workspace) };
    match seat.ask(decoder, Request::Logits(states.clone()), workspace) {
        Answer::Logits(logits) => logits,
        Answer::Pass(..) => specreel_tensor::bail!("a pass in place of logits"),
    }
}

impl Seat {
    fn wait(&self) {
        while self.group.lock().turn != Some(self.number) {
            thread::park();
        }
    }

    fn pause(&self) {
        let mut table = self.group.lock();
        let Some(next) = table.next() else { return };
        table.ready.push_back(self.number);
        table.give(next);
        drop(table);
        self.wait();
    }

    /// Wait for an answer; who has the turn while its request is still open answers it, and all that can be answered with it.
    fn ask(&self, decoder: &Arc<Decoder>, request: Request, workspace: &mut Workspace) -> Answer {
        let bytes = match &request {
            // Before any pass, so that whoever waits for logits can join it.
            Request::Logits(_) => 0,
            Request::Pass(_) => decoder.matrix_bytes(),
        };
        let mut table = self.group.lock();
        table.asked.push(Asked { seat: self.number, decoder: decoder.clone(), bytes, request });
        table.pass_on();
        drop(table);
        self.wait();
        let mut table = self.group.lock();
        if let Some(answer) = table.answers.remove(&self.number) {
            return answer;
        }
        let joined = table.join(self.number);
        drop(table);
        let seats: Vec<u64> = joined.iter().map(|asked| asked.seat).collect();
        let mut own = None;
        let (answers, panic) = answer(decoder, joined, workspace);
        let mut table = self.group.lock();
        for (seat, answer) in seats.into_iter().zip(answers) {
            if seat == self.number {
                own = Some(answer);
            } else {
                table.answers.insert(seat, answer);
                table.ready.push_back(seat);
            }
        }
        drop(table);
        match (panic, own) {
            (None, Some(own)) => own,
            (Some(panic), _) => resume_unwind(panic),
            (None, None) => Answer::Logits(Err(Error::Message("a request without an answer".into()))),
        }
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The seat that goes on next: one that can, or else the one whose request reads the fewest bytes.
    fn next(&mut self) -> Option<u64> {
        let cheapest = || self.asked.iter().min_by_key(|asked| asked.bytes).map(|asked| asked.seat);
        self.ready.pop_front().or_else(cheapest)
    }

    fn give(&mut self, seat: u64) {
        self.turn = Some(seat);
        if let Some(thread) = self.threads.get(&seat) {
            thread.unpark();
        }
    }

    fn pass_on(&mut self) {
        self.turn = None;
        if let Some(next) = self.next() {
            self.give(next);
        }
    }

    /// Take the request of a seat and all that can be answered with it.
    fn join(&mut self, seat: u64) -> Vec<Asked> {
        let own = self.asked.iter().find(|asked| asked.seat == seat);
        let Some((decoder, kind)) =
            own.map(|own| (own.decoder.clone(), std::mem::discriminant(&own.request)))
        else {
            return Vec::new();
        };
        let joins = |asked: &mut Asked| {
            Arc::ptr_eq(&asked.decoder, &decoder) && std::mem::discriminant(&asked.request) == kind
        };
        let joined: Vec<Asked> = self.asked.extract_if(.., joins).collect();
        if joined.iter().any(|asked| matches!(asked.request, Request::Pass(_))) {
            self.counts.asked += joined.len() as u64;
            self.counts.computed += 1;
        }
        joined
    }
}

/// The answers to requests of one kind, in their order, and the panic of their computation.
fn answer(
    decoder: &Decoder,
    asked: Vec<Asked>,
    workspace: &mut Workspace,
) -> (Vec<Answer>, Option<Box<dyn std::any::Any + Send>>) {
    let (mut passes, mut states) = (Vec::new(), Vec::new());
    for asked in asked {
        match asked.request {
            Request::Pass(pass) => passes.push(pass),
            Request::Logits(of) => states.push(of),
        }
    }
    let count = passes.len() + states.len();
    let computed = catch_unwind(AssertUnwindSafe(|| match passes.is_empty() {
        true => (Vec::new(), logits_of(decoder, &states, workspace)),
        false => {
            let requests = passes.iter_mut().map(|pass| {
                let TextPass { ids, positions, mask, cache, taps } = &mut **pass;
                PassRequest { input: Input::Ids(ids), positions, mask, cache, taps }
            });
            (decoder.forward_together(requests.collect(), workspace), Vec::new())
        }
    }));
    let ((done, logits), panic) = match computed {
        Ok(computed) => (computed, None),
        Err(panic) => ((Vec::new(), Vec::new()), Some(panic)),
    };
    let failed = || Error::Message("a pass that was computed with others failed".into());
    let mut done = done.into_iter();
    let passes =
        passes.into_iter().map(|pass| Answer::Pass(pass.cache, done.next().unwrap_or_else(|| Err(failed()))));
    let mut answers: Vec<Answer> = passes.chain(logits.into_iter().map(Answer::Logits)).collect();
    answers.resize_with(count, || Answer::Logits(Err(failed())));
    (answers, panic)
}

fn logits_of(decoder: &Decoder, states: &[States], workspace: &mut Workspace) -> Vec<Result<Logits>> {
    let logits = States::cat(states).and_then(|all| decoder.logits(&all, workspace));
    let mut first = 0;
    let own = states.iter().map(|of| {
        let (start, rows) = (first, of.rows());
        first += rows;
        match &logits {
            Ok(logits) => logits.narrow(start, rows),
            Err(error) => Err(Error::Message(error.to_string())),
        }
    });
    own.collect()
}

#[cfg(test)]
mod tests;
