//! The settings of a checkpoint's video processor, resolved from its files.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Filter, FrameSize, Grid, ProcessorError};
use specreel_checkpoint::files;

/// Pixels of one visual token of Qwen-VL, 28 × 28: the unit of its limits.
const TOKEN: usize = 28 * 28;

/// Visual tokens of a frame of Gemma 4, and the numbers that a file may name.
const GEMMA_TOKENS: usize = 70;
const GEMMA_BUDGETS: [usize; 5] = [70, 140, 280, 560, 1120];

/// The longest edge that frames are resized to on the way to a fixed size.
const MAX_EDGE: usize = 4096;

/// What the limits of pixels count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelScope {
    /// One resized frame.
    Frame,
    /// One resized frame: smaller and larger frames alike become about as large as the maximum.
    Scaled,
    /// One resized frame: smaller and larger frames alike become the largest with at most the maximum.
    Filled,
    /// All resized frames of a video together.
    Video {
        /// Maximum visual tokens of a temporal grid, where there is such a limit.
        max_tokens: Option<usize>,
    },
}

/// What a checkpoint's files say about sampling frames; `None` = the family's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingSettings {
    /// Frames per second of video.
    pub fps: Option<f64>,
    /// At least so many frames.
    pub min_frames: Option<usize>,
    /// At most so many frames.
    pub max_frames: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorConfig {
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Frames in one temporal grid.
    pub temporal: usize,
    /// Side of a cell in patches; the patches of a cell are contiguous.
    pub merge: usize,
    /// Side of the square of cells that is pooled to one visual token. (Squares at the edge may be smaller.)
    pub pool: usize,
    /// The fixed size of all frames; `None` = near the original size, within the limits.
    pub fixed: Option<FrameSize>,
    /// Mean of red, green and blue, for values from 0 to 1.
    pub mean: [f32; 3],
    /// Standard deviation of red, green and blue.
    pub std: [f32; 3],
    /// Minimum pixels of a resized frame, or of all.
    pub min_pixels: usize,
    /// Maximum pixels of a resized frame, or of all.
    pub max_pixels: usize,
    /// Maximum pixels of a video, shared by its temporal grids, where the other limits count frames.
    pub total_pixels: f64,
    /// What both limits count.
    pub scope: PixelScope,
    pub filter: Filter,
    /// The three colors of a pixel are next to each other in a patch, else the pixels of a color.
    pub colors_last: bool,
    /// Frames are first resized to this longest edge in pixels, and then to the fixed size.
    pub longest_edge: Option<usize>,
    /// How frames are sampled; `None` if the family's rule always applies.
    pub sampling: Option<SamplingSettings>,
}

impl Default for ProcessorConfig {
    /// The defaults of Qwen2-VL and Qwen2.5-VL.
    fn default() -> Self {
        Self {
            patch: 14,
            temporal: 2,
            merge: 2,
            pool: 1,
            fixed: None,
            mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
            std: [0.268_629_54, 0.261_302_6, 0.275_777_1],
            min_pixels: 128 * TOKEN,
            max_pixels: 768 * TOKEN,
            // 90 % of a context of 128000 tokens
            total_pixels: 128_000.0 * TOKEN as f64 * 0.9,
            scope: PixelScope::Frame,
            filter: Filter::Bicubic,
            colors_last: false,
            longest_edge: None,
            sampling: None,
        }
    }
}

/// The supported keys of a `*preprocessor_config.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    patch_size: Option<usize>,
    temporal_patch_size: Option<usize>,
    merge_size: Option<usize>,
    image_mean: Option<[f32; 3]>,
    image_std: Option<[f32; 3]>,
    min_pixels: Option<usize>,
    max_pixels: Option<usize>,
    size: Option<Value>,
    resample: Value,
    max_image_size: Value,
    video_sampling: Value,
    fps: Value,
    min_frames: Value,
    max_frames: Value,
    num_frames: Value,
    cap_pixels_per_frame: Value,
    max_video_tokens: Value,
    scale_resolution: Value,
    downsample_mode: Value,
    max_num_frames: Value,
    max_soft_tokens: Value,
    pooling_kernel_size: Option<usize>,
    stack_frames: Value,
}

/// An invalid setting of a file.
fn invalid<T>(name: &'static str, value: &Value, reason: &'static str) -> Result<T, ProcessorError> {
    Err(ProcessorError::Config { name, value: value.to_string(), reason })
}

/// A whole number from 1 on; `None` for `null`.
fn count(name: &'static str, value: &Value) -> Result<Option<usize>, ProcessorError> {
    match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
        _ if value.is_null() => Ok(None),
        Some(n) if n > 0 => Ok(Some(n)),
        _ => invalid(name, value, "expected a number from 1"),
    }
}

impl Raw {
    /// An entry of `size`, under any of its names; other forms of `size` are ignored.
    fn size(&self, names: [&str; 2]) -> Option<usize> {
        let size = self.size.as_ref()?;
        names.iter().find_map(|name| size.get(name)?.as_u64()).and_then(|n| usize::try_from(n).ok())
    }

    fn sampling(&self) -> Result<SamplingSettings, ProcessorError> {
        let of = |key: &str| self.video_sampling.get(key).filter(|value| !value.is_null());
        let fps = of("fps").unwrap_or(&self.fps);
        let fps = match fps.as_f64() {
            _ if fps.is_null() => None,
            // As for `--fps`.
            Some(fps) if fps > 0.0 && fps <= 1000.0 => Some(fps),
            _ => return invalid("fps", fps, "expected a number above 0, up to 1000"),
        };
        let max_frames = of("max_frames").unwrap_or(&self.max_frames);
        let max_frames = count("max_frames", max_frames)?
            .or(count("num_frames", &self.num_frames)?)
            .or(count("max_num_frames", &self.max_num_frames)?);
        Ok(SamplingSettings { fps, min_frames: count("min_frames", &self.min_frames)?, max_frames })
    }
}

/// The object in a JSON file; `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Map<String, Value>>, ProcessorError> {
    let text = match files::read(path, files::CONFIG) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ProcessorError::Read { path: path.into(), source }),
    };
    let fail = |source| ProcessorError::Parse { path: path.into(), source };
    // Through a map: serde would also accept a list for a struct.
    serde_json::from_slice(&text).map(Some).map_err(fail)
}

/// The settings for images or videos (`role`): from their own files, or from `processor_config.json` of newer versions of
/// transformers.
fn settings(dir: &Path, role: &str, files: &[&str]) -> Result<Option<Raw>, ProcessorError> {
    let parse = |path: &Path, fields: Value| {
        Raw::deserialize(fields)
            .map(Some)
            .map_err(|source| ProcessorError::Parse { path: path.into(), source })
    };
    for path in files.iter().map(|file| dir.join(file)) {
        if let Some(fields) = read(&path)? {
            return parse(&path, Value::Object(fields));
        }
    }
    let path = dir.join("processor_config.json");
    match read(&path)?.and_then(|mut fields| fields.remove(role)) {
        Some(fields @ Value::Object(_)) => parse(&path, fields),
        _ => Ok(None),
    }
}

impl ProcessorConfig {
    /// Frames that are resized to `side` × `side` pixels, where squares of `pool` × `pool` patches are pooled to one visual token.
    pub(crate) fn pictures(side: usize, patch: usize, pool: usize) -> Self {
        Self {
            patch,
            temporal: 1,
            merge: 1,
            pool,
            fixed: Some(FrameSize::new(side, side)),
            mean: [0.5; 3],
            std: [0.5; 3],
            ..Self::default()
        }
    }

    pub fn qwen3_vl() -> Self {
        Self {
            patch: 16,
            mean: [0.5; 3],
            std: [0.5; 3],
            min_pixels: 4096,
            max_pixels: 24 << 20,
            scope: PixelScope::Video { max_tokens: None },
            sampling: Some(SamplingSettings::default()),
            ..Self::default()
        }
    }

    /// The defaults of SmolVLM: frames become squares of `side` pixels, by way of four times that as the longest edge, and squares
    /// of `pool` × `pool` patches become one visual token.
    pub fn smolvlm(side: usize, patch: usize, pool: usize) -> Self {
        Self {
            filter: Filter::Lanczos,
            longest_edge: Some(side.saturating_mul(4).min(MAX_EDGE)),
            sampling: Some(SamplingSettings::default()),
            ..Self::pictures(side, patch, pool)
        }
    }

    /// The defaults of MiniCPM-V: frames are scaled to about 448 × 448 pixels near their aspect ratio, and squares of
    /// `merge` × `merge` patches become one visual token.
    pub fn minicpmv(patch: usize, merge: usize) -> Self {
        Self {
            patch,
            temporal: 1,
            merge,
            mean: [0.5; 3],
            std: [0.5; 3],
            min_pixels: (patch * merge).pow(2),
            max_pixels: 448 * 448,
            scope: PixelScope::Scaled,
            sampling: Some(SamplingSettings::default()),
            ..Self::default()
        }
    }

    /// The defaults of Gemma 4: frames become the largest of at most 70 visual tokens near their aspect ratio, each a square of
    /// `pool` × `pool` patches.
    pub fn gemma4(patch: usize, pool: usize) -> Self {
        Self {
            patch,
            temporal: 1,
            merge: pool,
            mean: [0.5; 3],
            std: [0.5; 3],
            min_pixels: (patch * pool).pow(2),
            max_pixels: GEMMA_TOKENS * (patch * pool).pow(2),
            scope: PixelScope::Filled,
            colors_last: true,
            sampling: Some(SamplingSettings::default()),
            ..Self::default()
        }
    }

    /// Apply the files in `dir`: those for images (patches, mean, deviation; their limits are not for videos), then those for
    /// videos (the same, and the size or its limits).
    pub fn load(mut self, dir: &Path) -> Result<Self, ProcessorError> {
        let image = settings(dir, "image_processor", &["preprocessor_config.json"])?;
        let files = ["video_preprocessor_config.json", "video_processor/preprocessor_config.json"];
        let video = settings(dir, "video_processor", &files)?;
        if self.scope == PixelScope::Filled {
            // Pictures have a budget of their own.
            if let Some(raw) = &video {
                self.fill_as(raw)?;
            }
            self.validate()?;
            return Ok(self);
        }
        for raw in [&image, &video].into_iter().flatten() {
            self.apply(raw)?;
        }
        if self.fixed.is_some() {
            // Without a file for videos, frames are resized like images.
            if let Some(raw) = video.or(image) {
                self.resize_as(&raw)?;
            }
        } else if self.scope == PixelScope::Scaled {
            for raw in [&image, &video].into_iter().flatten() {
                self.scale_as(raw)?;
            }
        } else if let Some(video) = video {
            self.sampling = self.sampling.map(|_| video.sampling()).transpose()?;
            if let (PixelScope::Video { max_tokens }, Some(true)) =
                (&mut self.scope, video.cap_pixels_per_frame.as_bool())
            {
                *max_tokens = Some(count("max_video_tokens", &video.max_video_tokens)?.unwrap_or(768));
            }
            let sides =
                video.size(["shortest_edge", "min_pixels"]).zip(video.size(["longest_edge", "max_pixels"]));
            // The older names take precedence, as in transformers.
            let min = video.min_pixels.or(sides.map(|s| s.0));
            let max = video.max_pixels.or(sides.map(|s| s.1));
            self.min_pixels = min.unwrap_or(self.min_pixels);
            self.max_pixels = max.unwrap_or(self.max_pixels);
        }
        self.validate()?;
        Ok(self)
    }

    /// True if two processors cut a frame into the same patches and visual tokens.
    pub fn cuts_like(&self, other: &Self) -> bool {
        let cut = |c: &Self| {
            let colors = (c.mean, c.std, c.colors_last);
            (c.patch, c.temporal, c.merge, c.pool, c.fixed, colors, c.filter, c.longest_edge)
        };
        cut(self) == cut(other)
    }

    /// Take the fixed size, the way to it and the sampling from a file.
    fn resize_as(&mut self, raw: &Raw) -> Result<(), ProcessorError> {
        if let Some(longest_edge) = &mut self.longest_edge {
            let of = |value: &Value| count("longest_edge", value.get("longest_edge").unwrap_or(&Value::Null));
            // The size for pictures takes precedence, as in transformers.
            let size = match (&raw.size, raw.video_sampling.get("video_size")) {
                (Some(size), _) | (None, Some(size)) => Some(size),
                (None, None) => None,
            };
            if let Some(size) = size.filter(|size| !size.is_null()) {
                match of(size)? {
                    Some(edge) => *longest_edge = edge.min(MAX_EDGE),
                    None => return invalid("size", size, "expected a `longest_edge`"),
                }
            }
            if let Some(side) = of(&raw.max_image_size)? {
                self.fixed = Some(FrameSize::new(side, side));
            }
        } else if raw.size.is_some() {
            let side = |name| raw.size([name, name]).unwrap_or(0);
            self.fixed = Some(FrameSize::new(side("height"), side("width")));
        }
        self.sampling = self.sampling.map(|_| raw.sampling()).transpose()?;
        Ok(())
    }

    /// True if mean and deviation are the tower's, whatever a file says.
    pub fn centers_colors(&self) -> bool {
        self.scope == PixelScope::Filled
    }

    /// Take the budget of a frame, the patches and the sampling from a file.
    fn fill_as(&mut self, raw: &Raw) -> Result<(), ProcessorError> {
        // Mean and deviation are the tower's.
        self.apply(&Raw { image_mean: None, image_std: None, ..raw.clone() })?;
        self.merge = raw.pooling_kernel_size.unwrap_or(self.merge);
        let tokens = count("max_soft_tokens", &raw.max_soft_tokens)?.unwrap_or(GEMMA_TOKENS);
        if !GEMMA_BUDGETS.contains(&tokens) {
            return invalid("max_soft_tokens", &raw.max_soft_tokens, "expected 70, 140, 280, 560 or 1120");
        }
        let token = (self.patch * self.merge).pow(2);
        (self.min_pixels, self.max_pixels) = (token, tokens * token);
        let own = raw.sampling()?;
        // A number of frames is the number of frames of any video.
        self.sampling = Some(SamplingSettings { min_frames: own.max_frames, ..own });
        Ok(())
    }

    /// Take the size that frames are scaled to, the sampling and the size of a visual token from a file.
    fn scale_as(&mut self, raw: &Raw) -> Result<(), ProcessorError> {
        match count("scale_resolution", &raw.scale_resolution)? {
            Some(side) if side > MAX_EDGE => {
                return invalid("scale_resolution", &raw.scale_resolution, "expected 1 to 4096 pixels");
            }
            Some(side) => self.max_pixels = side * side,
            None => {}
        }
        match raw.downsample_mode.as_str() {
            _ if raw.downsample_mode.is_null() => {}
            Some("4x") => self.merge = 2,
            Some("16x") => self.merge = 4,
            _ => return invalid("downsample_mode", &raw.downsample_mode, "expected \"4x\" or \"16x\""),
        }
        self.min_pixels = (self.patch * self.merge).pow(2);
        if count("stack_frames", &raw.stack_frames)?.is_some_and(|frames| frames > 1) {
            return invalid("stack_frames", &raw.stack_frames, "expected 1: frames are not stacked");
        }
        let sampling = raw.sampling()?;
        self.sampling = self.sampling.map(|before| SamplingSettings {
            fps: sampling.fps.or(before.fps),
            min_frames: sampling.min_frames.or(before.min_frames),
            max_frames: sampling.max_frames.or(before.max_frames),
        });
        Ok(())
    }

    fn apply(&mut self, raw: &Raw) -> Result<(), ProcessorError> {
        self.patch = raw.patch_size.unwrap_or(self.patch);
        self.temporal = raw.temporal_patch_size.unwrap_or(self.temporal);
        self.merge = raw.merge_size.unwrap_or(self.merge);
        self.mean = raw.image_mean.unwrap_or(self.mean);
        self.std = raw.image_std.unwrap_or(self.std);
        if !raw.resample.is_null() {
            // The numbers of Pillow.
            self.filter = match raw.resample.as_u64() {
                Some(1) => Filter::Lanczos,
                Some(2) => Filter::Bilinear,
                Some(3) => Filter::Bicubic,
                _ => {
                    return invalid(
                        "resample",
                        &raw.resample,
                        "expected 1 (Lanczos), 2 (bilinear) or 3 (bicubic)",
                    );
                }
            };
        }
        Ok(())
    }

    /// Pixels along a side of one visual token, before pooling.
    pub(super) fn factor(&self) -> usize {
        self.patch * self.merge
    }

    /// Values of one row of patches: 3 · temporal · patch².
    pub fn row(&self) -> usize {
        3 * self.temporal * self.patch * self.patch
    }

    /// The patches of frames that are resized to this size.
    pub fn grid(&self, size: FrameSize, frames: usize) -> Grid {
        Grid { t: frames.div_ceil(self.temporal), h: size.height / self.patch, w: size.width / self.patch }
    }

    /// Maximum pixels of each of `n_frames` frames: the smaller of the limit per frame and an even share of the video's limit,
    /// but at least 1.05 times the minimum.
    pub(super) fn max_pixels_for(&self, n_frames: usize) -> f64 {
        let share = self.total_pixels / n_frames.max(1) as f64 * self.temporal as f64;
        (self.max_pixels as f64).min(share).max((self.min_pixels as f64 * 1.05).floor())
    }

    /// Fails with [`ProcessorError::Config`] for the first invalid setting.
    pub(super) fn validate(&self) -> Result<(), ProcessorError> {
        let refuse = |name, value: String, reason| Err(ProcessorError::Config { name, value, reason });
        for (name, value) in [
            ("patch_size", self.patch),
            ("temporal_patch_size", self.temporal),
            ("merge_size", self.merge),
            ("pool", self.pool),
        ] {
            if !(1..=256).contains(&value) {
                return refuse(name, value.to_string(), "expected 1 to 256");
            }
        }
        if self.mean.iter().any(|v| !v.is_finite()) {
            return refuse("image_mean", format!("{:?}", self.mean), "expected finite numbers");
        }
        if self.std.iter().any(|v| !v.is_finite() || *v <= 0.0) {
            return refuse("image_std", format!("{:?}", self.std), "expected positive numbers");
        }
        let least = self.patch * self.merge;
        if let Some(FrameSize { height, width }) = self.fixed
            && [height, width].iter().any(|side| !(least..=1 << 13).contains(side))
        {
            let reason = "expected a height and a width from one patch to 8192 pixels";
            return refuse("size", format!("{height}x{width}"), reason);
        }
        if let Some(edge) = self.longest_edge.filter(|edge| !(1..=MAX_EDGE).contains(edge)) {
            return refuse("size", edge.to_string(), "expected a longest edge of 1 to 4096 pixels");
        }
        if self.max_pixels < (self.patch * self.merge).pow(2) {
            return refuse("longest edge", self.max_pixels.to_string(), "smaller than one visual token");
        }
        if self.min_pixels > self.max_pixels {
            let value = self.min_pixels.to_string();
            return refuse("shortest edge", value, "larger than the longest edge");
        }
        if !self.total_pixels.is_finite() || self.total_pixels <= 0.0 {
            return refuse("total pixels", self.total_pixels.to_string(), "expected a positive number");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
