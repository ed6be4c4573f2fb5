//! The file of finished captions, which an interrupted run leaves whole and the next one continues.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::output::new_file::{Named, OutputFile};
use specreel_client::present::export::{Subtitles, subtitles::Cutter, timed};
use specreel_record::{Cues, Failure, Span, span::seconds};

const OUT: Named = Named {
    flag: "--out",
    what: "the captions to ",
    on_failure: "captions written so far are kept; check the free disk space",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Subtitles(Subtitles),
    JsonLines,
}

pub struct Record {
    file: OutputFile,
    format: Format,
    cues: Cues,
    /// Cues in the file.
    count: usize,
}

impl Record {
    /// Create a file, or continue it; also returns the end of its last caption in seconds. The extension decides on the format.
    /// Fails for other extensions (class usage), and if the file holds something else (class input).
    pub fn open(path: &Path, cues: Cues, resume: bool, force: bool) -> Result<(Self, f64), Failure> {
        let format = match path.extension().and_then(|end| end.to_str()) {
            Some("srt") => Format::Subtitles(Subtitles::Srt),
            Some("vtt") => Format::Subtitles(Subtitles::Vtt),
            Some("jsonl") => Format::JsonLines,
            _ => {
                return Err(Failure::usage(
                    format!("unknown format of --out {}", path.display()),
                    "expected a file name that ends in .srt, .vtt or .jsonl",
                ));
            }
        };
        let kept = match std::fs::read(path) {
            Ok(bytes) if resume => Some(kept(format, &bytes).ok_or_else(|| {
                Failure::input(
                    format!("{} does not hold captions of this format", path.display()),
                    "choose another file for --out, or leave out --resume",
                )
            })?),
            _ => None,
        };
        let (file, Kept { count, end_s, bytes }) = match kept {
            Some(kept) => (OutputFile::resume(OUT, path, kept.bytes)?, kept),
            None => (OutputFile::create(OUT, path, force)?, Kept::default()),
        };
        let mut record = Self { file, format, cues, count };
        if let (Format::Subtitles(subtitles), 0) = (format, bytes) {
            record.file.append(subtitles.head().as_bytes())?;
        }
        Ok((record, end_s))
    }

    /// Append the caption of a segment, in one write.
    pub fn append(&mut self, span: Span, text: &str) -> Result<(), Failure> {
        let written = match self.format {
            Format::JsonLines => line(&json!({"start": span.start, "end": span.end, "text": text.trim()})),
            Format::Subtitles(subtitles) => {
                let mut cutter = Cutter::new(self.cues);
                let mut cues: Vec<_> =
                    timed(span, text).iter().flat_map(|(span, text)| cutter.push(*span, text)).collect();
                cues.extend(cutter.finish());
                let first = self.count + 1;
                self.count += cues.len();
                cues.iter().zip(first..).map(|(cue, number)| subtitles.cue(number, cue)).collect()
            }
        };
        self.file.append(written.as_bytes())
    }

    /// Record a part without a caption, where the format has a place for it.
    pub fn skipped(&mut self, span: Span) -> Result<(), Failure> {
        match self.format {
            Format::JsonLines => {
                let skipped = json!({"start": span.start, "end": span.end, "skipped": true});
                self.file.append(line(&skipped).as_bytes())
            }
            Format::Subtitles(_) => Ok(()),
        }
    }
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// What a file has of complete captions.
#[derive(Debug, Default, PartialEq)]
struct Kept {
    bytes: u64,
    count: usize,
    end_s: f64,
}

/// Read a file that may end anywhere; `None` if it is of another kind.
fn kept(format: Format, bytes: &[u8]) -> Option<Kept> {
    let separator: &[u8] = if format == Format::JsonLines { b"\n" } else { b"\n\n" };
    let whole = bytes.windows(separator.len()).rposition(|part| part == separator);
    let bytes = &bytes[..whole.map_or(0, |at| at + separator.len())];
    let text = std::str::from_utf8(bytes).ok()?;
    let mut kept = Kept { bytes: bytes.len() as u64, ..Kept::default() };
    let blocks = match format {
        Format::JsonLines => {
            text.lines().map(|line| serde_json::from_str::<Value>(line).ok()?["end"].as_f64()).collect()
        }
        Format::Subtitles(subtitles) => {
            let body = text.strip_prefix(subtitles.head()).or_else(|| text.is_empty().then_some(""))?;
            body.split_terminator("\n\n").map(end_of_cue).collect::<Option<Vec<f64>>>()
        }
    };
    for end in blocks? {
        kept.count += 1;
        kept.end_s = end;
    }
    Some(kept)
}

/// The end of a cue, in seconds.
fn end_of_cue(cue: &str) -> Option<f64> {
    let times = cue.lines().find_map(|line| line.split_once(" --> "))?;
    seconds(&times.1.replace(',', "."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    fn write(path: &Path, resume: bool, spans: &[[f64; 2]]) -> f64 {
        let (mut record, from) = Record::open(path, Cues::Clip, resume, false).unwrap();
        for [start, end] in spans {
            record.append(Span { start: *start, end: *end }, " A dog. \n").unwrap();
        }
        from
    }

    #[test]
    fn a_file_that_was_cut_off_anywhere_is_continued() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.srt", "a.vtt", "a.jsonl"] {
            let path = dir.path().join(name);
            let all = [[0.0, 30.0], [30.0, 60.0], [60.0, 75.5]];
            assert_eq!(write(&path, false, &all), 0.0);
            let whole = std::fs::read(&path).unwrap();
            for cut in 0..=whole.len() {
                std::fs::write(&path, &whole[..cut]).unwrap();
                let from = write(&path, true, &[]);
                let rest: Vec<[f64; 2]> = all.into_iter().filter(|[start, _]| *start >= from).collect();
                assert_eq!(write(&path, true, &rest), from, "{name} at {cut}");
                assert_eq!(std::fs::read(&path).unwrap(), whole, "{name} at {cut}");
            }
        }
    }

    #[test]
    fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.srt");
        std::fs::write(&path, "Buy milk.\n\n").unwrap();
        let open = |path: &Path, resume| Record::open(path, Cues::Clip, resume, false).err().unwrap().class;
        assert_eq!((open(&path, true), open(&path, false)), (FailureClass::Input, FailureClass::Usage));
        assert_eq!(std::fs::read(&path).unwrap(), b"Buy milk.\n\n");
        assert_eq!(open(&dir.path().join("a.txt"), false), FailureClass::Usage);
    }
}
