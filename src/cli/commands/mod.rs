//! The subcommands, and what most of them import.

#[cfg(feature = "find")]
pub mod ask;
pub mod batch;
pub mod caption;
pub mod compare;
pub mod complete;
pub mod config;
pub mod dataset;
pub mod doctor;
pub mod dry_run;
pub mod inspect;
#[cfg(feature = "find")]
pub mod library;
pub mod manual;
#[cfg(feature = "server")]
pub mod mcp;
pub mod methods;
pub mod models;
pub mod replay;
#[cfg(feature = "server")]
pub mod serve;
pub mod skills;
pub mod watch;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::{ops::ControlFlow, time::Duration};

use clap::CommandFactory;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::args::{Cli, caption::CaptionArgs};
use crate::cli::interrupt::{Interrupt, interrupted, listen, loading, loading_together, runtime};
use crate::cli::output::new_file::{CHECK_DISK, Named, OutputFile};
use crate::cli::output::{color, progress::Progress, report, session::event_line, terminal};
use crate::cli::{config::Config, end::End, resolve};
use specreel_client::catalog::{self, local};
use specreel_client::present::{estimate, wrap::hang};
use specreel_client::{Client, Ending, GRACE, Settings, asked, dirs::Dirs, user_methods};
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::{Event, EventKind, Failure, FailureClass, RunLog, StopReason, units::bytes};
use specreel_speculate::Method;

/// Write what a command prints, as a whole.
fn print(text: &str) -> Result<i32, End> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}
