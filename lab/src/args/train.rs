//! Arguments of `specreel-lab train`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

use specreel::cli::args::{
    run::{MODELS, OUTPUT},
    values::{device, dtype, share, tower_dtype, whole},
};
use specreel_model::draft_head::{Recipe, VisualRows};
use specreel_record::Failure;
use specreel_tensor::{DeviceChoice, WeightType};
use specreel_train::{BlockOptions, Clips, Options};

const DATA: &str = "Data";
const RECIPE: &str = "Recipe";
const OPTIMIZATION: &str = "Optimization";

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Draft head to train
    #[arg(value_enum)]
    pub what: What,
    /// Target model: a directory in Hugging Face layout, or the id of a cached model [default: the embedded target]
    #[arg(long, help_heading = MODELS, value_name = "DIR|ID")]
    pub target: Option<PathBuf>,
    /// Device of the target; the draft head is always trained on the CPU
    #[arg(long, help_heading = MODELS, value_name = "DEVICE", value_parser = device)]
    pub device: Option<DeviceChoice>,
    /// Weight type of the target: auto (q8_0), f32, q8_0, q4_k
    #[arg(long, help_heading = MODELS, value_name = "TYPE", value_parser = dtype)]
    pub dtype: Option<WeightType>,
    /// Weight type of its vision tower, as for `caption`
    #[arg(long, help_heading = MODELS, value_name = "TYPE", value_parser = tower_dtype)]
    pub tower_dtype: Option<WeightType>,
    /// Training clips: `scenes:N` (N synthetic clips) or a folder of videos
    #[arg(long, help_heading = DATA, value_name = "scenes:N|FOLDER", default_value = "scenes:4000")]
    pub data: String,
    /// Output directory; an interrupted training run in it is resumed
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub out: PathBuf,
    /// Prompt for the target's captions [default: Describe the video in detail.]
    #[arg(long, help_heading = DATA, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Maximum caption length in tokens [default: 256]
    #[arg(long, help_heading = DATA, value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    pub max_new_tokens: Option<u32>,
    /// Disable the passes on the head's own outputs (MTP)
    #[arg(long, help_heading = RECIPE, conflicts_with = "recursions")]
    pub no_mtp: bool,
    /// Passes on the head's own outputs after the first one [default: 1; msd 0; hivis 2; eagle3 6]
    #[arg(long, help_heading = RECIPE, value_name = "N", value_parser = value_parser!(u32).range(0..=8))]
    pub recursions: Option<u32>,
    /// sparrow: use the visual embeddings instead of the target's states after half of its layers (IVSB)
    #[arg(long, help_heading = RECIPE)]
    pub no_ivsb: bool,
    /// sparrow: never hide the visual rows in the visual stage (VATA)
    #[arg(long, help_heading = RECIPE, conflicts_with = "hidden")]
    pub no_vata: bool,
    /// Share of the clips of the visual stage whose visual rows are hidden [default: 0.5; msd, vispec 0; hivis 1]
    #[arg(long, help_heading = RECIPE, value_name = "SHARE", value_parser = share)]
    pub hidden: Option<f64>,
    /// dflash: rows of a block, the root's and one for each drafted token [default: 16]
    #[arg(long, help_heading = RECIPE, value_name = "N", value_parser = value_parser!(u32).range(2..=64))]
    pub block: Option<u32>,
    /// dflash: layers of the head [default: 5]
    #[arg(long, help_heading = RECIPE, value_name = "N", value_parser = value_parser!(u32).range(1..=64))]
    pub layers: Option<u32>,
    /// dflash: width of its feed-forward layers [default: the target's]
    #[arg(long, help_heading = RECIPE, value_name = "N", value_parser = value_parser!(u32).range(1..=1_048_576))]
    pub feed_forward: Option<u32>,
    /// dflash: number of the target's layers whose states it reads [default: 5]
    #[arg(long, help_heading = RECIPE, value_name = "N", value_parser = value_parser!(u32).range(1..=64))]
    pub taps: Option<u32>,
    /// dflash: most blocks of a caption in a step [default: 32]
    #[arg(long, help_heading = RECIPE, value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    pub anchors: Option<u32>,
    /// dflash: places of a block over which the loss fades to 1/e [default: 7; 4 for blocks of 8]
    #[arg(long, help_heading = RECIPE, value_name = "PLACES", value_parser = positive)]
    pub fade: Option<f64>,
    /// dflash: rows that DFlash 2's convolutions mix; 0 = none [default: 0]
    #[arg(long, help_heading = RECIPE, value_name = "ROWS", value_parser = value_parser!(u32).range(0..=16))]
    pub convolution: Option<u32>,
    /// dflash: width of the codebooks of DFlash 2's selector; 0 = no selector [default: 0]
    #[arg(long, help_heading = RECIPE, value_name = "N", value_parser = value_parser!(u32).range(0..=4096))]
    pub selector: Option<u32>,
    /// Share of the clips for the text stage, which has no visual rows [default: 0.5]
    #[arg(long, help_heading = RECIPE, value_name = "SHARE", value_parser = share)]
    pub text_share: Option<f64>,
    /// Passes over the clips [default: 20]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub epochs: Option<u32>,
    /// Clips per step [default: 16]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    pub batch: Option<u32>,
    /// Captioned clips kept in memory [default: 256]
    #[arg(long, help_heading = DATA, value_name = "N", value_parser = value_parser!(u32).range(1..=65536))]
    pub keep: Option<u32>,
    /// Peak learning rate; eagle3 0.00005, dflash 0.0006 [default: 0.00003]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "R", value_parser = positive)]
    pub learning_rate: Option<f64>,
    /// Warm-up steps until the peak learning rate [default: 200]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "N", value_parser = value_parser!(u32).range(0..=1_000_000))]
    pub warm_up: Option<u32>,
    /// State-loss weight: distance to the target's states [default: 1]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "W", value_parser = weight)]
    pub state_weight: Option<f64>,
    /// Token-loss weight: cross-entropy with the target's distribution [default: 0.1]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "W", value_parser = weight)]
    pub token_weight: Option<f64>,
    /// Amplitude of the noise added to the target's states; eagle3 and dflash 0 [default: 0.2]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "W", value_parser = weight)]
    pub noise: Option<f64>,
    /// Gradient clipping value [default: 0.5]
    #[arg(long, help_heading = OPTIMIZATION, value_name = "G", value_parser = positive)]
    pub clip: Option<f64>,
    /// Time limit in minutes; a training run with a limit is not reproducible
    #[arg(long, help_heading = OPTIMIZATION, value_name = "M", value_parser = positive)]
    pub minutes: Option<f64>,
    /// Seconds between checkpoints
    #[arg(long, help_heading = OUTPUT, value_name = "S", default_value_t = 60.0, value_parser = weight)]
    pub save_every: f64,
    /// Random seed
    #[arg(long, help_heading = OPTIMIZATION, value_name = "S", default_value_t = 0, allow_negative_numbers = true, value_parser = whole)]
    pub seed: u64,
    /// Print progress as JSON lines on stdout (docs/events.md)
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// No progress on stderr
    #[arg(long, help_heading = OUTPUT, short)]
    pub quiet: bool,
}

/// Recipes that can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Sparrow: drafts from the target's states, without visual tokens
    Sparrow,
    /// MSD: drafts from visual embeddings and text
    Msd,
    /// ViSpec: drafts from the video compressed to a row and a vector, and text
    Vispec,
    /// HiViS: drafts from the target's states, learns from text rows alone
    Hivis,
    /// EAGLE-3: drafts from the target's states after three layers, at all rows of the prompt
    Eagle3,
    /// DFlash: drafts a block in one pass, from the target's states after several layers
    Dflash,
}

impl What {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        self.recipe().name()
    }

    pub fn recipe(self) -> Recipe {
        match self {
            What::Sparrow => Recipe::Sparrow,
            What::Msd => Recipe::Msd,
            What::Vispec => Recipe::Vispec,
            What::Hivis => Recipe::Hivis,
            What::Eagle3 => Recipe::Eagle3,
            What::Dflash => Recipe::Dflash,
        }
    }
}

impl TrainArgs {
    pub fn options(&self) -> Result<Options, Failure> {
        let base = Options::of(self.what.recipe());
        if self.what == What::Msd && (self.recursions.is_some_and(|n| n > 0) || self.no_mtp) {
            let flag = if self.no_mtp { "--no-mtp" } else { "--recursions" };
            return Err(Failure::usage(
                format!("{flag} cannot be used with msd, which has no passes on its own outputs"),
                format!("leave out {flag}, or train sparrow"),
            ));
        }
        if self.what == What::Hivis && (self.no_vata || self.hidden.is_some_and(|share| share < 1.0)) {
            let flag = if self.no_vata { "--no-vata" } else { "--hidden" };
            return Err(Failure::usage(
                format!("{flag} cannot be used with hivis, which never sees visual rows"),
                format!("leave out {flag}, or train sparrow"),
            ));
        }
        let count = |given: Option<u32>, default: usize| given.map_or(default, |n| n as usize);
        let blocks = self.blocks()?;
        let options = Options {
            visual_rows: if self.no_ivsb { VisualRows::Embeddings } else { base.visual_rows },
            hidden: if self.no_vata { 0.0 } else { self.hidden.unwrap_or(base.hidden) },
            recursions: if self.no_mtp { 0 } else { count(self.recursions, base.recursions) },
            text_share: self.text_share.unwrap_or(base.text_share),
            prompt: self.prompt.clone().unwrap_or(base.prompt),
            max_new_tokens: count(self.max_new_tokens, base.max_new_tokens),
            epochs: count(self.epochs, base.epochs),
            batch: count(self.batch, base.batch),
            keep: count(self.keep, base.keep),
            learning_rate: self.learning_rate.unwrap_or(base.learning_rate),
            warm_up: count(self.warm_up, base.warm_up),
            state_weight: self.state_weight.unwrap_or(base.state_weight),
            token_weight: self.token_weight.unwrap_or(base.token_weight),
            noise: self.noise.unwrap_or(base.noise),
            clip: self.clip.unwrap_or(base.clip),
            blocks,
            minutes: self.minutes,
            seed: self.seed,
            ..base
        };
        if options.state_weight == 0.0 && options.token_weight == 0.0 {
            return Err(Failure::usage(
                "--state-weight 0 with --token-weight 0 leaves no training loss",
                "leave out one of them",
            ));
        }
        Ok(options)
    }

    /// The sizes of a DFlash head; `None` for other heads. Fails if a flag belongs to the others.
    fn blocks(&self) -> Result<Option<BlockOptions>, Failure> {
        let is_dflash = self.what == What::Dflash;
        let its = [
            ("--block", self.block.is_some()),
            ("--layers", self.layers.is_some()),
            ("--feed-forward", self.feed_forward.is_some()),
            ("--taps", self.taps.is_some()),
            ("--anchors", self.anchors.is_some()),
            ("--fade", self.fade.is_some()),
            ("--convolution", self.convolution.is_some()),
            ("--selector", self.selector.is_some()),
        ];
        let passes = [("--no-mtp", self.no_mtp), ("--recursions", self.recursions.is_some())];
        let others = [
            ("--no-ivsb", self.no_ivsb),
            ("--no-vata", self.no_vata),
            ("--hidden", self.hidden.is_some()),
            ("--text-share", self.text_share.is_some()),
            ("--state-weight", self.state_weight.is_some()),
            ("--token-weight", self.token_weight.is_some()),
            ("--noise", self.noise.is_some()),
        ];
        let (wrong, why, instead) = match self.what {
            What::Dflash => {
                ([&passes[..], &others].concat(), "which has one pass, one stage and one loss", "sparrow")
            }
            What::Eagle3 if others.iter().any(|(_, given)| *given) => {
                (others.to_vec(), "which has one stage and one loss", "sparrow")
            }
            _ => (its.to_vec(), "which drafts no blocks", "dflash"),
        };
        if let Some((flag, _)) = wrong.iter().find(|(_, given)| *given) {
            let name = self.what.name();
            return Err(Failure::usage(
                format!("{flag} cannot be used with {name}, {why}"),
                format!("leave out {flag}, or train {instead}"),
            ));
        }
        if !is_dflash {
            return Ok(None);
        }
        let count = |given: Option<u32>, default: usize| given.map_or(default, |n| n as usize);
        let usual = BlockOptions::of(count(self.block, BlockOptions::default().size));
        Ok(Some(BlockOptions {
            layers: count(self.layers, usual.layers),
            feed_forward: self.feed_forward.map(|width| width as usize),
            taps: count(self.taps, usual.taps),
            anchors: count(self.anchors, usual.anchors),
            fade: self.fade.unwrap_or(usual.fade),
            convolution: count(self.convolution, usual.convolution),
            selector: count(self.selector, usual.selector),
            ..usual
        }))
    }

    pub fn clips(&self) -> Result<Clips, Failure> {
        let Some(number) = self.data.strip_prefix("scenes:") else {
            return Ok(Clips::folder(self.data.as_ref(), self.seed)?);
        };
        let count = number.parse().ok().filter(|n| (1..=100_000_000).contains(n));
        count.map(|count| Clips::Scenes { count }).ok_or_else(|| {
            Failure::usage(
                format!("invalid number of scenes in --data {}", self.data),
                "expected scenes:N, such as --data scenes:2000",
            )
        })
    }
}

fn weight(text: &str) -> Result<f64, String> {
    let good = |w: &f64| w.is_finite() && *w >= 0.0;
    text.parse().ok().filter(good).ok_or_else(|| "expected a number, at least 0".into())
}

fn positive(text: &str) -> Result<f64, String> {
    weight(text).ok().filter(|w| *w > 0.0).ok_or_else(|| "expected a number above 0".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: TrainArgs,
    }

    fn args(line: &str) -> TrainArgs {
        TestCli::try_parse_from(std::iter::once("train").chain(line.split(' '))).unwrap().args
    }

    #[test]
    fn each_flag_disables_one_thing() {
        let of = |line: &str| args(line).options().unwrap();
        let whole = of("sparrow --out o");
        assert_eq!(whole, Options::of(Recipe::Sparrow));
        assert_eq!(of("sparrow --out o --no-mtp"), Options { recursions: 0, ..whole.clone() });
        assert_eq!(of("sparrow --out o --no-vata"), Options { hidden: 0.0, ..whole.clone() });
        let without = Options { visual_rows: VisualRows::Embeddings, ..whole };
        assert_eq!(of("sparrow --out o --no-ivsb"), without);
        assert_eq!(of("msd --out o").recipe, Recipe::Msd);
        let eagle3 = of("eagle3 --out o");
        assert_eq!(eagle3, Options::of(Recipe::Eagle3));
        assert_eq!(of("eagle3 --out o --recursions 3"), Options { recursions: 3, ..eagle3 });
        let dflash = of("dflash --out o");
        assert_eq!(dflash, Options::of(Recipe::Dflash));
        let small = of("dflash --out o --block 8 --layers 2 --feed-forward 64 --taps 3 --anchors 9");
        let sizes =
            BlockOptions { layers: 2, feed_forward: Some(64), taps: 3, anchors: 9, ..BlockOptions::of(8) };
        assert_eq!(small, Options { blocks: Some(sizes), ..dflash });
        for (line, words) in [
            ("dflash --out o --no-mtp", "--no-mtp cannot be used with dflash"),
            ("dflash --out o --text-share 0.5", "--text-share cannot be used with dflash"),
            (
                "eagle3 --out o --noise 0.1",
                "--noise cannot be used with eagle3, which has one stage and one loss",
            ),
            ("eagle3 --out o --block 8", "--block cannot be used with eagle3, which drafts no blocks"),
            ("sparrow --out o --block 8", "--block cannot be used with sparrow, which drafts no blocks"),
        ] {
            let failure = args(line).options().unwrap_err();
            assert!(failure.error.starts_with(words), "{}", failure.error);
        }
    }

    #[test]
    fn the_help_states_the_defaults() {
        let help = <TestCli as clap::CommandFactory>::command().render_help().to_string();
        let recipes = [Recipe::Sparrow, Recipe::Msd, Recipe::Hivis, Recipe::Eagle3, Recipe::Dflash];
        let [base, msd, hivis, eagle3, dflash] = recipes.map(Options::of);
        assert_eq!(msd.hidden, Options::of(Recipe::Vispec).hidden);
        for (flag, value) in [
            ("--max-new-tokens", base.max_new_tokens.to_string()),
            ("--prompt", base.prompt),
            (
                "--recursions",
                format!(
                    "{}; msd {}; hivis {}; eagle3 {}",
                    base.recursions, msd.recursions, hivis.recursions, eagle3.recursions
                ),
            ),
            ("--hidden", format!("{}; msd, vispec {}; hivis {}", base.hidden, msd.hidden, hivis.hidden)),
            ("--text-share", base.text_share.to_string()),
            ("--epochs", base.epochs.to_string()),
            ("--batch", base.batch.to_string()),
            ("--keep", base.keep.to_string()),
            ("--learning-rate", base.learning_rate.to_string()),
            ("--warm-up", base.warm_up.to_string()),
            ("--state-weight", base.state_weight.to_string()),
            ("--token-weight", base.token_weight.to_string()),
            ("--noise", base.noise.to_string()),
            ("--clip", base.clip.to_string()),
            ("--block", BlockOptions::default().size.to_string()),
            ("--layers", BlockOptions::default().layers.to_string()),
            ("--taps", BlockOptions::default().taps.to_string()),
            ("--anchors", BlockOptions::default().anchors.to_string()),
            ("--convolution", BlockOptions::default().convolution.to_string()),
            ("--selector", BlockOptions::default().selector.to_string()),
            (
                "--fade",
                format!("{}; {} for blocks of 8", BlockOptions::default().fade, BlockOptions::of(8).fade),
            ),
        ] {
            let after = help.split_once(&format!("{flag} <")).unwrap().1;
            // To the next flag.
            let text: String =
                after.split("\n      --").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&format!("[default: {value}]")), "{flag} {value}: {text}");
        }
        for (flag, words) in [
            ("--learning-rate", format!("eagle3 {}, dflash {}", eagle3.learning_rate, dflash.learning_rate)),
            ("--noise", format!("eagle3 and dflash {}", dflash.noise)),
        ] {
            assert_eq!(eagle3.noise, dflash.noise);
            assert!(help.split_once(&format!("{flag} <")).unwrap().1.contains(&words), "{flag}: {words}");
        }
    }
}
