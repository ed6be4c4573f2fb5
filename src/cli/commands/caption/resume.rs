//! The finished runs of a `--save` file, which `--resume` does not repeat.

use std::{collections::VecDeque, path::Path};

use crate::cli::args::run::OutputArgs;
use crate::cli::output::{new_file::OutputFile, session::SESSION};
use specreel_checkpoint::ModelFiles;
use specreel_engine::RunRequest;
use specreel_model::text::ModelSampling;
use specreel_model::{ModelSpec, ReadModel as _};
use specreel_record::{Event, EventKind, Failure, RunLog, Session, Started};
use specreel_speculate::SamplingControls;

/// The runs that a file begins with, each with all of its events.
#[derive(Debug, Default)]
pub struct Kept {
    runs: VecDeque<Vec<Event>>,
    /// Bytes of the file up to their end; none if it is not continued.
    bytes: Option<u64>,
    path: String,
    target: Target,
}

/// What a text depends on of the target that writes it.
#[derive(Debug, Default)]
struct Target {
    name: String,
    sampling: ModelSampling,
}

impl Kept {
    /// What the `--save` file has, if it is to be continued and exists. Fails if it cannot be read, does not begin as a saved run
    /// (class input), or the target cannot be read.
    pub fn of(output: &OutputArgs, resume: bool, models: &ModelSpec) -> Result<Self, Failure> {
        let path = output.save.as_deref().filter(|path| resume && path.exists());
        let mut kept = path.map_or_else(|| Ok(Self::default()), Self::read)?;
        if !kept.runs.is_empty() {
            kept.target = Target::of(models)?;
        }
        Ok(kept)
    }

    /// Open the `--save` file: after these runs, or a new one.
    pub fn session(&self, output: &OutputArgs) -> Result<Option<OutputFile>, Failure> {
        let open = |path: &Path| match self.bytes {
            Some(bytes) => OutputFile::resume(SESSION, path, bytes),
            None => OutputFile::create(SESSION, path, output.force),
        };
        output.save.as_deref().map(open).transpose()
    }

    /// Read a file that may end anywhere. Fails if it cannot be read, or does not begin as a saved run (class input).
    fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = Session::bytes(path)?;
        let path = path.display().to_string();
        let first = bytes.split_inclusive(|byte| *byte == b'\n').next();
        if first.is_some_and(|line| serde_json::from_slice::<Event>(line).is_err()) {
            return Err(Failure::input(
                format!("{path} is not a saved run"),
                "choose another file for --save, or leave out --resume",
            ));
        }
        Ok(Self { path, ..Self::parse(&bytes) })
    }

    fn parse(bytes: &[u8]) -> Self {
        let (mut kept, mut at) = (Self { bytes: Some(0), ..Self::default() }, 0);
        let (mut log, mut events) = (RunLog::new(0), Vec::new());
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Ok(event) = serde_json::from_slice::<Event>(line) else { break };
            at += line.len() as u64;
            if event.run == 0 {
                continue;
            }
            if event.run != log.run() {
                (log, events) = (RunLog::new(event.run), Vec::new());
            }
            log.apply(&event);
            events.push(event);
            if log.is_finished() {
                // Its verification follows its end.
                let is_same = |run: &Vec<Event>| run.first().is_some_and(|event| event.run == log.run());
                if kept.runs.back().is_some_and(is_same) {
                    kept.runs.pop_back();
                }
                kept.runs.push_back(events.clone());
                kept.bytes = Some(at);
            }
        }
        kept
    }

    /// The next run.
    pub fn first(&self) -> Option<&Started> {
        self.runs.front().and_then(|events| started(events))
    }

    /// The events of the run of this request, if the file has it. Fails if the next run of the file is of another request (class
    /// usage).
    pub fn take(&mut self, request: &RunRequest) -> Result<Option<Vec<Event>>, Failure> {
        let Some(events) = self.runs.pop_front() else { return Ok(None) };
        match started(&events).map_or(Some("input"), |started| self.target.difference(started, request)) {
            None => Ok(Some(events)),
            Some(what) => Err(Failure::usage(
                format!("saved run {}: its run {} has another {what}", self.path, request.run),
                "resume with the same options, or choose another file for --save",
            )),
        }
    }
}

fn started(events: &[Event]) -> Option<&Started> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::Started(started) => Some(started),
        _ => None,
    })
}

impl Target {
    fn of(models: &ModelSpec) -> Result<Self, Failure> {
        let files = ModelFiles::open(&models.target, models.mmproj.as_deref())?;
        let files = files.with_lora(models.lora.as_deref())?;
        Ok(Self { name: files.name(), sampling: files.tokenizer()?.sampling().clone() })
    }

    /// What differs between a run that was started and a request.
    fn difference(&self, started: &Started, request: &RunRequest) -> Option<&'static str> {
        let method = serde_json::to_value(&request.method).unwrap_or_default();
        let constraint = request.constraint.as_ref().and_then(|of| serde_json::to_value(of).ok());
        let sampling = request.text.resolve(&self.sampling);
        let sampling = (!sampling.is_plain()).then(|| sampling.report());
        let sampled = |report| serde_json::from_value::<SamplingControls>(report).ok();
        [
            ("target", started.target == self.name),
            ("video", started.video == request.video.display().to_string()),
            ("segment", (started.span, started.segment) == (request.span, request.segment)),
            ("prompt", started.prompt == request.prompt && started.system == request.system),
            ("method", started.method == method),
            ("sampling", started.sampling.as_deref().cloned().and_then(sampled) == sampling),
            ("format of the answer", started.constraint == constraint),
            ("place", started.summary_of == request.summary_of),
        ]
        .into_iter()
        .find_map(|(what, same)| (!same).then_some(what))
    }
}
