//! The captions of a watched file in the index of a library.

use super::reader::Origin;
use super::*;
use crate::cli::resolve::library;
use specreel_batch::{Clip, Store, rows::Caption};
use specreel_library::Index;

pub struct Indexed {
    index: Index,
    clip: Clip,
    prompt: String,
    /// Captions up to this second are kept; none if there are none yet.
    kept_s: Option<f64>,
}

impl Indexed {
    /// An index at this path, by default the one of the data directory, for the answers to this prompt. A stream that is continued
    /// after some seconds keeps the captions before. Fails if the stream is no file (class usage), or the index cannot be written.
    pub fn open(
        path: Option<&Path>,
        origin: &Origin,
        prompt: &str,
        continued_s: Option<f64>,
    ) -> Result<Self, Failure> {
        let Origin::File(file) = origin else {
            return Err(Failure::usage(
                "--index keeps moments of a file, and this stream is none",
                "record the stream to a file and watch that, or use --out",
            ));
        };
        let (index, clip) = (Index::open(&library::file(path)?)?, Clip::of_file(file));
        Ok(Self { index, clip, prompt: prompt.to_owned(), kept_s: continued_s })
    }

    /// Keep the caption of a segment. Fails if the index cannot be written, or the file cannot be read.
    pub fn add(&mut self, span: Span, log: &RunLog) -> Result<(), Failure> {
        let made = log.started().map(library::made).unwrap_or_default();
        let pieces = vec![(span, log.text().trim().to_owned())];
        let caption = Caption { prompt: self.prompt.clone(), pieces, made, ..Caption::default() };
        match self.kept_s.replace(span.end) {
            None => self.index.write(&self.clip, &[caption]),
            // Recorded times are rounded to milliseconds.
            Some(kept_s) => self.index.extend(&self.clip, &caption, kept_s + 0.001),
        }
    }
}
