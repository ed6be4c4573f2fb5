//! Where a file was downloaded from, by its place in the cache of the Hugging Face tools.

use std::path::Path;

use super::file_names;

/// `OWNER/NAME` of a file in the cache of the Hugging Face tools.
pub(super) fn repository_of(path: &Path) -> Option<String> {
    let snapshots = path.ancestors().find(|folder| folder.ends_with("snapshots"))?;
    let folder = snapshots.parent()?.file_name()?.to_str()?;
    let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
    Some(format!("{owner}/{name}"))
}

/// The command that downloads a file of that cache.
pub(super) fn pull(path: &Path) -> Option<String> {
    let tag = file_names::tag_of(&path.to_string_lossy())?;
    Some(format!("specreel models pull {}:{tag}", repository_of(path)?))
}
