//! Where files of ours live, after the XDG base directories.

use std::path::PathBuf;

use etcetera::BaseStrategy;

/// Our directories. Nothing is created by asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// `config.toml`, themes, key map.
    pub config: PathBuf,
    /// Saved sessions.
    pub data: PathBuf,
    /// Log file, histories.
    pub state: PathBuf,
    /// The unpacked demo.
    pub cache: PathBuf,
}

impl Dirs {
    /// The user's directories; none where there is no home.
    pub fn find() -> Option<Dirs> {
        let base = etcetera::choose_base_strategy().ok()?;
        let ours = |dir: PathBuf| dir.join("specreel");
        Some(Dirs {
            config: ours(base.config_dir()),
            data: ours(base.data_dir()),
            state: ours(base.state_dir().unwrap_or_else(|| base.data_dir())),
            cache: ours(base.cache_dir()),
        })
    }
}
