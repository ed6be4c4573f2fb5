//! Arguments of `specreel config`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Text to print; by default the paths of the files, and whether they are valid
    #[command(subcommand)]
    pub what: Option<What>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ConfigArgs {
    pub fn json(&self) -> bool {
        self.json || matches!(self.what, Some(What::Schema { .. }))
    }
}

/// Text to print.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum What {
    /// Print an annotated example
    Example {
        /// File
        #[arg(value_enum, default_value = "config")]
        file: File,
    },
    /// Print the JSON schema, for editors
    Schema {
        /// File
        #[arg(value_enum, default_value = "config")]
        file: File,
    },
}

/// A user's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum File {
    /// config.toml: default settings
    Config,
    /// keymap.toml: key bindings of the studio
    Keymap,
    /// themes/NAME.toml: colors of the studio
    Theme,
}
