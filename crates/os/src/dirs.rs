//! Directories that other programs use too.

use std::path::{Path, PathBuf};

/// The variable of the environment that sets the home directory.
pub const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// A directory of the user in which each program has a directory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserDir {
    Config,
    Data,
    State,
    Cache,
}

impl UserDir {
    /// The variable of the environment that sets it. Windows has one for the first three.
    pub fn variable(self) -> &'static str {
        let [xdg, windows] = match self {
            Self::Config => ["XDG_CONFIG_HOME", "APPDATA"],
            Self::Data => ["XDG_DATA_HOME", "APPDATA"],
            Self::State => ["XDG_STATE_HOME", "APPDATA"],
            Self::Cache => ["XDG_CACHE_HOME", "LOCALAPPDATA"],
        };
        if cfg!(windows) { windows } else { xdg }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_that_the_system_has() {
        let all = [UserDir::Config, UserDir::Data, UserDir::State, UserDir::Cache];
        let xdg = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];
        let windows = ["APPDATA", "APPDATA", "APPDATA", "LOCALAPPDATA"];
        assert_eq!(all.map(UserDir::variable), if cfg!(windows) { windows } else { xdg });
        if let Some(set) = std::env::var_os(HOME).filter(|set| !set.is_empty()) {
            assert_eq!(home(), Some(PathBuf::from(set)));
        }
    }

    #[test]
    fn caches_are_where_their_variable_says() {
        let variable = |name: &str| (name == UserDir::Cache.variable()).then(|| PathBuf::from("caches"));
        let home = Path::new("home");
        let expected = if cfg!(target_os = "macos") { home.join("Library/Caches") } else { "caches".into() };
        assert_eq!(caches(&variable, Some(home)), Some(expected));
    }
}
