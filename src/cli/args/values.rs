//! Parsers of argument values.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use specreel_batch::{Existing, Kind, Sidecar};
use specreel_client::{Charset, ImageProtocol};
use specreel_model::family::Rope;
use specreel_record::Cues;
use specreel_record::OnLoop;
use specreel_tensor::{KvType, WeightType};

pub use specreel_client::parse_device as device;

pub fn dtype(text: &str) -> Result<WeightType, String> {
    text.parse()
}

pub use specreel_client::parse_tower_dtype as tower_dtype;
pub fn kv_type(text: &str) -> Result<KvType, String> {
    text.parse()
}

pub fn rope(text: &str) -> Result<Rope, String> {
    Ok(match text.to_lowercase().as_str() {
        "auto" => Rope::Auto,
        "mrope" => Rope::Mrope,
        "sequential" => Rope::Sequential,
        _ => return Err("expected one of: auto, mrope, sequential".into()),
    })
}

fn ranged<T: FromStr>(text: &str, fits: impl Fn(&T) -> bool, range: &str) -> Result<T, String> {
    text.parse().ok().filter(fits).ok_or_else(|| format!("expected {range}"))
}

pub fn whole(text: &str) -> Result<u64, String> {
    ranged(text, |_| true, "a whole number from 0")
}

/// Any number; the control says which fit.
pub fn number(text: &str) -> Result<f32, String> {
    ranged(text, |value: &f32| !value.is_nan(), "a number")
}

/// `ID=BIAS`
pub fn bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text.split_once('=').and_then(|(id, bias)| Some((id.parse().ok()?, number(bias).ok()?)));
    parsed.ok_or_else(|| "expected the id of a token and a number, for example 1234=-5".to_owned())
}

pub fn temperature(text: &str) -> Result<f32, String> {
    ranged(text, |t| (0.0..=100.0).contains(t), "a number from 0 to 100")
}

pub fn top_p(text: &str) -> Result<f32, String> {
    ranged(text, |p| *p > 0.0 && *p <= 1.0, "a number above 0, up to 1")
}

pub fn seconds(text: &str) -> Result<f64, String> {
    ranged(text, |s| (0.0..=86_400.0).contains(s), "seconds from 0 to 86400")
}

/// A text that is not empty.
pub fn some_text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected a text that is not empty".into()) } else { Ok(text.to_owned()) }
}

pub fn share(text: &str) -> Result<f64, String> {
    ranged(text, |s| (0.0..=1.0).contains(s), "a number from 0 to 1")
}

pub fn fps(text: &str) -> Result<f64, String> {
    ranged(text, |f| *f > 0.0 && *f <= 1000.0, "a number above 0, up to 1000")
}

/// An enum of another crate whose values are chosen by name: each with its name and its help.
pub trait Choice: Clone + Send + Sync + 'static {
    /// All values, in the order of the help.
    const VALUES: &'static [(Self, &'static str, &'static str)];
}

/// Parses the names of a [`Choice`].
pub fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    let names = T::VALUES.iter().map(|(_, name, help)| PossibleValue::new(name).help(*help));
    PossibleValuesParser::new(names).try_map(|text| {
        let named = T::VALUES.iter().find(|(_, name, _)| *name == text);
        named.map(|(value, ..)| value.clone()).ok_or("unknown")
    })
}

impl Choice for OnLoop {
    const VALUES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Stop, "stop", "it ends after the first of the repeated passages"),
        (Self::Retry, "retry", "it is written again, up to twice, with another seed and a DRY penalty"),
        (Self::Keep, "keep", "it continues up to its token limit"),
    ];
}

impl Choice for ImageProtocol {
    const VALUES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Auto, "auto", "the best one that the terminal is known to support"),
        (Self::Kitty, "kitty", "kitty, Ghostty"),
        (Self::Iterm2, "iterm2", "iTerm2, WezTerm, and others with its protocol"),
        (Self::Sixel, "sixel", "sixels"),
        (Self::Halfblocks, "halfblocks", "two pixels in each character"),
        (Self::None, "none", "no pictures"),
    ];
}

impl Choice for Charset {
    const VALUES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Auto, "auto", "as the locale allows; all without one"),
        (Self::Utf8, "utf-8", "all"),
        (Self::Ascii, "ascii", "ASCII only"),
    ];
}

impl Choice for Cues {
    const VALUES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Clip, "clip", "one over the whole clip or segment; more where it is longer than two lines"),
        (Self::Sentences, "sentences", "one for each sentence, at equal parts of the time"),
    ];
}

impl Choice for Sidecar {
    const VALUES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Txt, "txt", "The caption"),
        (Self::Srt, "srt", "SubRip subtitles"),
        (Self::Vtt, "vtt", "WebVTT subtitles"),
        (Self::Chapters, "chapters", "Chapters as FFmpeg's metadata file"),
        (Self::Youtube, "youtube", "Chapters as lines of a description on YouTube"),
        (Self::Json, "json", "Captions with prompt, method and statistics"),
    ];
}

impl Choice for Kind {
    const VALUES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Jsonl, "jsonl", "JSON lines: video, caption, prompt, and how it was made"),
        (Self::Csv, "csv", "Comma-separated values: video, caption, prompt, cut"),
        (Self::Musubi, "musubi", "JSON lines for musubi-tuner: video_path, caption"),
        (Self::Ltx, "ltx", "JSON lines for the LTX trainers: caption, media_path"),
        (Self::Hf, "hf", "JSON lines for Hugging Face datasets: file_name, caption, prompt"),
    ];
}

impl Choice for Existing {
    const VALUES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Skip, "skip", "Leave them alone"),
        (Self::Overwrite, "overwrite", "Caption them again"),
        (Self::Append, "append", "Add the new caption after the existing one (txt)"),
        (Self::Prepend, "prepend", "Add the new caption before the existing one (txt)"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked() {
        assert_eq!(dtype("Q4_K"), Ok(WeightType::Q4K));
        assert_eq!(tower_dtype("BF16"), Ok(WeightType::Bf16));
        assert!(tower_dtype("q4_k").unwrap_err().contains("auto, f32, bf16, f16, q8_0"));
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
    fn names_are_those_of_the_configuration_file() {
        fn check<T: Choice + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>() {
            for (value, name, _) in T::VALUES {
                assert_eq!(&serde_json::from_value::<T>((*name).into()).unwrap(), value);
            }
        }
        check::<ImageProtocol>();
        check::<Charset>();
        check::<Cues>();
    }
}
