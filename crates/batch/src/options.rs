//! Where captions go, and the treatment of existing ones.

use super::*;

pub use specreel_client::Existing;
use specreel_record::{Cues, Failure};

/// Where captions go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// A file for each clip.
    pub sidecar: Option<Sidecar>,
    /// How captions become cues of subtitles.
    pub cues: Cues,
    /// The directory that mirrors the clips' own; `None` puts sidecars next to the clips.
    pub out_dir: Option<PathBuf>,
    /// One file for all clips.
    pub dataset: Option<(Kind, PathBuf)>,
    /// What is done about clips that have captions.
    pub existing: Existing,
    /// Try clips again that failed in an earlier run and have not changed since.
    pub retry_failed: bool,
    /// The prompts; each gives a caption.
    pub prompts: Vec<String>,
    /// Everything else that makes this run another one than the one before: models, method, part of the clips.
    pub job: String,
}

impl Options {
    /// Refuse options that contradict each other.
    pub fn check(&self) -> Result<(), Failure> {
        check(self)
    }
}

fn check(options: &Options) -> Result<(), Failure> {
    let usage = |error: &str, hint: &str| Err(Failure::usage(error, hint));
    let several = options.prompts.len() > 1;
    match options {
        Options { existing: Existing::Append | Existing::Prepend, sidecar, dataset, .. }
            if *sidecar != Some(Sidecar::Txt) || dataset.is_some() =>
        {
            usage("--existing append and prepend need text to extend", "use them with --sidecar txt alone")
        }
        Options { sidecar: Some(sidecar), .. } if several && sidecar.is_timed() => usage(
            "subtitles and chapters hold the captions of one prompt",
            "use --sidecar txt or json with --prompt-file",
        ),
        Options { dataset: Some((kind, _)), .. } if several && !kind.takes_several() => usage(
            "this data set holds one caption a clip: its trainer would overwrite the others",
            "use --dataset jsonl, csv or hf with --prompt-file",
        ),
        Options { dataset: Some((Kind::Hf, file)), .. } if !is_named(file, "jsonl") => {
            usage("a data set for Hugging Face is a .jsonl file", "it is read as metadata.jsonl")
        }
        Options { dataset: Some((Kind::Ltx, file)), .. } if !is_named(file, "jsonl") => {
            usage("a data set for LTX is a .jsonl file", "the trainer goes by the extension")
        }
        _ => Ok(()),
    }
}

fn is_named(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|own| own == extension)
}
