//! Arguments of `specreel replay`.

use std::path::PathBuf;

use clap::Args;

use super::part::{CuesArgs, Format};
use super::run::{ColorChoice, OUTPUT};
use specreel_record::Pace;

const PLAYBACK: &str = "Playback";

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// File of a saved run, as written by the studio, --save or --json; `-` reads stdin
    pub file: PathBuf,
    /// Playback speed: 2 is twice as fast, 0 prints everything at once [default: 1; with --json 0]
    #[arg(long, help_heading = PLAYBACK, allow_negative_numbers = true, value_name = "N", value_parser = speed)]
    pub speed: Option<f64>,
    /// As in the studio: auto slows steps that would be over before they are seen, off prints everything at once, a number is
    /// a playback speed
    #[arg(long, allow_negative_numbers = true, value_name = "PACE", conflicts_with = "speed")]
    pub pace: Option<Pace>,
    /// Play only this run of a file with several runs
    #[arg(long, help_heading = PLAYBACK, value_name = "N")]
    pub run: Option<u64>,
    /// Output format; those with times need runs made with --segments, --start or --end
    #[arg(long, help_heading = OUTPUT, value_name = "FORMAT", value_enum, default_value_t, conflicts_with = "json")]
    pub format: Format,
    #[command(flatten)]
    pub cues: CuesArgs,
    /// Print the events as JSON, one object per line
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Print each step on stderr: drafted, accepted and rejected tokens
    #[arg(long, conflicts_with = "json")]
    pub steps: bool,
    /// Color tokens by verdict
    #[arg(long, help_heading = OUTPUT, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// Print no progress, legend or statistics on stderr
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|s| (0.0..=1e6).contains(s));
    speed.ok_or_else(|| "expected a number from 0 to 1000000".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        assert_eq!((speed("0"), speed("2.5")), (Ok(0.0), Ok(2.5)));
        for bad in ["-1", "nan", "inf", "fast", ""] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }
}
