//! Which files of a directory are videos.

use std::path::Path;

use ignore::WalkBuilder;

/// File extensions of videos, lower case.
pub const EXTENSIONS: [&str; 6] = ["mp4", "mkv", "mov", "webm", "avi", "m4v"];

/// True if the file has a video's extension.
pub fn is_video(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    EXTENSIONS.contains(&extension.as_str())
}

/// A walk through a directory and its subdirectories: hidden files are skipped, and those that `.gitignore` and `.ignore` files
/// inside the directory exclude, if `obey`. Symbolic links are followed, except for cycles.
pub fn walk(folder: &Path, obey: bool) -> WalkBuilder {
    let mut walk = WalkBuilder::new(folder);
    // Only ignore files in the directory itself count: not its parents' files, nor the user's git settings.
    walk.ignore(obey).git_ignore(obey).require_git(false).git_global(false).git_exclude(false).parents(false);
    walk.follow_links(true);
    walk
}
