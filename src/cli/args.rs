//! What can be typed.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bench::BenchArgs, compare::CompareArgs, inspect::InspectArgs, part::PartArgs, replay::ReplayArgs,
    scenes::ScenesArgs, settings::ConfigArgs, train::TrainArgs,
};
use crate::{
    model::{DeviceChoice, WeightType, family::Rope},
    tui::ImageProtocol,
};

/// Version line with what this build can use.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SPECREEL_FEATURES"), ")");

/// Captions videos on your own machine, speeds that up with speculative decoding, and shows how every token was verified.
#[derive(Debug, Parser)]
#[command(name = "specreel", version = VERSION, args_conflicts_with_subcommands = true)]
#[command(after_help = "Start here:
  specreel                 the studio
  specreel caption demo    a caption of an embedded clip
  specreel compare demo    the same clip under several methods
  specreel inspect demo    what the drafter sees of it
  specreel methods         the ways of decoding
  specreel models          the models of this machine; `pull ID` fetches one
  specreel doctor          what this machine can do, and what is wrong

The embedded clips are demo, demo:2, demo:3 and demo:4.

Environment: SPECREEL_THREADS (threads that compute; all processors unless told), SPECREEL_LOG (what goes to the log:
error, warn, info, debug; info unless told). The log is specreel.log in the state directory that `specreel doctor` names.

Exit codes: 0 done, 1 our fault or a full disk, 2 usage, 3 the input cannot be used, 4 not enough memory,
130 interrupted (Ctrl-C), 143 ended by SIGTERM, 129 by a hang-up.")]
pub struct Cli {
    /// What to do; without it, the studio.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The studio's arguments.
    #[command(flatten)]
    pub studio: StudioArgs,
}

impl Cli {
    /// True if stdout is JSON.
    pub fn json(&self) -> bool {
        match &self.command {
            Some(Command::Caption(args)) => args.output.json,
            Some(Command::Compare(args)) => args.output.json,
            Some(Command::Inspect(args)) => args.json,
            Some(Command::Bench(args)) => args.json,
            Some(Command::Replay(args)) => args.json,
            Some(Command::Methods(args)) => args.json,
            Some(Command::Scenes(args)) => args.json(),
            Some(Command::Models(args)) => args.json,
            Some(Command::Doctor(args)) => args.json,
            Some(Command::Train(args)) => args.json,
            Some(Command::Config(args)) => args.json(),
            _ => false,
        }
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a caption of a video to stdout
    Caption(CaptionArgs),
    /// Run one clip and prompt under several methods and compare them
    Compare(CompareArgs),
    /// Show which visual tokens a method's drafter sees, and how they scored
    Inspect(InspectArgs),
    /// Measure methods on clips with known facts, or what a pass costs
    Bench(Box<BenchArgs>),
    /// Play a saved session once more
    Replay(ReplayArgs),
    /// List, show or check decoding methods
    Methods(MethodsArgs),
    /// List the models of this machine, look into one, or fetch one from the Hugging Face hub
    Models(ModelsArgs),
    /// Synthetic clips with known facts: render one, score a text about one
    Scenes(ScenesArgs),
    /// Say what this build, this machine and this terminal can do, and what is wrong
    Doctor(DoctorArgs),
    /// Where your files are; examples and schemas of them
    Config(ConfigArgs),
    /// Make a drafter for a target on this machine
    Train(Box<TrainArgs>),
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page (roff)
    Man,
}

/// Arguments of the studio.
#[derive(Debug, Default, Args)]
pub struct StudioArgs {
    /// Video to open, or a folder of videos; `demo` or `demo:2` is an embedded clip. Without a terminal a video is captioned in
    /// plain text
    pub video: Option<PathBuf>,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Folder of videos to show in the library (repeatable)
    #[arg(long, value_name = "DIR")]
    pub library: Vec<PathBuf>,
    /// Colours: auto (asks the terminal), dark, light, high-contrast, mono, catppuccin, catppuccin-latte, dracula, gruvbox, nord,
    /// solarized-dark, solarized-light, tokyo-night, or a theme of your own
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
    /// How pictures are drawn
    #[arg(long, value_name = "HOW")]
    pub image_protocol: Option<ImageProtocol>,
    /// Click and scroll in the studio; the terminal selects text with Shift held, then
    #[arg(long)]
    pub mouse: bool,
    /// Characters to draw with: auto asks the locale
    #[arg(long, value_enum)]
    pub charset: Option<CharsetChoice>,
}

/// With which characters the studio is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CharsetChoice {
    /// What the locale says; without a locale, all
    #[default]
    Auto,
    /// All
    #[value(name = "utf-8")]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Those of ASCII alone
    Ascii,
}

/// Arguments of `caption`.
#[derive(Debug, Args)]
pub struct CaptionArgs {
    /// The video; `demo` or `demo:2` is an embedded clip
    pub video: PathBuf,
    /// Which part of it.
    #[command(flatten)]
    pub part: PartArgs,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// What to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How to run a generation; shared by the studio, `caption` and `compare`.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// What to ask about the video; `-` reads it from stdin
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Decoding method: a name of `specreel methods`, or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub method: Option<String>,
    /// Change one value of the method, for example acceptance.lambda=0.5 (repeatable)
    #[arg(long, value_name = "AXIS.KEY=VALUE")]
    pub set: Vec<String>,
    /// The target model: a directory in Hugging Face layout, or the id of a model in the cache [default: the embedded pair]
    #[arg(long, value_name = "DIR|ID")]
    pub target: Option<PathBuf>,
    /// The drafter model, likewise
    #[arg(long, value_name = "DIR|ID")]
    pub drafter: Option<PathBuf>,
    /// Where to compute: auto (the best there is), cpu, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub device: Option<DeviceChoice>,
    /// Where the drafter computes, if not with the target: a second card, for example
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub drafter_device: Option<DeviceChoice>,
    /// Weight type of the language models: auto (q8_0 on a CPU, else bf16), f32, bf16, f16, q8_0, q6_k, q5_k, q4_k, q4_0
    #[arg(long, value_name = "TYPE", value_parser = dtype)]
    pub dtype: Option<WeightType>,
    /// Load and run even if the memory that is available seems not to suffice
    #[arg(long)]
    pub ignore_memory: bool,
    /// Positions of the prompt's tokens: auto (the model's own), mrope (time, row, column), sequential (one axis)
    #[arg(long, value_name = "KIND", value_parser = rope)]
    pub rope: Option<Rope>,
    /// Look at this many frames, evenly spaced
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with = "fps")]
    pub frames: Option<u32>,
    /// Look at this many frames per second of video
    #[arg(long, allow_negative_numbers = true, value_name = "F", value_parser = fps)]
    pub fps: Option<f64>,
    /// Upper limit of pixels per frame [default: the model's own]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(784..))]
    pub max_pixels: Option<u32>,
    /// Stop after this many tokens [default: 256]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_new_tokens: Option<u32>,
    /// 0 always takes the most likely token; up to 100
    #[arg(long, allow_negative_numbers = true, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    pub temperature: f32,
    /// Sample from the most likely tokens that together have this probability, above 0, up to 1
    #[arg(long, allow_negative_numbers = true, value_name = "P", default_value_t = 1.0, value_parser = top_p)]
    pub top_p: f32,
    /// Seed of all randomness
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value_t = 0, value_parser = whole)]
    pub seed: u64,
}

/// What to print and keep.
#[derive(Debug, Default, Args)]
#[command(group(ArgGroup::new("kept").args(["save"]).multiple(true)))]
pub struct OutputArgs {
    /// Print events instead, one JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Colour tokens by verdict
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// No progress, legend or statistics on stderr
    #[arg(long, short)]
    pub quiet: bool,
    /// Write the session's events to this file as they come
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Let --save overwrite an existing file
    #[arg(long, requires = "kept")]
    pub force: bool,
    /// Report the target's K most likely tokens with each token (in --json and --save)
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub logprobs: u32,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal that can
    #[default]
    Auto,
    /// Even into a file or pipe
    Always,
    /// Not at all
    Never,
}

/// Arguments of `methods`.
#[derive(Debug, Args)]
pub struct MethodsArgs {
    /// What to do; without it, list.
    #[command(subcommand)]
    pub command: Option<MethodsCommand>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// Subcommands of `methods`.
#[derive(Debug, Subcommand)]
pub enum MethodsCommand {
    /// All methods: those that come with the program, and your own
    List,
    /// One method as a TOML file to start from
    Show {
        /// A method's name, or a file
        name: String,
    },
    /// Say whether a method file can be used
    Check {
        /// The file, or the name of one of your own
        file: PathBuf,
    },
}

/// Arguments of `models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// What to do; without it, list.
    #[command(subcommand)]
    pub command: Option<ModelsCommand>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// Subcommands of `models`.
#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// All models of this machine: embedded, in configured folders, in the Hugging Face cache
    List,
    /// What is in a model, what it needs, and everything that is wrong with it
    Inspect {
        /// A directory, the id of a model in the cache, or an embedded one: demo-target, demo-drafter, demo-sparrow, demo-msd
        #[arg(value_name = "DIR|ID")]
        model: PathBuf,
    },
    /// Fetch a model from the Hugging Face hub into the cache that its tools share
    Pull {
        /// For example Qwen/Qwen2.5-VL-3B-Instruct, with @REVISION if it is not the main branch
        #[arg(value_name = "ID[@REVISION]")]
        id: String,
    },
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The target model to try: a directory, or the id of a model in the cache [default: the embedded pair]
    #[arg(long, value_name = "DIR|ID")]
    pub target: Option<PathBuf>,
    /// The drafter model to try, likewise
    #[arg(long, value_name = "DIR|ID")]
    pub drafter: Option<PathBuf>,
    /// Device to try them on, as for captions
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub device: Option<DeviceChoice>,
    /// Weight type to try them in, as for captions
    #[arg(long, value_name = "TYPE", value_parser = dtype)]
    pub dtype: Option<WeightType>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Read a device.
pub fn device(text: &str) -> Result<DeviceChoice, String> {
    let text = text.to_lowercase();
    match (text.as_str(), text.strip_prefix("cuda:").map(str::parse)) {
        ("auto", _) => Ok(DeviceChoice::Auto),
        ("cpu", _) => Ok(DeviceChoice::Cpu),
        ("cuda", _) => Ok(DeviceChoice::Cuda(0)),
        ("metal", _) => Ok(DeviceChoice::Metal),
        ("cpu-tensors", _) => Ok(DeviceChoice::CpuTensors),
        (_, Some(Ok(number))) if number < 1024 => Ok(DeviceChoice::Cuda(number)),
        _ => Err("there are auto, cpu, cuda, cuda:N and metal".into()),
    }
}

/// Read a weight type.
pub fn dtype(text: &str) -> Result<WeightType, String> {
    text.parse()
}

fn rope(text: &str) -> Result<Rope, String> {
    Ok(match text.to_lowercase().as_str() {
        "auto" => Rope::Auto,
        "mrope" => Rope::Mrope,
        "sequential" => Rope::Sequential,
        _ => return Err("there are auto, mrope and sequential".into()),
    })
}

fn number<T: std::str::FromStr>(text: &str, fits: impl Fn(&T) -> bool, range: &str) -> Result<T, String> {
    text.parse().ok().filter(fits).ok_or_else(|| format!("it must be {range}"))
}

/// Read a seed or a number of something.
pub fn whole(text: &str) -> Result<u64, String> {
    number(text, |_| true, "a whole number from 0")
}

fn temperature(text: &str) -> Result<f32, String> {
    number(text, |t| (0.0..=100.0).contains(t), "a number from 0 to 100")
}

fn top_p(text: &str) -> Result<f32, String> {
    number(text, |p| *p > 0.0 && *p <= 1.0, "a number above 0, up to 1")
}

fn fps(text: &str) -> Result<f64, String> {
    number(text, |f| *f > 0.0 && *f <= 1000.0, "a number above 0, up to 1000")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn devices_and_numbers() {
        assert_eq!(device("CUDA:3"), Ok(DeviceChoice::Cuda(3)));
        assert_eq!(device("cuda"), Ok(DeviceChoice::Cuda(0)));
        assert!(device("cuda:").is_err() && device("cuda:-1").is_err() && device("tpu").is_err());
        assert_eq!(dtype("Q4_K"), Ok(WeightType::Q4K));
        assert_eq!((rope("MRoPE"), rope("sequential")), (Ok(Rope::Mrope), Ok(Rope::Sequential)));
        assert!(rope("1d").is_err());
        for bad in ["-1", "101", "nan", "inf", "x", ""] {
            assert!(temperature(bad).is_err(), "{bad}");
        }
        for bad in ["0", "1.1", "nan", "-0.5"] {
            assert!(top_p(bad).is_err(), "{bad}");
        }
        for bad in ["0", "-2", "nan", "inf"] {
            assert!(fps(bad).is_err(), "{bad}");
        }
        assert_eq!((temperature("0"), top_p("1"), fps("0.5")), (Ok(0.0), Ok(1.0), Ok(0.5)));
    }

    #[test]
    fn frames_and_fps_exclude_each_other() {
        assert!(
            Cli::try_parse_from(["specreel", "caption", "a.mp4", "--frames", "4", "--fps", "2"]).is_err()
        );
        assert!(Cli::try_parse_from(["specreel", "caption", "a.mp4", "--force"]).is_err());
        let cli = Cli::try_parse_from(["specreel", "a.mp4", "--method", "fly"]).unwrap();
        assert_eq!(cli.studio.video, Some("a.mp4".into()));
    }
}
