//! Placeholders for missing subcommands: those that moved to `specreel-lab`, which say so for one release,
//! and those whose feature is not in this build.

use clap::Args;

use crate::cli::end::End;
use specreel_record::Failure;

/// All words after the subcommand.
#[derive(Debug, Args)]
pub struct MovedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    words: Vec<String>,
}

impl MovedArgs {
    pub fn json(&self) -> bool {
        self.words.iter().any(|word| word == "--json")
    }

    /// Why the subcommand does nothing (class usage).
    pub fn moved(&self, name: &str) -> End {
        let line = [&[name.to_owned()][..], &self.words].concat().join(" ");
        let hint = format!("in a checkout of specreel: make lab ARGS=\"{line}\"; see docs/lab");
        Failure::usage(format!("`{name}` is a command of specreel-lab, which measures and trains"), hint)
            .into()
    }

    /// Why a subcommand of a feature does nothing in a build without it (class usage).
    #[cfg(not(all(feature = "server", feature = "find")))]
    pub fn absent(&self, feature: &str) -> End {
        let hint = format!("build it with `--features {feature}`");
        Failure::usage(format!("this build lacks the feature `{feature}`"), hint).into()
    }
}
