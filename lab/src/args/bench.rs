//! Arguments of `specreel-lab bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

use specreel::cli::args::{
    run::{OUTPUT, RunArgs},
    values::{dtype, kv_type, tower_dtype, whole},
};
use specreel_model::shapes;
use specreel_record::Failure;
use specreel_tensor::{KvType, WeightType};

const SUITE: &str = "Suite";
const SCENES: &str = "Suite `scenes`";
const PAPER: &str = "Papers' tables";
const STEP: &str = "Suite `step`";
const CLIP: &str = "Suite `clip`";
const QUALITY: &str = "Suite `quality`";

#[derive(Debug, Default, Args)]
#[command(mut_arg("method", |arg| arg.help("scenes: measure one method; an alternative to --methods")))]
#[command(mut_arg("set", |arg| arg.help("scenes: override one value of every method that has it, for example shape.length=3 (repeatable)")))]
pub struct BenchArgs {
    /// Benchmark suite
    #[arg(long, value_name = "SUITE", help_heading = SUITE, value_enum, default_value_t)]
    pub suite: Suite,
    #[command(flatten)]
    pub run: RunArgs,
    /// Comma-separated methods, by name or file; `all` is all built-in methods [default: all]
    #[arg(long, value_name = "A,B,…", help_heading = SCENES, conflicts_with = "method")]
    pub methods: Option<String>,
    /// Measure on these videos instead of synthetic clips: files or directories (repeatable). Their facts are not known,
    /// so the columns of facts are left out
    #[arg(long, help_heading = SCENES, value_name = "PATH", conflicts_with_all = ["first_seed", "svg", "seconds"])]
    pub videos: Vec<PathBuf>,
    /// Number of clips [default: 20; all of --videos]
    #[arg(long, help_heading = SCENES, allow_negative_numbers = true, value_name = "N", value_parser = value_parser!(u32).range(1..=100_000))]
    pub clips: Option<u32>,
    /// Seed of the first clip; the others follow [default: 1000]
    #[arg(long, help_heading = SCENES, allow_negative_numbers = true, value_name = "S", value_parser = whole)]
    pub first_seed: Option<u64>,
    /// Run one method with each of these values; repeated, with every combination
    #[arg(long, help_heading = SCENES, value_name = "AXIS.KEY=V,V,…")]
    pub sweep: Vec<String>,
    /// Also model the decode speedup on other hardware: a built-in profile, or a file
    #[arg(long, help_heading = SCENES, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// scenes: write a chart of facts kept against speedup (SVG)
    #[arg(long, help_heading = OUTPUT, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Measure the tables of a paper: lvspec, specvlm, parallelvlm, std, sparrow, or all
    #[arg(long, value_name = "NAME", help_heading = PAPER)]
    pub paper: Option<String>,
    /// Only this table; F6 is figure 6 [default: all tables of the paper]
    #[arg(long, value_name = "N", help_heading = PAPER, requires = "paper")]
    pub table: Option<String>,
    /// Measure nothing; read a file that an earlier run wrote with --out (repeatable)
    #[arg(long, value_name = "FILE", help_heading = PAPER, requires = "paper")]
    pub from: Vec<PathBuf>,
    /// With --from: take the rows that its runs lack from this file of the same target and clips with another drafter (repeatable)
    #[arg(long, value_name = "FILE", help_heading = PAPER, requires = "from")]
    pub also: Vec<PathBuf>,
    /// Measure nothing; give the papers' speedups as the cost model has them at the papers' own acceptance
    #[arg(long, help_heading = PAPER, requires = "paper", conflicts_with_all = ["from", "pages", "clips", "first_seed"])]
    pub at_paper_acceptance: bool,
    /// Also write pages into this directory: the papers' claims, every table of each paper, and all figures (CSV)
    #[arg(long, value_name = "DIR", help_heading = PAPER, requires = "paper")]
    pub pages: Option<PathBuf>,
    /// Suites step and device: context lengths in tokens [default: 100,300,1000; device: 1000,8000,25000]
    #[arg(long, help_heading = SUITE, value_name = "N,N,…", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub slots: Vec<u32>,
    /// Suites step and device: rows per pass [default: 1,2,3,4,6,8,11,16,26,32; device: 1,6,26,512]
    #[arg(long, help_heading = SUITE, value_name = "N,N,…", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=1024))]
    pub rows: Vec<u32>,
    /// Suites step, clip and device: random weights with the shapes of a known model instead of the target: qwen3.5-0.8b, -2b, -4b, -9b,
    /// -27b, -35b-a3b, minicpm-v-4.6, qwen3-vl-2b, -4b, -8b, -30b-a3b, -32b, smolvlm2-256m, -500m, -2.2b, qwen2.5-vl-3b, -7b, -32b,
    /// -72b, qwen2-vl-2b, -7b, -72b, llava-onevision-0.5b, -7b, -72b, gemma-4-e2b, -e4b, tiny
    #[arg(long, help_heading = SUITE, value_name = "NAME", value_parser = shape, conflicts_with = "target")]
    pub shape: Option<String>,
    /// The same instead of the drafter
    #[arg(long, help_heading = STEP, value_name = "NAME", value_parser = shape, conflicts_with = "drafter", requires = "shape")]
    pub drafter_shape: Option<String>,
    /// Relate each pass to the most that this processor reads and multiplies, and say what bounds it (CPU only)
    #[arg(long, help_heading = STEP)]
    pub explain: bool,
    /// Length of the clips in seconds [default: 10; scenes and papers: 4 to 8, by seed]. Where a scene is shorter, its motions repeat
    #[arg(long, help_heading = CLIP, value_name = "N", value_parser = value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// Size of its frames in pixels, before they are resized [default: 1280x720]
    #[arg(long, help_heading = CLIP, value_name = "WIDTHxHEIGHT", value_parser = size)]
    pub size: Option<(usize, usize)>,
    /// Weight types of the language model to compare with f32; if any type or file is named, only those are measured [default:
    /// all]
    #[arg(long, help_heading = QUALITY, value_name = "TYPE,…", value_delimiter = ',', value_parser = dtype)]
    pub dtypes: Vec<WeightType>,
    /// Types of the KV cache [default: all]
    #[arg(long, help_heading = QUALITY, value_name = "TYPE,…", value_delimiter = ',', value_parser = kv_type)]
    pub kv_types: Vec<KvType>,
    /// Weight types of the vision tower [default: all]
    #[arg(long, help_heading = QUALITY, value_name = "TYPE,…", value_delimiter = ',', value_parser = tower_dtype)]
    pub tower_dtypes: Vec<WeightType>,
    /// Also compare this GGUF file of the target (repeatable)
    #[arg(long, help_heading = QUALITY, value_name = "FILE")]
    pub gguf: Vec<PathBuf>,
    /// Predict this text instead of the built-in one
    #[arg(long, help_heading = QUALITY, value_name = "FILE")]
    pub text: Option<PathBuf>,
    /// Tokens to predict of the text, and of the model's own answers [default: 2000]
    #[arg(long, help_heading = QUALITY, allow_negative_numbers = true, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub tokens: Option<u32>,
    /// Print JSON lines instead of tables
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Also write the JSON lines to this file
    #[arg(long, help_heading = OUTPUT, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Overwrite existing --out, --svg and --pages files
    #[arg(long, help_heading = OUTPUT)]
    pub force: bool,
}

/// Benchmark suites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Methods on clips with known facts: speed and accuracy
    #[default]
    Scenes,
    /// Single forward passes, by number of rows
    Step,
    /// The kernels of a GPU, compared with the most that it reads and multiplies
    Device,
    /// A whole clip with random weights (--shape): vision tower, prompt, first token, further tokens
    Clip,
    /// Weight types and types of the KV cache: distance of the predictions from f32
    Quality,
}

impl BenchArgs {
    /// Refuse options of the other suite. Fails if the first such option (class usage).
    pub fn check(&self) -> Result<(), Failure> {
        let run = &self.run;
        if self.paper.is_some() && self.suite == Suite::Scenes {
            check_paper(self)?;
        }
        let step = [
            ("--slots", !self.slots.is_empty(), "step"),
            ("--rows", !self.rows.is_empty(), "step"),
            ("--drafter-shape", self.drafter_shape.is_some(), "step"),
            ("--explain", self.explain, "step"),
        ];
        let seconds = [("--seconds", self.seconds.is_some(), "clip")];
        let clip = [("--size", self.size.is_some(), "clip")];
        let scenes = [
            ("--methods", self.methods.is_some()),
            ("--method", run.method.is_some()),
            ("--set", !run.set.is_empty()),
            ("--sweep", !self.sweep.is_empty()),
            ("--videos", !self.videos.is_empty()),
            ("--clips", self.clips.is_some()),
            ("--first-seed", self.first_seed.is_some()),
            ("--profile", self.profile.is_some()),
            ("--svg", self.svg.is_some()),
            ("--paper", self.paper.is_some()),
            ("--prompt", run.prompt.is_some()),
            ("--preset", run.preset.is_some()),
            ("--system", run.system.is_some()),
            ("--max-words", run.max_words.is_some()),
            ("--rope", run.rope.is_some()),
            ("--thinking", run.thinking),
            ("--reasoning-effort", run.reasoning_effort.is_some()),
            ("--temperature", run.sampling.temperature.is_some_and(|t| t > 0.0)),
            ("--top-p", run.sampling.top_p.is_some_and(|p| p < 1.0)),
            ("--seed", run.sampling.seed.is_some_and(|seed| seed > 0)),
        ]
        .map(|(flag, given)| (flag, given, "scenes"));
        let sampling = [
            ("--frames", run.frames.is_some()),
            ("--fps", run.fps.is_some()),
            ("--max-pixels", run.max_pixels.is_some()),
            ("--max-visual-tokens", run.max_visual_tokens.is_some()),
            ("--max-new-tokens", run.max_new_tokens.is_some()),
        ]
        .map(|(flag, given)| (flag, given, "scenes"));
        let quality = [
            ("--dtypes", !self.dtypes.is_empty()),
            ("--kv-types", !self.kv_types.is_empty()),
            ("--tower-dtypes", !self.tower_dtypes.is_empty()),
            ("--gguf", !self.gguf.is_empty()),
            ("--text", self.text.is_some()),
            ("--tokens", self.tokens.is_some()),
        ]
        .map(|(flag, given)| (flag, given, "quality"));
        let shape = [("--shape", self.shape.is_some(), "step")];
        let models = [
            ("--target", run.target.is_some(), "step"),
            ("--drafter", run.drafter.is_some(), "step"),
            ("--dtype", run.dtype.is_some(), "step"),
            ("--kv-type", run.kv_type.is_some(), "step"),
            ("--tower-dtype", run.tower_dtype.is_some(), "scenes"),
        ];
        let (suite, strangers) = match self.suite {
            Suite::Scenes => ("scenes", [&step[..], &clip, &quality, &shape].concat()),
            Suite::Step => ("step", [&scenes[..], &sampling, &seconds, &clip, &quality].concat()),
            Suite::Device => {
                let drafter = &step[2..];
                ("device", [&scenes[..], &sampling, drafter, &seconds, &clip, &quality, &models].concat())
            }
            Suite::Clip => ("clip", [&scenes[..], &step, &quality].concat()),
            Suite::Quality => {
                // The reference is in f32, and the suite's own options name the types that are compared with it.
                let types = &models[1..];
                ("quality", [&scenes[..], &sampling, &step, &seconds, &clip, &shape, types].concat())
            }
        };
        match strangers.into_iter().find(|(_, given, _)| *given) {
            None => Ok(()),
            Some((flag, _, other)) => Err(Failure::usage(
                format!("{flag} cannot be used with --suite {suite}"),
                format!("remove it, or use --suite {other}"),
            )),
        }
    }
}

/// Refuse options that a run of papers' tables does not use. Fails with the first one (class usage).
fn check_paper(args: &BenchArgs) -> Result<(), Failure> {
    let run = &args.run;
    let refused = [
        ("--methods", args.methods.is_some()),
        ("--method", run.method.is_some()),
        ("--set", !run.set.is_empty()),
        ("--sweep", !args.sweep.is_empty()),
        ("--videos", !args.videos.is_empty()),
        ("--svg", args.svg.is_some()),
        ("--profile", args.profile.is_some()),
        ("--frames", run.frames.is_some()),
        ("--fps", run.fps.is_some()),
        ("--temperature", run.sampling.temperature.is_some_and(|t| t > 0.0)),
    ];
    let measuring = [("--clips", args.clips.is_some()), ("--first-seed", args.first_seed.is_some())];
    if let Some((flag, _)) = refused.into_iter().find(|(_, given)| *given) {
        return Err(Failure::usage(
            format!("{flag} cannot be used with --paper"),
            "the paper's tables determine the runs",
        ));
    }
    match measuring.into_iter().find(|(_, given)| *given && !args.from.is_empty()) {
        Some((flag, _)) => Err(Failure::usage(
            format!("{flag} cannot be used with --from"),
            "the file determines the measurement",
        )),
        None => Ok(()),
    }
}

fn size(text: &str) -> Result<(usize, usize), String> {
    let sides = text.split_once(['x', 'X']).and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let plausible = |side: usize| (1..=1 << 14).contains(&side);
    sides
        .filter(|(width, height)| plausible(*width) && plausible(*height))
        .ok_or_else(|| "expected WIDTHxHEIGHT in pixels, for example 1280x720".into())
}

fn shape(text: &str) -> Result<String, String> {
    let text = text.to_lowercase();
    match shapes::find(&text) {
        Some(_) => Ok(text),
        None => Err(format!("expected one of: {}", shapes::names().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_two_numbers() {
        assert_eq!(size("640x360"), Ok((640, 360)));
        for bad in ["640", "640x", "x360", "0x9", "640x360x1", "99999x9"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    /// By their names, or their sizes after a name before.
    #[test]
    fn the_help_names_all_shapes() {
        let command = <BenchArgs as clap::Args>::augment_args(clap::Command::new("bench"));
        let of = command.get_arguments().find(|argument| argument.get_id() == "shape");
        let help = of.and_then(clap::Arg::get_help).unwrap().to_string();
        let words: Vec<&str> = help.split([' ', ',']).collect();
        for name in shapes::names() {
            let size = |(at, _)| words.contains(&&name[at..]);
            assert!(words.contains(&name) || name.match_indices('-').any(size), "{name}: {help}");
        }
    }
}
