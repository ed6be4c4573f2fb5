//! The studio as the tests start it.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use specreel_scenes::{Scene, encode};

use super::terminal::Terminal;

/// Render a clip of each seed into a folder.
pub fn render<const N: usize>(folder: &Path, clips: [(u64, &str); N]) {
    for (seed, name) in clips {
        encode::mp4(&Scene::from_seed(seed), &folder.join(name), 320, 320).unwrap();
    }
}

/// A folder with two clips.
pub fn clips() -> PathBuf {
    static CLIPS: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = CLIPS.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        render(dir.path(), [(2, "cross.mp4"), (3, "star.mp4")]);
        dir
    });
    dir.path().to_owned()
}

/// A studio with the two clips, once its models are loaded.
pub fn library(columns: u16, rows: u16, args: &[&str], variables: &[(&str, &str)]) -> Terminal {
    let clips = clips();
    let all = [&["--library", clips.to_str().unwrap()], args].concat();
    let t = Terminal::start_with(columns, rows, &all, variables);
    t.wait("● ready");
    t
}

/// What a test waits for is shown at once, unless it watches a run.
pub fn studio(columns: u16, rows: u16, args: &[&str]) -> Terminal {
    library(columns, rows, &[&["--pace", "off"], args].concat(), &[])
}

/// A studio whose caption does not end by itself: the embedded target with an end token that is hardly ever drawn.
pub fn endless(columns: u16, rows: u16) -> Terminal {
    endless_with(columns, rows, &[])
}

/// The same with environment variables.
pub fn endless_with(columns: u16, rows: u16, variables: &[(&str, &str)]) -> Terminal {
    static TARGET: OnceLock<tempfile::TempDir> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let embedded = Path::new(crate::REPOSITORY).join("assets/demo/target");
        for file in std::fs::read_dir(embedded).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        let tokenizer = specreel_model::text::TextTokenizer::load(dir.path()).unwrap();
        let rare = tokenizer.id("<|vision_pad|>").unwrap();
        let text = format!("{{\"eos_token_id\": {rare}}}");
        std::fs::write(dir.path().join("generation_config.json"), text).unwrap();
        dir
    });
    let target = target.path().to_str().unwrap();
    let plain = ["--pace", "off", "--method", "autoregressive", "--target", target];
    let length = ["--temperature", "1", "--max-new-tokens", "20000"];
    library(columns, rows, &[&plain[..], &length].concat(), variables)
}
