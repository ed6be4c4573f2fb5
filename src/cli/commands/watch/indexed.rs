//! The captions of a watched file in the index of a library.

use super::reader::Origin;
use super::*;
use crate::cli::resolve::library;
use specreel_batch::{Clip, Store, rows::Caption};
use specreel_library::Index;

pub struct Indexed {
    index: Index,
    clip: Clip,
    /// Of all segments so far.
    caption: Caption,
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
        // Recorded times are rounded to milliseconds.
        let pieces = continued_s.map(|until| index.pieces(&clip, prompt, until + 0.001)).transpose()?;
        let pieces = pieces.unwrap_or_default();
        Ok(Self { index, clip, caption: Caption { prompt: prompt.to_owned(), pieces, ..Caption::default() } })
    }

    /// Keep the caption of a segment. Fails if the index cannot be written, or the file cannot be read.
    pub fn add(&mut self, span: Span, log: &RunLog) -> Result<(), Failure> {
        if let Some(started) = log.started() {
            let made =
                [("target", started.target.clone().into()), ("method", started.method["name"].clone())];
            self.caption.made = made.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        }
        self.caption.pieces.push((span, log.text().trim().to_owned()));
        self.index.write(&self.clip, std::slice::from_ref(&self.caption))
    }
}
