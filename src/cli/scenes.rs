//! `specreel scenes`: synthetic clips with known facts, and scores of texts about them.

use std::{
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};

use super::{End, args::whole};
use specreel_record::{Failure, FailureClass};
use specreel_scenes::{
    Scene, encode,
    facts::{self, Facts, Score},
    stream,
};

/// Longest scored text, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// Arguments of `scenes`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = false)]
pub struct ScenesArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: ScenesCommand,
}

/// Subcommands of `scenes`.
#[derive(Debug, Subcommand)]
pub enum ScenesCommand {
    /// Render a scene to an mp4 file and print its facts as JSON
    Render {
        /// Seed of the scene
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
        seed: u64,
        /// Output file
        out: PathBuf,
        /// Width and height in pixels, even numbers from 16 to 4096
        #[arg(long, value_name = "WxH", default_value = "320x320", value_parser = size)]
        size: (u32, u32),
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
    /// Score how many facts of a scene a text states
    Score {
        /// Text file; `-` reads stdin
        file: PathBuf,
        /// Seed of the scene
        #[arg(long, value_name = "N", conflicts_with = "facts", allow_negative_numbers = true, value_parser = whole)]
        seed: Option<u64>,
        /// Facts of the scene as JSON, as printed by `scenes render`
        #[arg(long, value_name = "FILE")]
        facts: Option<PathBuf>,
        /// Read JSON lines {"seed": N, "text": "…"} from the file and print a JSON score for each
        #[arg(long, conflicts_with_all = ["seed", "facts"])]
        lines: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write an endless stream of training samples to stdout (format: module docs of specreel::scenes::stream)
    Stream(StreamArgs),
}

/// Arguments of `scenes stream`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Seed of the first scene; seeds count up from it
    #[arg(long, value_name = "N", default_value_t = stream::Options::default().first_seed, allow_negative_numbers = true, value_parser = whole)]
    seed: u64,
    /// Number of samples [default: until the reader closes the pipe]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Frames, height and width with a weight, such as 8x112x112:3 (repeatable)
    #[arg(long, value_name = "FxHxW[:WEIGHT]", value_parser = format)]
    format: Vec<(stream::Format, f64)>,
    /// Number of consecutive samples with the same format
    #[arg(long, value_name = "N", default_value_t = stream::Options::default().group, value_parser = clap::value_parser!(u64).range(1..))]
    group: u64,
    /// Share of short captions
    #[arg(long, value_name = "SHARE", default_value_t = stream::Options::default().short, value_parser = share)]
    short: f64,
    /// Share of questions
    #[arg(long, value_name = "SHARE", default_value_t = stream::Options::default().question, value_parser = share)]
    question: f64,
    /// Leave out scenes with more shots
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    shots: Option<u64>,
    /// Leave out scenes with more figures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    figures: Option<u64>,
    /// Do not degrade the rendered pixels
    #[arg(long)]
    clean: bool,
}

impl ScenesArgs {
    /// True if stdout is JSON.
    pub fn json(&self) -> bool {
        matches!(
            self.command,
            ScenesCommand::Score { json: true, .. } | ScenesCommand::Score { lines: true, .. }
        )
    }
}

/// Render, score or stream.
pub fn run(args: &ScenesArgs) -> Result<i32, End> {
    match &args.command {
        ScenesCommand::Render { seed, out, size, force } => render(*seed, out, *size, *force),
        ScenesCommand::Score { file, lines: true, .. } => score_lines(file),
        ScenesCommand::Score { file, seed, facts, json, .. } => score(file, *seed, facts.as_deref(), *json),
        ScenesCommand::Stream(args) => samples(args),
    }
}

fn render(seed: u64, out: &Path, (width, height): (u32, u32), force: bool) -> Result<i32, End> {
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
    let scene = Scene::from_seed(seed);
    let new = !out.exists();
    encode::mp4(&scene, out, width, height).map_err(|e| {
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
    let line = serde_json::to_string(&facts::of(&scene)).map_err(io::Error::from)?;
    writeln!(io::stdout(), "{line}")?;
    Ok(0)
}

fn score(file: &Path, seed: Option<u64>, truth: Option<&Path>, json: bool) -> Result<i32, End> {
    let truth: Facts = match (seed, truth) {
        (_, Some(path)) => serde_json::from_str(&read(path)?).map_err(|e| {
            let hint = "create it with: specreel scenes render --seed N OUT.mp4 > facts.json";
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

/// One line of `scenes score --lines`.
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
    End::Failed(Failure { class, error, hint: Some(hint.into()) })
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |s: &str| s.parse().ok().filter(|n| (16..=4096).contains(n) && n % 2 == 0);
    text.split_once('x')
        .and_then(|(w, h)| Some((side(w)?, side(h)?)))
        .ok_or_else(|| "expected WIDTHxHEIGHT, even numbers from 16 to 4096, such as 320x240".into())
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|s| (0.0..=1.0).contains(s))
        .ok_or_else(|| "expected a number from 0 to 1".into())
}

fn format(text: &str) -> Result<(stream::Format, f64), String> {
    let (format, weight) = text.split_once(':').unwrap_or((text, "1"));
    let weight =
        weight.parse().ok().filter(|w: &f64| w.is_finite() && *w > 0.0).ok_or("expected a weight above 0")?;
    Ok((format.parse()?, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_shares_and_formats() {
        assert_eq!(size("320x240"), Ok((320, 240)));
        for bad in ["320", "320x", "321x240", "0x0", "8192x16", "axb"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert!(share("nan").is_err() && share("1.1").is_err());
        assert_eq!(format("8x112x112:3").map(|f| f.1), Ok(3.0));
        assert!(format("8x112x112:0").is_err() && format("8x112").is_err());
    }
}
