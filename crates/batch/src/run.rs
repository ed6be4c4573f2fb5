//! The loop over the clips.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    ops::ControlFlow,
    time::Instant,
};

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::outputs::{Need, is_fatal};
use super::{claim::Claim, ledger::stamp, rows::Caption, text::prefixed, *};
use specreel_client::{Client, Ending, GRACE, Interrupt, Transcript};
use specreel_engine::{Command, RunRequest};
use specreel_record::{Event, Pieces, RunLog, Segment, StopReason, Verification};
use specreel_video::{self as video, Division, Scenes};

/// Many clips to caption.
pub struct Batch<'a> {
    pub interrupt: &'a Interrupt,
    /// The request of each caption, without video, part and prompt. Its number is the first run's.
    pub request: RunRequest,
    pub part: Part,
    /// What is said in a clip, if anything is known of it.
    pub said: &'a dyn Fn(&Path) -> Result<Option<Transcript>, Failure>,
    pub polish: Polish,
    /// At most this many clips are captioned.
    pub limit: Option<usize>,
    /// The first clip that is captioned, and every clip after so many, is verified.
    pub verify: Option<usize>,
}

struct Job {
    clip: Clip,
    /// Held until its captions are written.
    _claims: Vec<Claim>,
    /// Size and time of the file when its turn was prepared.
    stamp: Option<(u64, u64)>,
    /// The prompts, without what is said in the clip.
    prompts: Vec<String>,
    /// What is said in it.
    said: Option<Transcript>,
    /// For each prompt the runs of all pieces.
    requests: Vec<Vec<RunRequest>>,
}

enum End {
    Captions(Vec<Caption>),
    Failed(Failure),
    Interrupted,
}

/// Where the next clip comes from.
struct Queue {
    clips: VecDeque<Clip>,
    /// Clips that another process had: they are looked at once more at the end.
    deferred: VecDeque<Clip>,
    again: bool,
    taken: usize,
}

/// A clip that is captioned.
struct Running {
    job: Job,
    /// The number of its first run; the others follow it.
    first: u64,
    verifies: bool,
    /// Of its runs that are complete, prompt by prompt.
    logs: Vec<Option<RunLog>>,
    verified: Vec<Verification>,
    /// Why not all of its runs are made.
    broken: Option<End>,
    /// Runs that are not over.
    left: usize,
    /// The last run that was begun; 0 before.
    last: u64,
}

impl Running {
    fn new(job: Job, first: u64, verifies: bool) -> Self {
        let left = job.requests.iter().map(Vec::len).sum();
        let logs = (0..left).map(|_| None).collect();
        Self { job, first, verifies, logs, verified: Vec::new(), broken: None, left, last: 0 }
    }

    /// The request of one of its runs.
    fn request(&self, at: usize) -> Option<RunRequest> {
        let mut before = 0;
        for pieces in &self.job.requests {
            if let Some(request) = pieces.get(at - before) {
                let first = self.first + before as u64;
                let segment = request.segment.map(|segment| Segment { first, ..segment });
                return Some(RunRequest { run: self.first + at as u64, segment, ..request.clone() });
            }
            before += pieces.len();
        }
        None
    }

    /// The request after a run, if it is about another part of the video.
    fn ahead(&self, at: usize) -> Option<RunRequest> {
        let (own, next) = (self.request(at)?, self.request(at + 1)?);
        (next.span != own.span).then_some(next)
    }

    /// True if no part is left to be read after a run.
    fn is_read(&self, at: usize) -> bool {
        let own = self.request(at);
        let span = |request: &RunRequest| request.span;
        (at + 1..self.logs.len()).all(|next| self.request(next).as_ref().map(span) == own.as_ref().map(span))
    }
}

/// How one run of a clip ended.
enum Ran {
    /// With what was found when it was verified.
    Whole(Box<RunLog>, Option<Verification>),
    Broken(End),
}

impl Batch<'_> {
    /// Caption the clips that lack captions. Each engine, which has models loaded or loading, makes one run at a time. Fails if an
    /// engine cannot continue, the disk is full, or nobody takes the report.
    pub async fn run<R: Report>(
        &self,
        engines: &mut [Client],
        clips: Vec<Clip>,
        outputs: &mut Outputs,
        report: &mut R,
    ) -> Result<Summary, Halt> {
        let started = Instant::now();
        let mut summary = Summary::default();
        let progress = &mut summary.progress;
        progress.total = clips.len();
        let mut queue = Queue { clips: clips.into(), deferred: VecDeque::new(), again: false, taken: 0 };
        let report = RefCell::new(report);
        let reads_ahead = engines.len() == 1;
        let mut idle: Vec<(usize, &mut Client)> = engines.iter_mut().enumerate().rev().collect();
        let mut captioning = FuturesUnordered::new();
        // Clips by their first run, and the runs of the last one that are not begun.
        let (mut running, mut waiting) = (BTreeMap::new(), 0..0);
        let (mut first_run, mut begun) = (self.request.run, 0);
        let mut next = self.next(&mut queue, outputs, &mut **report.borrow_mut(), progress)?;
        if next.is_none() {
            next = self.deferred(&mut queue, outputs, &mut **report.borrow_mut(), progress)?;
        }
        let mut current = first_run;
        loop {
            while (next.is_some() || !waiting.is_empty())
                && !summary.interrupted
                && let Some((engine, client)) = idle.pop()
            {
                if self.interrupt.asked() {
                    summary.interrupted = true;
                    break;
                }
                if waiting.is_empty()
                    && let Some(job) = next.take()
                {
                    // Claimed now, so that the engine can read it while this one is captioned.
                    next = self.next(&mut queue, outputs, &mut **report.borrow_mut(), progress)?;
                    let verifies = self.verify.is_some_and(|every| begun % every == 0);
                    let clip = Running::new(job, first_run, verifies);
                    (current, waiting, begun) = (first_run, 0..clip.left, begun + 1);
                    first_run += clip.left as u64;
                    running.insert(current, clip);
                }
                let (Some(at), Some(clip)) = (waiting.next(), running.get_mut(&current)) else { break };
                let Some(request) = clip.request(at) else { break };
                clip.last = request.run;
                let clip = &*clip;
                let later = || next.as_ref()?.requests.first()?.first().filter(|_| clip.is_read(at)).cloned();
                let ahead = if reads_ahead { clip.ahead(at).or_else(later) } else { None };
                let (of, verifies, report) = (current, clip.verifies, &report);
                captioning.push(async move {
                    // All engines load the same models: the first one reports it.
                    let told = |event: &Event| match engine == 0 || event.run != 0 {
                        true => report.borrow_mut().event(event),
                        false => Ok(()),
                    };
                    let ran = self.caption(client, request, ahead, verifies, &told).await;
                    (engine, client, (of, at), ran)
                });
            }
            let Some((engine, client, (of, at), ran)) = captioning.next().await else { break };
            idle.push((engine, client));
            progress.elapsed = started.elapsed();
            let Some(clip) = running.get_mut(&of) else { continue };
            clip.left -= 1;
            match ran? {
                Ran::Whole(log, verification) => {
                    clip.logs[at] = Some(*log);
                    clip.verified.extend(verification);
                }
                Ran::Broken(end) => {
                    clip.broken = clip.broken.take().or(Some(end));
                    if of == current {
                        clip.left -= waiting.len();
                        waiting = 0..0;
                    }
                }
            }
            if clip.left > 0 {
                continue;
            }
            let Some(clip) = running.remove(&of) else { continue };
            let (run, clip, ended) = (clip.last, clip.job.clip.clone(), self.ended(clip, progress));
            let outcome = match ended {
                End::Interrupted => {
                    summary.interrupted = true;
                    continue;
                }
                End::Captions(captions) => match outputs.write(&clip, &captions) {
                    Ok(()) if captions.iter().all(Caption::is_empty) => Outcome::Empty(captions),
                    Ok(()) => Outcome::Captioned(captions),
                    Err(failure) if is_fatal(&failure) => return Err(Halt::Failed(failure)),
                    Err(failure) => Outcome::Failed(failure),
                },
                End::Failed(failure) => {
                    outputs.fail(&clip, &failure);
                    Outcome::Failed(failure)
                }
            };
            end(&clip, run, &outcome, progress, &mut **report.borrow_mut())?;
            if next.is_none() && !summary.interrupted {
                next = self.deferred(&mut queue, outputs, &mut **report.borrow_mut(), progress)?;
            }
        }
        summary.progress.elapsed = started.elapsed();
        summary.interrupted |= self.interrupt.asked();
        summary.limited = !queue.clips.is_empty() && !summary.interrupted;
        let Progress { failed, busy, .. } = summary.progress;
        let complete = !summary.interrupted && !summary.limited && busy == 0;
        outputs.finish(complete, failed).map_err(Halt::Failed)?;
        Ok(summary)
    }

    /// The next clip that lacks captions, claimed. Those that lack none are reported.
    fn next<R: Report>(
        &self,
        queue: &mut Queue,
        outputs: &mut Outputs,
        report: &mut R,
        progress: &mut Progress,
    ) -> Result<Option<Job>, Halt> {
        while !self.interrupt.asked() && self.limit.is_none_or(|limit| queue.taken < limit) {
            let Some(clip) = queue.clips.pop_front() else { break };
            let outcome = match self.prepare(&clip, outputs) {
                Ok(Ok(job)) => {
                    queue.taken += 1;
                    return Ok(Some(job));
                }
                Ok(Err(Outcome::Busy)) if !queue.again => {
                    queue.deferred.push_back(clip);
                    continue;
                }
                Ok(Err(outcome)) => {
                    if outcome == Outcome::Skipped {
                        outputs.tidy(&clip);
                    }
                    outcome
                }
                Err(failure) if is_fatal(&failure) => return Err(Halt::Failed(failure)),
                // The search for scenes was interrupted.
                Err(_) if self.interrupt.asked() => return Ok(None),
                Err(failure) => {
                    outputs.fail(&clip, &failure);
                    Outcome::Failed(failure)
                }
            };
            end(&clip, 0, &outcome, progress, report)?;
        }
        Ok(None)
    }

    /// Look once more at the clips that other processes had: those may have been killed.
    fn deferred<R: Report>(
        &self,
        queue: &mut Queue,
        outputs: &mut Outputs,
        report: &mut R,
        progress: &mut Progress,
    ) -> Result<Option<Job>, Halt> {
        if !queue.again && queue.clips.is_empty() {
            std::mem::swap(&mut queue.clips, &mut queue.deferred);
            queue.again = true;
        }
        self.next(queue, outputs, report, progress)
    }

    /// Claim a clip and lay out its runs, or say why not.
    fn prepare(&self, clip: &Clip, outputs: &mut Outputs) -> Result<Result<Job, Outcome>, Failure> {
        let over = |need: Need| match need {
            Need::Nothing => Err(Outcome::Skipped),
            Need::FailedBefore(error) => Err(Outcome::FailedBefore(error)),
            Need::Captions(prompts) => Ok(prompts),
        };
        // Twice: most clips of a resumed run are done, and need no claim; and others may have done it before the claim.
        if let Err(outcome) = over(outputs.need(clip)?) {
            return Ok(Err(outcome));
        }
        let Some(claims) = outputs.claim(clip)? else { return Ok(Err(Outcome::Busy)) };
        let prompts = match over(outputs.need(clip)?) {
            Ok(prompts) => prompts,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let path = clip.path();
        let stamp = stamp(&path);
        let prompts: Vec<String> = prompts.iter().map(|&number| outputs.prompts()[number].clone()).collect();
        let (said, requests) = self.plan(&path, &prompts, outputs.are_timed())?;
        Ok(Ok(Job { clip: clip.clone(), _claims: claims, stamp, prompts, said, requests }))
    }

    /// What is said in a video, and for each prompt the runs of all its pieces.
    fn plan(
        &self,
        path: &Path,
        prompts: &[String],
        timed: bool,
    ) -> Result<(Option<Transcript>, Vec<Vec<RunRequest>>), Failure> {
        let said = (self.said)(path)?;
        // A picture has no parts, and nothing is said in it.
        let spans = self.spans(path, timed || said.as_ref().is_some_and(|said| !said.is_empty()))?;
        let requests = prompts.iter().map(|prompt| self.runs(path, &spans, prompt, said.as_ref())).collect();
        Ok((said, requests))
    }

    /// A run on each of these parts of a video.
    fn runs(
        &self,
        path: &Path,
        spans: &[Option<Span>],
        prompt: &str,
        said: Option<&Transcript>,
    ) -> Vec<RunRequest> {
        let count = spans.len();
        let piece = |(index, span): (usize, &Option<Span>)| {
            let mut piece = RunRequest {
                video: path.to_owned(),
                span: *span,
                segment: self.part.segments.map(|_| Segment { first: 0, index, count }),
                prompt: prompt.to_owned(),
                measure: false,
                ..self.request.clone()
            };
            if let Some(said) = said {
                said.precede(&mut piece);
            }
            piece
        };
        spans.iter().enumerate().map(piece).collect()
    }

    /// The parts of a video that are captioned; none is the whole video.
    fn spans(&self, path: &Path, timed: bool) -> Result<Vec<Option<Span>>, Failure> {
        let Part { start, end, segments } = self.part;
        if self.part == Part::default() && !timed {
            return Ok(vec![None]);
        }
        let spans = self.within(path, start, end, segments)?;
        Ok(spans.into_iter().map(Some).collect())
    }

    /// The segments of a part of a video. A video that is shorter than the part is captioned up to its end.
    fn within(
        &self,
        path: &Path,
        start: Option<f64>,
        end: Option<f64>,
        division: Option<Division>,
    ) -> Result<Vec<Span>, video::Error> {
        let spans = |end| {
            video::segments_with(path, start, end, division, &mut |_, _| match self.interrupt.asked() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        };
        match spans(end) {
            Err(video::Error::Outside { span, length_s, promised_s: None, .. }) if span.start < length_s => {
                spans(None)
            }
            spans => spans,
        }
    }

    /// Make a run, and verify it if that is meant; while it is made, the engine reads what is `ahead`.
    async fn caption(
        &self,
        client: &mut Client,
        request: RunRequest,
        ahead: Option<RunRequest>,
        verifies: bool,
        told: &dyn Fn(&Event) -> io::Result<()>,
    ) -> Result<Ran, Halt> {
        ahead.into_iter().for_each(|next| read_ahead(client, next));
        let mut log = RunLog::new(request.run);
        let mut sink = |event: &Event, _: &RunLog| -> io::Result<ControlFlow<()>> {
            told(event)?;
            Ok(ControlFlow::Continue(()))
        };
        let asked = verifies.then(|| request.clone());
        let ending = client.follow(request, &mut log, &mut sink, self.interrupt, GRACE).await?;
        if let Some(end) = broken_off(ending)? {
            return Ok(Ran::Broken(end));
        }
        if let Some(asked) = asked {
            let ending = client.verify(&asked, &mut log, &mut sink, self.interrupt, GRACE).await?;
            if let Some(end) = broken_off(ending)? {
                return Ok(Ran::Broken(end));
            }
        }
        let verification = log.verification().filter(|_| verifies).cloned();
        Ok(Ran::Whole(Box::new(log), verification))
    }

    /// What becomes of a clip whose runs are over; they are counted.
    fn ended(&self, clip: Running, progress: &mut Progress) -> End {
        let Running { job, logs, verified, broken, .. } = clip;
        if let Some(end) = broken {
            return end;
        }
        let mut logs = logs.into_iter().flatten();
        let mut captions = Vec::new();
        for (prompt, pieces) in job.prompts.iter().zip(&job.requests) {
            let logs: Vec<RunLog> = logs.by_ref().take(pieces.len()).collect();
            captions.push(self.written(&job, prompt, &logs));
            logs.iter().for_each(|log| progress.stats.add_run(log.stats()));
        }
        if stamp(&job.clip.path()) != job.stamp {
            return End::Failed(Failure::internal(
                format!("video {}: it changed while it was captioned", job.clip.path().display()),
                "run the same command again once it is complete",
            ));
        }
        progress.verify(&job.clip, &verified);
        End::Captions(captions)
    }

    /// While the next video is captioned, let the engine read the one at this path, which comes after it.
    pub fn ahead(&self, client: &Client, path: &Path) {
        // What cannot be read is reported when it is its turn. Scenes are only found then.
        if matches!(self.part.segments, Some(Division::Scenes(_))) {
            return;
        }
        if let Ok(request) = self.sample(&Clip::of_file(path), &self.request.prompt) {
            read_ahead(client, request);
        }
    }

    /// Caption one video without outputs; the inner failure is the video's. None after an interrupt.
    pub async fn one(
        &self,
        client: &mut Client,
        path: &Path,
        run: &mut u64,
    ) -> Result<Result<Option<Caption>, Failure>, Halt> {
        let prompts = vec![self.request.prompt.clone()];
        let (said, requests) = match self.plan(path, &prompts, false) {
            Ok(planned) => planned,
            Err(failure) => return Ok(Err(failure)),
        };
        let clip = Clip::of_file(path);
        let job = Job { stamp: stamp(path), clip, _claims: Vec::new(), prompts, said, requests };
        let mut clip = Running::new(job, *run, false);
        for at in 0..clip.left {
            let Some(request) = clip.request(at) else { break };
            *run += 1;
            match self.caption(client, request, clip.ahead(at), false, &|_| Ok(())).await? {
                Ran::Whole(log, _) => clip.logs[at] = Some(*log),
                Ran::Broken(end) => {
                    clip.broken = Some(end);
                    break;
                }
            }
        }
        Ok(match self.ended(clip, &mut Progress::default()) {
            End::Captions(captions) => Ok(captions.into_iter().next()),
            End::Failed(failure) => Err(failure),
            End::Interrupted => Ok(None),
        })
    }

    /// The first run of a clip, to estimate it; where scenes are yet to be found, one of the longest.
    pub fn sample(&self, clip: &Clip, prompt: &str) -> Result<RunRequest, Failure> {
        let (video, prompt) = (clip.path(), prompt.to_owned());
        let Part { start, end, segments } = self.part;
        let span = match segments {
            Some(Division::Scenes(Scenes { longest_s, .. })) => {
                self.within(&video, start, end, Some(Division::Even(longest_s)))?.first().copied()
            }
            _ => self.spans(&video, false)?.first().copied().flatten(),
        };
        Ok(RunRequest { video, span, prompt, measure: false, ..self.request.clone() })
    }

    fn written(&self, job: &Job, prompt: &str, logs: &[RunLog]) -> Caption {
        let polished: Vec<_> = logs.iter().map(|log| self.polish.cleaned(log.text())).collect();
        let joined = polished.iter().map(|piece| piece.text.as_str()).collect::<Vec<_>>().join(" ");
        let prefix = self.polish.prefix.clone();
        let text = prefixed(prefix.as_deref(), joined.trim().to_owned());
        let cut: Vec<&str> = polished.iter().filter_map(|piece| piece.cut.as_deref()).collect();
        let spans = logs.iter().filter_map(|log| log.started()?.span);
        let pieces = spans.zip(&polished).map(|(span, piece)| (span, piece.text.clone())).collect();
        let cut = (!cut.is_empty()).then(|| cut.join("; "));
        let mut made = made(logs);
        made.extend(job.said.iter().map(|said| ("transcript".into(), said.file.clone().into())));
        made.extend(answer(logs).map(|answer| ("answer".into(), answer)));
        if logs.iter().all(|log| log.text().trim().is_empty()) {
            made.insert("empty".into(), true.into());
        }
        let lines = job.said.iter().flat_map(Transcript::lines);
        let said = lines.map(|(span, text)| (span, text.to_owned())).collect();
        Caption { prompt: prompt.to_owned(), text, cut, pieces, said, prefix, made }
    }
}

/// Have this read during the next run. Without it, it is read when it is its turn.
fn read_ahead(client: &Client, request: RunRequest) {
    let _ = client.send(Command::ReadNext(Box::new(RunRequest { run: u64::MAX, ..request })));
}

/// How a run ended that has not come to its end; `None` if it has.
fn broken_off(ending: Ending) -> Result<Option<End>, Halt> {
    match ending {
        Ending::Done(StopReason::Cancelled) | Ending::NotSent => Ok(Some(End::Interrupted)),
        Ending::Done(_) => Ok(None),
        Ending::Failed(failure) => Ok(Some(End::Failed(failure))),
        Ending::NoModels(failure) | Ending::Lost(failure) => Err(Halt::Failed(failure)),
    }
}

fn made(logs: &[RunLog]) -> Map<String, Value> {
    let all = Pieces::of(logs);
    let stats = all.stats();
    let mut made = Map::new();
    if let Some(started) = all.first().and_then(RunLog::started) {
        made.insert("target".into(), started.target.clone().into());
        made.insert("drafter".into(), started.drafter.clone().into());
        made.insert("method".into(), started.method_name().into());
        made.insert("lossless".into(), started.lossless.into());
        let asked = [("preset", &started.preset), ("system", &started.system)];
        made.extend(asked.into_iter().filter_map(|(key, text)| Some((key.into(), text.clone()?.into()))));
    }
    let reason = all.reason().and_then(|reason| serde_json::to_value(reason).ok());
    made.insert("reason".into(), reason.unwrap_or_default());
    made.extend(stats.complete.map(|complete| ("complete".into(), complete.into())));
    made.insert("tokens".into(), stats.emitted.into());
    made.insert("tau".into(), rounded(stats.tau));
    made.insert("seconds".into(), rounded(stats.timings.total_ms() / 1000.0));
    made
}

/// The answers as JSON, if that was asked for and all are complete: one, or a list of those about the pieces of a clip.
fn answer(logs: &[RunLog]) -> Option<Value> {
    let is_json = |log: &RunLog| {
        let kind = log.started()?.constraint.as_ref()?.get("kind")?.as_str()?;
        kind.starts_with("json").then_some(())
    };
    let parsed = logs.iter().map(|log| is_json(log).and_then(|()| serde_json::from_str(log.text()).ok()));
    let mut parsed: Vec<Value> = parsed.collect::<Option<_>>()?;
    if parsed.len() == 1 { parsed.pop() } else { Some(parsed.into()) }
}

fn rounded(value: f64) -> Value {
    ((value * 1000.0).round() / 1000.0).into()
}

fn end<R: Report>(
    clip: &Clip,
    run: u64,
    outcome: &Outcome,
    progress: &mut Progress,
    report: &mut R,
) -> Result<(), Halt> {
    match outcome {
        Outcome::Captioned(captions) => {
            progress.captioned += 1;
            progress.incomplete += usize::from(captions.iter().any(Caption::is_incomplete));
        }
        Outcome::Empty(_) => progress.empty += 1,
        Outcome::Skipped => progress.skipped += 1,
        Outcome::Busy => progress.busy += 1,
        Outcome::Failed(_) | Outcome::FailedBefore(_) => progress.failed += 1,
    }
    Ok(report.clip(&Ended { clip, run, outcome }, progress)?)
}

#[cfg(test)]
mod tests;
