//! The file of finished captions, which an interrupted run leaves whole and the next one continues.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::output::new_file::{Named, OutputFile};
use specreel_batch::text::one_line;
use specreel_client::present::export::subtitles::{Cutter, stamp};
use specreel_client::present::export::{Outline, Subtitles, timed};
use specreel_record::{Cues, Failure, Span, span::seconds};

const OUT: Named = Named {
    flag: "--out",
    what: "the captions to ",
    on_failure: "captions written so far are kept; check the free disk space",
    private: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Subtitles(Subtitles),
    /// Each caption on a line, after its times.
    Text,
    JsonLines,
    Chapters,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()? {
            "srt" => Format::Subtitles(Subtitles::Srt),
            "vtt" => Format::Subtitles(Subtitles::Vtt),
            "txt" => Format::Text,
            "jsonl" => Format::JsonLines,
            "ffmetadata" => Format::Chapters,
            _ => return None,
        })
    }

    /// What a file begins with.
    fn head(self) -> &'static str {
        match self {
            Format::Subtitles(subtitles) => subtitles.head(),
            Format::Chapters => Outline::CHAPTERS,
            Format::Text | Format::JsonLines => "",
        }
    }

    /// True for the last line of an entry.
    fn ends(self, line: &str) -> bool {
        match self {
            Format::Subtitles(_) => line == "\n",
            Format::Chapters => line.starts_with("title=") && line.ends_with('\n'),
            Format::Text | Format::JsonLines => line.ends_with('\n'),
        }
    }

    /// The end of an entry, in seconds; `None` if it is something else.
    fn end_s(self, entry: &str) -> Option<f64> {
        match self {
            Format::JsonLines => serde_json::from_str::<Value>(entry).ok()?["end"].as_f64(),
            Format::Subtitles(_) | Format::Text => {
                let (_, end) = entry.lines().find_map(|line| line.split_once(" --> "))?;
                seconds(&end.split(']').next()?.replace(',', "."))
            }
            Format::Chapters => {
                let end = entry.lines().find_map(|line| line.strip_prefix("END="))?;
                Some(end.parse::<u64>().ok()? as f64 / 1000.0)
            }
        }
    }
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
        let format = Format::of(path).ok_or_else(|| {
            Failure::usage(
                format!("unknown format of --out {}", path.display()),
                "expected a file name that ends in .srt, .vtt, .txt, .jsonl or .ffmetadata",
            )
        })?;
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
        if bytes == 0 && !format.head().is_empty() {
            record.file.append(format.head().as_bytes())?;
        }
        Ok((record, end_s))
    }

    /// Append the caption of a segment, in one write.
    pub fn append(&mut self, span: Span, text: &str) -> Result<(), Failure> {
        let written = match self.format {
            Format::JsonLines => line(&json!({"start": span.start, "end": span.end, "text": text.trim()})),
            Format::Text => format!("{} {}\n", stamp(span), one_line(text)),
            Format::Chapters => {
                Outline::Chapters.file(&timed(span, text), None).split_off(Outline::CHAPTERS.len())
            }
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
            Format::Subtitles(_) | Format::Text | Format::Chapters => Ok(()),
        }
    }
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// The complete captions in a file.
#[derive(Debug, Default, PartialEq)]
struct Kept {
    bytes: u64,
    count: usize,
    end_s: f64,
}

/// Read a file that may end anywhere; `None` if it is of another kind.
fn kept(format: Format, bytes: &[u8]) -> Option<Kept> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(torn) if torn.error_len().is_none() => std::str::from_utf8(&bytes[..torn.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let head = format.head();
    let Some(body) = text.strip_prefix(head) else {
        return head.starts_with(text).then(Kept::default);
    };
    let mut kept = Kept { bytes: head.len() as u64, ..Kept::default() };
    let (mut begin, mut at) = (0, 0);
    for line in body.split_inclusive('\n') {
        at += line.len();
        if format.ends(line) {
            kept.end_s = format.end_s(&body[begin..at])?;
            kept.count += 1;
            begin = at;
        }
    }
    kept.bytes += begin as u64;
    Some(kept)
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
        for name in ["a.srt", "a.vtt", "a.txt", "a.jsonl", "a.ffmetadata"] {
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
        assert_eq!(open(&dir.path().join("a.json"), false), FailureClass::Usage);
    }
}
