//! The program's directories, by the XDG base directory specification.

use std::path::PathBuf;

use etcetera::BaseStrategy;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// `config.toml`, themes, key map, methods.
    pub config: PathBuf,
    pub data: PathBuf,
    /// Log file, histories, measured speeds.
    pub state: PathBuf,
    /// The unpacked demo.
    pub cache: PathBuf,
}

impl Dirs {
    /// The file of measured speeds; `None` without a home directory.
    pub fn speeds() -> Option<PathBuf> {
        Self::find().map(|dirs| dirs.state.join("speeds.json"))
    }

    /// The file that remembers the models chosen last.
    pub fn models(&self) -> PathBuf {
        self.state.join("models.json")
    }

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
