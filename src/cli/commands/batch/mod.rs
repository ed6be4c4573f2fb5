//! `specreel caption` for many videos.

mod estimate;
mod lines;
mod report;

use self::report::Reporter;

use super::*;
use crate::cli::args::{batch::BatchArgs, part::Format};
use crate::cli::resolve::stdin_video;
use specreel_batch::{self as batch, Batch, Clip, Existing, Halt, Outputs, Part, Polish, Shard, Store, find};
use specreel_client::speech::{Between, Speech};
use specreel_client::{Transcript, asked::limited};
#[cfg(feature = "find")]
use specreel_library::Index;
use specreel_record::Cues;

/// Exit code if some of several videos failed, or the models wrote nothing about any.
pub(super) const SOME_FAILED: i32 = 5;

const MAX_PROMPTS: u64 = 1 << 20;

/// True if several videos are meant, or one whose caption goes to a file.
pub fn is_meant(args: &CaptionArgs) -> bool {
    let several = |video: &Path| video.is_dir() || find::list(video).is_some() || find::is_pattern(video);
    // Text is streamed as it is written, so a changed one is of the batch; captions with times come when they are complete.
    let changed = args.batch.polish() != Polish::default() && args.part.format == Format::Text;
    args.batch.used().is_some()
        || changed
        || args.videos.len() != 1
        || args.videos.iter().any(|video| several(video))
}

struct Plan {
    models: ModelSpec,
    request: RunRequest,
    prompts: Vec<String>,
    part: Part,
    speech: Speech,
    polish: Polish,
    cues: Cues,
    limit: Option<usize>,
    verify: Option<usize>,
}

impl Plan {
    fn new(args: &CaptionArgs, config: &Config) -> Result<Self, Failure> {
        let settings = Settings::merge(args.run.layer(), config);
        let models = catalog::spec(&settings, args.run.rope)?;
        let mut request = resolve::request(PathBuf::new(), &args.run, &settings, &models)?;
        super::caption::check_verify(args, &request.method)?;
        request.logprobs = args.output.logprobs as usize;
        let prompts = match &args.batch.prompt_file {
            Some(file) => prompts(file)?.into_iter().map(|p| limited(p, args.run.max_words)).collect(),
            None => vec![request.prompt.clone()],
        };
        let span = args.part.span;
        let quiet = args.output.quiet || args.output.json;
        resolve::suggest_drafter(&models, config, quiet);
        resolve::tell_unused(&args.run, &[&request.method], quiet);
        Ok(Self {
            models,
            request,
            prompts,
            part: Part { start: span.start, end: span.end, segments: args.part.division() },
            speech: Speech::of(&args.part.speech.source())?,
            polish: args.batch.polish(),
            cues: args.part.cues.of(config),
            limit: args.batch.limit.map(|limit| limit as usize),
            verify: args.verify.map(|every| every as usize),
        })
    }

    /// The settings that distinguish this run's captions from another run's.
    fn job(&self, shard: Option<Shard>) -> String {
        let Self { models, request, part, speech, polish, cues, .. } = self;
        let request = RunRequest { run: 0, ..request.clone() };
        format!("{:?} {:?} {request:?} {part:?} {polish:?} {shard:?} {cues:?}", models.target, models.drafter)
            + &models.lora.as_ref().map(|lora| format!(" {lora:?}")).unwrap_or_default()
            + &speech.job()
    }

    fn batch<'a>(
        &self,
        interrupt: &'a Interrupt,
        said: &'a dyn Fn(&Path) -> Result<Option<Transcript>, Failure>,
    ) -> Batch<'a> {
        let (request, part, polish) = (self.request.clone(), self.part, self.polish.clone());
        Batch { interrupt, request, part, said, polish, limit: self.limit, verify: self.verify }
    }

    /// What is said in a clip. Fails if it is interrupted, or the sound cannot be decoded.
    fn said(&self, clip: &Path, interrupt: &Interrupt) -> Result<Option<Transcript>, Failure> {
        let Part { start, end, .. } = self.part;
        self.speech.in_video(clip, Between { start, end }, &mut |_, _| match interrupt.asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}

pub fn run(args: &CaptionArgs, config: &Config) -> Result<i32, End> {
    #[cfg(feature = "find")]
    if let Some(named) = &args.batch.index {
        let index = Index::open(&resolve::library::file(named.as_deref())?)?;
        return run_into(args, config, Some(Box::new(index)));
    }
    run_into(args, config, None)
}

/// Caption videos, and keep the captions in a store besides files.
pub fn run_into(args: &CaptionArgs, config: &Config, store: Option<Box<dyn Store>>) -> Result<i32, End> {
    check(args, store.is_some())?;
    if args.batch.stdin {
        return lines::run(args, &Plan::new(args, config)?);
    }
    let plan = Plan::new(args, config)?;
    let found = find::find(&args.videos, &embedded)?;
    let shard = args.batch.shard.map(|choice| {
        choice
            .resolve(&|name| std::env::var(name).ok())
            .map_err(|error| Failure::usage(format!("--shard: {error}"), "name the part: --shard I/N"))
    });
    let shard = shard.transpose()?;
    if matches!(plan.speech, Speech::File(_)) && found.clips.len() != 1 {
        return Err(Failure::usage(
            format!("--transcript is for one video; these are {}", found.clips.len()),
            "caption each with its own transcript, or use --transcribe",
        )
        .into());
    }
    let options = options(args, &plan, shard);
    // Of all parts: whether two clips want one sidecar must not depend on who has which.
    let mut outputs = Outputs::open(options, &found.clips)?;
    if let Some(store) = store {
        outputs = outputs.with_store(store);
    }
    let all = found.clips.len();
    let mine = |clip: &Clip| shard.is_none_or(|shard| shard.has(clip));
    let clips: Vec<Clip> = found.clips.into_iter().filter(mine).collect();
    if let Some(shard) = shard
        && !args.output.quiet
    {
        tell!("part {shard}: {} of {all} videos", clips.len());
    }
    if args.dry_run {
        return estimate::run(args, &plan, &clips, &mut outputs);
    }
    outputs.prepare()?;

    let engines = args.batch.parallel.unwrap_or(1) as usize;
    let (mut clients, interrupt) = loading_together(engines, &plan.models, args.run.ignore_memory)?;
    let mut report = Reporter::new(
        &args.output,
        outputs.are_none(),
        args.batch.sidecar.map(|sidecar| (sidecar, plan.cues)),
    );
    // A directory that cannot be read holds clips that have no captions.
    for (path, failure) in &found.unreadable {
        report.unreadable(path, failure)?;
    }
    let unreadable = found.unreadable.len();
    let said = |clip: &Path| plan.said(clip, &interrupt);
    let batch = plan.batch(&interrupt, &said);
    let ended = runtime()?.block_on(batch.run(&mut clients, clips, &mut outputs, &mut report));
    report.clear();
    let summary = ended.map_err(halted)?;
    report.summary(&summary, unreadable)?;
    Ok(match summary {
        summary if summary.interrupted || interrupt.asked() => interrupted(),
        summary if summary.progress.broken() > 0 => FailureClass::Internal.exit_code(),
        summary if summary.progress.failed + summary.progress.incomplete + unreadable > 0 => SOME_FAILED,
        summary if summary.progress.empty > 0 && summary.progress.captioned == 0 => SOME_FAILED,
        _ => 0,
    })
}

fn halted(halt: Halt) -> End {
    match halt {
        Halt::Io(error) => error.into(),
        Halt::Failed(failure) => End::Failed(failure),
    }
}

/// The file of an embedded clip, if the name is one.
fn embedded(name: &Path) -> Result<Option<PathBuf>, Failure> {
    let is_clip = name.to_str().and_then(specreel_demo::clip_index).is_some();
    if is_clip { resolve::video(name).map(Some) } else { Ok(None) }
}

/// Refuse what only makes sense for one video.
fn check(args: &CaptionArgs, has_store: bool) -> Result<(), Failure> {
    let CaptionArgs { batch, part, run, output, .. } = args;
    if part.format != Format::Text {
        let what = match batch.used() {
            Some(option) => format!("--format prints one video's captions, which {option} does not"),
            None => "--format is for one video on stdout".into(),
        };
        return Err(Failure::usage(
            what,
            "write a file for each video: --sidecar srt, vtt, chapters, youtube or json",
        ));
    }
    if batch.sidecar.is_some_and(|sidecar| sidecar.chapters().is_some())
        && part.segments.is_none()
        && run.schema.is_none()
        && run.grammar.is_none()
    {
        return Err(Failure::usage(
            "a video that is captioned as a whole has no chapters",
            "add --segments scenes, --segments 60, or --schema events",
        ));
    }
    if part.summary.is_some() {
        return Err(Failure::usage(
            "--summary is for one video on stdout",
            "leave out the options for many videos",
        ));
    }
    if part.speech.transcript.is_some() && batch.stdin {
        return Err(Failure::usage(
            "--transcript is for one video",
            "leave out --stdin, or use --transcribe",
        ));
    }
    if output.save.is_some() || args.steps {
        let option = if args.steps { "--steps" } else { "--save" };
        return Err(Failure::usage(
            format!("{option} is for one video"),
            "use --json, which prints the events of all runs, or --sidecar json",
        ));
    }
    if args.videos.iter().any(|video| stdin_video::is_meant(video)) {
        return Err(Failure::usage(
            "a video on stdin has no name to write captions under",
            "name the file; --stdin and @- read paths from stdin",
        ));
    }
    let writes = batch.sidecar.is_some() || batch.dataset.is_some() || has_store;
    if !writes && (batch.out_dir.is_some() || batch.existing != Existing::Skip || batch.retry_failed) {
        return Err(Failure::usage(
            "there is no output that --out-dir, --existing and --retry-failed could be about",
            "add --sidecar txt or --dataset jsonl",
        ));
    }
    if let Some(out) = batch.out_dir.as_deref().filter(|out| out.exists() && !out.is_dir()) {
        return Err(Failure::input(
            format!("--out-dir {}: it is a file", out.display()),
            "name a directory; it is created if it does not exist",
        ));
    }
    Ok(())
}

fn options(args: &CaptionArgs, plan: &Plan, shard: Option<Shard>) -> batch::Options {
    let BatchArgs { sidecar, out_dir, dataset, dataset_file, existing, retry_failed, .. } = &args.batch;
    let dataset = dataset.map(|kind| {
        let default = || {
            let folder = match &args.videos[..] {
                _ if out_dir.is_some() => out_dir.clone().unwrap_or_default(),
                [one] if one.is_dir() => one.clone(),
                _ => PathBuf::new(),
            };
            folder.join(numbered(kind.file_name(), shard))
        };
        (kind, dataset_file.clone().unwrap_or_else(default))
    });
    batch::Options {
        sidecar: *sidecar,
        cues: plan.cues,
        out_dir: out_dir.clone(),
        dataset,
        existing: *existing,
        retry_failed: *retry_failed,
        prompts: plan.prompts.clone(),
        job: plan.job(shard),
    }
}

/// `dataset.2-of-4.jsonl` for a part of the data set.
fn numbered(name: &str, shard: Option<Shard>) -> String {
    match (shard, name.rsplit_once('.')) {
        (Some(Shard { index, count }), Some((stem, extension))) => {
            format!("{stem}.{index}-of-{count}.{extension}")
        }
        _ => name.to_owned(),
    }
}

/// The prompts of a file, one per line; empty lines and comments (`#`) do not count.
fn prompts(file: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error: String| {
        Failure::input(
            format!("--prompt-file {}: {error}", file.display()),
            "it holds one prompt a line, as UTF-8 text",
        )
    };
    let length = match std::fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let what = format!("--prompt-file {}: no such file", file.display());
            return Err(Failure::input(what, "check the path"));
        }
        about => about.map_err(|error| failed(error.to_string()))?.len(),
    };
    if length > MAX_PROMPTS {
        return Err(failed("it is longer than 1 MiB".into()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let mut prompts: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if !prompts.iter().any(|prompt| prompt == line) {
            prompts.push(line.to_owned());
        }
    }
    if prompts.is_empty() { Err(failed("it holds no prompt".into())) } else { Ok(prompts) }
}

fn shown(path: &Path) -> String {
    batch::text::one_line(&color::plain(&path.to_string_lossy()))
}
