//! The hub's file list of a model: the commit of a revision, and its files with sizes and checksums.

use serde::Deserialize;

use super::{HubError, ModelId, id::is_commit};

/// Maximum size of a listing, in bytes.
pub(super) const MAX_LISTING: u64 = 16 << 20;

/// Largest plausible file, in bytes.
const MAX_FILE: u64 = 1 << 44;

/// The checksum that identifies a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// SHA-256 of the content (large files).
    Sha256(String),
    /// Git blob hash: SHA-1 of `blob LENGTH\0` and the content (small files).
    Git(String),
}

impl Checksum {
    /// The hexadecimal digits: the blob's file name in the cache.
    pub fn digits(&self) -> &str {
        let (Self::Sha256(digits) | Self::Git(digits)) = self;
        digits
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    /// Its path relative to the model's root.
    pub path: String,
    pub size: u64,
    pub(crate) checksum: Checksum,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub commit: String,
    /// Architecture of its GGUF files, if the hub knows it.
    pub architecture: Option<String>,
    pub files: Vec<RemoteFile>,
}

#[derive(Deserialize)]
struct Raw {
    sha: String,
    siblings: Vec<Sibling>,
    #[serde(default)]
    gguf: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    blob_id: Option<String>,
    #[serde(default)]
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

impl Listing {
    /// Parse the hub's response to `/api/models/OWNER/NAME/revision/REVISION?blobs=true`. [`HubError::Response`] if it is
    /// malformed. Files without size or checksum are left out: nothing that cannot be verified is downloaded.
    pub fn read(id: &ModelId, json: &[u8]) -> Result<Self, HubError> {
        let refuse = |problem: String| HubError::Response { what: id.to_string(), problem };
        let raw: Raw = serde_json::from_slice(json).map_err(|e| refuse(e.to_string()))?;
        if !is_commit(&raw.sha) {
            return Err(refuse(format!("`{}` is not a commit", raw.sha)));
        }
        let files = raw.siblings.into_iter().filter_map(Sibling::file).collect();
        let architecture = raw.gguf["architecture"].as_str().map(str::to_owned);
        Ok(Self { commit: raw.sha, architecture, files })
    }

    pub fn file(&self, path: &str) -> Option<&RemoteFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl Sibling {
    fn file(self) -> Option<RemoteFile> {
        let hex = |digits: &str, length: usize| {
            digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let (size, checksum) = match self.lfs {
            Some(lfs) if hex(&lfs.sha256, 64) => (lfs.size, Checksum::Sha256(lfs.sha256)),
            Some(_) => return None,
            None => (self.size?, Checksum::Git(self.blob_id.filter(|digits| hex(digits, 40))?)),
        };
        (size <= MAX_FILE).then_some(RemoteFile { path: self.rfilename, size, checksum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_files_are_distinguished() {
        let (commit, git, sha) = ("a".repeat(40), "b".repeat(40), "c".repeat(64));
        let json = format!(
            r#"{{"sha":"{commit}","siblings":[
                {{"rfilename":"config.json","size":7,"blobId":"{git}"}},
                {{"rfilename":"w","size":9,"blobId":"{git}","lfs":{{"sha256":"{sha}","size":9,"pointerSize":1}}}},
                {{"rfilename":"unknown"}},{{"rfilename":"odd","size":1,"blobId":"../../x"}}],
                "gguf":{{"architecture":"qwen2vl","total":7}}}}"#
        );
        let id = ModelId::parse("a/b").unwrap();
        let listing = Listing::read(&id, json.as_bytes()).unwrap();
        assert_eq!(listing.files.len(), 2);
        assert_eq!(listing.architecture.as_deref(), Some("qwen2vl"));
        assert_eq!(listing.file("config.json").unwrap().checksum, Checksum::Git(git));
        assert_eq!(listing.file("w").unwrap().checksum.digits(), sha);
        for bad in ["", "[]", r#"{"sha":"../x","siblings":[]}"#] {
            assert!(Listing::read(&id, bad.as_bytes()).is_err());
        }
    }
}
