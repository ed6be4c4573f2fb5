//! The frames of a clip as small pictures.

use image::imageops::{self, FilterType};

use super::{drafter_view::DrafterView, *};
use specreel_record::Stage;
use specreel_video::{Frame, Rule, Sampling, Video};

#[derive(Debug)]
pub struct Still {
    pub time_s: f64,
    pub image: RgbImage,
}

/// The first sampled frame of every frame in `drawn` (ascending), scaled to `size` as the model's own frames are: the whole
/// picture, slightly stretched. An entry is `None` if the file lacks that frame. `None` if interrupted.
pub fn stills(
    request: &RunRequest,
    view: &DrafterView,
    drawn: &[usize],
    size: (u32, u32),
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<Vec<Option<Still>>>, Failure> {
    let mut stills: Vec<Option<Still>> = drawn.iter().map(|_| None).collect();
    let each = view.frames_a_place();
    let video = Video::open(&request.video)?;
    // One frame for each time stamp of the run, regardless of the model's own rule.
    let plan = video.plan(request.span, &Rule::ANY, Sampling::Frames(view.times.len()))?;
    let total = plan.indices.len() as u64;
    for (number, frame) in video.frames(plan, None)?.enumerate() {
        if interrupt.asked() {
            break;
        }
        let frame = frame?;
        if number % each == 0
            && let Ok(place) = drawn.binary_search(&(number / each))
        {
            stills[place] = still(frame, size);
        }
        progress.stage(Stage::Decode, number as u64 + 1, total);
    }
    progress.clear();
    Ok(Some(stills).filter(|_| !interrupt.asked()))
}

fn still(frame: Frame, (width, height): (u32, u32)) -> Option<Still> {
    let whole = RgbImage::from_raw(frame.width, frame.height, frame.rgb)?;
    let image = imageops::resize(&whole, width, height, FilterType::Triangle);
    Some(Still { time_s: frame.timestamp_s, image })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_scaled_whole() {
        let mut rgb = vec![0; 8 * 4 * 3];
        rgb[..4 * 3].fill(255);
        let frame = |rgb| Frame { index: 0, timestamp_s: 1.5, width: 8, height: 4, rgb };
        let still_of = still(frame(rgb), (16, 16)).unwrap();
        assert_eq!((still_of.time_s, still_of.image.dimensions()), (1.5, (16, 16)));
        assert!(still_of.image.get_pixel(0, 0).0[0] > 200 && still_of.image.get_pixel(15, 15).0[0] == 0);
        assert!(still(frame(vec![0; 5]), (4, 4)).is_none());
    }
}
