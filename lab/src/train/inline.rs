//! Pictures within a terminal's text: redrawn in place, and left there at the end.

use std::io::{self, Write};

use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::queue;
use crossterm::style::{Attribute, PrintStyledContent, SetAttribute, StyledContent};
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use ratatui::{backend::IntoCrossterm, buffer::Buffer};

use specreel_client::present::text::width;

#[derive(Debug)]
pub struct Inline<W: Write> {
    out: W,
    shown: (u16, u16),
}

impl<W: Write> Inline<W> {
    pub fn new(out: W) -> Self {
        Self { out, shown: (0, 0) }
    }

    /// Draw a picture in place of the previous one.
    pub fn draw(&mut self, picture: &Buffer) -> io::Result<()> {
        let area = picture.area;
        queue!(self.out, BeginSynchronizedUpdate)?;
        // A narrower terminal has wrapped the old picture, which therefore stays.
        if self.shown.0 <= area.width {
            self.back()?;
        }
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                let Some(cell) = picture.cell((x, y)) else { continue };
                // The cell after a wide character belongs to it.
                let wide = x > area.left() && picture.cell((x - 1, y)).is_some_and(|c| width(c.symbol()) > 1);
                if !wide {
                    let style = cell.style().into_crossterm();
                    queue!(self.out, PrintStyledContent(StyledContent::new(style, cell.symbol())))?;
                }
            }
            queue!(self.out, SetAttribute(Attribute::Reset))?;
            self.out.write_all(b"\r\n")?;
        }
        queue!(self.out, EndSynchronizedUpdate)?;
        self.shown = (area.width, area.height);
        self.out.flush()
    }

    /// Write a line of text above the picture, which disappears until it is drawn again.
    pub fn above(&mut self, line: &str) -> io::Result<()> {
        self.back()?;
        self.shown = (0, 0);
        write!(self.out, "{line}\r\n")?;
        self.out.flush()
    }

    fn back(&mut self) -> io::Result<()> {
        if self.shown.1 > 0 {
            queue!(self.out, MoveUp(self.shown.1), MoveToColumn(0), Clear(ClearType::FromCursorDown))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{
        layout::Rect,
        style::{Color, Style},
    };

    use super::*;

    fn picture(text: &str, width: u16) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, 2));
        buffer.set_string(0, 0, text, Style::new().fg(Color::Red));
        buffer.set_string(0, 1, "below", Style::new());
        buffer
    }

    fn screen(bytes: &[u8]) -> String {
        let cells = |n| std::num::NonZeroU16::new(n).unwrap();
        let mut parser = vt100::Parser::new(cells(8), cells(20), 0);
        parser.process(bytes);
        parser.screen().contents().lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    #[test]
    fn a_picture_takes_the_place_of_the_last_one() {
        let mut bytes = b"before\r\n".to_vec();
        let mut inline = Inline::new(&mut bytes);
        inline.draw(&picture("first", 10)).unwrap();
        inline.draw(&picture("日本 then", 12)).unwrap();
        assert_eq!(screen(&bytes), "before\n日本 then\nbelow\n");
        let mut inline = Inline { out: &mut bytes, shown: (12, 2) };
        inline.above("a word").unwrap();
        inline.draw(&picture("last", 10)).unwrap();
        assert_eq!(screen(&bytes), "before\na word\nlast\nbelow\n");
    }

    #[test]
    fn colors_end_with_their_line() {
        let mut bytes = Vec::new();
        Inline::new(&mut bytes).draw(&picture("red", 4)).unwrap();
        bytes.extend(b"x");
        let cells = |n| std::num::NonZeroU16::new(n).unwrap();
        let mut parser = vt100::Parser::new(cells(8), cells(20), 0);
        parser.process(&bytes);
        let color = |row, column| parser.screen().cell(row, column).unwrap().fgcolor();
        assert_ne!(color(0, 0), vt100::Color::Default);
        assert_eq!(color(2, 0), vt100::Color::Default);
    }
}
