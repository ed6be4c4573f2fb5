//! Completion of typed paths: directories and one kind of files. May block and runs off the studio's thread.

use std::path::{Path, PathBuf};

use crate::tui::effect::{Completion, Wanted};
use crate::tui::files::{expand, plain};
use crate::tui::text;
use specreel_video::folder::is_video;

impl Wanted {
    fn has(self, file: &Path) -> bool {
        let extension = file.extension().and_then(|extension| extension.to_str());
        match self {
            Self::Videos => is_video(file),
            Self::Transcripts => matches!(extension, Some("srt" | "vtt" | "json")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Videos => "video",
            Self::Transcripts => "transcript",
        }
    }
}

/// The directories and files of this kind whose paths start with the typed text.
pub(crate) fn complete(typed: &str, wanted: Wanted) -> Result<Completion, String> {
    complete_at(typed, wanted, specreel_os::dirs::home())
}

fn complete_at(typed: &str, wanted: Wanted, home: Option<PathBuf>) -> Result<Completion, String> {
    if typed == "~" {
        return Ok(Completion { typed: typed.into(), line: "~/".into(), found: Vec::new() });
    }
    let cut = specreel_os::names::last_part(typed);
    let (before, begun) = typed.split_at(cut);
    let folder = if before.is_empty() { PathBuf::from(".") } else { expand(before, home) };
    let entries = std::fs::read_dir(&folder)
        .map_err(|e| format!("cannot read {}: {}", text::clean_line(&folder.to_string_lossy()), plain(&e)))?;
    let mut found: Vec<String> = entries.flatten().filter_map(|entry| name(&entry, begun, wanted)).collect();
    found.sort();
    let Some(common) = common(&found) else {
        return Err(format!("no directory or {} starts with {}", wanted.name(), text::clean_line(typed)));
    };
    Ok(Completion { typed: typed.into(), line: format!("{before}{common}"), found })
}

/// The name of a directory or a file of this kind that starts with `begun`; hidden ones only if that starts with a dot.
fn name(entry: &std::fs::DirEntry, begun: &str, wanted: Wanted) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    let hidden = name.starts_with('.') && !begun.starts_with('.');
    if !name.starts_with(begun) || hidden || text::clean_line(&name) != name {
        return None;
    }
    // Follows links.
    let is_folder = std::fs::metadata(entry.path()).is_ok_and(|facts| facts.is_dir());
    if is_folder { Some(name + "/") } else { wanted.has(Path::new(&name)).then_some(name) }
}

fn common(names: &[String]) -> Option<&str> {
    let (first, rest) = names.split_first()?;
    let same = |a: &str, b: &str| {
        a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
    };
    let end = rest.iter().map(|name| same(first, name)).fold(first.len(), usize::min);
    first.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["clip one.mp4", "clip two.mkv", "clippings.txt", ".hidden.mp4", "été.webm"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("clips")).unwrap();
        dir
    }

    #[test]
    fn a_path_is_completed_up_to_the_common_prefix() {
        let dir = folder();
        let at = |begun: &str| {
            let typed = format!("{}/{begun}", dir.path().display());
            let done = complete_at(&typed, Wanted::Videos, None)?;
            assert_eq!(done.typed, typed);
            let line = done.line.strip_prefix(&format!("{}/", dir.path().display())).unwrap().to_owned();
            Ok::<_, String>((line, done.found.join("|")))
        };
        assert_eq!(at("c"), Ok(("clip".into(), "clip one.mp4|clip two.mkv|clips/".into())));
        assert_eq!(at("clip "), Ok(("clip ".into(), "clip one.mp4|clip two.mkv".into())));
        assert_eq!(at("clip o"), Ok(("clip one.mp4".into(), "clip one.mp4".into())));
        assert_eq!(at("clips"), Ok(("clips/".into(), "clips/".into())));
        assert_eq!(at("é"), Ok(("été.webm".into(), "été.webm".into())));
        assert_eq!(at("."), Ok((".hidden.mp4".into(), ".hidden.mp4".into())));
        assert_eq!(at("").map(|(_, all)| all.contains("hidden")), Ok(false));
        std::fs::write(dir.path().join("clippings.srt"), "").unwrap();
        let typed = format!("{}/clipp", dir.path().display());
        assert_eq!(complete_at(&typed, Wanted::Transcripts, None).unwrap().found, ["clippings.srt"]);
        assert!(at("nope").unwrap_err().contains("no directory or video starts with"));
        assert!(at("clips/").is_err() && at("no/such").unwrap_err().contains("cannot read"));
    }

    #[test]
    fn the_home_directory_stays_a_tilde() {
        let dir = folder();
        let home = || Some(dir.path().to_owned());
        assert_eq!(complete_at("~", Wanted::Videos, home()).unwrap().line, "~/");
        assert_eq!(complete_at("~/clip o", Wanted::Videos, home()).unwrap().line, "~/clip one.mp4");
    }
}
