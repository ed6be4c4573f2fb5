//! The command line's arguments and the parsers of their values.

pub mod batch;
pub mod caption;
pub mod compare;
pub mod config;
pub mod dataset;
pub mod doctor;
pub mod inspect;
#[cfg(feature = "find")]
pub mod library;
pub mod manual;
#[cfg(feature = "server")]
pub mod mcp;
pub mod methods;
pub mod models;
mod moved;
pub mod part;
pub mod replay;
pub mod run;
pub mod sampling;
#[cfg(feature = "server")]
pub(crate) mod serve;
pub mod skills;
pub mod values;
mod version;
pub mod watch;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use caption::CaptionArgs;
use compare::CompareArgs;
use config::ConfigArgs;
use dataset::DatasetArgs;
use doctor::DoctorArgs;
use inspect::InspectArgs;
#[cfg(feature = "find")]
use library::{AskArgs, FindArgs, IndexArgs};
use manual::ManArgs;
#[cfg(feature = "server")]
use mcp::McpArgs;
use methods::MethodsArgs;
use models::ModelsArgs;
use moved::MovedArgs;
use replay::ReplayArgs;
use run::RunArgs;
#[cfg(feature = "server")]
use serve::ServeArgs;
use skills::SkillsArgs;
use values::choice;
use watch::WatchArgs;

use specreel_client::{Charset, ImageProtocol, Layer};
use specreel_record::Pace;

pub use version::VERSION;

const STUDIO: &str = "Studio";

/// What follows the options in the help.
fn examples() -> String {
    let serve = match cfg!(feature = "server") {
        true => "  specreel serve           serve OpenAI's API on http://127.0.0.1:8713\n",
        false => "",
    };
    let find = match cfg!(feature = "find") {
        true => "  specreel index DIR       caption a library, for: specreel find and ask\n",
        false => "",
    };
    format!(
        "Examples:
  specreel                 open the studio
  specreel caption demo    caption an embedded clip
  specreel compare demo    compare methods on that clip
{find}  specreel inspect demo    show what the drafter sees of it
  specreel methods         list decoding methods
  specreel models          list local models; `pull ID` downloads one
{serve}  specreel doctor          check this build, machine and terminal

Embedded clips: demo, demo:2, demo:3, demo:4.

Environment variables:
  SPECREEL_THREADS       number of compute threads [default: all processors]
  SPECREEL_LOG           log level: error, warn, info, debug [default: info]; the log is specreel.log in the state
                         directory that `specreel doctor` prints
  SPECREEL_WEIGHT_CACHE  directory of converted weights, or off [default: weights in the cache directory]
  SPECREEL_GPU           off: do not look for GPUs; plain: no instructions that a driver may lack

Exit codes: 0 success, 1 internal error, disk full, or nothing found, 2 usage error, 3 unusable input, 4 not enough memory,
5 some of several videos failed, 130 interrupted (Ctrl-C), 143 terminated (SIGTERM), 129 hung up (SIGHUP)."
    )
}

/// Caption videos locally with Video-LLMs, accelerated by speculative decoding
#[derive(Debug, Parser)]
#[command(name = "specreel", version = VERSION, long_version = version::long(), args_conflicts_with_subcommands = true)]
#[command(after_help = examples())]
pub struct Cli {
    /// The subcommand; without one, the studio opens.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub studio: StudioArgs,
}

impl Cli {
    pub fn json(&self) -> bool {
        match &self.command {
            Some(Command::Caption(args)) => args.output.json,
            Some(Command::Watch(args)) => args.output.json,
            Some(Command::Compare(args)) => args.output.json,
            Some(Command::Inspect(args)) => args.json,
            Some(Command::Replay(args)) => args.json,
            Some(Command::Methods(args)) => args.json,
            Some(Command::Dataset(args)) => args.json(),
            #[cfg(feature = "find")]
            Some(Command::Index(args)) => args.json,
            #[cfg(feature = "find")]
            Some(Command::Find(args)) => args.json,
            #[cfg(feature = "find")]
            Some(Command::Ask(args)) => args.json,
            Some(Command::Models(args)) => args.json,
            Some(Command::Doctor(args)) => args.json,
            Some(Command::Bench(words) | Command::Train(words) | Command::Scenes(words)) => words.json(),
            Some(Command::Config(args)) => args.json(),
            _ => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Caption a video, or many
    Caption(Box<CaptionArgs>),
    /// Caption the segments of a stream, or of a file that is still written, as they end
    Watch(Box<WatchArgs>),
    /// Caption what is new in a library, and keep the captions where they can be searched
    #[cfg(feature = "find")]
    Index(Box<IndexArgs>),
    /// Not in this build
    #[cfg(not(feature = "find"))]
    #[command(hide = true, disable_help_flag = true)]
    Index(MovedArgs),
    /// Find moments by the words of their captions and of what is said in them
    #[cfg(feature = "find")]
    Find(Box<FindArgs>),
    /// Not in this build
    #[cfg(not(feature = "find"))]
    #[command(hide = true, disable_help_flag = true)]
    Find(MovedArgs),
    /// Answer a question about a library, citing moments of its videos
    #[cfg(feature = "find")]
    Ask(Box<AskArgs>),
    /// Not in this build
    #[cfg(not(feature = "find"))]
    #[command(hide = true, disable_help_flag = true)]
    Ask(MovedArgs),
    /// Compare methods on one clip and prompt
    Compare(CompareArgs),
    /// Show which visual tokens the drafter sees, and their scores
    Inspect(InspectArgs),
    /// Replay a saved run
    Replay(ReplayArgs),
    /// List, show or check decoding methods
    Methods(MethodsArgs),
    /// List, inspect or download models
    Models(ModelsArgs),
    /// Answer questions about videos over HTTP, with the APIs of OpenAI and Anthropic
    #[cfg(feature = "server")]
    Serve(Box<ServeArgs>),
    /// Not in this build
    #[cfg(not(feature = "server"))]
    #[command(hide = true, disable_help_flag = true)]
    Serve(MovedArgs),
    /// Offer the models as tools of the Model Context Protocol, on stdin and stdout
    #[cfg(feature = "server")]
    Mcp(Box<McpArgs>),
    /// Not in this build
    #[cfg(not(feature = "server"))]
    #[command(hide = true, disable_help_flag = true)]
    Mcp(MovedArgs),
    /// Merge, check or count the data sets that `caption --dataset` writes
    Dataset(DatasetArgs),
    /// Check this build, machine and terminal
    Doctor(DoctorArgs),
    /// Show configuration files, examples and schemas
    Config(ConfigArgs),
    /// Print a shell completion script
    #[command(after_help = "Set it up:
  bash: echo 'source <(specreel completions bash)' >> ~/.bashrc
  zsh:  echo 'source <(specreel completions zsh)' >> ~/.zshrc    (after compinit)
  fish: specreel completions fish > ~/.config/fish/completions/specreel.fish")]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Tell coding agents how to use specreel
    Skills(SkillsArgs),
    /// Print man pages (roff)
    Man(ManArgs),
    /// Moved to specreel-lab
    #[command(hide = true, disable_help_flag = true)]
    Bench(MovedArgs),
    /// Moved to specreel-lab
    #[command(hide = true, disable_help_flag = true)]
    Train(MovedArgs),
    /// Moved to specreel-lab
    #[command(hide = true, disable_help_flag = true)]
    Scenes(MovedArgs),
}

#[derive(Debug, Default, Args)]
pub struct StudioArgs {
    /// Video or folder of videos to open; `demo` or `demo:2` is an embedded clip. Without a terminal, the video is captioned as
    /// plain text
    pub video: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
    /// Follow the runs of a server elsewhere (`specreel serve --allow-follow`) instead of an own engine
    #[arg(long, value_name = "URL", conflicts_with = "video", help_heading = STUDIO)]
    pub connect: Option<String>,
    /// Key of that server
    #[arg(long, value_name = "KEY", env = "SPECREEL_API_KEY", hide_env_values = true, help_heading = STUDIO)]
    pub api_key: Option<String>,
    /// Folder of videos for the library (repeatable)
    #[arg(long, value_name = "DIR", help_heading = STUDIO)]
    pub library: Vec<PathBuf>,
    /// Keep the captions of this session in an index [default: library.db in the data directory]
    #[cfg(feature = "find")]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "connect", help_heading = STUDIO)]
    pub index: Option<Option<PathBuf>>,
    /// Theme: auto (asks the terminal), dark, light, high-contrast, mono, catppuccin, catppuccin-latte, dracula, gruvbox, nord,
    /// solarized-dark, solarized-light, tokyo-night, or your own
    #[arg(long, value_name = "NAME", help_heading = STUDIO)]
    pub theme: Option<String>,
    /// How runs are played: auto (slows a run that would be over before it is seen), off, or a playback speed such as 0.01
    #[arg(long, value_name = "PACE", allow_negative_numbers = true, help_heading = STUDIO)]
    pub pace: Option<Pace>,
    /// Image protocol of the terminal
    #[arg(long, value_name = "NAME", value_parser = choice::<ImageProtocol>(), help_heading = STUDIO)]
    pub image_protocol: Option<ImageProtocol>,
    /// Use the mouse even if the configuration says no; hold Shift to select text
    #[arg(long, overrides_with = "no_mouse", help_heading = STUDIO)]
    pub mouse: bool,
    /// Leave the mouse to the terminal, for selecting text
    #[arg(long, help_heading = STUDIO)]
    pub no_mouse: bool,
    /// Characters to draw with
    #[arg(long, value_parser = choice::<Charset>(), help_heading = STUDIO)]
    pub charset: Option<Charset>,
}

impl StudioArgs {
    pub fn layer(&self) -> Layer {
        Layer {
            theme: self.theme.clone(),
            pace: self.pace,
            image_protocol: self.image_protocol,
            mouse: (self.mouse || self.no_mouse).then_some(self.mouse),
            charset: self.charset,
            library: (!self.library.is_empty()).then(|| self.library.clone()),
            ..self.run.layer()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use specreel_tensor::WeightType;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn texts_are_only_reused_where_several_are_written() {
        let command = Cli::command();
        let is_hidden = |name: &str| {
            let sub = command.find_subcommand(name).unwrap();
            sub.get_arguments().find(|arg| arg.get_id() == "no_reuse_texts").unwrap().is_hide_set()
        };
        assert!(["caption", "watch"].iter().all(|name| !is_hidden(name)));
        assert!(["compare", "inspect"].iter().all(|name| is_hidden(name)));
        #[cfg(feature = "server")]
        assert!(["serve", "mcp"].iter().all(|name| is_hidden(name)));
    }

    #[test]
    fn flags_are_a_layer_of_settings() {
        let cli = Cli::try_parse_from(["specreel", "--theme", "dark", "--mouse", "--dtype", "f32"]).unwrap();
        let layer = cli.studio.layer();
        assert_eq!((layer.theme.as_deref(), layer.mouse, layer.library), (Some("dark"), Some(true), None));
        assert_eq!(layer.dtype, Some(WeightType::F32));
        assert_eq!(StudioArgs::default().layer(), Layer::default());
    }
}
