//! Measurements of a device's kernels, stored next to the weights.

use std::{collections::BTreeMap, path::PathBuf};

use super::WeightCache;
use crate::files;

/// Devices in the file; with more, all are forgotten.
const MOST: usize = 64;

/// For each weight type by its name, the most rows of a pass for which the kernel for few rows is taken.
pub type KernelLimits = BTreeMap<String, usize>;

impl WeightCache {
    fn kernels(&self) -> PathBuf {
        self.dir.join("kernels.json")
    }

    fn all_limits(&self) -> BTreeMap<String, KernelLimits> {
        let text = files::read(&self.kernels(), files::CONFIG).ok();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// What was measured of a device, driver and version of the program by this name. Nothing if there is no file, or it is damaged.
    pub fn kernel_limits(&self, device: &str) -> KernelLimits {
        self.all_limits().remove(device).unwrap_or_default()
    }

    /// Forget what was measured of all devices.
    pub fn forget_kernel_limits(&self) {
        // Without a file there is nothing to forget.
        let _ = std::fs::remove_file(self.kernels());
    }

    /// Keep what was measured of a device. Without it, it is measured again at the next start.
    pub fn keep_kernel_limits(&self, device: &str, limits: KernelLimits) {
        tracing::info!("most rows of the kernels for few rows on {device}: {limits:?}");
        let mut all = self.all_limits();
        if all.len() >= MOST {
            all.clear();
        }
        all.entry(device.to_owned()).or_default().extend(limits);
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(&self.dir)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
            serde_json::to_writer_pretty(&mut file, &all)?;
            file.persist(self.kernels())?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::debug!("cannot write {}: {error}", self.kernels().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept_for_each_device_and_damaged_files_are_empty() {
        let dir = tempfile::tempdir().unwrap();
        let cache = WeightCache { dir: dir.path().join("new"), limit: 0 };
        let limits =
            |all: &[(&str, usize)]| all.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect();
        assert!(cache.kernel_limits("a").is_empty());
        cache.keep_kernel_limits("a", limits(&[("q8_0", 16), ("q4_k", 32)]));
        cache.keep_kernel_limits("b", limits(&[("q8_0", 8)]));
        cache.keep_kernel_limits("a", limits(&[("q8_0", 24)]));
        assert_eq!(cache.kernel_limits("a"), limits(&[("q8_0", 24), ("q4_k", 32)]));
        assert_eq!(cache.kernel_limits("b"), limits(&[("q8_0", 8)]));
        // It is not a file of weights.
        assert!(cache.entries().is_empty());
        for text in ["", "[1]", r#"{"a": 3}"#, r#"{"a": {"q8_0": -1}}"#] {
            std::fs::write(cache.kernels(), text).unwrap();
            assert!(cache.kernel_limits("a").is_empty(), "{text}");
            cache.keep_kernel_limits("c", limits(&[("q8_0", 2)]));
            assert_eq!(cache.kernel_limits("c"), limits(&[("q8_0", 2)]), "{text}");
        }
        cache.forget_kernel_limits();
        assert!(cache.kernel_limits("c").is_empty());
    }
}
