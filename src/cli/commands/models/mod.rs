//! `specreel models`: lists, inspects and downloads models, and manages converted weights. Runs offer downloads, too.

mod cache;
mod known;
mod list;
pub mod offer;
mod pull;
mod show;

use super::*;
use crate::cli::args::models::{ModelsArgs, ModelsCommand};
use specreel_client::present::grid::{columns, fitting};

pub fn run(args: &ModelsArgs, config: &Config) -> Result<i32, End> {
    match args.command.as_ref().unwrap_or(&ModelsCommand::List) {
        ModelsCommand::List => list::run(args.json, config),
        ModelsCommand::Known => known::run(args.json),
        ModelsCommand::Inspect { model, dtype } => show::run(model, *dtype, args.json, config),
        ModelsCommand::Pull { id } => pull::run(id, args.json, config),
        ModelsCommand::Cache(cache) => cache::run(cache, args.json, config),
    }
}

/// A number of parameters as text: `7.6 B`, `494 M`.
fn parameters(n: u64) -> String {
    match n as f64 {
        n if n >= 9.995e9 => format!("{:.0} B", n / 1e9),
        n if n >= 9.995e8 => format!("{:.1} B", n / 1e9),
        n if n >= 9.995e6 => format!("{:.0} M", n / 1e6),
        n if n >= 9.995e5 => format!("{:.1} M", n / 1e6),
        n => format!("{:.0} k", n / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_text() {
        let words = [800, 640_000, 1_234_567, 494_000_000, 7_615_000_000, 72_700_000_000].map(parameters);
        assert_eq!(words, ["1 k", "640 k", "1.2 M", "494 M", "7.6 B", "73 B"]);
    }
}
