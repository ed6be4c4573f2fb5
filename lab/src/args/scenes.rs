//! Arguments of `specreel-lab scenes`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use specreel::cli::args::values::{share, whole};
use specreel_scenes::stream;

#[derive(Debug, Args)]
#[command(arg_required_else_help = false)]
pub struct ScenesArgs {
    #[command(subcommand)]
    pub command: ScenesCommand,
}

#[derive(Debug, Subcommand)]
pub enum ScenesCommand {
    /// Render a scene to an mp4 file and print its facts as JSON
    Render {
        /// Seed of the scene
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
        seed: u64,
        /// Output file
        out: PathBuf,
        /// Width and height in pixels, even numbers from 16 to 4096
        #[arg(long, value_name = "WxH", default_value = "320x320", value_parser = size)]
        size: (u32, u32),
        /// Length in seconds: longer than the scene, its motions repeat [default: 4 to 8, by seed]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: Option<u32>,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
    /// Score how many facts of a scene a text states
    Score {
        /// Text file; `-` reads stdin
        file: PathBuf,
        /// Seed of the scene
        #[arg(long, value_name = "N", conflicts_with = "facts", allow_negative_numbers = true, value_parser = whole)]
        seed: Option<u64>,
        /// Facts of the scene as JSON, as printed by `scenes render`
        #[arg(long, value_name = "FILE")]
        facts: Option<PathBuf>,
        /// Read JSON lines {"seed": N, "text": "…"} from the file and print a JSON score for each
        #[arg(long, conflicts_with_all = ["seed", "facts"])]
        lines: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write an endless stream of training samples to stdout (format: module docs of specreel_scenes::stream)
    Stream(StreamArgs),
}

#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Seed of the first scene; seeds count up from it
    #[arg(long, value_name = "N", default_value_t = stream::Options::default().first_seed, allow_negative_numbers = true, value_parser = whole)]
    pub seed: u64,
    /// Number of samples [default: until the reader closes the pipe]
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Frames, height and width with a weight, such as 8x112x112:3 (repeatable)
    #[arg(long, value_name = "FxHxW[:WEIGHT]", value_parser = format)]
    pub format: Vec<(stream::Format, f64)>,
    /// Number of consecutive samples with the same format
    #[arg(long, value_name = "N", default_value_t = stream::Options::default().group, value_parser = clap::value_parser!(u64).range(1..))]
    pub group: u64,
    /// Share of short captions
    #[arg(long, value_name = "SHARE", default_value_t = stream::Options::default().short, value_parser = share)]
    pub short: f64,
    /// Share of questions
    #[arg(long, value_name = "SHARE", default_value_t = stream::Options::default().question, value_parser = share)]
    pub question: f64,
    /// Leave out scenes with more shots
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub shots: Option<u64>,
    /// Leave out scenes with more figures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub figures: Option<u64>,
    /// Captions of the second world, in the style of this author; clips are then as long as their frames are at 2 a second, and
    /// there are no questions
    #[arg(long, value_name = "N", conflicts_with = "question", allow_negative_numbers = true, value_parser = whole)]
    pub author: Option<u64>,
    /// Do not degrade the rendered pixels
    #[arg(long)]
    pub clean: bool,
}

impl ScenesArgs {
    pub fn json(&self) -> bool {
        matches!(
            self.command,
            ScenesCommand::Score { json: true, .. } | ScenesCommand::Score { lines: true, .. }
        )
    }
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |s: &str| s.parse().ok().filter(|n| (16..=4096).contains(n) && n % 2 == 0);
    text.split_once('x')
        .and_then(|(w, h)| Some((side(w)?, side(h)?)))
        .ok_or_else(|| "expected WIDTHxHEIGHT, even numbers from 16 to 4096, such as 320x240".into())
}

fn format(text: &str) -> Result<(stream::Format, f64), String> {
    let (format, weight) = text.split_once(':').unwrap_or((text, "1"));
    let weight =
        weight.parse().ok().filter(|w: &f64| w.is_finite() && *w > 0.0).ok_or("expected a weight above 0")?;
    Ok((format.parse()?, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_shares_and_formats() {
        assert_eq!(size("320x240"), Ok((320, 240)));
        for bad in ["320", "320x", "321x240", "0x0", "8192x16", "axb"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert!(share("nan").is_err() && share("1.1").is_err());
        assert_eq!(format("8x112x112:3").map(|f| f.1), Ok(3.0));
        assert!(format("8x112x112:0").is_err() && format("8x112").is_err());
    }
}
