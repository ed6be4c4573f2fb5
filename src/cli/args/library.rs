//! Arguments of `specreel index`, `find` and `ask`.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::Args;

use super::{
    batch::BatchArgs,
    caption::CaptionArgs,
    part::{PartArgs, SceneArgs, Segments, SpeechArgs, SpeechModelArgs, segments},
    run::{MODELS, OUTPUT, OutputArgs, RunArgs},
    values::{choice, device},
};
use specreel_batch::{Existing, shard::ShardChoice};
use specreel_client::moments::{Filter, Kind, question};
use specreel_record::span::seconds;
use specreel_tensor::DeviceChoice;

const INDEX: &str = "Index";
const FILTERS: &str = "Filters";

/// Caption what is new or changed, and keep the captions in a file that `specreel find` searches.
#[derive(Debug, Default, Args)]
pub struct IndexArgs {
    /// Videos: files, directories, @LIST (a file with one path a line) or patterns
    #[arg(value_name = "VIDEO", required = true)]
    pub videos: Vec<PathBuf>,
    /// File of the index [default: library.db in the data directory]
    #[arg(long, value_name = "FILE", help_heading = INDEX)]
    pub db: Option<PathBuf>,
    /// Import what is known of the videos instead of captioning them: captions (.txt, .srt, .vtt) or speech (.srt, .vtt, .json) next
    /// to them, the studio's saved runs, or FILE: a data set or saved runs
    #[arg(long, value_name = "captions|speech|runs|FILE", value_parser = imported, help_heading = INDEX)]
    pub import: Option<Imported>,
    /// Skip reading what each caption is about, which `find --meaning` and `ask` use
    #[arg(long, help_heading = INDEX)]
    pub no_meaning: bool,
    /// Treatment of videos that are in the index
    #[arg(long, help_heading = INDEX, value_name = "WHAT", value_parser = choice::<Existing>(), default_value = "skip")]
    pub existing: Existing,
    /// Try videos again that failed before and have not changed since
    #[arg(long, help_heading = INDEX)]
    pub retry_failed: bool,
    /// Caption at most this many videos
    #[arg(long, help_heading = INDEX, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Caption N segments at once: their passes share each reading of the weights
    #[arg(long, help_heading = INDEX, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub parallel: Option<u32>,
    /// Caption part I of N, or the part that Slurm (auto) or Kubernetes (auto/N) says
    #[arg(long, help_heading = INDEX, value_name = "I/N", allow_hyphen_values = true)]
    pub shard: Option<ShardChoice>,
    /// Length of the segments, or one for each scene
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "SECONDS|scenes", value_parser = segments, default_value = "scenes")]
    pub segments: Option<Segments>,
    #[command(flatten)]
    pub scenes: SceneArgs,
    #[command(flatten)]
    pub speech: SpeechModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    /// Print events as JSON lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Do not print progress or statistics
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print what would be captioned, and the time and memory that it takes
    #[arg(long, help_heading = OUTPUT, conflicts_with = "import")]
    pub dry_run: bool,
}

/// What is known of videos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// Files next to them: what is seen.
    Captions,
    /// Files next to them: what is said.
    Speech,
    /// The studio's saved runs.
    Runs,
    /// A data set, a file of saved runs, or a directory of such files.
    File(PathBuf),
}

fn imported(text: &str) -> Result<Imported, Infallible> {
    Ok(match text {
        "captions" => Imported::Captions,
        "speech" => Imported::Speech,
        "runs" => Imported::Runs,
        file => Imported::File(file.into()),
    })
}

impl IndexArgs {
    /// The captioning that this is.
    pub fn caption(self) -> CaptionArgs {
        let Self {
            videos,
            existing,
            retry_failed,
            limit,
            parallel,
            shard,
            segments,
            scenes,
            speech,
            run,
            ..
        } = self;
        CaptionArgs {
            videos,
            batch: BatchArgs { existing, retry_failed, limit, parallel, shard, ..BatchArgs::default() },
            part: PartArgs {
                segments,
                scenes,
                speech: SpeechArgs { model: speech, ..SpeechArgs::default() },
                ..PartArgs::default()
            },
            run,
            output: OutputArgs { json: self.json, quiet: self.quiet, ..OutputArgs::default() },
            dry_run: self.dry_run,
            ..CaptionArgs::default()
        }
    }
}

/// Which videos and texts count.
#[derive(Debug, Default, Args)]
pub struct FilterArgs {
    /// What is seen only: captions
    #[arg(long, help_heading = FILTERS, conflicts_with = "said")]
    pub seen: bool,
    /// What is said only
    #[arg(long, help_heading = FILTERS)]
    pub said: bool,
    /// In videos that were changed on this day (UTC) or later: YYYY-MM-DD
    #[arg(long, value_name = "DATE", help_heading = FILTERS, value_parser = day)]
    pub since: Option<i64>,
    /// In videos that were changed before this day (UTC)
    #[arg(long, value_name = "DATE", help_heading = FILTERS, value_parser = day)]
    pub until: Option<i64>,
    /// In videos of at least this length: seconds, mm:ss or hh:mm:ss
    #[arg(long, value_name = "T", help_heading = FILTERS, value_parser = length)]
    pub longer: Option<f64>,
    /// In videos of at most this length
    #[arg(long, value_name = "T", help_heading = FILTERS, value_parser = length)]
    pub shorter: Option<f64>,
    /// Written by a model with this in its name, or imported from such a file
    #[arg(long, value_name = "TEXT", help_heading = FILTERS)]
    pub model: Option<String>,
}

impl FilterArgs {
    /// In these videos, and those below these directories; everywhere if there are none.
    pub fn below(&self, below: &[PathBuf]) -> Filter {
        let kind = match (self.seen, self.said) {
            (true, _) => Some(Kind::Seen),
            (_, true) => Some(Kind::Said),
            _ => None,
        };
        Filter {
            below: below.to_vec(),
            kind,
            since_ms: self.since,
            until_ms: self.until,
            longer_s: self.longer,
            shorter_s: self.shorter,
            model: self.model.clone(),
            missing: false,
        }
    }
}

/// Find moments by words of their captions and of what is said in them.
#[derive(Debug, Default, Args)]
#[command(
    after_help = "All words have to be there, in any form (turn, turns, turning). \"a phrase\" is there word by word, turn* is every
word that begins so, -word is not there, and OR between two words wants one of them."
)]
pub struct FindArgs {
    /// What to look for; one that begins with a minus sign within quotation marks after another, or after --
    #[arg(value_name = "WORD", required = true)]
    pub words: Vec<String>,
    /// File of the index [default: library.db in the data directory]
    #[arg(long, value_name = "FILE", help_heading = INDEX)]
    pub db: Option<PathBuf>,
    /// Also find captions that say the same in other words; loads the target
    #[arg(long, help_heading = FILTERS)]
    pub meaning: bool,
    /// Target that the library was indexed with, for --meaning
    #[arg(long, value_name = "DIR|FILE|ID", help_heading = MODELS, requires = "meaning")]
    pub target: Option<PathBuf>,
    /// Device of the target: auto (the best one), cpu, gpu, gpu:N, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", value_parser = device, help_heading = MODELS, requires = "meaning")]
    pub device: Option<DeviceChoice>,
    /// Load the target even if the available memory seems too small
    #[arg(long, help_heading = MODELS, requires = "meaning")]
    pub ignore_memory: bool,
    /// In this video, or in those below this directory (repeatable)
    #[arg(long, value_name = "PATH", help_heading = FILTERS)]
    pub r#in: Vec<PathBuf>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Also in videos that are gone
    #[arg(long, help_heading = FILTERS)]
    pub missing: bool,
    /// Print at most this many moments
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, help_heading = OUTPUT, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print one JSON object
    #[arg(long, help_heading = OUTPUT, conflicts_with_all = ["m3u", "edl"])]
    pub json: bool,
    /// Print a playlist of the moments, for VLC
    #[arg(long, help_heading = OUTPUT, conflicts_with = "edl")]
    pub m3u: bool,
    /// Print a list of the moments that mpv plays as one video: mpv FILE.edl
    #[arg(long, help_heading = OUTPUT)]
    pub edl: bool,
    /// Cut the moments out of their videos, without encoding them again, into files in this directory
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub clip: Option<PathBuf>,
}

impl FindArgs {
    /// How the target is loaded.
    pub fn loading(&self) -> RunArgs {
        let Self { target, device, ignore_memory, .. } = self;
        RunArgs {
            target: target.clone(),
            device: *device,
            ignore_memory: *ignore_memory,
            ..RunArgs::default()
        }
    }
}

/// Answer a question about a library from its captions and what is said in it, citing moments.
#[derive(Debug, Default, Args)]
#[command(allow_missing_positional = true)]
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "prompt" | "preset" | "schema" | "grammar" | "no_reuse_texts" => arg.hide(true).conflicts_with("question"),
    _ => arg,
}))]
pub struct AskArgs {
    /// Videos, and directories of videos, to look in [default: the whole index]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The question, in quotation marks
    #[arg(value_name = "QUESTION", required = true)]
    pub question: String,
    /// File of the index [default: library.db in the data directory]
    #[arg(long, value_name = "FILE", help_heading = INDEX)]
    pub db: Option<PathBuf>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Answer from at most this many moments
    #[arg(long, short = 'n', value_name = "N", default_value_t = question::SOME, help_heading = FILTERS, value_parser = clap::value_parser!(u32).range(1..=i64::from(question::MOST)))]
    pub limit: u32,
    #[command(flatten)]
    pub run: RunArgs,
    /// Print events as JSON lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Print only the answer and the moments that it cites
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}

/// The beginning of a day in milliseconds since 1970.
fn day(text: &str) -> Result<i64, String> {
    let date = || {
        let mut parts = text.splitn(3, '-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let month = time::Month::try_from(month.parse::<u8>().ok()?).ok()?;
        time::Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()
    };
    let date = date().ok_or("expected a day, such as 2026-11-28")?;
    Ok(date.midnight().assume_utc().unix_timestamp() * 1000)
}

fn length(text: &str) -> Result<f64, String> {
    seconds(text).ok_or_else(|| "expected a length, such as 90 or 1:30".to_owned())
}
