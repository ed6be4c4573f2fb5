//! `specreel caption --stdin`: a path a line in, a JSON line out, for a program that keeps specreel loaded.

use std::io::{BufRead, Read as _};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use serde::Deserialize;

use super::*;
use crate::cli::interrupt;
use specreel_batch::rows::object;

/// Lines that may wait to be captioned.
const WAITING: usize = 2;
/// Longest line in bytes: the longest prompt with each byte escaped, and a path.
const MAX_LINE: u64 = 8 << 20;
/// Bytes of an invalid line that its answer repeats.
const SHOWN: usize = 200;

#[derive(Deserialize)]
struct Line {
    video: PathBuf,
    prompt: Option<String>,
}

/// An invalid line: its beginning, and the reason.
#[derive(Debug)]
struct Invalid {
    text: String,
    failure: Failure,
}

impl Line {
    /// `None` for an empty line. `number` counts from 1.
    fn parse(bytes: &[u8], number: u64) -> Option<Result<Self, Invalid>> {
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            return None;
        }
        let invalid = |error: String, hint: &str| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
            let failure = Failure::usage(format!("line {number}: {error}"), hint);
            Err(Invalid { text, failure })
        };
        if bytes.len() as u64 > MAX_LINE {
            return Some(invalid(format!("it is longer than {} MiB", MAX_LINE >> 20), "shorten the prompt"));
        }
        let path = specreel_os::names::path(bytes);
        Some(match serde_json::from_slice::<Line>(bytes) {
            Ok(line) => match line.prompt.as_deref().map_or(Ok(()), asked::check_prompt) {
                Ok(()) => Ok(line),
                Err(failure) => invalid(failure.error, "shorten the prompt"),
            },
            // A file may be called like anything.
            Err(error) if bytes.starts_with(b"{") && !path.exists() => invalid(
                format!("not valid JSON: {error}"),
                "write {\"video\": \"PATH\", \"prompt\": \"TEXT\"}, or a path",
            ),
            Err(_) => Ok(Line { video: path, prompt: None }),
        })
    }
}

/// Read a line, but no more of it than is needed to see that it is too long.
fn read_line(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<usize> {
    bytes.clear();
    let read = input.by_ref().take(MAX_LINE + 2).read_until(b'\n', bytes)?;
    let mut rest = Vec::new();
    while read as u64 == MAX_LINE + 2 && bytes.last() != Some(&b'\n') {
        rest.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut rest)? == 0 || rest.last() == Some(&b'\n') {
            break;
        }
    }
    Ok(read)
}

/// The lines of stdin, read by a thread of its own, so that available lines are read ahead.
fn lines() -> io::Result<Receiver<io::Result<Result<Line, Invalid>>>> {
    let (sender, receiver) = sync_channel(WAITING);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut bytes = Vec::new();
        for number in 1.. {
            let line = match read_line(&mut stdin, &mut bytes) {
                Ok(0) => return,
                Ok(_) => Line::parse(&bytes, number).map(Ok),
                Err(e) => Some(Err(e)),
            };
            let ends = matches!(line, Some(Err(_)));
            if line.is_some_and(|line| sender.send(line).is_err()) || ends {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Caption videos as they are asked for, until stdin ends.
pub fn run(args: &CaptionArgs, plan: &Plan) -> Result<i32, End> {
    let mut client = Client::start()?;
    // Held from a line until its answer is written, so that a signal loses no answer and cuts none.
    let answering = Arc::new(Mutex::new(()));
    let (remote, busy) = (client.remote(), answering.clone());
    let interrupt = interrupt::listen(move || {
        remote.cancel_current();
        // Nobody reads the flag while stdin is waited for.
        let idle = busy.try_lock();
        if !matches!(idle, Err(TryLockError::WouldBlock)) {
            std::process::exit(interrupted());
        }
    })?;
    client.keep_speeds(Dirs::speeds())?;
    client.load(plan.models.clone(), args.run.ignore_memory)?;
    let runtime = runtime()?;
    let (mut run, mut failed, mut written, mut empty) = (1, 0, 0, 0);
    let lines = lines()?;
    let mut next = None;
    while let Some(line) = next.take().or_else(|| lines.recv().ok()) {
        let guard = answering.lock().unwrap_or_else(PoisonError::into_inner);
        next = lines.try_recv().ok();
        let ahead = next.as_ref().and_then(|line| line.as_ref().ok()?.as_ref().ok());
        let answer = match line? {
            Ok(Line { video, prompt }) => {
                let said = |clip: &Path| plan.said(clip, &interrupt);
                let mut batch = plan.batch(&interrupt, &said);
                if let Some(prompt) = prompt {
                    batch.request.prompt = limited(prompt, args.run.max_words);
                    // The preset's prompt was replaced.
                    batch.request.preset = None;
                }
                if let Some(path) = ahead.and_then(|line| file(&line.video).ok()) {
                    batch.ahead(&client, &path);
                }
                let prompt = batch.request.prompt.clone();
                let name = video.to_string_lossy();
                let ended = match file(&video) {
                    Ok(path) => runtime.block_on(batch.one(&mut client, &path, &mut run)).map_err(halted)?,
                    Err(failure) => Err(failure),
                };
                match ended {
                    Ok(Some(caption)) => {
                        *(if caption.is_empty() { &mut empty } else { &mut written }) += 1;
                        failed += usize::from(caption.is_incomplete());
                        object(&name, &caption)
                    }
                    Ok(None) => return Ok(interrupted()),
                    Err(failure) => {
                        failed += 1;
                        json!({ "video": name, "prompt": prompt, "error": failure.error,
                            "hint": failure.hint, "class": failure.class })
                    }
                }
            }
            Err(Invalid { text, failure }) => {
                failed += 1;
                json!({ "video": text, "error": failure.error, "hint": failure.hint, "class": failure.class })
            }
        };
        write(&answer)?;
        drop(guard);
        // A signal that came before this found the lock taken, and left the exit to this thread.
        if interrupt.asked() {
            return Ok(interrupted());
        }
    }
    Ok(if failed > 0 || empty > 0 && written == 0 { SOME_FAILED } else { 0 })
}

fn write(answer: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{answer}\n").as_bytes())?;
    out.flush()
}

fn file(video: &Path) -> Result<PathBuf, Failure> {
    match video.exists() {
        true => Ok(video.to_owned()),
        false => Ok(embedded(video)?.unwrap_or_else(|| video.to_owned())),
    }
}
