//! Errors of the hub and its cache, each with a hint.

use std::{fmt, path::PathBuf};

use specreel_os::dirs::HOME;
use specreel_record::{Failure, FailureClass, units::bytes};

/// A type of which a repository has a GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// The type, as in an id.
    pub tag: String,
    /// Size of the language model, in bytes.
    pub bytes: u64,
    pub files: usize,
}

impl fmt::Display for Available {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tag, bytes: size, files } = self;
        match files {
            1 => write!(f, "{tag} ({})", bytes(*size)),
            _ => write!(f, "{tag} ({} in {files} files)", bytes(*size)),
        }
    }
}

/// The type that is most often wanted.
fn example(available: &[Available]) -> Option<&str> {
    let preferred = ["Q4_K_M", "Q8_0"].iter().find_map(|tag| available.iter().find(|one| one.tag == *tag));
    preferred.or(available.first()).map(|one| one.tag.as_str())
}

pub(super) fn listed(available: &[Available]) -> String {
    available.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Files for a message; of many, the first ones.
fn first_of(files: &[String]) -> String {
    const NAMED: usize = 4;
    let mut named = files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if files.len() > NAMED {
        named += &format!(" and {} more", files.len() - NAMED);
    }
    named
}

/// Why a model could not be downloaded or found.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("invalid model id `{id}`: {problem}")]
    Id { id: String, problem: String },
    /// `HF_ENDPOINT` is not a URL.
    #[error("HF_ENDPOINT is `{0}`, expected an http or https URL")]
    Endpoint(String),
    /// Neither a home directory nor a cache directory is set.
    #[error("no home directory for the model cache")]
    NoCache,
    /// Offline mode is on, and the cache does not have the whole model.
    #[error("{id} is not in the cache{missing}, and HF_HUB_OFFLINE is set")]
    Offline {
        id: String,
        /// ` (missing FILE)` if the model is incomplete.
        missing: String,
    },
    /// The model does not exist, or the token does not give access to it.
    #[error("model {id} not found, or not accessible {} token", if *token { "with this" } else { "without a" })]
    Absent {
        id: String,
        /// True if a token was sent.
        token: bool,
    },
    #[error("{id} is gated: accept its license first")]
    Gated {
        id: String,
        page: String,
        /// True if a token was sent.
        token: bool,
    },
    #[error("the hub rejected the token (HTTP {status})")]
    Token { status: u16 },
    #[error("{repository} has no revision `{revision}`")]
    Revision {
        /// `owner/name`.
        repository: String,
        revision: String,
    },
    #[error("{id} has no {file}")]
    File { id: String, file: String },
    /// No GGUF file of this type; without a type, a repository that has GGUF files only.
    #[error("{repository} has {}", match tag { Some(tag) => format!("no GGUF file of type {tag}"), None => "GGUF files only".into() })]
    Type {
        /// `owner/name`.
        repository: String,
        tag: Option<String>,
        available: Vec<Available>,
    },
    /// A split model of which the repository lacks parts.
    #[error("{tag} of {repository} is incomplete: the repository lacks {}", first_of(missing))]
    Parts {
        /// `owner/name`.
        repository: String,
        tag: String,
        missing: Vec<String>,
        available: Vec<Available>,
    },
    /// Several GGUF files between which their names do not decide.
    #[error("{repository} has several {what}: {}", files.join(", "))]
    Several {
        /// `owner/name`.
        repository: String,
        what: String,
        files: Vec<String>,
    },
    /// A file name that escapes the model's directory.
    #[error("{id} lists the unsafe file name `{name}`")]
    Path { id: String, name: String },
    #[error("invalid response from the hub for {what}: {problem}")]
    Response { what: String, problem: String },
    #[error("the hub returned HTTP {status} for {what}")]
    Status { what: String, status: u16 },
    #[error("connection to {host} failed: {problem}")]
    Network { host: String, problem: String },
    /// A file does not have the listed size or checksum.
    #[error("{file} is corrupt: {problem}")]
    Damaged { file: String, problem: String },
    #[error("not enough disk space in {}: {} needed, {} free", dir.display(), bytes(*needed), bytes(*free))]
    Disk { needed: u64, free: u64, dir: PathBuf },
    #[error("another process is downloading {file}")]
    Locked { file: String },
    /// A cache file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A path to remove that is not a model of the cache.
    #[error("{} is not in the model cache", .0.display())]
    NotCached(PathBuf),
    #[error("cancelled; the next pull resumes")]
    Cancelled,
    /// The model is not supported, judging by its configuration.
    #[error("{}", .0.error)]
    Unusable(Failure),
}

impl HubError {
    pub(super) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    fn hint(&self) -> String {
        const TOKEN: &str = "create a token with read access at https://huggingface.co/settings/tokens and set HF_TOKEN (or run `hf auth login`)";
        match self {
            Self::Id { .. } => "for example: specreel models pull Qwen/Qwen2.5-VL-3B-Instruct".into(),
            Self::Endpoint(_) => {
                "unset HF_ENDPOINT, or set it to a URL such as https://huggingface.co".into()
            }
            Self::NoCache => format!("set {HOME} or HF_HOME"),
            Self::Offline { .. } => "unset HF_HUB_OFFLINE, or pass a directory".into(),
            Self::Absent { token: false, .. } => {
                format!("check owner and name; for a private model, {TOKEN}")
            }
            Self::Absent { .. } => "check owner and name, and that the token has access to the model".into(),
            Self::Gated { page, token: false, .. } => format!("accept it at {page}, then {TOKEN}"),
            Self::Gated { page, .. } => {
                format!("accept it at {page} with the token's account")
            }
            Self::Token { .. } => {
                format!("the token may have expired: {TOKEN}; public models need no token")
            }
            Self::Revision { .. } => "omit the revision to use the main branch".into(),
            Self::File { .. } => "pull a checkpoint that has safetensors weights and a tokenizer.json".into(),
            Self::Type { repository, tag: Some(_), available } if available.is_empty() => {
                format!("pull it without a type: {repository}")
            }
            Self::Type { repository, available, .. } => match example(available) {
                Some(tag) => {
                    format!("choose a type, for example {repository}:{tag}; available: {}", listed(available))
                }
                None => "its files name no type: download one by other means, and pass its path to --target"
                    .into(),
            },
            Self::Parts { available, .. } if available.is_empty() => {
                "pull another repository of this model".into()
            }
            Self::Parts { repository, available, .. } => {
                format!("choose another type of {repository}; available: {}", listed(available))
            }
            Self::Several { .. } => {
                "download the model by other means, and pass the paths of its files to --target and --mmproj"
                    .into()
            }
            Self::Path { .. } | Self::Response { .. } => {
                "do not use this model; check that HF_ENDPOINT is the right hub".into()
            }
            Self::Status { .. } => "try again later".into(),
            Self::Network { .. } => {
                "check the network, HTTPS_PROXY and HF_ENDPOINT, then pull again to resume".into()
            }
            Self::Damaged { .. } => "pull again: the corrupt file was removed".into(),
            Self::Disk { .. } => {
                "free disk space, or set HF_HUB_CACHE to a directory on a larger disk".into()
            }
            Self::Locked { .. } => "wait until it finishes, or stop it".into(),
            Self::Io { .. } => {
                "make it readable and writable, or set HF_HUB_CACHE to another directory".into()
            }
            Self::NotCached(_) => {
                "delete its files where they are; specreel removes only files that it can pull again".into()
            }
            Self::Cancelled => "pull again to resume".into(),
            Self::Unusable(failure) => failure.hint.clone().unwrap_or_default(),
        }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let class = match &error {
            HubError::Id { .. } | HubError::Endpoint(_) => FailureClass::Usage,
            HubError::Unusable(failure) => failure.class,
            _ => FailureClass::Input,
        };
        Failure { class, error: error.to_string(), hint: Some(error.hint()).filter(|hint| !hint.is_empty()) }
    }
}
