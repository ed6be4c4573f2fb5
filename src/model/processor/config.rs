//! The settings of a checkpoint's video processor, resolved from its own files.

use std::path::Path;

use serde::Deserialize;

use super::ProcessorError;
use crate::model::files;

/// Pixels of one visual token of the family, 28 × 28, in which its limits are counted.
const TOKEN: usize = 28 * 28;

/// Resolved settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorConfig {
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Frames in one temporal grid.
    pub temporal: usize,
    /// Side of a visual token in patches.
    pub merge: usize,
    /// Mean of red, green and blue, of values 0 to 1.
    pub mean: [f32; 3],
    /// Standard deviation of red, green and blue.
    pub std: [f32; 3],
    /// Least pixels of a resized frame.
    pub min_pixels: usize,
    /// Most pixels of a resized frame.
    pub max_pixels: usize,
    /// Pixels of a whole video, shared by its temporal grids.
    pub total_pixels: f64,
}

impl Default for ProcessorConfig {
    /// The family's values, for checkpoints that bring no file.
    fn default() -> Self {
        Self {
            patch: 14,
            temporal: 2,
            merge: 2,
            mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
            std: [0.268_629_54, 0.261_302_6, 0.275_777_1],
            min_pixels: 128 * TOKEN,
            max_pixels: 768 * TOKEN,
            // 90 % of a context of 128000 tokens
            total_pixels: 128_000.0 * TOKEN as f64 * 0.9,
        }
    }
}

/// The parts of a `*preprocessor_config.json` that are read.
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
    size: Option<serde_json::Value>,
}

impl Raw {
    /// An entry of `size`, under any of its names; `size` has many forms, others are none of ours.
    fn size(&self, names: [&str; 2]) -> Option<usize> {
        let size = self.size.as_ref()?;
        names.iter().find_map(|name| size.get(name)?.as_u64()).and_then(|n| usize::try_from(n).ok())
    }
}

fn read(path: &Path) -> Result<Option<Raw>, ProcessorError> {
    let text = match files::read(path, files::CONFIG) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ProcessorError::Read { path: path.into(), source }),
    };
    let fail = |source| ProcessorError::Parse { path: path.into(), source };
    // By way of a map: serde would also take a struct's fields from a list.
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text).map_err(fail)?;
    Raw::deserialize(serde_json::Value::Object(fields)).map(Some).map_err(fail)
}

impl ProcessorConfig {
    /// Read `preprocessor_config.json` (patches, mean, deviation; its limits are for images and not used) and
    /// `video_preprocessor_config.json` (the same and the limits) below `dir`; the family's values fill what neither says.
    ///
    /// # Errors
    /// [`ProcessorError::Read`] or [`ProcessorError::Parse`] for files that are there but unusable,
    /// [`ProcessorError::Config`] for values that make no sense.
    pub fn load(dir: &Path) -> Result<Self, ProcessorError> {
        let mut config = Self::default();
        if let Some(image) = read(&dir.join("preprocessor_config.json"))? {
            config.apply(&image);
        }
        if let Some(video) = read(&dir.join("video_preprocessor_config.json"))? {
            config.apply(&video);
            let sides =
                video.size(["shortest_edge", "min_pixels"]).zip(video.size(["longest_edge", "max_pixels"]));
            // the older names win where both are there, as in the reference
            let min = video.min_pixels.or(sides.map(|s| s.0));
            let max = video.max_pixels.or(sides.map(|s| s.1));
            config.min_pixels = min.unwrap_or(config.min_pixels);
            config.max_pixels = max.unwrap_or(config.max_pixels);
        }
        config.validate()?;
        Ok(config)
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

    /// Most pixels of each of `n_frames` frames: the limit per frame or an even share of the whole video's, whichever is
    /// less, but a little above the least.
    pub(super) fn max_pixels_for(&self, n_frames: usize) -> f64 {
        let share = self.total_pixels / n_frames.max(1) as f64 * self.temporal as f64;
        (self.max_pixels as f64).min(share).max((self.min_pixels as f64 * 1.05).floor())
    }

    /// # Errors
    /// [`ProcessorError::Config`] with the first value that makes no sense.
    pub(super) fn validate(&self) -> Result<(), ProcessorError> {
        let refuse = |name, value: String, reason| Err(ProcessorError::Config { name, value, reason });
        for (name, value) in
            [("patch_size", self.patch), ("temporal_patch_size", self.temporal), ("merge_size", self.merge)]
        {
            if !(1..=256).contains(&value) {
                return refuse(name, value.to_string(), "it must be from 1 to 256");
            }
        }
        if self.mean.iter().any(|v| !v.is_finite()) {
            return refuse("image_mean", format!("{:?}", self.mean), "it must be finite");
        }
        if self.std.iter().any(|v| !v.is_finite() || *v <= 0.0) {
            return refuse("image_std", format!("{:?}", self.std), "it must be finite and above 0");
        }
        if self.max_pixels < (self.patch * self.merge).pow(2) {
            return refuse("longest edge", self.max_pixels.to_string(), "it is less than one visual token");
        }
        if self.min_pixels > self.max_pixels {
            let value = format!("{} of {}", self.min_pixels, self.max_pixels);
            return refuse("shortest edge", value, "it must not be above the longest");
        }
        if !self.total_pixels.is_finite() || self.total_pixels <= 0.0 {
            return refuse("total pixels", self.total_pixels.to_string(), "it must be finite and above 0");
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
    fn senseless_values_are_refused_by_name() {
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
