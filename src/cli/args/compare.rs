//! Arguments of `specreel compare`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::part::SpanArgs;
use crate::cli::args::run::{OutputArgs, RunArgs};

#[derive(Debug, Args)]
#[command(mut_arg("method", |arg| arg.hide(true)))]
#[command(mut_arg("no_reuse_texts", |arg| arg.hide(true)))]
#[command(mut_arg("set", |arg| arg.help("Override one value of every method that has it, for example shape.length=3 (repeatable)")))]
#[command(mut_arg("save", |arg| arg.help("Save all runs to this file: their events, as they arrive")))]
#[command(mut_arg("force", |arg| arg.help("Overwrite existing --save and --html files")))]
#[command(mut_group("kept", |group| group.arg("html")))]
pub struct CompareArgs {
    /// Video; `demo` or `demo:2` is an embedded clip, `-` reads stdin
    pub video: PathBuf,
    #[command(flatten)]
    pub span: SpanArgs,
    /// Methods: names from `specreel methods`, TOML files, or all; autoregressive always runs first [default:
    /// autoregressive,auto,naive,specvlm,lvspec,lenient; without a draft model autoregressive,auto,specvlm-self]
    #[arg(long, help_heading = "Generation", value_name = "A,B,…", value_delimiter = ',')]
    pub methods: Option<Vec<String>>,
    /// Run all methods N times in turn and report the run of median speed of each
    #[arg(long, help_heading = "Generation", allow_negative_numbers = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Also write an HTML page with the table and all captions
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub html: Option<PathBuf>,
}
