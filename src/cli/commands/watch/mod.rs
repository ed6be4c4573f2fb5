//! `specreel watch`: the segments of a stream, each captioned as it ends.
//!
//! A thread reads the stream ([`reader`]) and holds a few frames of each segment. The [`queue`] to this thread, which has them
//! captioned one by one, holds one segment. Finished captions are appended to a file ([`record`]).

mod queue;
mod reader;
mod record;

use std::sync::Arc;

use self::{
    queue::{Item, Queue},
    reader::{Origin, Reader},
    record::Record,
};
use super::{
    caption::{INCOMPLETE, ended, one},
    *,
};
use crate::cli::{
    args::watch::{Behind, WatchArgs},
    output::printer::{Printer, Style},
};
use specreel_engine::memory_check;
use specreel_record::Segment;
use specreel_video::{HeldFrames, Options};

pub fn run(args: &WatchArgs, config: &Config) -> Result<i32, End> {
    let WatchArgs { run, scenes, segments, json, .. } = args;
    let is_silent = args.quiet || args.json;
    scenes.check(Some(*segments))?;
    if let Some(code) = super::models::offer::missing(run, config, is_silent)? {
        return Ok(code);
    }
    let origin = Origin::of(&args.stream)?;
    let caption = resolve::stream(&args.stream, &origin.name(), run, config)?;
    resolve::suggest_drafter(&caption.models, config, is_silent);
    resolve::tell_unused(run, &[&caption.request.method], is_silent);
    let cues = args.cues.or(config.values.cues).unwrap_or_default();
    let (mut record, done_s) = match &args.out {
        Some(path) => {
            Record::open(path, cues, args.resume, args.force).map(|(record, s)| (Some(record), s))?
        }
        None => (None, 0.0),
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

    let terminal = std::io::stdout().is_terminal();
    let style = Style {
        json: *json,
        color: terminal::color_stdout(args.color) && !json,
        color_talk: terminal::color_stderr(args.color),
        quiet: args.quiet,
        terminal,
        columns: terminal::columns(),
        columns_talk: terminal::columns_stderr(),
        timed: None,
        cues,
        steps: false,
    };
    let progress = Progress::new(!(args.quiet || args.json && terminal));
    let limit = caption.request.max_new_tokens;
    let mut printer = Printer::new(std::io::stdout().lock(), std::io::stderr(), style, progress, None, limit);
    let mut code = 0;
    runtime()?.block_on(async {
        for index in 0.. {
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
            let mut log = RunLog::new(index as u64 + 1);
            let request = segment(&caption.request, index, frames);
            match one(&mut client, request, &mut log, false, &mut printer, &interrupt, GRACE).await? {
                0 => {}
                INCOMPLETE => code = INCOMPLETE,
                other => return Ok(other),
            }
            if let Some(record) = &mut record {
                record.append(span, log.text())?;
            }
        }
        Ok(code)
    })
}

/// The run on a segment of a stream.
fn segment(all: &RunRequest, index: usize, frames: HeldFrames) -> RunRequest {
    RunRequest {
        run: index as u64 + 1,
        span: Some(frames.span),
        segment: Some(Segment { first: 1, index, count: 0 }),
        held: Some(Arc::new(frames)),
        ..all.clone()
    }
}
