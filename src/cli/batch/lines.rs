//! `specreel caption --stdin`: a path a line in, a JSON line out, for a program that keeps specreel loaded.

use std::{
    ffi::OsStr,
    io::{self, BufRead, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, sync_channel},
    },
};

use serde::Deserialize;
use serde_json::json;

use super::{
    super::{End, args::CaptionArgs, dirs::Dirs, interrupt::Interrupt, interrupted, runtime},
    Plan, SOME_FAILED, embedded, halted,
};
use crate::{
    batch::{Ended, Progress, Report, rows::object},
    client::Client,
    record::Event,
};

/// Lines that may wait to be captioned.
const WAITING: usize = 2;

/// A line of JSON instead of a path.
#[derive(Deserialize)]
struct Line {
    video: PathBuf,
    prompt: Option<String>,
}

impl Line {
    /// None of an empty line.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.trim_ascii();
        let path = || Line { video: PathBuf::from(OsStr::from_bytes(bytes)), prompt: None };
        (!bytes.is_empty()).then(|| serde_json::from_slice(bytes).unwrap_or_else(|_| path()))
    }
}

/// The lines of stdin, read by a thread of its own: what is there already can be read ahead.
fn lines() -> io::Result<Receiver<io::Result<Line>>> {
    let (sender, receiver) = sync_channel(WAITING);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let line = match stdin.read_until(b'\n', &mut bytes) {
                Ok(0) => return,
                Ok(_) => Line::parse(&bytes).map(Ok),
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

/// Nothing is reported beside the lines.
struct Silent;

impl Report for Silent {
    fn event(&mut self, _: &Event) -> io::Result<()> {
        Ok(())
    }

    fn clip(&mut self, _: &Ended<'_>, _: &Progress) -> io::Result<()> {
        Ok(())
    }
}

/// Caption videos as they are asked for, until stdin ends.
pub fn run(args: &CaptionArgs, plan: &Plan) -> Result<i32, End> {
    let interrupt = Interrupt::default();
    let mut client = Client::start()?;
    let (remote, waits) = (client.remote(), Arc::new(AtomicBool::new(true)));
    let idle = waits.clone();
    interrupt.listen(move || {
        remote.cancel_current();
        // Nobody reads the flag while stdin is waited for.
        if idle.load(Ordering::SeqCst) {
            std::process::exit(interrupted());
        }
    })?;
    client.keep_speeds(Dirs::speeds())?;
    client.load(plan.models.clone(), args.run.ignore_memory)?;
    let runtime = runtime()?;
    let (mut run, mut failed) = (1, 0);
    let lines = lines()?;
    let mut next = None;
    while let Some(line) = next.take().or_else(|| lines.recv().ok()) {
        let Line { video, prompt } = line?;
        next = lines.try_recv().ok();
        waits.store(false, Ordering::SeqCst);
        let mut batch = plan.batch(&mut client, &interrupt);
        batch.request.prompt = prompt.unwrap_or(batch.request.prompt);
        let prompt = batch.request.prompt.clone();
        if let Some(Ok(path)) = next.as_ref().and_then(|line| Some(file(&line.as_ref().ok()?.video))) {
            batch.ahead(&path);
        }
        let name = video.to_string_lossy().into_owned();
        let ended = match file(&video) {
            Ok(path) => runtime.block_on(batch.one(&path, &mut run, &mut Silent)).map_err(halted)?,
            Err(failure) => Err(failure),
        };
        waits.store(true, Ordering::SeqCst);
        let answer = match ended {
            Ok(Some(c)) => object(&name, &c.text, &prompt, c.cut.as_deref(), &c.pieces, &c.made),
            Ok(None) => return Ok(interrupted()),
            Err(failure) => {
                failed += 1;
                json!({ "video": name, "prompt": prompt, "error": failure.error, "hint": failure.hint,
                    "class": failure.class })
            }
        };
        let mut out = io::stdout().lock();
        out.write_all(format!("{answer}\n").as_bytes())?;
        out.flush()?;
    }
    Ok(if failed > 0 { SOME_FAILED } else { 0 })
}

fn file(video: &Path) -> Result<PathBuf, crate::record::Failure> {
    match video.exists() {
        true => Ok(video.to_owned()),
        false => Ok(embedded(video)?.unwrap_or_else(|| video.to_owned())),
    }
}
