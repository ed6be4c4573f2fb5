//! `specreel watch`: the segments of a stream, each captioned as it ends.
//!
//! A thread reads the stream ([`reader`]) and holds a few frames of each segment. The [`queue`] to this thread, which has them
//! captioned one by one, holds one segment. Finished captions are appended to a file ([`record`]), and kept in an index.

#[cfg(feature = "find")]
mod indexed;
mod queue;
mod reader;
mod record;

use std::{collections::HashSet, sync::Arc};

use self::queue::{Item, Queue};
use self::reader::{Origin, Reader};
use self::record::Record;
use super::caption::{INCOMPLETE, ended, logprobs, one, resume::Kept, style};
use super::*;
use crate::cli::args::watch::{Behind, WatchArgs};
use crate::cli::output::printer::Printer;
use specreel_client::Transcript;
use specreel_client::speech::{Between, Speech};
use specreel_engine::memory_check;
use specreel_record::{Segment, Span};
use specreel_video::Options;

/// Seconds before and behind a segment that are heard with it.
const AROUND_S: f64 = 2.0;

pub fn run(args: &WatchArgs, config: &Config) -> Result<i32, End> {
    let WatchArgs { run, scenes, segments, output, .. } = args;
    let is_silent = output.quiet || output.json;
    scenes.check(Some(*segments))?;
    if let Some(code) = super::models::offer::missing(run, config, is_silent)? {
        return Ok(code);
    }
    let origin = Origin::of(&args.stream)?;
    if args.speech.model.transcribe.is_some() && !origin.is_file() {
        return Err(Failure::usage(
            "--transcribe reads the sound of a file; this stream can be read only once",
            "watch the file that it is recorded to, or use --transcript",
        )
        .into());
    }
    let speech = Speech::of(&args.speech.source())?;
    let mut caption = resolve::stream(&args.stream, &origin.name(), run, config)?;
    caption.request.logprobs = logprobs(output);
    resolve::suggest_drafter(&caption.models, config, is_silent);
    resolve::tell_unused(run, &[&caption.request.method], is_silent);
    let cues = args.cues.of(config);
    let mut kept = Kept::of(output, args.resume, &caption.models)?;
    let done = finished(&mut kept, &caption.request)?;
    let session = kept.session(output)?;
    let (mut record, recorded_s) = match &args.out {
        Some(path) => {
            let (record, s) = Record::open(path, cues, args.resume, output.force)?;
            (Some(record), s)
        }
        None => (None, 0.0),
    };
    let mut done_s = recorded_s;
    for (span, text) in &done {
        // A run is saved before its caption is recorded, whose time may be rounded to milliseconds.
        if let Some(record) = record.as_mut().filter(|_| span.start + 0.001 > recorded_s) {
            record.append(*span, text)?;
        }
        done_s = done_s.max(span.end);
    }
    #[cfg(feature = "find")]
    let mut indexed = match &args.index {
        Some(path) => {
            let (path, continued_s) = (path.as_deref(), args.resume.then_some(done_s));
            Some(indexed::Indexed::open(path, &origin, &caption.request.prompt, continued_s)?)
        }
        None => None,
    };
    let options = Options {
        division: scenes.division(*segments),
        rule: memory_check::rule(&caption.models),
        sampling: caption.request.sampling,
        origin_s: if origin.is_file() { 0.0 } else { done_s },
        from_s: done_s,
    };
    let behind = args.behind.unwrap_or(if origin.is_url() { Behind::Skip } else { Behind::Wait });
    let (mut client, interrupt) = loading(caption.models, run.ignore_memory)?;
    let queue = Arc::new(Queue::new(behind));
    Reader::start(origin, options, args, queue.clone(), interrupt.clone())?;

    let style = style(output, cues, caption.request.on_loop);
    let progress = Progress::new(!(output.quiet || output.json && style.terminal));
    let limit = caption.request.max_new_tokens;
    let mut printer =
        Printer::new(std::io::stdout().lock(), std::io::stderr(), style, progress, session, limit);
    let mut code = 0;
    let mut notes = HashSet::new();
    runtime()?.block_on(async {
        for index in done.len().. {
            let frames = loop {
                let item = tokio::select! {
                    biased;
                    () = interrupt.waited(Duration::ZERO) => None,
                    item = queue.next() => Some(item),
                };
                match item {
                    None => {
                        printer.end_stream(StopReason::Cancelled).map_err(ended)?;
                        return Ok(interrupted());
                    }
                    Some(Item::Segment(frames)) => break frames,
                    Some(Item::News(news)) => {
                        if let (queue::News::Skipped(span), Some(record)) = (&news, &mut record) {
                            record.skipped(*span)?;
                        }
                        printer.news(&news.json(), &news.to_string()).map_err(ended)?;
                    }
                    Some(Item::End(ending)) => {
                        printer.end_stream(StopReason::Eos).map_err(ended)?;
                        return ending.map(|()| code).map_err(End::Failed);
                    }
                }
            };
            let span = frames.span;
            let mut request = segment(&caption.request, index, span);
            request.held = Some(Arc::new(frames));
            let said = speech.in_video(&request.video, around(span), &mut |done, total| {
                printer.listening(request.run, done as u64, total as u64);
                match interrupt.asked() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            if interrupt.asked() {
                printer.end_stream(StopReason::Cancelled).map_err(ended)?;
                return Ok(interrupted());
            }
            if let Some(said) = said? {
                let new: Vec<String> =
                    said.notes(f64::INFINITY).into_iter().filter(|note| notes.insert(note.clone())).collect();
                printer.heard(&said.json(request.run, &new), &new).map_err(ended)?;
                said.precede(&mut request);
                asked::check_prompt(&request.prompt)?;
            }
            let mut log = RunLog::new(request.run);
            match one(&mut client, request, &mut log, false, &mut printer, &interrupt, GRACE).await? {
                0 => {}
                INCOMPLETE => code = INCOMPLETE,
                other => return Ok(other),
            }
            if let Some(record) = &mut record {
                record.append(span, log.text())?;
            }
            #[cfg(feature = "find")]
            if let Some(indexed) = &mut indexed {
                indexed.add(span, &log)?;
            }
        }
        Ok(code)
    })
}

/// The part of a file in which the speech of a segment is heard: a little more, so that no word at its ends is cut.
fn around(segment: Span) -> Between {
    Between { start: Some((segment.start - AROUND_S).max(0.0)), end: Some(segment.end + AROUND_S) }
}

/// The run on a segment of a stream.
fn segment(all: &RunRequest, index: usize, span: Span) -> RunRequest {
    RunRequest {
        run: index as u64 + 1,
        span: Some(span),
        segment: Some(Segment { first: 1, index, count: 0 }),
        ..all.clone()
    }
}

/// The segments that a saved run has, with their captions. Fails if they are of another request (class usage).
fn finished(kept: &mut Kept, all: &RunRequest) -> Result<Vec<(Span, String)>, Failure> {
    let mut done = Vec::new();
    while let Some(started) = kept.first() {
        let span = started.span.unwrap_or(Span { start: 0.0, end: 0.0 });
        let mut request = segment(all, done.len(), span);
        // What was heard before is not heard again.
        if Transcript::asked(&started.prompt) == request.prompt {
            request.prompt.clone_from(&started.prompt);
        }
        let mut log = RunLog::new(request.run);
        for event in kept.take(&request)?.iter().flatten() {
            log.apply(event);
        }
        done.push((span, log.text().to_owned()));
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_at_the_ends_of_a_segment_are_heard_whole() {
        let heard = |start, end| {
            let part = around(Span { start, end });
            (part.start, part.end)
        };
        assert_eq!(heard(30.0, 60.0), (Some(28.0), Some(62.0)));
        assert_eq!(heard(0.0, 30.0), (Some(0.0), Some(32.0)));
    }
}
