//! What can be typed after `specreel compare`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::{
    args::{OutputArgs, RunArgs},
    part::SpanArgs,
};

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(mut_arg("method", |arg| arg.hide(true)))]
#[command(mut_arg("set", |arg| arg.help("Change one value of every method that has it, for example shape.length=3 (repeatable)")))]
#[command(mut_arg("save", |arg| arg.help("Write the events of all runs to this file as they come")))]
#[command(mut_arg("force", |arg| arg.help("Let --save and --html overwrite an existing file")))]
#[command(mut_group("kept", |group| group.arg("html")))]
pub struct CompareArgs {
    /// The video; `demo` or `demo:2` is an embedded clip
    pub video: PathBuf,
    /// Which part of it.
    #[command(flatten)]
    pub span: SpanArgs,
    /// Methods: names of `specreel methods`, or TOML files; autoregressive is always run, and first [default:
    /// autoregressive,naive,sd-uniform,lvspec,fly; without a small model autoregressive,lvspec-self]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub methods: Option<Vec<String>>,
    /// Run all methods N times in turn; the run of median speed stands for each
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// What to print.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Also write a page with the table and all captions to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
