//! The library: embedded clips, recent files, videos of directories, opened files; filtered by name, one of them selected.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::{borrow::Cow, sync::Arc, time::SystemTime};

use nucleo_matcher::Config;

use super::{frame_strips::FrameStrips, order::Sort, preview::Preview, search::fuzzy};
use crate::tui::{config::ClipFacts, effect::VideoFile, text};
use specreel_client::{Transcript, moments::Moment};
pub(crate) use specreel_video::folder::is_video;

/// What an entry is, in the default order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// In the directory that the studio was started with.
    Named,
    Clip,
    Recent,
    File,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub title: String,
    /// Its directory, for the dim part of the line.
    pub dir: String,
    pub path: PathBuf,
    pub kind: Kind,
    pub bytes: Option<u64>,
    pub modified: Option<SystemTime>,
    pub facts: Option<Result<ClipFacts, String>>,
}

impl Entry {
    pub fn facts(&self) -> Option<&ClipFacts> {
        self.facts.as_ref()?.as_ref().ok()
    }

    /// True if the file has its name, size and time, as through a symbolic link. An embedded clip was unpacked at a time of its own.
    fn is_copy(&self, file: &VideoFile) -> bool {
        let same_time = self.modified == file.modified && file.modified.is_some();
        self.path.file_name() == file.path.file_name()
            && self.bytes.is_some()
            && self.bytes == file.bytes
            && (same_time || self.kind == Kind::Clip)
    }

    pub fn problem(&self) -> Option<&str> {
        self.facts.as_ref()?.as_ref().err().map(String::as_str)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    pub entries: Vec<Entry>,
    /// Indices into `entries`; with a filter, the best match first.
    pub shown: Vec<usize>,
    pub cursor: usize,
    pub filter: String,
    pub sort: Sort,
    pub scanning: usize,
    /// The directory that the studio was started with, until it was read.
    pub named: Option<PathBuf>,
    /// Clips that a saved run or one of this session captions.
    pub captioned: HashSet<PathBuf>,
    /// Clips that the user marked, in this order.
    pub marked: Vec<PathBuf>,
    /// The frames of clips that were read.
    pub strips: FrameStrips,
    /// Where the preview of a clip was left.
    pub preview: Option<Preview>,
    /// What is said in clips, for the prompts about them.
    pub speech: BTreeMap<PathBuf, Arc<Transcript>>,
    /// The segment length as it was last typed.
    pub segment_length: String,
    /// A typed path is being opened.
    pub opening: bool,
    /// The clip that is opened for a moment of it, and where that is, in seconds.
    pub moment: Option<(PathBuf, f64)>,
    /// What was looked for by the filter or in the box for it, and the moments that have it, by their videos; the best of each first.
    pub found: (String, BTreeMap<PathBuf, Vec<Moment>>),
    /// The file that was opened and not yet probed.
    pub opened: Option<PathBuf>,
}

/// Only clips this close to the selected one are probed.
const MAX_NEAR: usize = 64;

/// The name of a file, and its directory.
fn names(file: &VideoFile) -> (Cow<'_, str>, Cow<'_, str>) {
    let parent = file.path.parent().unwrap_or(Path::new(""));
    (file.path.file_name().unwrap_or_default().to_string_lossy(), parent.to_string_lossy())
}

/// How the directory of a recent file is shown.
fn recent(folder: &str) -> String {
    format!("recent · {folder}")
}

impl Library {
    pub fn selected(&self) -> Option<&Entry> {
        self.entries.get(*self.shown.get(self.cursor)?)
    }

    /// Add a clip under a title; an entry of the same file stays as it is.
    pub fn add_clip(&mut self, title: &str, path: &Path) {
        let bytes = std::fs::metadata(path).ok().map(|facts| facts.len());
        let file = VideoFile { path: path.into(), bytes, modified: None };
        self.add(Kind::Clip, title, "", &file);
        self.refresh();
    }

    pub fn add_recent(&mut self, found: &[VideoFile]) {
        for file in found {
            let (name, parent) = names(file);
            self.add(Kind::Recent, &name, &recent(&parent), file);
            // Directories may have been read before.
            if let Some(entry) = self.entries.iter_mut().find(|e| e.path == file.path && e.kind == Kind::File)
            {
                (entry.kind, entry.dir) = (Kind::Recent, recent(&entry.dir));
            }
        }
        self.refresh();
    }

    pub fn add_folder(&mut self, folder: &Path, found: Vec<VideoFile>) {
        let named = self.named.take_if(|named| named == folder).is_some();
        // Unless the user has gone to another clip meanwhile.
        let first = found.first().filter(|_| named && self.cursor == 0).map(|file| file.path.clone());
        let kind = if named { Kind::Named } else { Kind::File };
        for file in found {
            let (name, _) = names(&file);
            let parent = file.path.parent().unwrap_or(folder);
            let inside = parent.strip_prefix(folder).unwrap_or(parent);
            let dir = Path::new(folder.file_name().unwrap_or(folder.as_os_str())).join(inside);
            let dir = dir.to_string_lossy().trim_end_matches('/').to_owned();
            self.add(kind, &name, &dir, &file);
            // It may be one of the recent files.
            if let Some(entry) = self.entries.iter_mut().find(|e| named && e.path == file.path) {
                (entry.kind, entry.dir) = (kind, text::clean_line(&dir));
            }
        }
        self.refresh();
        if let Some(first) = first {
            self.select(&first);
        }
    }

    /// Mark the selected clip, or unmark it, and go to the next one.
    pub fn toggle_mark(&mut self) {
        let Some(path) = self.selected().map(|e| e.path.clone()) else { return };
        match self.marked.iter().position(|marked| *marked == path) {
            Some(at) => drop(self.marked.remove(at)),
            None => self.marked.push(path),
        }
        self.cursor = (self.cursor + 1).min(self.shown.len().saturating_sub(1));
    }

    /// Mark all clips that are shown, in their order; if they are marked already, none.
    pub fn toggle_all(&mut self) {
        let shown: Vec<PathBuf> = self.shown.iter().map(|i| self.entries[*i].path.clone()).collect();
        let marked: HashSet<PathBuf> = self.marked.iter().cloned().collect();
        if shown.iter().all(|path| marked.contains(path)) {
            let shown: HashSet<&PathBuf> = shown.iter().collect();
            self.marked.retain(|path| !shown.contains(path));
        } else {
            self.marked.extend(shown.into_iter().filter(|path| !marked.contains(path)));
        }
    }

    /// Add a file that was opened by its path, and select it.
    pub fn open(&mut self, file: &VideoFile) {
        let (name, parent) = names(file);
        self.push(Kind::File, &name, &parent, file);
        self.filter.clear();
        self.refresh();
        self.select(&file.path);
    }

    pub fn select(&mut self, path: &Path) {
        if let Some(at) = self.shown.iter().position(|i| self.entries[*i].path == path) {
            self.cursor = at;
        }
    }

    /// Add the found files, unless they are listed already, perhaps under another path.
    fn add(&mut self, kind: Kind, title: &str, dir: &str, file: &VideoFile) {
        let is_named = kind == Kind::Named;
        if is_named || !self.entries.iter().any(|entry| entry.is_copy(file)) {
            self.push(kind, title, dir, file);
        }
    }

    fn push(&mut self, kind: Kind, title: &str, dir: &str, file: &VideoFile) {
        if !self.entries.iter().any(|e| e.path == file.path) {
            let VideoFile { path, bytes, modified } = file.clone();
            let (title, dir) = (text::clean_line(title), text::clean_line(dir));
            self.entries.push(Entry { title, dir, path, kind, bytes, modified, facts: None });
        }
    }

    /// Switch to the next order; the selection stays.
    pub fn sort_next(&mut self) {
        self.sort = self.sort.next();
        self.refresh();
    }

    /// Set the moments that were found for these words. If these are the words of the filter, the clips of
    /// the moments are also listed, after clips whose names match.
    pub fn set_moments(&mut self, words: &str, moments: Vec<Moment>) {
        let mut found: BTreeMap<PathBuf, Vec<Moment>> = BTreeMap::new();
        for moment in moments {
            found.entry(moment.path.clone()).or_default().push(moment);
        }
        self.found = (words.to_owned(), found);
        self.refresh();
    }

    /// The moments of a clip that were found last.
    pub fn moments_of(&self, path: &Path) -> &[Moment] {
        self.found.1.get(path).map_or(&[], Vec::as_slice)
    }

    /// The best moment of a clip by the filter.
    pub fn best_moment(&self, entry: &Entry) -> Option<&Moment> {
        let is_filter = !self.filter.is_empty() && self.found.0 == self.filter.trim();
        self.moments_of(&entry.path).first().filter(|_| is_filter)
    }

    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.found = Default::default();
        self.cursor = 0;
        self.refresh_keeping(None);
    }

    pub fn clear_filter(&mut self) {
        self.filter.clear();
        self.found = Default::default();
        self.refresh();
    }

    fn refresh(&mut self) {
        let selected = self.selected().map(|e| e.path.clone());
        self.refresh_keeping(selected);
    }

    fn refresh_keeping(&mut self, selected: Option<PathBuf>) {
        self.shown = (0..self.entries.len()).collect();
        self.shown.sort_by(|a, b| self.sort.compare(&self.entries[*a], &self.entries[*b]));
        if !self.filter.is_empty() {
            let text = |i: &usize| format!("{}/{}", self.entries[*i].dir, self.entries[*i].title);
            let shown = std::mem::take(&mut self.shown).into_iter();
            self.shown = fuzzy(&self.filter, Config::DEFAULT.match_paths(), shown, text);
            let named: HashSet<usize> = self.shown.iter().copied().collect();
            let score = |index: &usize| self.best_moment(&self.entries[*index]).map(|moment| moment.score);
            let others = (0..self.entries.len()).filter(|index| !named.contains(index));
            let mut inside: Vec<(usize, f64)> =
                others.filter_map(|index| Some((index, score(&index)?))).collect();
            inside.sort_by(|a, b| b.1.total_cmp(&a.1));
            self.shown.extend(inside.into_iter().map(|(index, _)| index));
        }
        self.cursor = self.cursor.min(self.shown.len().saturating_sub(1));
        if let Some(path) = selected {
            self.select(&path);
        }
    }

    /// The clip nearest to the selected one that was not probed yet, among those close to it.
    pub fn unknown_near(&self) -> Option<PathBuf> {
        let near = self.shown.iter().enumerate().filter(|(_, i)| self.entries[**i].facts.is_none());
        let near = near.map(|(at, i)| (at.abs_diff(self.cursor), *i)).filter(|(far, _)| *far < MAX_NEAR);
        near.min().map(|(_, i)| self.entries[i].path.clone())
    }

    pub fn set_facts(&mut self, path: &Path, facts: Result<ClipFacts, String>) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.path == path) {
            entry.facts = Some(facts.map_err(|problem| text::clean_line(&problem)));
            if self.sort == Sort::Duration {
                self.refresh();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        let mut library = Library::default();
        library.add_clip("Red ball", Path::new("/d/0.mp4"));
        let file = |p: &str| VideoFile { path: p.into(), bytes: Some(p.len() as u64), modified: None };
        library.add_folder(Path::new("/v"), vec![file("/v/birds.mp4"), file("/v/sea/waves.mkv")]);
        library
    }

    fn found(path: &str) -> VideoFile {
        VideoFile { path: path.into(), bytes: None, modified: None }
    }

    fn titles(library: &Library) -> Vec<&str> {
        library.shown.iter().map(|i| library.entries[*i].title.as_str()).collect()
    }

    #[test]
    fn every_order_keeps_the_selection_and_what_is_unknown_is_last() {
        let mut library = library();
        library.select(Path::new("/v/sea/waves.mkv"));
        library.entries[1].modified = Some(SystemTime::UNIX_EPOCH);
        let length = |seconds| ClipFacts { seconds: Some(seconds), ..ClipFacts::default() };
        let mut orders = Vec::new();
        for _ in 0..5 {
            library.sort_next();
            if library.sort == Sort::Duration {
                library.set_facts(Path::new("/d/0.mp4"), Ok(length(3.0)));
                library.set_facts(Path::new("/v/birds.mp4"), Ok(length(9.0)));
            }
            orders.push((library.sort.name(), titles(&library).join(" ")));
            assert_eq!(library.selected().unwrap().title, "waves.mkv");
        }
        let want = [
            ("by name", "birds.mp4 Red ball waves.mkv"),
            ("longest", "birds.mp4 Red ball waves.mkv"),
            ("largest", "waves.mkv birds.mp4 Red ball"),
            ("newest", "birds.mp4 Red ball waves.mkv"),
            ("", "Red ball birds.mp4 waves.mkv"),
        ];
        assert_eq!(orders, want.map(|(name, titles)| (name, titles.to_owned())));
    }

    #[test]
    fn recent_files_come_after_the_clips_whenever_they_are_known() {
        let recent = [found("/v/sea/waves.mkv"), found("/x/a.mp4")];
        let mut late = library();
        late.add_recent(&recent);
        assert_eq!(titles(&late), ["Red ball", "waves.mkv", "a.mp4", "birds.mp4"]);
        let mut early = Library::default();
        early.add_recent(&recent);
        early.add_clip("Red ball", Path::new("/d/0.mp4"));
        early.add_folder(Path::new("/v"), vec![found("/v/birds.mp4"), found("/v/sea/waves.mkv")]);
        assert_eq!(titles(&early), titles(&late));
        assert_eq!((early.entries[0].dir.as_str(), early.entries.len()), ("recent · /v/sea", 4));
    }

    #[test]
    fn the_named_folder_comes_first_and_is_selected_unless_the_user_went_elsewhere() {
        let files = || vec![found("/v/a.mp4"), found("/v/sea/waves.mkv")];
        let start = || {
            let mut library = Library { named: Some("/v".into()), ..Library::default() };
            library.add_clip("Red ball", Path::new("/d/0.mp4"));
            library.add_clip("Two squares", Path::new("/d/1.mp4"));
            library.add_recent(&[found("/v/a.mp4"), found("/x/b.mp4")]);
            library
        };
        let mut opened = start();
        opened.add_folder(Path::new("/v"), files());
        assert_eq!(titles(&opened), ["a.mp4", "waves.mkv", "Red ball", "Two squares", "b.mp4"]);
        assert_eq!(opened.selected().unwrap().title, "a.mp4");
        let mut moved = start();
        moved.cursor = 1;
        moved.add_folder(Path::new("/v"), files());
        assert_eq!(moved.selected().unwrap().title, "Two squares");
        let mut other = start();
        other.add_folder(Path::new("/w"), vec![found("/w/c.mp4")]);
        assert_eq!(other.selected().unwrap().title, "Red ball");
    }

    #[test]
    fn folders_show_where_a_file_is_from() {
        let library = library();
        assert_eq!(library.entries[1].dir, "v");
        assert_eq!(library.entries[2].dir, "v/sea");
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
        library.open(&found("/x/new.mov"));
        library.open(&found("/v/birds.mp4"));
        assert_eq!(library.entries.len(), 4);
        assert_eq!(library.selected().unwrap().title, "birds.mp4");
    }

    #[test]
    fn what_is_found_twice_is_there_once() {
        let file = |path: &str, bytes, seconds| VideoFile {
            path: path.into(),
            bytes: Some(bytes),
            modified: Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)),
        };
        let mut library = Library::default();
        library.add_clip("Red ball", Path::new("/cache/clips/ball.mp4"));
        library.entries[0].bytes = Some(7);
        library.add_recent(&[file("/v/a.mp4", 9, 1)]);
        // A copy of the embedded clip, a link to the recent file, another file of that name.
        let found = || vec![file("/w/ball.mp4", 7, 5), file("/w/a.mp4", 9, 1), file("/w/old/a.mp4", 9, 2)];
        library.add_folder(Path::new("/w"), found());
        let paths = |library: &Library| {
            library.entries.iter().map(|e| e.path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(paths(&library), "/cache/clips/ball.mp4 /v/a.mp4 /w/old/a.mp4");
        // What is asked for is there under the path that was named.
        library.open(&file("/w/a.mp4", 9, 1));
        assert_eq!(library.selected().unwrap().path, Path::new("/w/a.mp4"));
        library.named = Some("/w".into());
        library.add_folder(Path::new("/w"), found());
        assert_eq!(library.selected().unwrap().path, Path::new("/w/a.mp4"));
        assert!(paths(&library).contains("/w/ball.mp4"));
    }

    #[test]
    fn names_are_sanitised() {
        let mut library = Library::default();
        library.open(&found("/v/\u{1b}[31mevil\n.mp4"));
        assert_eq!(library.entries[0].title, "evil .mp4");
    }

    #[test]
    fn videos_are_known_by_their_extension() {
        assert!(is_video(Path::new("a.MP4")) && is_video(Path::new("b.webm")));
        assert!(!is_video(Path::new("c.txt")) && !is_video(Path::new("mp4")));
    }
}
