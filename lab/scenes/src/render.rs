//! Renders a scene at a given time to pixels, at any size and aspect, anti-aliased.
//!
//! Positions are shares of the frame and sizes are shares of its shorter side, so one scene looks the same at 112 pixels
//! for a model and at 1080 for a person.

use tiny_skia::{Color, FillRule, Mask, Paint, Path, PathBuilder, Pixmap, Rect, Transform};

use super::world::{Background, Colour, Figure, Motion, Scene, Shape, Shot, Texture};

/// The frame at `t_seconds` (clamped into the video) as tightly packed RGB rows, top to bottom.
///
/// A zero width or height gives no pixels.
pub fn frame(scene: &Scene, t_seconds: f64, width: u32, height: u32) -> Vec<u8> {
    let Some(mut canvas) = Pixmap::new(width, height) else { return Vec::new() };
    let t = t_seconds.clamp(0.0, scene.duration_s);
    let shot = scene.shot_at(t);
    let (red, green, blue) = background_rgb(shot.background);
    canvas.fill(Color::from_rgba8(red, green, blue, 255));
    for (lane, figure) in shot.figures.iter().enumerate() {
        draw(&mut canvas, shot, lane, figure, t);
    }
    canvas.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
}

/// Which figure covers each cell of a `rows` x `columns` grid over the frame at `t_seconds`, row by row: its place among
/// [`Scene::figures`], or `None`. Near misses count, since a figure's edge also shows it.
pub(super) fn cover(scene: &Scene, t_seconds: f64, columns: u32, rows: u32) -> Vec<Option<usize>> {
    const NEAR: f64 = 0.35;
    let shot = scene.shot_at(t_seconds.clamp(0.0, scene.duration_s));
    let before: usize = scene
        .shots
        .iter()
        .take_while(|other| other.start < shot.start)
        .map(|other| other.figures.len())
        .sum();
    let poses: Vec<Pose> = shot
        .figures
        .iter()
        .enumerate()
        .map(|(lane, figure)| pose(shot, lane, figure, t_seconds, f64::from(columns), f64::from(rows)))
        .collect();
    let nearest = |x: f64, y: f64| {
        let gaps = poses.iter().map(|at| (at.x - x).hypot(at.y - y) - at.radius);
        gaps.enumerate()
            .filter(|(_, gap)| *gap < NEAR)
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(lane, _)| before + lane)
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (f64::from(column) + 0.5, f64::from(row) + 0.5)))
        .map(|(x, y)| nearest(x, y))
        .collect()
}

/// Where a figure is at a given time: center and radius in pixels, angle in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pose {
    x: f64,
    y: f64,
    radius: f64,
    degrees: f64,
}

fn pose(shot: &Shot, lane: usize, figure: &Figure, t: f64, width: f64, height: f64) -> Pose {
    let progress = shot.progress(t);
    let full = figure.size.radius() * width.min(height);
    let (mut across, mut down) = figure.home;
    let from = 0.5 - figure.travel / 2.0;
    let along = from + figure.travel * progress;
    let (mut scale, mut degrees) = (1.0, 0.0);
    match figure.motion {
        Motion::Right => across = along,
        Motion::Left => across = 1.0 - along,
        Motion::Falls => down = along,
        Motion::Rises => down = 1.0 - along,
        Motion::Grows => scale = 0.45 + 0.55 * progress,
        Motion::Shrinks => scale = 1.0 - 0.55 * progress,
        Motion::Spins => degrees = 15.0 * figure.spin.signum() + figure.spin * (t - shot.start),
        Motion::Stays => {}
    }
    let lanes = shot.figures.len() as f64;
    let (lane_width, lane_height) =
        if shot.side_by_side { (width / lanes, height) } else { (width, height / lanes) };
    let (left, top) =
        if shot.side_by_side { (lane as f64 * lane_width, 0.0) } else { (0.0, lane as f64 * lane_height) };
    let place = |start: f64, room: f64, share: f64| start + full + (room - 2.0 * full).max(0.0) * share;
    Pose {
        x: place(left, lane_width, across),
        y: place(top, lane_height, down),
        radius: full * scale,
        degrees,
    }
}

fn draw(canvas: &mut Pixmap, shot: &Shot, lane: usize, figure: &Figure, t: f64) {
    let (width, height) = (canvas.width(), canvas.height());
    let at = pose(shot, lane, figure, t, f64::from(width), f64::from(height));
    let radius = at.radius as f32;
    let place = Transform::from_scale(radius, radius)
        .post_concat(Transform::from_rotate(at.degrees as f32))
        .post_translate(at.x as f32, at.y as f32);
    let Some(path) = outline(figure.shape) else { return };
    let (red, green, blue) = colour_rgb(figure.colour);
    canvas.fill_path(&path, &paint(red, green, blue), FillRule::EvenOdd, place, None);
    let (cover, ink) = match figure.texture {
        Texture::Plain => return,
        Texture::Striped => (stripes(), paint(red / 4, green / 4, blue / 4)),
        Texture::Dotted => (dots(), paint(255, 255, 255)),
    };
    if let (Some(cover), Some(mut mask)) = (cover, Mask::new(width, height)) {
        mask.fill_path(&path, FillRule::EvenOdd, true, place);
        canvas.fill_path(&cover, &ink, FillRule::Winding, place, Some(&mask));
    }
}

fn paint(red: u8, green: u8, blue: u8) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

/// The outline with radius 1 around the origin, y pointing down.
fn outline(shape: Shape) -> Option<Path> {
    let mut path = PathBuilder::new();
    match shape {
        Shape::Circle => path.push_circle(0.0, 0.0, 0.97),
        Shape::Ring => {
            path.push_circle(0.0, 0.0, 1.0);
            path.push_circle(0.0, 0.0, 0.5);
        }
        Shape::Triangle => polygon(&mut path, &[(0.0, -1.0), (0.95, 0.75), (-0.95, 0.75)]),
        Shape::Cross => {
            let (near, far) = (0.34, 1.0);
            polygon(
                &mut path,
                &[
                    (-near, -far),
                    (near, -far),
                    (near, -near),
                    (far, -near),
                    (far, near),
                    (near, near),
                    (near, far),
                    (-near, far),
                    (-near, near),
                    (-far, near),
                    (-far, -near),
                    (-near, -near),
                ],
            );
        }
    }
    path.finish()
}

fn polygon(path: &mut PathBuilder, points: &[(f32, f32)]) {
    for (index, &(x, y)) in points.iter().enumerate() {
        if index == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    path.close();
}

/// Upright bars that cover the unit figure, three or four of them inside it.
fn stripes() -> Option<Path> {
    let mut path = PathBuilder::new();
    for bar in -2..=1 {
        path.push_rect(Rect::from_xywh(bar as f32 * 0.6 + 0.15, -1.2, 0.3, 2.4)?);
    }
    path.finish()
}

/// A grid of dots that covers the unit figure.
fn dots() -> Option<Path> {
    let mut path = PathBuilder::new();
    for row in -2..=2 {
        for column in -2..=2 {
            path.push_circle(column as f32 * 0.55, row as f32 * 0.55, 0.17);
        }
    }
    path.finish()
}

fn background_rgb(background: Background) -> (u8, u8, u8) {
    match background {
        Background::Black => (8, 8, 8),
        Background::White => (248, 248, 248),
        Background::Gray => (128, 128, 128),
        Background::Brown => (104, 62, 28),
        Background::Navy => (16, 24, 92),
        Background::Mint => (176, 236, 200),
    }
}

fn colour_rgb(colour: Colour) -> (u8, u8, u8) {
    match colour {
        Colour::Red => (222, 28, 28),
        Colour::Orange => (255, 136, 0),
        Colour::Yellow => (250, 226, 20),
        Colour::Green => (24, 150, 40),
        Colour::Cyan => (0, 206, 222),
        Colour::Blue => (36, 84, 246),
        Colour::Purple => (136, 36, 186),
        Colour::Pink => (255, 130, 190),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_requested_size() {
        let scene = Scene::from_seed(1);
        for (width, height) in [(112, 112), (84, 140), (320, 180), (1, 1)] {
            assert_eq!(frame(&scene, 1.0, width, height).len(), (width * height * 3) as usize);
        }
        assert!(frame(&scene, 1.0, 0, 10).is_empty());
    }

    #[test]
    fn the_corner_shows_the_background_or_a_figure_inside_the_frame() {
        for scene in (0..300).map(Scene::from_seed) {
            for shot in &scene.shots {
                for (lane, figure) in shot.figures.iter().enumerate() {
                    for step in 0..=10 {
                        let t = shot.start + (shot.end - shot.start) * f64::from(step) / 10.0;
                        let at = pose(shot, lane, figure, t, 112.0, 112.0);
                        assert!(at.x - at.radius > -0.01 && at.x + at.radius < 112.01, "{at:?} {figure:?}");
                        assert!(at.y - at.radius > -0.01 && at.y + at.radius < 112.01, "{at:?} {figure:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn motion_changes_the_picture_and_staying_does_not() {
        for scene in (0..200).map(Scene::from_seed).filter(|scene| scene.shots.len() == 1) {
            let still = scene.figures().all(|figure| figure.motion == Motion::Stays);
            let same = frame(&scene, 0.0, 112, 112) == frame(&scene, scene.duration_s, 112, 112);
            assert_eq!(still, same, "seed {}", scene.seed);
        }
    }
}
