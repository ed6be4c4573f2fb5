//! Options of the study.

use std::path::PathBuf;

use clap::Parser;
use specreel_speculate::{Placing, Stamps, VisualContext};

/// What each acceptance rule costs, measured with truth.
#[derive(Parser)]
#[command(name = "loosening")]
pub struct Options {
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub clips: u64,
    /// Seed of the first clip; training never saw seeds below 1,000,000.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1000..900_000))]
    pub first_seed: u64,
    /// Drafts of a step.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub length: u64,
    /// Share of the visual tokens that the drafter sees.
    #[arg(long, default_value_t = 1.0)]
    pub keep: f64,
    /// Draft with the weaker embedded drafter.
    #[arg(long)]
    pub weak: bool,
    #[arg(long, default_value = "Describe the video in detail.")]
    pub prompt: String,
    /// Longest text.
    #[arg(long, default_value_t = 256)]
    pub max_new_tokens: usize,
    /// Also try pairs of rules on a grid.
    #[arg(long)]
    pub search: bool,
    /// Only rules whose name contains this, besides exact and the oracles.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Everything, clip by clip, as JSON.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The tables in markdown; a page with marks for them, as docs/lab/loosening.md, gets them between its marks.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Cargo says this to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// What the drafter sees.
    pub fn context(&self) -> VisualContext {
        match self.keep < 1.0 {
            true => VisualContext::Uniform {
                keep: self.keep.max(0.0),
                positions: Placing::Original,
                stamps: Stamps::Keep,
            },
            false => VisualContext::Full {},
        }
    }

    /// The conditions of the measurement in a line.
    pub fn about(&self) -> String {
        format!(
            "{} clips from seed {}, {}{} drafts per step, the drafter sees {:.0} % of the visual tokens, \"{}\"",
            self.clips,
            self.first_seed,
            if self.weak { "the weak drafter, " } else { "" },
            self.length,
            100.0 * self.keep.clamp(0.0, 1.0),
            self.prompt
        )
    }
}
