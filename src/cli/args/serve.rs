//! Arguments of `specreel serve`.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::{part::SpeechModelArgs, run::RunArgs};
use specreel_server::Options;

const SERVER: &str = "Server";
const VIDEOS: &str = "Videos of requests";
const LIMITS: &str = "Limits";
/// Bytes of a megabyte.
pub const MB: u64 = 1_000_000;

/// Arguments of `serve`.
#[derive(Debug, Default, Args)]
#[command(mut_arg("prompt", |arg| arg.help("Prompt of requests that have none; `-` reads it from stdin")))]
#[command(mut_arg("no_reuse_texts", |arg| arg.hide(true)))]
#[command(mut_arg("transcribe", |arg| arg.help("Whisper model (directory or id) for requests with `transcribe`")))]
pub struct ServeArgs {
    /// Address to listen on
    #[arg(long, help_heading = SERVER, value_name = "HOST", default_value_t = Options::default().host)]
    pub host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, help_heading = SERVER, value_name = "PORT", default_value_t = Options::default().port)]
    pub port: u16,
    /// Key that requests must have (`Authorization: Bearer KEY`)
    #[arg(long, help_heading = SERVER, value_name = "KEY", env = "SPECREEL_API_KEY", hide_env_values = true, value_parser = key)]
    pub api_key: Option<String>,
    /// Web page that may use the server, such as https://example.com; `*` is all (repeatable)
    #[arg(long, help_heading = SERVER, value_name = "ORIGIN")]
    pub cors: Vec<String>,
    /// Serve the models of this TOML file: a section [NAME] for each, with keys of the configuration file such as target, drafter and
    /// method
    #[arg(long, help_heading = SERVER, value_name = "FILE", conflicts_with_all = ["target", "mmproj", "lora", "drafter", "drafter_mmproj"])]
    pub models: Option<PathBuf>,
    /// Number of requests that are answered at once: their passes share each reading of the weights
    #[arg(long, help_heading = SERVER, value_name = "N", default_value_t = Options::default().parallel as u32, value_parser = value_parser!(u32).range(1..=64))]
    pub parallel: u32,
    /// Seconds that running answers may take to finish after Ctrl-C or SIGTERM; then they are cancelled
    #[arg(long, help_heading = SERVER, value_name = "SECONDS", default_value_t = Options::default().grace.as_secs() as u32)]
    pub grace: u32,
    /// Let requests name the files in this directory (repeatable)
    #[arg(long, help_heading = VIDEOS, value_name = "DIR")]
    pub allow_dir: Vec<PathBuf>,
    /// File of the index in which `/v1/search` looks, below --allow-dir [default: library.db in the data directory]
    #[cfg(feature = "find")]
    #[arg(long, help_heading = VIDEOS, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// Let requests name http and https URLs; those of private networks are refused
    #[arg(long, help_heading = VIDEOS)]
    pub allow_url: bool,
    /// Let studios follow the runs of all requests, with their prompts and answers (`specreel --connect URL`)
    #[arg(long, help_heading = SERVER)]
    pub allow_follow: bool,
    /// Requests that may wait; more are refused (429)
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = Options::default().queue as u32, value_parser = value_parser!(u32).range(0..=10_000))]
    pub queue: u32,
    /// Seconds that a request may take, waiting included; 0 is no limit
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", default_value_t = Options::default().timeout.map_or(0, |limit| limit.as_secs() as u32))]
    pub timeout: u32,
    /// Largest request in MB; larger videos are uploaded
    #[arg(long, help_heading = LIMITS, value_name = "MB", default_value_t = megabytes(Options::default().max_body), value_parser = value_parser!(u32).range(1..=4000))]
    pub max_body: u32,
    /// Largest video in MB
    #[arg(long, help_heading = LIMITS, value_name = "MB", default_value_t = megabytes(Options::default().max_file), value_parser = value_parser!(u32).range(1..))]
    pub max_file: u32,
    /// Most MB of stored videos together
    #[arg(long, help_heading = LIMITS, value_name = "MB", default_value_t = megabytes(Options::default().max_storage), value_parser = value_parser!(u32).range(1..))]
    pub max_storage: u32,
    /// Longest video in seconds [default: no limit]
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", value_parser = value_parser!(u32).range(1..))]
    pub max_duration: Option<u32>,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub speech: SpeechModelArgs,
}

fn megabytes(bytes: u64) -> u32 {
    (bytes / MB) as u32
}

fn key(text: &str) -> Result<String, String> {
    let is_sendable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_sendable {
        Ok(text.to_owned())
    } else {
        Err("expected visible ASCII characters without spaces".into())
    }
}
