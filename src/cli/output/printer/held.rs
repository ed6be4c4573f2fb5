//! Captions that are held back until their steps are printed.

use std::io::{self, Write};

use super::Printer;

impl<O: Write, E: Write> Printer<O, E> {
    /// True if the caption is written at the end: on a terminal it would be torn apart by the lines of its steps.
    pub(crate) fn holds(&self) -> bool {
        self.style.steps && self.style.terminal && !self.style.json && self.style.subtitles.is_none()
    }

    pub(crate) fn release(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        self.out.write_all(b"\n")?;
        self.chunks(0..self.run().chunks().len())
    }
}
