//! The subcommands, and what most of them import.

pub mod batch;
pub mod caption;
pub mod compare;
pub mod complete;
pub mod config;
pub mod dataset;
pub mod doctor;
pub mod dry_run;
pub mod inspect;
pub mod manual;
#[cfg(feature = "server")]
pub mod mcp;
pub mod methods;
pub mod models;
pub mod replay;
#[cfg(feature = "server")]
pub mod serve;
pub mod watch;

use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::CommandFactory;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{
    args::{Cli, caption::CaptionArgs},
    config::Config,
    end::End,
    interrupt::{Interrupt, interrupted, listen, loading, runtime},
    output::{
        color,
        new_file::{CHECK_DISK, Named, OutputFile},
        progress::Progress,
        report,
        session::event_line,
        terminal,
    },
    resolve,
};
use specreel_client::{
    Client, Ending, GRACE, Settings, asked,
    catalog::{self, local},
    dirs::Dirs,
    present::{estimate, wrap::hang},
    user_methods,
};
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::{Event, EventKind, Failure, FailureClass, RunLog, StopReason, units::bytes};
use specreel_speculate::Method;
