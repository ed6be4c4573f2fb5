//! What the studio writes beside the clips of a batch.

use schemars::JsonSchema;
use serde::Deserialize;

/// The form of the file beside each clip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SidecarChoice {
    /// The caption
    #[default]
    Txt,
    /// The caption with prompt, method and statistics
    Json,
    /// SubRip subtitles
    Srt,
    /// WebVTT subtitles
    Vtt,
    /// No file
    None,
}

/// What is done about clips that have such a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", rename = "ExistingChoice")]
pub enum Existing {
    /// They are left alone
    #[default]
    Skip,
    /// They are captioned again
    Overwrite,
    /// The new caption follows the existing one; not a setting.
    #[serde(skip)]
    Append,
    /// The new caption precedes the existing one; not a setting.
    #[serde(skip)]
    Prepend,
}
