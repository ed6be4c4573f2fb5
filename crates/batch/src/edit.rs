//! A caption that a person has changed.

use super::sidecar::{hidden, replace};
use super::{claim::Claim, rows::Caption, *};
use specreel_record::Cues;

impl Caption {
    /// The caption with another text. Its record says so: `edited` is true, and `generated` has the models' text. Pieces
    /// become one, because nobody knows which words belong to which.
    pub fn edited(&self, text: &str) -> Self {
        let mut made = self.made.clone();
        made.shift_remove("empty");
        made.insert("edited".into(), true.into());
        made.entry("generated").or_insert_with(|| self.text.clone().into());
        let whole = self.pieces.first().zip(self.pieces.last());
        let whole = whole.map(|((first, _), (last, _))| Span { start: first.start, end: last.end });
        let pieces = whole.into_iter().map(|span| (span, text.to_owned())).collect();
        Self { text: text.to_owned(), pieces, prefix: None, made, ..self.clone() }
    }

    /// True if a person has changed it.
    pub fn is_edited(&self) -> bool {
        self.made.get("edited").and_then(serde_json::Value::as_bool) == Some(true)
    }
}

/// Replace the sidecar next to a clip by an edited caption, atomically. Returns the file. Fails if another process writes it, or
/// it cannot be written; what existed stays.
pub fn save(clip: &Clip, sidecar: Sidecar, cues: Cues, caption: &Caption) -> Result<PathBuf, Failure> {
    let path = sidecar.path(clip, None);
    let lock = hidden(&path, "lock");
    let Some(_claim) = Claim::take(&lock).map_err(|error| unwritable(&lock, &error))? else {
        return Err(Failure::input(
            format!("another process writes {}", path.display()),
            "save again once it has ended",
        ));
    };
    let contents = sidecar.contents(clip, std::slice::from_ref(caption), cues);
    replace(&path, contents.as_bytes()).map_err(|error| unwritable(&path, &error))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_caption_replaces_the_file_and_says_what_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let clip = Clip { root: dir.path().into(), relative: "a.mp4".into(), file: None };
        let span = |start, end| Span { start, end };
        let pieces = vec![(span(0.0, 2.0), "A disc.".into()), (span(2.0, 5.0), "It falls.".into())];
        let written = Caption { text: "A disc. It falls.".into(), pieces, ..Caption::default() };
        assert!(!written.is_edited());
        let once = written.edited("A red disc.");
        let twice = once.edited("A red disc\nfalls.");
        assert!(once.is_edited() && twice.is_edited());
        assert_eq!(twice.made["generated"], "A disc. It falls.", "the models' text, not the first edit");
        assert_eq!(twice.pieces, [(span(0.0, 5.0), "A red disc\nfalls.".to_owned())]);

        std::fs::write(dir.path().join("a.txt"), "old").unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(save(&clip, Sidecar::Txt, Cues::Clip, &twice).unwrap()), "A red disc\nfalls.\n");
        let json: serde_json::Value =
            serde_json::from_str(&read(save(&clip, Sidecar::Json, Cues::Clip, &twice).unwrap())).unwrap();
        assert_eq!((&json["captions"][0]["edited"], &json["video"]), (&true.into(), &"a.mp4".into()));
        // While another process writes it, it stays.
        let claim = Claim::take(&dir.path().join(".a.txt.lock")).unwrap();
        let failure = save(&clip, Sidecar::Txt, Cues::Clip, &written).unwrap_err();
        assert!(failure.error.starts_with("another process writes"), "{failure:?}");
        drop(claim);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
