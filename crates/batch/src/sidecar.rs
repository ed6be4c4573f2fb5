//! The file next to a clip.

use serde_json::json;

use super::rows::{Caption, object};
use super::text::{one_line, prefixed};
use super::*;
use specreel_client::present::export::{Format, Outline, Subtitles, subtitles::Cutter, timed};
use specreel_record::Cues;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sidecar {
    /// The caption; with several prompts, one per line.
    Txt,
    Srt,
    Vtt,
    /// Chapters as FFmpeg's metadata file.
    Chapters,
    /// Chapters as lines of a description on YouTube.
    Youtube,
    Json,
}

impl Sidecar {
    /// The extension that an export of this form has.
    pub fn extension(self) -> &'static str {
        let format = match self {
            Sidecar::Txt => Format::Text,
            Sidecar::Srt => Format::Srt,
            Sidecar::Vtt => Format::Vtt,
            Sidecar::Chapters => Format::Chapters,
            Sidecar::Youtube => Format::Youtube,
            Sidecar::Json => Format::Json,
        };
        format.ending()
    }

    pub fn subtitles(self) -> Option<Subtitles> {
        match self {
            Sidecar::Srt => Some(Subtitles::Srt),
            Sidecar::Vtt => Some(Subtitles::Vtt),
            _ => None,
        }
    }

    pub fn chapters(self) -> Option<Outline> {
        match self {
            Sidecar::Chapters => Some(Outline::Chapters),
            Sidecar::Youtube => Some(Outline::Youtube),
            _ => None,
        }
    }

    /// True if it says when its texts are shown.
    pub fn is_timed(self) -> bool {
        self.subtitles().is_some() || self.chapters().is_some()
    }

    /// The sidecar of a clip: next to it, or at the same place below another directory; its name with another extension.
    pub fn path(self, clip: &Clip, out: Option<&Path>) -> PathBuf {
        let base = out.unwrap_or(&clip.root).join(&clip.relative);
        base.with_extension(self.extension())
    }

    pub fn contents(self, clip: &Clip, captions: &[Caption], cues: Cues) -> String {
        if let Some(format) = self.subtitles() {
            return format.file(cues, events(captions).iter().map(|(span, text)| (*span, text.as_str())));
        }
        if let Some(format) = self.chapters() {
            return format.file(&events(captions), None);
        }
        match captions {
            [one] if self == Sidecar::Txt => format!("{}\n", one.text),
            several if self == Sidecar::Txt => several.iter().map(|c| one_line(&c.text) + "\n").collect(),
            captions => {
                let name = clip.relative.file_name().unwrap_or_default().to_string_lossy();
                let caption = |caption: &Caption| {
                    let mut row = object("", caption);
                    if let Value::Object(row) = &mut row {
                        row.shift_remove("video");
                    }
                    row
                };
                let all: Vec<Value> = captions.iter().map(caption).collect();
                let whole = json!({ "video": name, "captions": all });
                serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
            }
        }
    }

    /// What viewers should know about the file.
    pub fn note(self, captions: &[Caption], cues: Cues) -> Option<String> {
        if let Some(format) = self.chapters() {
            return format.note(&events(captions));
        }
        self.subtitles()?;
        let mut cutter = Cutter::new(cues);
        events(captions).iter().for_each(|(span, text)| drop(cutter.push(*span, text)));
        cutter.finish();
        cutter.note()
    }
}

/// The pieces of captions, or their events, with times.
fn events(captions: &[Caption]) -> Vec<(Span, String)> {
    let events = |caption: &Caption| {
        let events = caption.pieces.iter().flat_map(|(span, text)| timed(*span, text));
        events.map(|(span, text)| (span, prefixed(caption.prefix.as_deref(), text))).collect::<Vec<_>>()
    };
    captions.iter().flat_map(events).collect()
}

/// An existing caption with a new one after or before it, on the same line.
pub fn combined(old: &str, new: &str, after: bool) -> String {
    let (old, new) = (old.trim(), new.trim());
    let (first, second) = if after { (old, new) } else { (new, old) };
    match (first, second) {
        ("", one) | (one, "") => format!("{one}\n"),
        (first, second) => format!("{first} {second}\n"),
    }
}

/// Write a file that the caller has claimed as a whole: to a hidden file next to it, which then replaces it.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = hidden(path, "part");
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&part)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&part, path)
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

/// The hidden file of a file: `.name.suffix` next to it.
pub fn hidden(path: &Path, suffix: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::Span;

    fn caption(prompt: &str, text: &str) -> Caption {
        let pieces = vec![(Span { start: 0.0, end: 2.0 }, text.to_owned())];
        Caption { prompt: prompt.into(), text: text.into(), pieces, ..Caption::default() }
    }

    #[test]
    fn sidecars_have_the_name_of_their_clip() {
        let clip = Clip { root: Path::new("/c").into(), relative: "a/b.c.mp4".into(), file: None };
        assert_eq!(Sidecar::Txt.path(&clip, None), Path::new("/c/a/b.c.txt"));
        assert_eq!(Sidecar::Srt.path(&clip, Some("/o".as_ref())), Path::new("/o/a/b.c.srt"));
        assert_eq!(Sidecar::Youtube.path(&clip, None), Path::new("/c/a/b.c.youtube.txt"));
        assert_eq!(hidden("/c/a.txt".as_ref(), "lock"), Path::new("/c/.a.txt.lock"));
    }

    #[test]
    fn contents_by_form() {
        let clip = Clip::of_file("a.mp4".as_ref());
        let (one, two) = (caption("p", "A\ndisc."), caption("q", "Red."));
        assert_eq!(Sidecar::Txt.contents(&clip, std::slice::from_ref(&one), Cues::Clip), "A\ndisc.\n");
        assert_eq!(Sidecar::Txt.contents(&clip, &[one.clone(), two.clone()], Cues::Clip), "A disc.\nRed.\n");
        let srt = Sidecar::Srt.contents(&clip, std::slice::from_ref(&two), Cues::Clip);
        assert_eq!(srt, "1\n00:00:00,000 --> 00:00:02,000\nRed.\n\n");
        let prefixed = Caption { prefix: Some("ohwx".into()), ..caption("r", "ohwx Red.") };
        let prefixed = Caption { pieces: two.pieces.clone(), ..prefixed };
        for sidecar in [Sidecar::Srt, Sidecar::Vtt, Sidecar::Chapters, Sidecar::Youtube, Sidecar::Json] {
            let contents = sidecar.contents(&clip, std::slice::from_ref(&prefixed), Cues::Clip);
            assert!(contents.contains("ohwx Red"), "{contents}");
        }
        let json: Value =
            serde_json::from_str(&Sidecar::Json.contents(&clip, &[one, two], Cues::Clip)).unwrap();
        assert_eq!((&json["video"], &json["captions"][1]["caption"]), (&json!("a.mp4"), &json!("Red.")));
        assert!(json["captions"][0].get("video").is_none());
    }

    #[test]
    fn captions_are_combined() {
        assert_eq!(combined("A cat.\n", "It sits.", true), "A cat. It sits.\n");
        assert_eq!(combined("A cat.\n", "It sits.", false), "It sits. A cat.\n");
        assert_eq!(combined(" \n", "It sits.", true), "It sits.\n");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x/a.txt");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        // A directory is in the way.
        std::fs::create_dir(dir.path().join("x/b.txt")).unwrap();
        std::fs::write(dir.path().join("x/b.txt/file"), "").unwrap();
        assert!(replace(&dir.path().join("x/b.txt"), b"two").is_err());
        assert_eq!(std::fs::read_dir(dir.path().join("x")).unwrap().count(), 2);
    }
}
