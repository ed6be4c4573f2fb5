//! What can go wrong between this machine and the hub, and the way out of it.

use std::path::PathBuf;

use crate::record::{Failure, FailureClass, units::bytes};

/// Why a model could not be fetched or found.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A text that is no id.
    #[error("`{id}` is no id of a model on the hub: {problem}")]
    Id {
        /// The text.
        id: String,
        /// What is wrong with it.
        problem: String,
    },
    /// `HF_ENDPOINT` is no address.
    #[error("HF_ENDPOINT is `{0}`, which is no http or https address")]
    Endpoint(String),
    /// There is no home for the cache.
    #[error("there is no home directory, so there is no cache of models")]
    NoCache,
    /// The network may not be used, and the cache does not have it all.
    #[error("{id} is not in the cache{missing}, and HF_HUB_OFFLINE is set")]
    Offline {
        /// The model.
        id: String,
        /// ` (it lacks FILE)` where a part is there.
        missing: String,
    },
    /// The hub wants to know who asks, or does not tell whether there is such a model.
    #[error("the hub has no model {id} that {who} may see")]
    Absent {
        /// The model.
        id: String,
        /// `you` or `somebody without a token`.
        who: &'static str,
        /// True if a token was sent.
        token: bool,
    },
    /// The model's licence has to be accepted first.
    #[error("{id} is gated: its licence has to be accepted first")]
    Gated {
        /// The model.
        id: String,
        /// Where it is accepted.
        page: String,
        /// True if a token was sent.
        token: bool,
    },
    /// The token is refused.
    #[error("the hub refuses the token ({status})")]
    Token {
        /// HTTP status.
        status: u16,
    },
    /// No such branch, tag or commit.
    #[error("{repository} has no revision `{revision}`")]
    Revision {
        /// `owner/name`.
        repository: String,
        /// The revision.
        revision: String,
    },
    /// A file that has to be there is not.
    #[error("{id} has no {file}")]
    File {
        /// The model.
        id: String,
        /// The file.
        file: String,
    },
    /// A name that would lead out of the model's folder.
    #[error("{id} names a file `{name}`, which could lie anywhere; nothing is written")]
    Path {
        /// The model.
        id: String,
        /// The name.
        name: String,
    },
    /// An answer that cannot be understood.
    #[error("the hub's answer about {what} cannot be used: {problem}")]
    Answer {
        /// About what.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Any other status.
    #[error("the hub answers {status} to a request for {what}")]
    Status {
        /// About what.
        what: String,
        /// HTTP status.
        status: u16,
    },
    /// The connection fails again and again.
    #[error("the connection to {host} fails: {problem}")]
    Network {
        /// The host.
        host: String,
        /// Why.
        problem: String,
    },
    /// What came is not what was announced.
    #[error("{file} came damaged: {problem}")]
    Damaged {
        /// The file.
        file: String,
        /// How it differs.
        problem: String,
    },
    /// The disk has no room.
    #[error("{} are to be fetched, but {} has {} free", bytes(*needed), dir.display(), bytes(*free))]
    Disk {
        /// Bytes that are to come.
        needed: u64,
        /// Bytes that are free.
        free: u64,
        /// The cache.
        dir: PathBuf,
    },
    /// Another process fetches the same file.
    #[error("another process is fetching {file}")]
    Locked {
        /// The file.
        file: String,
    },
    /// A file of the cache cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody cancelled.
    #[error("cancelled; what was fetched is kept, and the next pull goes on from there")]
    Cancelled,
    /// What came so far cannot be used here.
    #[error("{}", .0.error)]
    Unusable(Failure),
}

impl HubError {
    pub(super) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    fn hint(&self) -> String {
        const TOKEN: &str = "make a token with read access at https://huggingface.co/settings/tokens and set HF_TOKEN (or run `hf auth login`)";
        match self {
            Self::Id { .. } => "for example: specreel models pull Qwen/Qwen2.5-VL-3B-Instruct".into(),
            Self::Endpoint(_) => {
                "unset HF_ENDPOINT, or set it to an address such as https://huggingface.co".into()
            }
            Self::NoCache => "set HOME or HF_HOME".into(),
            Self::Offline { .. } => "unset HF_HUB_OFFLINE, or name a directory".into(),
            Self::Absent { token: false, .. } => {
                format!("check owner and name; if the model is private, {TOKEN}")
            }
            Self::Absent { .. } => {
                "check owner and name, and that the token's owner may see the model".into()
            }
            Self::Gated { page, token: false, .. } => format!("accept it at {page}, then {TOKEN}"),
            Self::Gated { page, .. } => {
                format!("accept it at {page} with the account that the token belongs to")
            }
            Self::Token { .. } => {
                format!("it may have expired: {TOKEN}, or unset HF_TOKEN for a public model")
            }
            Self::Revision { .. } => "leave the revision out for the main branch".into(),
            Self::File { .. } => {
                "only checkpoints with safetensors weights and a tokenizer.json can be used".into()
            }
            Self::Path { .. } | Self::Answer { .. } => {
                "do not use this model; is HF_ENDPOINT the hub you mean?".into()
            }
            Self::Status { .. } => "try again later".into(),
            Self::Network { .. } => {
                "check the network, HTTPS_PROXY and HF_ENDPOINT; what was fetched is kept".into()
            }
            Self::Damaged { .. } => "pull again: the damaged part is gone".into(),
            Self::Disk { .. } => "make room, or set HF_HUB_CACHE to a larger disk".into(),
            Self::Locked { .. } => "wait for it, or end it".into(),
            Self::Io { .. } => "make it writable, or set HF_HUB_CACHE to another directory".into(),
            Self::Cancelled => "pull again to go on".into(),
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
