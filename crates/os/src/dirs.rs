//! Directories that other programs use too.

use std::path::{Path, PathBuf};

/// The user's home directory.
pub fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Where programs keep what they can fetch again, by variables of the environment and the home directory.
pub fn caches(variable: &dyn Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    if cfg!(windows) {
        set("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Caches"))
    } else {
        set("XDG_CACHE_HOME").or_else(|| home.map(|home| home.join(".cache")))
    }
}
