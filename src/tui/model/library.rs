//! The library: clips with titles, files of folders, opened files; filtered by name, one of them selected.

use std::path::{Path, PathBuf};

use nucleo_matcher::{
    Config, Matcher, Utf32Str,
    pattern::{CaseMatching, Normalization, Pattern},
};

use crate::tui::{ClipFacts, text};

/// File extensions that the library takes for videos, lower case.
pub(crate) const VIDEO_EXTENSIONS: [&str; 6] = ["mp4", "mkv", "mov", "webm", "avi", "m4v"];

/// A video file that was found or opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: Option<u64>,
}

/// One line of the library.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub title: String,
    /// Where it is from, for the dim part of the line.
    pub place: String,
    pub path: PathBuf,
    pub bytes: Option<u64>,
    /// None until it was looked at.
    pub facts: Option<ClipFacts>,
}

/// All clips and the selection among those that the filter lets through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    pub entries: Vec<Entry>,
    /// Indices into `entries`, best match first where there is a filter.
    pub shown: Vec<usize>,
    /// Index into `shown`.
    pub cursor: usize,
    pub filter: String,
    /// Folders still being read.
    pub scanning: usize,
}

/// Clips further than this from the selected one are not looked at before the selection comes near.
const MAX_NEAR: usize = 64;

/// True if the file's name ends like a video's.
pub(crate) fn is_video(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    VIDEO_EXTENSIONS.contains(&extension.as_str())
}

impl Library {
    pub fn selected(&self) -> Option<&Entry> {
        self.entries.get(*self.shown.get(self.cursor)?)
    }

    /// Add a clip under a title; a file that is there already stays as it is.
    pub fn add_clip(&mut self, title: &str, path: &Path, bytes: Option<u64>) {
        self.add(text::clean_line(title), String::new(), path, bytes);
        self.refresh();
    }

    /// Add the videos of a folder.
    pub fn add_folder(&mut self, folder: &Path, found: Vec<Found>) {
        for file in found {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            let parent = file.path.parent().unwrap_or(folder);
            let inside = parent.strip_prefix(folder).unwrap_or(parent);
            let place = Path::new(folder.file_name().unwrap_or(folder.as_os_str())).join(inside);
            let place = place.to_string_lossy().trim_end_matches('/').to_owned();
            self.add(text::clean_line(&name), text::clean_line(&place), &file.path, file.bytes);
        }
        self.refresh();
    }

    /// Add a file that was opened by its path, and select it.
    pub fn open(&mut self, file: &Found) {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        let parent = file.path.parent().unwrap_or(Path::new("")).to_string_lossy();
        self.add(text::clean_line(&name), text::clean_line(&parent), &file.path, file.bytes);
        self.filter.clear();
        self.refresh();
        self.select(&file.path);
    }

    pub fn select(&mut self, path: &Path) {
        if let Some(at) = self.shown.iter().position(|i| self.entries[*i].path == path) {
            self.cursor = at;
        }
    }

    fn add(&mut self, title: String, place: String, path: &Path, bytes: Option<u64>) {
        if !self.entries.iter().any(|e| e.path == path) {
            self.entries.push(Entry { title, place, path: path.into(), bytes, facts: None });
        }
    }

    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.cursor = 0;
        self.refresh_keeping(None);
    }

    /// Clear the filter; the selected clip stays selected.
    pub fn clear_filter(&mut self) {
        self.filter.clear();
        self.refresh();
    }

    fn refresh(&mut self) {
        let selected = self.selected().map(|e| e.path.clone());
        self.refresh_keeping(selected);
    }

    fn refresh_keeping(&mut self, selected: Option<PathBuf>) {
        self.shown = (0..self.entries.len()).collect();
        if !self.filter.is_empty() {
            let pattern = Pattern::parse(&self.filter, CaseMatching::Smart, Normalization::Smart);
            let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
            let mut buffer = Vec::new();
            let mut scored: Vec<(u32, usize)> = Vec::new();
            for (i, entry) in self.entries.iter().enumerate() {
                let line = format!("{}/{}", entry.place, entry.title);
                if let Some(score) = pattern.score(Utf32Str::new(&line, &mut buffer), &mut matcher) {
                    scored.push((score, i));
                }
            }
            scored.sort_by_key(|(score, i)| (std::cmp::Reverse(*score), *i));
            self.shown = scored.into_iter().map(|(_, i)| i).collect();
        }
        self.cursor = self.cursor.min(self.shown.len().saturating_sub(1));
        if let Some(path) = selected {
            self.select(&path);
        }
    }

    /// The clip nearest to the selected one that nobody has looked at yet, among those that a screen may show.
    pub fn unknown_near(&self) -> Option<PathBuf> {
        let near = self.shown.iter().enumerate().filter(|(_, i)| self.entries[**i].facts.is_none());
        let near = near.map(|(at, i)| (at.abs_diff(self.cursor), *i)).filter(|(far, _)| *far < MAX_NEAR);
        near.min().map(|(_, i)| self.entries[i].path.clone())
    }

    pub fn set_facts(&mut self, path: &Path, facts: ClipFacts) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.path == path) {
            entry.facts = Some(facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        let mut library = Library::default();
        library.add_clip("Red ball", Path::new("/d/0.mp4"), None);
        let file = |p: &str| Found { path: p.into(), bytes: Some(1) };
        library.add_folder(Path::new("/v"), vec![file("/v/birds.mp4"), file("/v/sea/waves.mkv")]);
        library
    }

    #[test]
    fn folders_show_where_a_file_is_from() {
        let library = library();
        assert_eq!(library.entries[1].place, "v");
        assert_eq!(library.entries[2].place, "v/sea");
        assert_eq!(library.selected().unwrap().title, "Red ball");
    }

    #[test]
    fn the_filter_is_fuzzy_and_keeps_the_selection_when_cleared() {
        let mut library = library();
        library.set_filter("wvs".into());
        assert_eq!(library.shown, [2]);
        library.clear_filter();
        assert_eq!(library.selected().unwrap().title, "waves.mkv");
        library.set_filter("nothing like it".into());
        assert!(library.selected().is_none());
    }

    #[test]
    fn an_opened_file_is_selected_and_never_twice_there() {
        let mut library = library();
        library.open(&Found { path: "/x/new.mov".into(), bytes: None });
        library.open(&Found { path: "/v/birds.mp4".into(), bytes: None });
        assert_eq!(library.entries.len(), 4);
        assert_eq!(library.selected().unwrap().title, "birds.mp4");
    }

    #[test]
    fn names_are_sanitised() {
        let mut library = Library::default();
        library.open(&Found { path: "/v/\u{1b}[31mevil\n.mp4".into(), bytes: None });
        assert_eq!(library.entries[0].title, "evil .mp4");
    }

    #[test]
    fn videos_are_known_by_their_extension() {
        assert!(is_video(Path::new("a.MP4")) && is_video(Path::new("b.webm")));
        assert!(!is_video(Path::new("c.txt")) && !is_video(Path::new("mp4")));
    }
}
