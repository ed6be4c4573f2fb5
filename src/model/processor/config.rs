//! The settings of a checkpoint's video processor, resolved from its files.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ProcessorError;
use crate::model::files;

/// Pixels of one visual token of Qwen-VL, 28 × 28: the unit of its limits.
const TOKEN: usize = 28 * 28;

/// Resolved settings.
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
    /// The fixed size (height, width) of all frames in pixels; none = near the original size, within the limits.
    pub fixed: Option<(usize, usize)>,
    /// Mean of red, green and blue, for values from 0 to 1.
    pub mean: [f32; 3],
    /// Standard deviation of red, green and blue.
    pub std: [f32; 3],
    /// Minimum pixels of a resized frame.
    pub min_pixels: usize,
    /// Maximum pixels of a resized frame.
    pub max_pixels: usize,
    /// Maximum pixels of a video, shared by its temporal grids.
    pub total_pixels: f64,
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
        }
    }
}

/// The supported keys of a `*preprocessor_config.json`.
#[derive(Debug, Default, Deserialize)]
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
}

impl Raw {
    /// An entry of `size`, under any of its names; other forms of `size` are ignored.
    fn size(&self, names: [&str; 2]) -> Option<usize> {
        let size = self.size.as_ref()?;
        names.iter().find_map(|name| size.get(name)?.as_u64()).and_then(|n| usize::try_from(n).ok())
    }
}

/// The object in a JSON file; none if the file does not exist.
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
    pub fn pictures(side: usize, patch: usize, pool: usize) -> Self {
        Self {
            patch,
            temporal: 1,
            merge: 1,
            pool,
            fixed: Some((side, side)),
            mean: [0.5; 3],
            std: [0.5; 3],
            ..Self::default()
        }
    }

    /// Apply the files in `dir`: those for images (patches, mean, deviation; their limits are not for videos), then those for
    /// videos (the same, and the size or its limits).
    ///
    /// # Errors
    /// [`ProcessorError::Read`] or [`ProcessorError::Parse`] for invalid files,
    /// [`ProcessorError::Config`] for invalid settings.
    pub fn load(mut self, dir: &Path) -> Result<Self, ProcessorError> {
        let image = settings(dir, "image_processor", &["preprocessor_config.json"])?;
        let files = ["video_preprocessor_config.json", "video_processor/preprocessor_config.json"];
        let video = settings(dir, "video_processor", &files)?;
        for raw in [&image, &video].into_iter().flatten() {
            self.apply(raw);
        }
        if self.fixed.is_some() {
            // Without a file for videos, frames are resized like images.
            if let Some(raw) = video.or(image).filter(|raw| raw.size.is_some()) {
                let side = |name| raw.size([name, name]).unwrap_or(0);
                self.fixed = Some((side("height"), side("width")));
            }
        } else if let Some(video) = video {
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
        let cut = |c: &Self| (c.patch, c.temporal, c.merge, c.pool, c.fixed, c.mean, c.std);
        cut(self) == cut(other)
    }

    fn apply(&mut self, raw: &Raw) {
        self.patch = raw.patch_size.unwrap_or(self.patch);
        self.temporal = raw.temporal_patch_size.unwrap_or(self.temporal);
        self.merge = raw.merge_size.unwrap_or(self.merge);
        self.mean = raw.image_mean.unwrap_or(self.mean);
        self.std = raw.image_std.unwrap_or(self.std);
    }

    /// Values of one row of patches: 3 · temporal · patch².
    pub fn row(&self) -> usize {
        3 * self.temporal * self.patch * self.patch
    }

    /// Maximum pixels of each of `n_frames` frames: the smaller of the limit per frame and an even share of the video's limit,
    /// but at least 1.05 times the minimum.
    pub(super) fn max_pixels_for(&self, n_frames: usize) -> f64 {
        let share = self.total_pixels / n_frames.max(1) as f64 * self.temporal as f64;
        (self.max_pixels as f64).min(share).max((self.min_pixels as f64 * 1.05).floor())
    }

    /// # Errors
    /// [`ProcessorError::Config`] for the first invalid setting.
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
        if let Some((height, width)) = self.fixed
            && [height, width].iter().any(|side| !(least..=1 << 13).contains(side))
        {
            let reason = "expected a height and a width from one patch to 8192 pixels";
            return refuse("size", format!("{height}x{width}"), reason);
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
mod tests {
    use super::*;

    #[test]
    fn many_frames_share_the_video_s_budget() {
        let config = ProcessorConfig::default();
        assert_eq!(config.max_pixels_for(2), (768 * TOKEN) as f64);
        assert_eq!(config.max_pixels_for(768), 128_000.0 * 784.0 * 0.9 / 768.0 * 2.0);
        assert_eq!(config.max_pixels_for(1_000_000), (128.0f64 * 784.0 * 1.05).floor());
    }

    #[test]
    fn fixed_sizes_are_read_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let load = || ProcessorConfig::pictures(384, 14, 2).load(dir.path());
        let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
        assert_eq!(load().unwrap(), ProcessorConfig::pictures(384, 14, 2));
        write("processor_config.json", r#"{"video_processor": {"size": {"height": 70, "width": 98}}}"#);
        assert_eq!(load().unwrap().fixed, Some((70, 98)));
        write(
            "preprocessor_config.json",
            r#"{"size": {"height": 84, "width": 84}, "image_std": [0.2, 0.3, 0.4]}"#,
        );
        let config = load().unwrap();
        assert_eq!((config.fixed, config.std), (Some((70, 98)), [0.2, 0.3, 0.4]));
        std::fs::remove_file(dir.path().join("processor_config.json")).unwrap();
        assert_eq!(load().unwrap().fixed, Some((84, 84)));
        for size in [r#"{"shortest_edge": 384}"#, r#"{"height": 384}"#, r#"{"height": 13, "width": 84}"#] {
            write("preprocessor_config.json", &format!(r#"{{"size": {size}}}"#));
            let error = load().unwrap_err().to_string();
            assert!(error.contains("size"), "{error}");
        }
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        type Break = fn(&mut ProcessorConfig);
        let broken: [(&str, Break); 7] = [
            ("patch_size", |c| c.patch = 0),
            ("temporal_patch_size", |c| c.temporal = 0),
            ("merge_size", |c| c.merge = usize::MAX),
            ("image_std", |c| c.std[1] = 0.0),
            ("image_mean", |c| c.mean[0] = f32::NAN),
            ("shortest edge", |c| c.min_pixels = usize::MAX),
            ("longest edge", |c| c.max_pixels = 10),
        ];
        for (name, breaks) in broken {
            let mut config = ProcessorConfig::default();
            breaks(&mut config);
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
