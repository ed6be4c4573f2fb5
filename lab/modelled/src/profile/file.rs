//! Profiles as files: TOML, or the JSON lines of `bench --suite step`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Cost, Curve, Device, Point, Profile, Roofline, Sizes};
use specreel_record::Failure;

/// The sizes of the model of this name; `None` if it is unknown.
pub type FindSizes<'a> = &'a dyn Fn(&str) -> Option<Sizes>;

impl Profile {
    /// A profile from the text of a file: JSON lines if it begins with `{`, else TOML. Fails if it is neither, misses a part,
    /// or has impossible values (class input).
    pub fn parse(name: &str, text: &str, sizes: FindSizes<'_>) -> Result<Profile, Failure> {
        let parsed = match text.trim_start().starts_with('{') {
            true => from_lines(name, text),
            false => from_toml(name, text, sizes),
        };
        parsed.and_then(check).map_err(|problem| {
            Failure::input(
                format!("profile `{name}` {problem}"),
                "docs/lab/profiles.md describes the file; `specreel-lab bench --suite step --json` measures one",
            )
        })
    }
}

/// Properties that depend on several parts.
fn check(profile: Profile) -> Result<Profile, String> {
    if !profile.target.has_rows() {
        return Err(
            "has only passes of one row of the target, but drafts are verified in passes of several \
                    (measure with --rows 1,2,4,8,16,32)"
                .into(),
        );
    }
    for (key, ms) in
        [("step_ms", profile.step_ms), ("grow_ms", Some(profile.grow_ms)), ("prefill_ms", profile.prefill_ms)]
    {
        if let Some(ms) = ms.filter(|ms| !(ms.is_finite() && *ms >= 0.0)) {
            return Err(format!("has a {key} of {ms}"));
        }
    }
    Ok(profile)
}

/// A line of `bench --suite step --json`.
#[derive(Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    device: String,
    #[serde(default)]
    recipe: Option<String>,
    #[serde(default)]
    slots: f64,
    #[serde(default)]
    held: Option<f64>,
    #[serde(default)]
    passes: Vec<LinePass>,
}

#[derive(Deserialize)]
struct LinePass {
    rows: f64,
    ms: f64,
}

fn from_lines(name: &str, text: &str) -> Result<Profile, String> {
    let mut points: BTreeMap<(String, String), Vec<Point>> = BTreeMap::new();
    let mut models: Vec<String> = Vec::new();
    let mut device = String::new();
    for (number, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line: Line = serde_json::from_str(text)
            .map_err(|error| format!("is invalid in line {}: {error}", number + 1))?;
        if line.event != "rows" {
            continue;
        }
        let slots = line.held.unwrap_or(line.slots);
        let passes = line.passes.iter().map(|pass| Point { slots, rows: pass.rows, ms: pass.ms });
        points.entry((line.role, line.recipe.unwrap_or_default())).or_default().extend(passes);
        if !models.contains(&line.model) {
            models.push(line.model);
        }
        device = line.device;
    }
    let mut curves: BTreeMap<(String, String), Cost> = BTreeMap::new();
    for ((role, recipe), points) in points {
        let curve = Curve::new(&points).map_err(|problem| format!("{problem} of the {role}"))?;
        curves.insert((role, recipe), Cost::Measured(curve));
    }
    let mut take = |role: &str| curves.remove(&(role.to_owned(), String::new()));
    let target = take("target").ok_or("has no passes of a target")?;
    let drafter = take("drafter");
    let heads = curves.into_iter().filter(|((role, _), _)| role == "layer");
    Ok(Profile {
        name: name.into(),
        about: format!("{} on {device}, measured", models.join(" with ")),
        two_devices: false,
        step_ms: None,
        grow_ms: 0.0,
        prefill_ms: None,
        visual: None,
        text: None,
        target,
        drafter,
        heads: heads.map(|((_, recipe), cost)| (recipe, cost)).collect(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    about: String,
    #[serde(default = "one")]
    devices: usize,
    #[serde(default = "one")]
    sequences: usize,
    step_ms: Option<f64>,
    #[serde(default)]
    grow_ms: f64,
    prefill_ms: Option<f64>,
    visual: Option<usize>,
    text: Option<usize>,
    device: Option<FileDevice>,
    calibrate: Option<Calibrate>,
    target: FileModel,
    drafter: Option<FileModel>,
    head: Option<FileModel>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDevice {
    gigabytes_per_second: f64,
    teraflops: f64,
    layer_ms: Option<f64>,
    kv_factor: Option<f64>,
}

/// The figures from which `kv_factor`, and with a drafter's `layer_ms`, are solved.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Calibrate {
    target: Pass,
    /// A pass of the drafter, or of the target where the profile has no drafter.
    drafter: Option<Pass>,
}

/// A pass of one row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pass {
    slots: f64,
    ms: f64,
    /// The figure's source.
    #[serde(rename = "source")]
    _source: String,
}

/// A model: the name of a shape, or measured passes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileModel {
    shape: Option<String>,
    weight_bits: Option<f64>,
    /// Passes as [slots, rows, ms].
    passes: Option<Vec<[f64; 3]>>,
}

fn from_toml(name: &str, text: &str, sizes: FindSizes<'_>) -> Result<Profile, String> {
    let file: File = toml::from_str(text).map_err(|error| format!("is invalid: {}", error.message()))?;
    if !(1..=2).contains(&file.devices) {
        return Err(format!("has {} devices, expected 1 or 2", file.devices));
    }
    if file.sequences == 0 {
        return Err("has 0 sequences, expected at least 1".into());
    }
    let mut device = file.device.map(|of| device(of, file.sequences)).transpose()?;
    if let Some(calibrate) = file.calibrate {
        let Some(device) = &mut device else { return Err("calibrates a device, but has no [device]".into()) };
        calibrate.solve(device, &file.target, file.drafter.as_ref(), sizes)?;
    }
    let device = device.map(|device| Device {
        layer_ms: device.layer_ms.unwrap_or(0.0),
        kv_factor: device.kv_factor.unwrap_or(1.0),
        ..device.rates
    });
    let cost = |role: &str, model: FileModel, head| model.cost(role, device, sizes, head);
    let heads = file.head.map(|head| cost("head", head, true)).transpose()?;
    Ok(Profile {
        name: name.into(),
        about: file.about,
        two_devices: file.devices == 2,
        step_ms: file.step_ms,
        grow_ms: file.grow_ms,
        prefill_ms: file.prefill_ms,
        visual: file.visual,
        text: file.text,
        target: cost("target", file.target, false)?,
        drafter: file.drafter.map(|drafter| cost("drafter", drafter, false)).transpose()?,
        heads: heads.into_iter().map(|head| (String::new(), head)).collect(),
    })
}

/// A device of which one or two values may yet be solved.
struct Unsolved {
    /// Neither host time nor traffic of the cache.
    rates: Device,
    layer_ms: Option<f64>,
    kv_factor: Option<f64>,
}

fn device(device: FileDevice, sequences: usize) -> Result<Unsolved, String> {
    let FileDevice { gigabytes_per_second, teraflops, layer_ms, kv_factor } = device;
    for (key, value, least) in [
        ("gigabytes_per_second", gigabytes_per_second, f64::MIN_POSITIVE),
        ("teraflops", teraflops, f64::MIN_POSITIVE),
        ("layer_ms", layer_ms.unwrap_or(0.0), 0.0),
        ("kv_factor", kv_factor.unwrap_or(1.0), 0.0),
    ] {
        if !(value.is_finite() && value >= least) {
            return Err(format!("has a {key} of {value}"));
        }
    }
    // Per millisecond.
    let rates = Device {
        bandwidth: gigabytes_per_second * 1e6,
        flops: teraflops * 1e9,
        layer_ms: 0.0,
        kv_factor: 0.0,
        sequences: sequences as f64,
    };
    Ok(Unsolved { rates, layer_ms, kv_factor })
}

impl Calibrate {
    /// Solve `kv_factor` from the target's pass, or it and `layer_ms` from the passes of both models. Fails if the file gives
    /// what is solved, or no value that is at least 0 explains the passes.
    fn solve(
        self,
        device: &mut Unsolved,
        target: &FileModel,
        drafter: Option<&FileModel>,
        sizes: FindSizes<'_>,
    ) -> Result<(), String> {
        if device.kv_factor.is_some() {
            return Err("has both kv_factor and [calibrate]".into());
        }
        let equation = |role: &str, model: &FileModel, pass: &Pass| match model.cost(
            role,
            Some(device.rates),
            sizes,
            false,
        )? {
            Cost::Roofline(roofline) => Ok(roofline.equation(pass.slots, pass.ms)),
            Cost::Measured(_) => Err(format!("calibrates a {role} of measured passes")),
        };
        let first = equation("target", target, &self.target)?;
        let Some(pass) = &self.drafter else {
            device.kv_factor = Some(first.kv_factor(device.layer_ms.unwrap_or(0.0))?);
            return Ok(());
        };
        if device.layer_ms.is_some() {
            return Err("has both layer_ms and [calibrate.drafter]".into());
        }
        let second = match drafter {
            Some(drafter) => equation("drafter", drafter, pass)?,
            None => equation("target", target, pass)?,
        };
        let (layer_ms, kv_factor) = first.both(&second)?;
        (device.layer_ms, device.kv_factor) = (Some(layer_ms), Some(kv_factor));
        Ok(())
    }
}

impl FileModel {
    fn cost(
        &self,
        role: &str,
        device: Option<Device>,
        sizes: FindSizes<'_>,
        head: bool,
    ) -> Result<Cost, String> {
        match (&self.shape, &self.passes) {
            (Some(_), Some(_)) | (None, None) => Err(format!("needs a shape or passes in [{role}]")),
            (None, Some(passes)) => {
                let point = |&[slots, rows, ms]: &[f64; 3]| Point { slots, rows, ms };
                let points: Vec<Point> = passes.iter().map(point).collect();
                Ok(Cost::Measured(Curve::new(&points).map_err(|problem| format!("{problem} in [{role}]"))?))
            }
            (Some(shape), None) => {
                let sizes =
                    sizes(shape).ok_or_else(|| format!("has an unknown shape `{shape}` in [{role}]"))?;
                let Some(device) = device else { return Err("has a shape, but no [device]".into()) };
                let bits = self.weight_bits.unwrap_or(16.0);
                if !(bits.is_finite() && bits > 0.0) {
                    return Err(format!("has {bits} weight_bits in [{role}]"));
                }
                let sizes = if head { sizes.head() } else { sizes };
                Ok(Cost::Roofline(Roofline { sizes, weight_bytes: bits / 8.0, device }))
            }
        }
    }
}

#[cfg(test)]
mod tests;
