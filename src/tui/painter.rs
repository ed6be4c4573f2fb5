//! Pictures by the terminal's graphics protocol, drawn over half-blocks.
//!
//! Scaling and encoding run off the studio's thread, one picture at a time, the newest first. Until a picture is ready, the
//! previous one stays. The last few are kept, and kitty's image numbers are reused, so that the terminal keeps no more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{collections::VecDeque, sync::Arc};

use image::{DynamicImage, RgbImage};
use ratatui::layout::{Rect, Size};
use ratatui::{buffer::Buffer, widgets::Widget};
use ratatui_image::protocol::{Protocol, iterm2::Iterm2, kitty::Kitty, sixel::Sixel};
use ratatui_image::{FilterType, FontSize, Image, Resize};

use crate::tui::{images::ImageProtocol, question, widgets::Slot};
use specreel_video::Frame;

/// How many pictures are kept.
const KEPT: usize = 8;
/// The size of a cell if the terminal does not say; pictures may then be too coarse or too fine.
const USUAL_CELL: (u16, u16) = (8, 16);

/// A picture at a size.
#[derive(Clone)]
struct Key {
    frame: Arc<Frame>,
    size: Size,
}

impl Key {
    fn is(&self, other: &Key) -> bool {
        Arc::ptr_eq(&self.frame, &other.frame) && self.size == other.size
    }
}

/// Work for another thread: one picture, scaled and encoded.
pub(crate) struct Job {
    key: Key,
    protocol: ImageProtocol,
    cell: (u16, u16),
    inside: bool,
    number: u32,
}

/// An encoded picture; `None` if it cannot be encoded.
pub(crate) struct Painted(Key, Option<Protocol>);

/// The pictures that are drawn, and the one to draw next.
pub(crate) struct Painter {
    protocol: ImageProtocol,
    inside: bool,
    cell: (u16, u16),
    kept: VecDeque<(Key, Option<Protocol>)>,
    /// The picture that the screen should show.
    wanted: Option<Key>,
    /// The picture that is on the screen, and where.
    standing: Option<(Key, Rect)>,
    working: bool,
    made: u32,
}

impl Painter {
    /// `inside` a multiplexer, pictures are passed through to the outer terminal.
    pub fn new(protocol: ImageProtocol, cell: Option<(u16, u16)>, inside: bool) -> Self {
        Self {
            protocol,
            inside,
            cell: cell.unwrap_or(USUAL_CELL),
            kept: VecDeque::new(),
            wanted: None,
            standing: None,
            working: false,
            made: 0,
        }
    }

    fn is_graphic(&self) -> bool {
        matches!(self.protocol, ImageProtocol::Kitty | ImageProtocol::Iterm2 | ImageProtocol::Sixel)
    }

    /// The size of a cell may have changed.
    pub fn set_cell(&mut self, cell: Option<(u16, u16)>) {
        if let Some(cell) = cell.filter(|c| *c != self.cell) {
            self.cell = cell;
            self.forget();
        }
    }

    /// The terminal may have lost its pictures.
    pub fn forget(&mut self) {
        self.kept.clear();
        self.standing = None;
    }

    /// Draw the picture of this slot, or the previous one until it is ready.
    pub fn paint(&mut self, slot: Option<Slot>, buffer: &mut Buffer) {
        let Some(slot) = slot.filter(|_| self.is_graphic()) else {
            (self.wanted, self.standing) = (None, None);
            return;
        };
        let key = Key { frame: slot.frame, size: slot.area.as_size() };
        let before = self.standing.take().filter(|(_, area)| *area == slot.area).map(|(key, _)| key);
        let shown = [Some(key.clone()), before].into_iter().flatten().find_map(|key| {
            let (_, made) = self.kept.iter().find(|(k, _)| k.is(&key))?;
            Some((key, made.as_ref()?))
        });
        if let Some((key, protocol)) = shown {
            let (size, area) = (protocol.size(), slot.area);
            // The half-blocks around it have a slightly different shape.
            ratatui::widgets::Clear.render(area, buffer);
            let place = Rect {
                x: area.x + area.width.saturating_sub(size.width) / 2,
                y: area.y + area.height.saturating_sub(size.height) / 2,
                width: size.width.min(area.width),
                height: size.height.min(area.height),
            };
            Image::new(protocol).render(place, buffer);
            self.standing = Some((key, area));
        }
        self.wanted = Some(key);
    }

    /// The next picture to encode off this thread, if none is being encoded.
    pub fn job(&mut self) -> Option<Job> {
        let key = self.wanted.clone().filter(|_| !self.working)?;
        if self.kept.iter().any(|(k, _)| k.is(&key)) {
            return None;
        }
        self.working = true;
        self.made = self.made.wrapping_add(1);
        let number = number(self.made);
        Some(Job { key, protocol: self.protocol, cell: self.cell, inside: self.inside, number })
    }

    pub fn take_in(&mut self, Painted(key, made): Painted) {
        self.working = false;
        self.kept.push_back((key, made));
        // One less than there are numbers, so that the next number is not in use by the picture on the screen.
        while self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
    }

    /// The sequence that deletes the pictures from the terminal.
    pub fn farewell(&self) -> String {
        match self.protocol {
            ImageProtocol::Kitty if self.made > 0 => {
                let numbers = (1..=KEPT as u32).map(number);
                let words: String = numbers.map(|n| format!("\x1b_Ga=d,d=I,i={n},q=2\x1b\\")).collect();
                if self.inside { question::through_tmux(&words) } else { words }
            }
            _ => String::new(),
        }
    }
}

/// One of [`KEPT`] numbers of this process.
fn number(made: u32) -> u32 {
    (std::process::id() & 0xffff) << 8 | (made % KEPT as u32 + 1)
}

impl Job {
    /// Scale and encode.
    pub fn run(self) -> Painted {
        // Encoding only reads.
        let made = catch_unwind(AssertUnwindSafe(|| self.encode())).ok().flatten();
        Painted(self.key, made)
    }

    fn encode(&self) -> Option<Protocol> {
        let frame = &self.key.frame;
        let image = RgbImage::from_raw(frame.width, frame.height, frame.rgb.clone())?;
        let image = DynamicImage::from(image);
        let font = FontSize::from(self.cell);
        let resize = Resize::Scale(Some(FilterType::Triangle));
        let size = resize.size_for(&image, font, self.key.size);
        if size.width == 0 || size.height == 0 {
            return None;
        }
        let image = resize.resize(&image, font, size, None);
        let made = match self.protocol {
            ImageProtocol::Kitty => {
                Kitty::new(image, size, self.number, self.inside, false).map(Protocol::Kitty)
            }
            ImageProtocol::Iterm2 => Iterm2::new(image, size, self.inside).map(Protocol::ITerm2),
            ImageProtocol::Sixel => Sixel::new(image, size, self.inside).map(Protocol::Sixel),
            ImageProtocol::Auto | ImageProtocol::Halfblocks | ImageProtocol::None => return None,
        };
        made.inspect_err(|error| tracing::warn!(%error, "cannot encode a picture")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;

    const AREA: Rect = Rect { x: 2, y: 1, width: 20, height: 10 };

    fn slot(frame: &Arc<Frame>) -> Option<Slot> {
        Some(Slot { area: AREA, frame: Arc::clone(frame) })
    }

    /// The symbol of the first cell of a square picture in the middle of the area.
    fn first(painter: &mut Painter, slot: Option<Slot>) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 30, 20));
        painter.paint(slot, &mut buffer);
        buffer[(2, 1)].symbol().to_owned()
    }

    #[test]
    fn each_protocol_says_its_own_words() {
        let frame = testing::frame(0.0, 64, 64);
        for (protocol, begin) in [
            (ImageProtocol::Kitty, "\x1b_G"),
            (ImageProtocol::Iterm2, "\x1b]1337;File="),
            (ImageProtocol::Sixel, "\x1bP"),
        ] {
            let mut painter = Painter::new(protocol, Some((8, 16)), false);
            assert_eq!(first(&mut painter, slot(&frame)), " ", "nothing is ready yet");
            let job = painter.job().unwrap();
            assert!(painter.job().is_none(), "one at a time");
            painter.take_in(job.run());
            assert!(first(&mut painter, slot(&frame)).contains(begin), "{protocol:?}");
            assert!(painter.job().is_none(), "{protocol:?} is drawn already");
            assert_eq!(painter.farewell().is_empty(), protocol != ImageProtocol::Kitty);
        }
        let mut painter = Painter::new(ImageProtocol::Halfblocks, None, false);
        assert_eq!(first(&mut painter, slot(&frame)), " ");
        assert!(painter.job().is_none());
    }

    #[test]
    fn the_picture_before_stays_until_the_next_is_ready() {
        let frames = [0.0, 1.0, 2.0].map(|at| testing::frame(at, 64, 64));
        let mut painter = Painter::new(ImageProtocol::Iterm2, Some((8, 16)), false);
        painter.paint(slot(&frames[0]), &mut Buffer::empty(Rect::new(0, 0, 30, 20)));
        let job = painter.job().unwrap();
        painter.take_in(job.run());
        let shown = first(&mut painter, slot(&frames[0]));
        // Two are requested while one is encoded: only the newest is encoded.
        assert_eq!(first(&mut painter, slot(&frames[1])), shown);
        assert_eq!(first(&mut painter, slot(&frames[2])), shown);
        let job = painter.job().unwrap();
        assert!(Arc::ptr_eq(&job.key.frame, &frames[2]));
        painter.take_in(job.run());
        assert!(painter.job().is_none());
        painter.paint(None, &mut Buffer::empty(AREA));
        assert!(painter.job().is_none() && painter.standing.is_none());
        painter.forget();
        assert_eq!(first(&mut painter, slot(&frames[2])), " ");
    }

    #[test]
    fn only_the_last_few_are_kept() {
        let mut painter = Painter::new(ImageProtocol::Kitty, None, false);
        let mut numbers = Vec::new();
        for i in 0..20 {
            let frame = testing::frame(f64::from(i), 4, 4);
            painter.paint(slot(&frame), &mut Buffer::empty(Rect::new(0, 0, 30, 20)));
            let job = painter.job().unwrap();
            numbers.push(job.number);
            painter.take_in(job.run());
        }
        assert_eq!(painter.kept.len(), KEPT - 1);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), KEPT);
    }
}
