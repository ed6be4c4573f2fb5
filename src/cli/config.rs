//! The user's `config.toml`.

pub use specreel_client::Config;
use specreel_client::dirs::Dirs;
use specreel_record::Failure;

pub fn load() -> Result<Config, Failure> {
    match Dirs::find() {
        Some(dirs) => Config::read(&dirs.config.join("config.toml")),
        None => Ok(Config::default()),
    }
}
