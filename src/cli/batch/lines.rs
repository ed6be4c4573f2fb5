//! `specreel caption --stdin`: a path a line in, a JSON line out, for a program that keeps specreel loaded.

use std::{
    ffi::OsStr,
    io::{self, BufRead, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
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

/// A line of JSON instead of a path.
#[derive(Deserialize)]
struct Line {
    video: PathBuf,
    prompt: Option<String>,
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
    let mut stdin = io::stdin().lock();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if stdin.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(if failed > 0 { SOME_FAILED } else { 0 });
        }
        let line = bytes.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let Line { video, prompt } = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(_) => Line { video: PathBuf::from(OsStr::from_bytes(line)), prompt: None },
        };
        waits.store(false, Ordering::SeqCst);
        let mut batch = plan.batch(&mut client, &interrupt);
        batch.request.prompt = prompt.unwrap_or(batch.request.prompt);
        let prompt = batch.request.prompt.clone();
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
}

fn file(video: &Path) -> Result<PathBuf, crate::record::Failure> {
    match video.exists() {
        true => Ok(video.to_owned()),
        false => Ok(embedded(video)?.unwrap_or_else(|| video.to_owned())),
    }
}
