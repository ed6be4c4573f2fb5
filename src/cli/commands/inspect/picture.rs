//! The whole picture: title, frames, legend.

use std::io::Cursor;

use image::{ImageError, ImageFormat};

use super::layout::{Content, Layout};
use super::panel::{Panel, outline};
use super::{drafter_view::DrafterView, stills::Still, summary::Summary, *};

const SAMPLE: u32 = font::HEIGHT;
const BAR: u32 = 160;
const GREY: colors::Rgb = [150, 150, 150];

/// A picture with its texts and layout, still without frames.
pub struct Picture<'a> {
    view: &'a DrafterView,
    pub drawn: Vec<usize>,
    pub layout: Layout,
    title: String,
    notes: Vec<String>,
}

impl<'a> Picture<'a> {
    pub fn new(summary: &Summary, view: &'a DrafterView) -> Picture<'a> {
        let (drawn, scored) = (view.drawn(), view.range().is_some());
        let title = text::title(summary);
        let mut notes = text::notes(view);
        if scored {
            notes.push("left: the drafter's visual tokens; right: the scores".into());
        }
        let samples = samples_width() + if scored { bar_width(view) } else { 0 };
        let lines = notes.iter().chain([&title]).map(|line| font::width(line));
        let content = Content {
            tiles: drawn.len(),
            rows: view.grid[1],
            columns: view.grid[2],
            panels: if scored { 2 } else { 1 },
            label: drawn.iter().map(|&frame| font::width(&map::label(view, frame))).max().unwrap_or(0),
            text: lines.max().unwrap_or(0).max(samples),
            legend: 1 + notes.len() as u32,
        };
        Picture { view, drawn, layout: Layout::of(content), title, notes }
    }

    /// Draw it, with a still for each drawn frame. A frame without a still has only its label.
    pub fn draw(&self, stills: &[Option<Still>]) -> RgbImage {
        let (width, height) = self.layout.size();
        let mut canvas = RgbImage::from_pixel(width, height, Rgb(colors::GROUND));
        font::write(&mut canvas, self.layout.title(), &self.title);
        for (tile, (&frame, still)) in self.drawn.iter().zip(stills).enumerate() {
            font::write(&mut canvas, self.layout.label(tile), &map::label(self.view, frame));
            let Some(still) = still else { continue };
            let panel = Panel { view: self.view, frame, still: &still.image, cell: self.layout.cell };
            panel.seen(&mut canvas, self.layout.panel(tile, 0));
            panel.heat(&mut canvas, self.layout.panel(tile, 1));
        }
        self.legend(&mut canvas);
        canvas
    }

    fn legend(&self, canvas: &mut RgbImage) {
        let (mut x, y) = self.layout.legend(0);
        for (name, kept) in SAMPLES {
            let color = if kept { GREY } else { colors::dim(GREY) };
            fill(canvas, (x, y), (SAMPLE, SAMPLE), |_| color);
            if kept {
                outline(canvas, (x, y), SAMPLE);
            }
            x += SAMPLE;
            font::write(canvas, (x, y), name);
            x += font::width(name);
        }
        if let Some((low, high)) = self.view.range() {
            let (low, high) = bar_words(low, high);
            font::write(canvas, (x, y), &low);
            x += font::width(&low);
            fill(canvas, (x, y), (BAR, SAMPLE), |dx| colors::heat(dx as f32 / (BAR - 1) as f32));
            font::write(canvas, (x + BAR, y), &high);
        }
        for (line, note) in (1..).zip(&self.notes) {
            font::write(canvas, self.layout.legend(line), note);
        }
    }
}

/// The legend's samples: their labels, and whether the sample is kept.
const SAMPLES: [(&str, bool); 2] = [(" kept  ", true), (" dropped  ", false)];

fn samples_width() -> u32 {
    SAMPLES.iter().map(|(name, _)| SAMPLE + font::width(name)).sum()
}

/// The texts before and after the color bar.
fn bar_words(low: f32, high: f32) -> (String, String) {
    (format!("score {} ", text::short(low)), format!(" {}", text::short(high)))
}

fn bar_width(view: &DrafterView) -> u32 {
    let (low, high) = view.range().unwrap_or_default();
    let (low, high) = bar_words(low, high);
    font::width(&low) + BAR + font::width(&high)
}

/// Fill a rectangle; the color may depend on the distance from its left edge.
fn fill(canvas: &mut RgbImage, at: (u32, u32), size: (u32, u32), color: impl Fn(u32) -> colors::Rgb) {
    for (dx, dy) in (0..size.1).flat_map(|dy| (0..size.0).map(move |dx| (dx, dy))) {
        if let Some(pixel) = canvas.get_pixel_mut_checked(at.0 + dx, at.1 + dy) {
            *pixel = Rgb(color(dx));
        }
    }
}

pub fn png(image: &RgbImage) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{drafter_view::tests::view, summary::tests::summary},
        *,
    };

    fn drawn(view: &DrafterView) -> (Layout, RgbImage) {
        let summary = summary(view);
        let picture = Picture::new(&summary, view);
        let (width, height) = picture.layout.panel_size();
        let still = || Still { time_s: 0.0, image: RgbImage::from_pixel(width, height, Rgb([200; 3])) };
        let mut stills: Vec<Option<Still>> = picture.drawn.iter().map(|_| Some(still())).collect();
        stills[2] = None;
        (picture.layout, picture.draw(&stills))
    }

    fn pixel(image: &RgbImage, (x, y): (u32, u32), by: u32) -> colors::Rgb {
        image.get_pixel(x + by, y + by).0
    }

    #[test]
    fn frames_are_where_the_layout_says() {
        let (layout, image) = drawn(&view());
        assert_eq!(image.dimensions(), layout.size());
        let cell = layout.cell;
        let (x, y) = layout.panel(1, 0);
        assert_eq!(pixel(&image, (x, y), cell / 2), colors::dim([200; 3]));
        assert_eq!(pixel(&image, (x, y + cell), cell / 2), [200; 3]);
        let (x, y) = layout.panel(1, 1);
        assert_eq!(pixel(&image, (x, y + cell), cell / 2), colors::heat(6.0 / 11.0));
        assert_eq!(pixel(&image, layout.panel(2, 0), cell / 2), colors::GROUND, "there is no frame here");
    }

    #[test]
    fn without_scores_there_is_one_panel_and_no_bar() {
        let (scored, plain) = (view(), DrafterView { scores: None, ..view() });
        let ((_, with), (layout, without)) = (drawn(&scored), drawn(&plain));
        let hottest = Rgb(colors::heat(1.0));
        assert!(with.pixels().any(|p| *p == hottest) && !without.pixels().any(|p| *p == hottest));
        assert_eq!(pixel(&without, layout.panel(0, 0), 0), colors::dim([200; 3]));
    }
}
