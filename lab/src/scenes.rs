//! `specreel-lab scenes`: synthetic clips with known facts, and scores of texts about them.

use std::{
    io::{self, BufWriter, Read, Write},
    path::Path,
};

use crate::args::scenes::{ScenesArgs, ScenesCommand, StreamArgs};
use specreel::cli::end::End;
use specreel_record::{Failure, FailureClass};
use specreel_scenes::{
    Scene,
    author::Author,
    encode,
    facts::{self, Facts, Score},
    stream,
};

/// Longest scored text, in bytes.
const MAX_TEXT: u64 = 16 << 20;

pub fn run(args: &ScenesArgs) -> Result<i32, End> {
    match &args.command {
        ScenesCommand::Render { seed, out, size, seconds, force } => {
            let scene = Scene::from_seed(*seed);
            render(
                &seconds.map_or(scene.clone(), |seconds| scene.lengthened(seconds.into())),
                out,
                *size,
                *force,
            )
        }
        ScenesCommand::Score { file, lines: true, .. } => score_lines(file),
        ScenesCommand::Score { file, seed, facts, json, .. } => score(file, *seed, facts.as_deref(), *json),
        ScenesCommand::Stream(args) => samples(args),
    }
}

fn render(scene: &Scene, out: &Path, (width, height): (u32, u32), force: bool) -> Result<i32, End> {
    if out.is_dir() {
        let error = format!("cannot write {}: is a directory", out.display());
        return Err(fail(FailureClass::Input, error, "pass the path of a file in it"));
    }
    if out.exists() && !force {
        return Err(fail(
            FailureClass::Usage,
            format!("{} already exists", out.display()),
            "choose another path, or add --force to overwrite it",
        ));
    }
    // Encoders log to stderr.
    ffmpeg_next::log::set_level(ffmpeg_next::log::Level::Quiet);
    let new = !out.exists();
    encode::mp4(scene, out, width, height).map_err(|e| {
        if new {
            // No incomplete video is left behind.
            let _ = std::fs::remove_file(out);
        }
        let (class, hint) = match &e {
            encode::EncodeError::Size { .. } => (FailureClass::Usage, "pass an even --size"),
            full if full.is_full() => (FailureClass::Internal, "the disk is full: free some space"),
            encode::EncodeError::NoEncoder => {
                (FailureClass::Input, "install an FFmpeg build with libx264; see specreel doctor")
            }
            encode::EncodeError::Ffmpeg { .. } => (FailureClass::Input, "choose a writable path"),
        };
        fail(class, e.to_string(), hint)
    })?;
    let line = serde_json::to_string(&facts::of(scene)).map_err(io::Error::from)?;
    writeln!(io::stdout(), "{line}")?;
    Ok(0)
}

fn score(file: &Path, seed: Option<u64>, truth: Option<&Path>, json: bool) -> Result<i32, End> {
    let truth: Facts = match (seed, truth) {
        (_, Some(path)) => serde_json::from_str(&read(path)?).map_err(|e| {
            let hint = "create it with: specreel-lab scenes render --seed N OUT.mp4 > facts.json";
            fail(FailureClass::Input, format!("facts file {}: {e}", path.display()), hint)
        })?,
        (Some(seed), None) => facts::of(&Scene::from_seed(seed)),
        (None, None) => {
            let error = "no scene given to score the text against".to_owned();
            let hint = "add --seed N or --facts FILE, or use --lines for a file with a seed on each line";
            return Err(fail(FailureClass::Usage, error, hint));
        }
    };
    let score = facts::score(&truth, &read(file)?);
    let text =
        if json { serde_json::to_string(&score).map_err(io::Error::from)? + "\n" } else { table(&score) };
    io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

#[derive(serde::Deserialize)]
struct ScoredLine {
    seed: u64,
    text: String,
}

fn score_lines(file: &Path) -> Result<i32, End> {
    let text = read(file)?;
    let mut out = io::stdout().lock();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: ScoredLine = serde_json::from_str(line).map_err(|e| {
            let hint = "expected on each line: {\"seed\": 7, \"text\": \"A red circle…\"}";
            fail(FailureClass::Input, format!("{}:{}: {e}", file.display(), number + 1), hint)
        })?;
        let score = facts::score(&facts::of(&Scene::from_seed(line.seed)), &line.text);
        writeln!(out, "{}", serde_json::to_string(&score).map_err(io::Error::from)?)?;
    }
    Ok(0)
}

fn table(score: &Score) -> String {
    let mut out = format!(
        "{:.0} % of {} facts: {} right, {} wrong, {} missing; {} extra figures\n",
        score.share() * 100.0,
        score.total,
        score.right,
        score.wrong,
        score.missing,
        score.extra
    );
    for detail in &score.details {
        out += &match detail.said.as_deref() {
            Some(said) if said == detail.truth => continue,
            Some(said) => format!("  {}: {}, text says {said}\n", detail.what, detail.truth),
            None => format!("  {}: {}, missing\n", detail.what, detail.truth),
        };
    }
    out
}

fn samples(args: &StreamArgs) -> Result<i32, End> {
    let mut options = stream::Options {
        first_seed: args.seed,
        count: args.count,
        group: args.group,
        short: args.short,
        question: args.question,
        degrade: !args.clean,
        shots: limit(args.shots),
        figures: limit(args.figures),
        author: args.author.map(Author),
        ..stream::Options::default()
    };
    if !args.format.is_empty() {
        options.formats.clone_from(&args.format);
    }
    if args.short + args.question > 1.0 {
        return Err(fail(
            FailureClass::Usage,
            format!("--short {} and --question {} add up to more than 1", args.short, args.question),
            "lower one of them; the remaining share is long captions",
        ));
    }
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    stream::stream(&mut out, &options)?;
    out.flush()?;
    Ok(0)
}

fn limit(given: Option<u64>) -> usize {
    given.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

fn read(path: &Path) -> Result<String, End> {
    let open = || -> io::Result<Box<dyn Read>> {
        Ok(if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(std::fs::File::open(path)?) })
    };
    let mut text = String::new();
    let read = open().and_then(|file| file.take(MAX_TEXT).read_to_string(&mut text));
    read.map_err(|e| {
        fail(FailureClass::Input, format!("cannot read {}: {e}", path.display()), "pass a readable text file")
    })?;
    Ok(text)
}

fn fail(class: FailureClass, error: String, hint: &str) -> End {
    End::Failed(Failure::new(class, error, hint))
}
