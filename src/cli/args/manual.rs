//! Arguments of `specreel man`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Subcommand, for example `caption` or `models pull` [default: specreel itself]
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "dir")]
    pub command: Vec<String>,
    /// Write all pages to this directory: specreel.1, specreel-caption.1 and so on
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
