//! Options of `caption` for many videos.

use std::path::PathBuf;

use clap::Args;

use super::values::choice;
use specreel_batch::{Existing, Kind, Polish, Sidecar, shard::ShardChoice};

const MANY: &str = "Many videos";

/// Options for many videos.
#[derive(Debug, Default, Args)]
pub struct BatchArgs {
    /// Write a file for each video, next to it or below --out-dir, with its name and another extension
    #[arg(long, help_heading = MANY, value_name = "FORMAT", value_parser = choice::<Sidecar>())]
    pub sidecar: Option<Sidecar>,
    /// Write sidecars, and a data set without --dataset-file, below this directory, at the videos' relative paths
    #[arg(long, help_heading = MANY, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// Write one file for all videos, in the form that a trainer reads
    #[arg(long, help_heading = MANY, value_name = "KIND", value_parser = choice::<Kind>())]
    pub dataset: Option<Kind>,
    /// File of the data set [default: dataset.jsonl, dataset.csv or metadata.jsonl (hf) in --out-dir or the videos' directory]
    #[arg(long, help_heading = MANY, value_name = "FILE", requires = "dataset")]
    pub dataset_file: Option<PathBuf>,
    /// Also keep the captions in an index, in which `specreel find` looks [default: library.db in the data directory]
    #[cfg(feature = "find")]
    #[arg(long, help_heading = MANY, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "stdin")]
    pub index: Option<Option<PathBuf>>,
    /// Treatment of videos that have captions
    #[arg(long, help_heading = MANY, value_name = "WHAT", value_parser = choice::<Existing>(), default_value = "skip")]
    pub existing: Existing,
    /// Try videos again that failed before and have not changed since
    #[arg(long, help_heading = MANY)]
    pub retry_failed: bool,
    /// Caption at most this many videos
    #[arg(long, help_heading = MANY, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Caption N videos or segments at once: their passes share each reading of the weights
    #[arg(long, help_heading = MANY, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "stdin")]
    pub parallel: Option<u32>,
    /// File with one prompt per line; each video gets one caption per prompt
    #[arg(long, help_heading = MANY, value_name = "FILE", conflicts_with_all = ["prompt", "preset"])]
    pub prompt_file: Option<PathBuf>,
    /// Begin every caption with this text, such as a trigger word
    #[arg(long, help_heading = MANY, value_name = "TEXT", allow_hyphen_values = true)]
    pub prefix: Option<String>,
    /// Cut phrases such as "The video shows" off the beginning of captions; jsonl, csv and json keep the cut phrase
    #[arg(long, help_heading = MANY)]
    pub clean: bool,
    /// Caption part I of N, or the part that Slurm (auto) or Kubernetes (auto/N) says
    #[arg(long, help_heading = MANY, value_name = "I/N", allow_hyphen_values = true)]
    pub shard: Option<ShardChoice>,
    /// Read paths from stdin, one per line, and write a JSON line for each to stdout
    #[arg(
        long,
        help_heading = MANY,
        conflicts_with_all = ["videos", "sidecar", "out_dir", "dataset", "retry_failed", "limit", "prompt_file", "shard", "json",
            "dry_run", "save", "steps", "verify"]
    )]
    pub stdin: bool,
}

impl BatchArgs {
    /// The first option that only makes sense for many videos, or that writes files for one.
    pub fn used(&self) -> Option<&'static str> {
        let options = [
            (self.sidecar.is_some(), "--sidecar"),
            (self.indexes(), "--index"),
            (self.out_dir.is_some(), "--out-dir"),
            (self.dataset.is_some(), "--dataset"),
            (self.existing != Existing::default(), "--existing"),
            (self.retry_failed, "--retry-failed"),
            (self.limit.is_some(), "--limit"),
            (self.parallel.is_some(), "--parallel"),
            (self.prompt_file.is_some(), "--prompt-file"),
            (self.shard.is_some(), "--shard"),
            (self.stdin, "--stdin"),
        ];
        options.into_iter().find_map(|(is_used, name)| is_used.then_some(name))
    }

    /// Whether captions are kept in an index.
    fn indexes(&self) -> bool {
        #[cfg(feature = "find")]
        return self.index.is_some();
        #[cfg(not(feature = "find"))]
        false
    }

    /// What is changed in a caption before it is written.
    pub fn polish(&self) -> Polish {
        Polish { prefix: self.prefix.clone(), clean: self.clean }
    }
}
