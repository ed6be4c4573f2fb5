//! The command line's arguments.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::values::{choice, fps, rope, temperature, top_p};
pub use super::values::{device, dtype, kv_type, tower_dtype, whole};
use super::{
    batch::BatchArgs, bench::BenchArgs, candidates, compare::CompareArgs, dataset::DatasetArgs,
    doctor::DoctorArgs, inspect::InspectArgs, manual::ManArgs, methods::MethodsArgs, models::ModelsArgs,
    part::PartArgs, replay::ReplayArgs, scenes::ScenesArgs, settings::ConfigArgs, train::TrainArgs,
};
use specreel_client::{Charset, ImageProtocol, Layer};
use specreel_model::family::Rope;
use specreel_record::Pace;
use specreel_tensor::{DeviceChoice, KvType, WeightType};

/// Heading of options about models.
pub const MODELS: &str = "Models";
/// Heading of options about the video.
pub const VIDEO: &str = "Video";
/// Heading of options about the text.
pub const TEXT: &str = "Generation";
/// Heading of options about what is printed and saved.
pub const OUTPUT: &str = "Output";
/// Heading of options of the studio.
const STUDIO: &str = "Studio";

macro_rules! version {
    ($features:literal) => {
        concat!(env!("CARGO_PKG_VERSION"), " (", $features, ")")
    };
}

/// Version, with the features of this build.
pub const VERSION: &str = match (cfg!(feature = "cuda"), cfg!(feature = "metal")) {
    (false, false) => version!("cpu"),
    (true, false) => version!("cpu, cuda"),
    (false, true) => version!("cpu, metal"),
    (true, true) => version!("cpu, cuda, metal"),
};

/// Caption videos locally with Video-LLMs, speed it up with speculative decoding, and see how every token was verified.
#[derive(Debug, Parser)]
#[command(name = "specreel", version = VERSION, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  specreel                 open the studio
  specreel caption demo    caption an embedded clip
  specreel compare demo    compare methods on that clip
  specreel inspect demo    show what the drafter sees of it
  specreel methods         list decoding methods
  specreel models          list local models; `pull ID` downloads one
  specreel doctor          check this build, machine and terminal

Embedded clips: demo, demo:2, demo:3, demo:4.

Environment variables:
  SPECREEL_THREADS       number of compute threads [default: all processors]
  SPECREEL_LOG           log level: error, warn, info, debug [default: info]; the log is specreel.log in the state
                         directory that `specreel doctor` prints
  SPECREEL_WEIGHT_CACHE  directory of converted weights, or off [default: weights in the cache directory]
  SPECREEL_GPU           off: do not look for GPUs; plain: no instructions that a driver may lack

Exit codes: 0 success, 1 internal error or disk full, 2 usage error, 3 unusable input, 4 not enough memory,
5 some of several videos failed, 130 interrupted (Ctrl-C), 143 terminated (SIGTERM), 129 hung up (SIGHUP).")]
pub struct Cli {
    /// The subcommand; without one, the studio opens.
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
            Some(Command::Dataset(args)) => args.json(),
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
    /// Caption a video, or many
    Caption(Box<CaptionArgs>),
    /// Compare methods on one clip and prompt
    Compare(CompareArgs),
    /// Show which visual tokens the drafter sees, and their scores
    Inspect(InspectArgs),
    /// Benchmark methods on synthetic clips, or single forward passes
    Bench(Box<BenchArgs>),
    /// Replay a saved session
    Replay(ReplayArgs),
    /// List, show or check decoding methods
    Methods(MethodsArgs),
    /// List, inspect or download models
    Models(ModelsArgs),
    /// Render synthetic clips with known facts, and score captions of them
    Scenes(ScenesArgs),
    /// Merge, check or count the data sets that `caption --dataset` writes
    Dataset(DatasetArgs),
    /// Check this build, machine and terminal
    Doctor(DoctorArgs),
    /// Show configuration files, examples and schemas
    Config(ConfigArgs),
    /// Train a draft head for a target
    Train(Box<TrainArgs>),
    /// Print a shell completion script
    #[command(after_help = "Set it up:
  bash: echo 'source <(specreel completions bash)' >> ~/.bashrc
  zsh:  echo 'source <(specreel completions zsh)' >> ~/.zshrc    (after compinit)
  fish: specreel completions fish > ~/.config/fish/completions/specreel.fish")]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Print man pages (roff)
    Man(ManArgs),
}

/// Arguments of the studio.
#[derive(Debug, Default, Args)]
pub struct StudioArgs {
    /// Video or folder of videos to open; `demo` or `demo:2` is an embedded clip. Without a terminal, the video is captioned as
    /// plain text
    #[arg(add = candidates::videos())]
    pub video: Option<PathBuf>,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Folder of videos for the library (repeatable)
    #[arg(long, value_name = "DIR", help_heading = STUDIO)]
    pub library: Vec<PathBuf>,
    /// Theme: auto (asks the terminal), dark, light, high-contrast, mono, catppuccin, catppuccin-latte, dracula, gruvbox, nord,
    /// solarized-dark, solarized-light, tokyo-night, or your own
    #[arg(long, value_name = "NAME", help_heading = STUDIO, add = candidates::themes())]
    pub theme: Option<String>,
    /// How runs are played: auto (slows a run that would be over before it is seen), off, or a playback speed such as 0.01
    #[arg(long, value_name = "PACE", allow_negative_numbers = true, help_heading = STUDIO)]
    pub pace: Option<Pace>,
    /// Also show the decode speedup that is modelled for other hardware: a built-in profile, or a file
    #[arg(long, value_name = "NAME|FILE", help_heading = STUDIO)]
    pub profile: Option<String>,
    /// Image protocol of the terminal
    #[arg(long, value_name = "NAME", value_parser = choice::<ImageProtocol>(), help_heading = STUDIO)]
    pub image_protocol: Option<ImageProtocol>,
    /// Enable the mouse; hold Shift to select text
    #[arg(long, help_heading = STUDIO)]
    pub mouse: bool,
    /// Characters to draw with
    #[arg(long, value_parser = choice::<Charset>(), help_heading = STUDIO)]
    pub charset: Option<Charset>,
}

impl StudioArgs {
    /// The flags as a layer of settings.
    pub fn layer(&self) -> Layer {
        Layer {
            theme: self.theme.clone(),
            pace: self.pace,
            profile: self.profile.clone(),
            image_protocol: self.image_protocol,
            mouse: self.mouse.then_some(true),
            charset: self.charset,
            library: (!self.library.is_empty()).then(|| self.library.clone()),
            ..self.run.layer()
        }
    }
}

/// Arguments of `caption`.
#[derive(Debug, Args)]
pub struct CaptionArgs {
    /// Videos: files, directories, @LIST (a file with one path a line) or patterns; `demo` or `demo:2` is an embedded clip, `-`
    /// reads a video from stdin
    #[arg(value_name = "VIDEO", required_unless_present = "stdin", add = candidates::videos())]
    pub videos: Vec<PathBuf>,
    /// Many videos.
    #[command(flatten)]
    pub batch: BatchArgs,
    /// Part of the video.
    #[command(flatten)]
    pub part: PartArgs,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Only print what the run would take: frames, visual tokens, memory and time
    #[arg(long, help_heading = OUTPUT, conflicts_with_all = ["save", "steps"])]
    pub dry_run: bool,
    /// Print each step on stderr: what was drafted, accepted and rejected
    #[arg(long, help_heading = OUTPUT, conflicts_with = "json")]
    pub steps: bool,
}

/// How to run a generation; shared by the studio, `caption` and `compare`.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// Prompt; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", help_heading = TEXT)]
    pub prompt: Option<String>,
    /// Decoding method: a name from `specreel methods`, or a TOML file
    #[arg(long, value_name = "NAME|FILE", help_heading = TEXT, add = candidates::methods())]
    pub method: Option<String>,
    /// Override one value of the method, for example acceptance.lambda=0.5, or lambda=0.5 if only one axis of the method has
    /// it (repeatable)
    #[arg(long, value_name = "AXIS.KEY=VALUE", help_heading = TEXT, add = candidates::sets())]
    pub set: Vec<String>,
    /// Target model: a directory in Hugging Face layout, a GGUF file, or the id of a cached model [default: embedded pair]
    #[arg(long, value_name = "DIR|FILE|ID", help_heading = MODELS, add = candidates::models())]
    pub target: Option<PathBuf>,
    /// Vision tower of a target in GGUF [default: the mmproj file beside it]
    #[arg(long, value_name = "FILE", help_heading = MODELS, add = candidates::towers())]
    pub mmproj: Option<PathBuf>,
    /// Drafter model or draft head: a directory, a GGUF file, or the id of a cached model
    #[arg(long, value_name = "DIR|FILE|ID", help_heading = MODELS, add = candidates::models())]
    pub drafter: Option<PathBuf>,
    /// Vision tower of a drafter in GGUF [default: the mmproj file beside it]
    #[arg(long, value_name = "FILE", help_heading = MODELS, add = candidates::towers())]
    pub drafter_mmproj: Option<PathBuf>,
    /// Device: auto (the best one), cpu, gpu, gpu:N, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", value_parser = device, help_heading = MODELS, add = candidates::devices())]
    pub device: Option<DeviceChoice>,
    /// Device of the drafter [default: the target's]
    #[arg(long, value_name = "DEVICE", value_parser = device, help_heading = MODELS, add = candidates::devices())]
    pub drafter_device: Option<DeviceChoice>,
    /// Weight type of the language models: auto (q8_0; bf16 on cuda and metal), f32, bf16, f16, q8_0, q6_k, q5_k, q4_k, q4_0
    #[arg(long, value_name = "TYPE", value_parser = dtype, help_heading = MODELS, add = candidates::dtypes())]
    pub dtype: Option<WeightType>,
    /// Weight type of the vision towers on cpu and gpu: auto (q8_0; f32 with --dtype f32), f32, bf16, f16, q8_0
    #[arg(long, value_name = "TYPE", value_parser = tower_dtype, help_heading = MODELS, add = candidates::tower_dtypes())]
    pub tower_dtype: Option<WeightType>,
    /// Type of keys and values on cpu and gpu: auto (f16; f32 for small models and with --dtype f32), f32, f16, q8_0 (cpu only)
    #[arg(long, value_name = "TYPE", value_parser = kv_type, help_heading = MODELS, add = candidates::kv_types())]
    pub kv_type: Option<KvType>,
    /// Load and run even if the available memory seems too small
    #[arg(long, help_heading = MODELS)]
    pub ignore_memory: bool,
    /// Convert the weights again, and do not keep them for the next start
    #[arg(long, help_heading = MODELS)]
    pub no_weight_cache: bool,
    /// Position encoding: auto (the model's own), mrope (time, row, column), sequential (one axis)
    #[arg(long, value_name = "KIND", value_parser = rope, help_heading = MODELS, add = candidates::ropes())]
    pub rope: Option<Rope>,
    /// Sample this many frames, evenly spaced
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with = "fps")]
    pub frames: Option<u32>,
    /// Sample this many frames per second
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "F", value_parser = fps)]
    pub fps: Option<f64>,
    /// Maximum number of pixels per frame [default: the model's own]
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(784..))]
    pub max_pixels: Option<u32>,
    /// Maximum number of visual tokens: frames become smaller, then fewer [default: no limit]
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_visual_tokens: Option<u32>,
    /// Maximum number of new tokens [default: 256]
    #[arg(long, help_heading = TEXT, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_new_tokens: Option<u32>,
    /// Let the model think before it answers, where it can; what it thinks is no part of the caption
    #[arg(long, help_heading = TEXT)]
    pub thinking: bool,
    /// Sampling temperature, from 0 (greedy) to 100
    #[arg(long, help_heading = TEXT, allow_negative_numbers = true, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    pub temperature: f32,
    /// Nucleus sampling: keep the most likely tokens up to this total probability, above 0, up to 1
    #[arg(long, help_heading = TEXT, allow_negative_numbers = true, value_name = "P", default_value_t = 1.0, value_parser = top_p)]
    pub top_p: f32,
    /// Random seed
    #[arg(long, help_heading = TEXT, allow_negative_numbers = true, value_name = "S", default_value_t = 0, value_parser = whole)]
    pub seed: u64,
}

impl RunArgs {
    /// The flags that the configuration file also knows, as a layer of settings.
    pub fn layer(&self) -> Layer {
        Layer {
            prompt: self.prompt.clone(),
            method: self.method.clone(),
            target: self.target.clone(),
            mmproj: self.mmproj.clone(),
            drafter: self.drafter.clone(),
            drafter_mmproj: self.drafter_mmproj.clone(),
            device: self.device,
            drafter_device: self.drafter_device,
            dtype: self.dtype,
            tower_dtype: self.tower_dtype,
            weight_cache: self.no_weight_cache.then_some(false),
            kv_type: self.kv_type,
            max_new_tokens: self.max_new_tokens,
            max_visual_tokens: self.max_visual_tokens,
            thinking: self.thinking.then_some(true),
            ..Layer::default()
        }
    }
}

/// What is printed and saved.
#[derive(Debug, Default, Args)]
#[command(group(ArgGroup::new("kept").args(["save"]).multiple(true)))]
pub struct OutputArgs {
    /// Print events as JSON lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// When to color tokens by verdict
    #[arg(long, help_heading = OUTPUT, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// Do not print progress, legend or statistics
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Save the events to this session file as they arrive
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub save: Option<PathBuf>,
    /// Overwrite an existing --save file
    #[arg(long, requires = "kept", help_heading = OUTPUT)]
    pub force: bool,
    /// When to measure speedups after the runs, for up to a second each: always, never, or auto (`compare`: always; `caption`:
    /// if stderr is a terminal)
    #[arg(long, help_heading = OUTPUT, value_name = "WHEN", value_enum, default_value_t)]
    pub measure: MeasureChoice,
    /// Report the target's K most likely tokens with each token (--json and --save)
    #[arg(long, help_heading = OUTPUT, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub logprobs: u32,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// If the terminal supports it
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// No color
    Never,
}

/// When to measure speedups after the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MeasureChoice {
    /// Where somebody waits for them
    #[default]
    Auto,
    /// After every run
    Always,
    /// Speedups are rough figures
    Never,
}

impl MeasureChoice {
    /// Whether to measure; `auto` decides in place of [`MeasureChoice::Auto`].
    pub fn measures(self, auto: bool) -> bool {
        match self {
            Self::Auto => auto,
            Self::Always => true,
            Self::Never => false,
        }
    }
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
    fn frames_and_fps_exclude_each_other() {
        assert!(
            Cli::try_parse_from(["specreel", "caption", "a.mp4", "--frames", "4", "--fps", "2"]).is_err()
        );
        assert!(Cli::try_parse_from(["specreel", "caption", "a.mp4", "--force"]).is_err());
        let cli = Cli::try_parse_from(["specreel", "a.mp4", "--method", "fly"]).unwrap();
        assert_eq!(cli.studio.video, Some("a.mp4".into()));
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
