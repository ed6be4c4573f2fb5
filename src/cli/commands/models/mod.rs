//! `specreel models`: lists, inspects, downloads and removes models, advises on drafters, manages converted weights, and offers downloads before a run.

mod advise;
mod cache;
mod known;
mod list;
pub mod offer;
mod pull;
mod remove;
mod show;

use super::*;
use crate::cli::args::models::{ModelsArgs, ModelsCommand};
use specreel_client::present::formats::parameters;
use specreel_client::present::grid::{columns, fitting};

pub fn run(args: &ModelsArgs, config: &Config) -> Result<i32, End> {
    match args.command.as_ref().unwrap_or(&ModelsCommand::List) {
        ModelsCommand::List => list::run(args.json, config),
        ModelsCommand::Known => known::run(args.json),
        ModelsCommand::Inspect { model, mmproj, dtype } => {
            show::run(model, mmproj.as_deref(), *dtype, args.json, config)
        }
        ModelsCommand::Advise(advise) => advise::run(advise, args.json, config),
        ModelsCommand::Pull { id } => pull::run(id, args.json, config),
        ModelsCommand::Remove { model } => remove::run(model, args.json),
        ModelsCommand::Cache(cache) => cache::run(cache, args.json, config),
    }
}
