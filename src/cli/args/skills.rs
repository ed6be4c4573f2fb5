//! Arguments of `specreel skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct SkillsArgs {
    #[command(subcommand)]
    pub action: SkillsAction,
}

#[derive(Debug, Subcommand)]
pub enum SkillsAction {
    /// Write the skill to .agents/skills and .claude/skills
    Install {
        /// Directory of the project [default: the current directory]
        #[arg(value_name = "DIR", conflicts_with = "user")]
        dir: Option<PathBuf>,
        /// Install into your home directory, for all projects
        #[arg(long)]
        user: bool,
        /// Replace files that differ
        #[arg(long)]
        force: bool,
    },
    /// Print the skill
    Show,
}
