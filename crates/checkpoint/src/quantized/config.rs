//! What `config.json` says about quantized weights.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;
use specreel_tensor::CheckpointError;

use crate::files;

/// The quantization of a directory's weights. Which tensors are quantized, the weight files say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Quantization {
    /// 8-bit floats or integers; with the size of a block that has a scale, if scales are not of tensors or rows.
    Scaled {
        integers: bool,
        block: Option<[usize; 2]>,
    },
    Awq {
        group: Option<usize>,
    },
    /// `offset` is added to stored zeros.
    Gptq {
        bits: usize,
        group: Option<usize>,
        offset: u8,
    },
    /// Integers of compressed-tensors.
    Packed {
        bits: usize,
        group: Option<usize>,
    },
    /// With the bits and groups of single modules.
    Mlx {
        bits: usize,
        group: usize,
        modules: BTreeMap<String, (usize, usize)>,
    },
}

/// What can be used instead of a format that is not supported.
const OTHERS: &str =
    "use the unquantized model, or one that is published in FP8, AWQ, GPTQ, compressed-tensors, MLX or GGUF";

impl Quantization {
    /// The quantization of the model in `dir`; `None` if there is none, or no valid `config.json`. Fails for formats that are not
    /// supported.
    pub fn read(dir: &Path) -> Result<Option<Self>, CheckpointError> {
        let path = dir.join("config.json");
        let config = files::text(&path, files::CONFIG).ok().and_then(|text| serde_json::from_str(&text).ok());
        let Some(config) = config else { return Ok(None) };
        Self::of(&config).map_err(|problem| CheckpointError::file_hint(&path, problem, OTHERS))
    }

    fn of(config: &Value) -> Result<Option<Self>, String> {
        let section = |key: &str| {
            let places = [config.get(key), config.get("text_config").and_then(|text| text.get(key))];
            places.into_iter().flatten().find(|value| value.is_object())
        };
        // MLX writes both keys.
        if let Some(mlx) = section("quantization").filter(|mlx| mlx.get("bits").is_some()) {
            return Self::mlx(mlx).map(Some);
        }
        let Some(section) = section("quantization_config").or_else(|| section("compression_config")) else {
            return Ok(None);
        };
        let method = section.get("quant_method").and_then(Value::as_str).unwrap_or("without a name");
        match method {
            "fp8" => Self::fp8(section),
            "awq" => Self::awq(section),
            "gptq" => Self::gptq(section),
            "compressed-tensors" => Self::compressed(section),
            other => Err(format!("quantization `{other}` is not supported")),
        }
        .map(Some)
    }

    fn fp8(section: &Value) -> Result<Self, String> {
        if let Some(format) = section.get("fmt").and_then(Value::as_str).filter(|format| *format != "e4m3") {
            return Err(format!("fp8 quantization in `{format}` is not supported, expected e4m3"));
        }
        Ok(Self::Scaled { integers: false, block: block(section.get("weight_block_size"))? })
    }

    fn awq(section: &Value) -> Result<Self, String> {
        let name = |key: &str| section.get(key).and_then(Value::as_str).map(str::to_lowercase);
        let version = name("version").or_else(|| name("format"));
        if let Some(version) = version.filter(|version| version != "gemm") {
            return Err(format!(
                "awq quantization in the version `{version}` is not supported, expected gemm"
            ));
        }
        let bits = number(section, "bits")?.or(number(section, "w_bit")?).unwrap_or(4);
        if bits != 4 {
            return Err(format!("awq quantization with {bits} bits is not supported, expected 4"));
        }
        let group = if section.get("group_size").is_some() { "group_size" } else { "q_group_size" };
        Ok(Self::Awq { group: number(section, group)? })
    }

    fn gptq(section: &Value) -> Result<Self, String> {
        let bits = number(section, "bits")?.ok_or("`quantization_config.bits` is missing")?;
        if ![2, 4, 8].contains(&bits) {
            return Err(format!(
                "gptq quantization with {bits} bits is not supported, expected one of: 2, 4, 8"
            ));
        }
        let format = section.get("checkpoint_format").and_then(Value::as_str).unwrap_or("gptq");
        let marlin = section.get("is_marlin_format").and_then(Value::as_bool) == Some(true);
        let offset = match format {
            _ if marlin => return Err("gptq quantization in the format `marlin` is not supported".into()),
            "gptq" => 1,
            "gptq_v2" => 0,
            other => {
                let problem = format!("gptq quantization in the format `{other}` is not supported");
                return Err(format!("{problem}, expected one of: gptq, gptq_v2"));
            }
        };
        // Rules that begin with `-:` leave modules as they are.
        let rules = section.get("dynamic").and_then(Value::as_object).into_iter().flatten();
        if let Some((rule, _)) = rules.into_iter().find(|(rule, _)| !rule.starts_with("-:")) {
            return Err(format!(
                "gptq quantization with other bits for some modules (`{rule}`) is not supported"
            ));
        }
        Ok(Self::Gptq { bits, group: number(section, "group_size")?, offset })
    }

    fn compressed(section: &Value) -> Result<Self, String> {
        let groups = section.get("config_groups").and_then(Value::as_object).into_iter().flatten();
        let mut found: Option<Self> = None;
        for (name, group) in groups {
            let refuse = |problem: String| {
                format!("compressed-tensors quantization {problem} ({name}) is not supported")
            };
            let weights = group.get("weights").filter(|weights| weights.is_object());
            let weights = weights.ok_or_else(|| refuse("without weights".into()))?;
            let text = |key: &str| weights.get(key).and_then(Value::as_str);
            let bits = number(weights, "num_bits")?.unwrap_or(8);
            let format = group.get("format").or_else(|| section.get("format")).and_then(Value::as_str);
            let own = match (text("type").unwrap_or("int"), bits, format.unwrap_or_default()) {
                ("float", 8, _) => {
                    Self::Scaled { integers: false, block: block(weights.get("block_structure"))? }
                }
                ("int", 4 | 8, "pack-quantized") => {
                    Self::Packed { bits, group: number(weights, "group_size")? }
                }
                ("int", 8, _) => {
                    Self::Scaled { integers: true, block: block(weights.get("block_structure"))? }
                }
                (kind, bits, format) => {
                    return Err(refuse(format!("to {kind} of {bits} bits in `{format}`")));
                }
            };
            if found.as_ref().is_some_and(|other| *other != own) {
                return Err(refuse("to several types".into()));
            }
            found = Some(own);
        }
        found.ok_or_else(|| "compressed-tensors quantization without `config_groups` is not supported".into())
    }

    fn mlx(section: &Value) -> Result<Self, String> {
        if let Some(mode) = section.get("mode").and_then(Value::as_str).filter(|mode| *mode != "affine") {
            return Err(format!("mlx quantization in the mode `{mode}` is not supported, expected affine"));
        }
        let sizes = |section: &Value| -> Result<(usize, usize), String> {
            let bits = number(section, "bits")?.filter(|bits| (2..=8).contains(bits) && *bits != 7);
            let group = number(section, "group_size")?;
            bits.zip(group).ok_or_else(|| format!("mlx quantization with {section} is not supported"))
        };
        let (bits, group) = sizes(section)?;
        let modules = section.as_object().into_iter().flatten().filter(|(_, own)| own.is_object());
        let modules = modules.map(|(name, own)| Ok((name.clone(), sizes(own)?)));
        Ok(Self::Mlx { bits, group, modules: modules.collect::<Result<_, String>>()? })
    }

    /// Its name, as the type of a tensor.
    pub fn name(&self) -> String {
        match self {
            Self::Scaled { integers: false, .. } => "fp8".into(),
            Self::Scaled { integers: true, .. } => "int8".into(),
            Self::Awq { .. } => "awq 4-bit".into(),
            Self::Gptq { bits, .. } => format!("gptq {bits}-bit"),
            Self::Packed { bits, .. } => format!("int{bits}"),
            Self::Mlx { bits, .. } => format!("mlx {bits}-bit"),
        }
    }
}

impl std::fmt::Display for Quantization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())?;
        match self {
            Self::Scaled { block: Some([rows, inputs]), .. } => write!(f, ", blocks of {rows} × {inputs}"),
            Self::Scaled { block: None, .. } => f.write_str(", scales of tensors or rows"),
            Self::Awq { group } | Self::Gptq { group, .. } | Self::Packed { group, .. } => match group {
                Some(group) => write!(f, ", groups of {group}"),
                None => f.write_str(", scales of rows"),
            },
            Self::Mlx { group, modules, .. } => {
                write!(f, ", groups of {group}")?;
                if modules.is_empty() { Ok(()) } else { f.write_str(", others for some modules") }
            }
        }
    }
}

/// A positive whole number; `None` if it is missing, null or -1.
fn number(section: &Value, key: &str) -> Result<Option<usize>, String> {
    match section.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) if value.as_i64() == Some(-1) => Ok(None),
        Some(value) => match value.as_u64().filter(|number| (1..1 << 30).contains(number)) {
            Some(number) => Ok(Some(number as usize)),
            None => Err(format!("`{key}` of the quantization is {value}, expected a whole number above 0")),
        },
    }
}

fn block(value: Option<&Value>) -> Result<Option<[usize; 2]>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    match value.as_array().map(|sizes| sizes.iter().map(Value::as_u64).collect::<Vec<_>>()).as_deref() {
        Some(&[Some(rows @ 1..), Some(inputs @ 1..)]) => Ok(Some([rows as usize, inputs as usize])),
        _ => Err(format!("the block size of the quantization is {value}, expected [rows, columns]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_are_named_with_their_groups() {
        let int4 = json!({"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"});
        let fp8 = json!({"num_bits": 8, "type": "float", "strategy": "channel"});
        let usual = |section: Value, shown: &'static str| ("quantization_config", section, shown);
        let groups = |format: &str, weights: &Value| {
            json!({
                "quant_method": "compressed-tensors", "format": format,
                "config_groups": {"group_0": {"weights": weights}},
            })
        };
        let gptq = json!({"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:visual": {}}});
        let mlx = json!({
            "bits": 4, "group_size": 64, "mode": "affine",
            "lm_head": {"bits": 6, "group_size": 64}, "visual": false,
        });
        for (key, section, shown) in [
            usual(json!({"quant_method": "fp8", "weight_block_size": [128, 64]}), "fp8, blocks of 128 × 64"),
            usual(json!({"quant_method": "fp8"}), "fp8, scales of tensors or rows"),
            usual(
                json!({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "GEMM"}),
                "awq 4-bit, groups of 128",
            ),
            usual(json!({"quant_method": "gptq", "bits": 8, "group_size": -1}), "gptq 8-bit, scales of rows"),
            usual(gptq, "gptq 4-bit, groups of 32"),
            usual(groups("pack-quantized", &int4), "int4, groups of 128"),
            ("compression_config", groups("float-quantized", &fp8), "fp8, scales of tensors or rows"),
            ("quantization", json!({"bits": 4, "group_size": 64}), "mlx 4-bit, groups of 64"),
            ("quantization", mlx, "mlx 4-bit, groups of 64, others for some modules"),
        ] {
            for config in [json!({key: section}), json!({"text_config": {key: section}})] {
                assert_eq!(Quantization::of(&config).unwrap().unwrap().to_string(), shown);
            }
        }
        assert_eq!(Quantization::of(&json!({"quantization_config": null})), Ok(None));
    }

    #[test]
    fn other_formats_are_refused_by_name() {
        for (section, named) in [
            (json!({"quant_method": "bitsandbytes", "load_in_4bit": true}), "`bitsandbytes`"),
            (json!({"quant_method": "hqq"}), "`hqq`"),
            (json!({}), "without a name"),
            (json!({"quant_method": "fp8", "fmt": "e5m2"}), "`e5m2`"),
            (json!({"quant_method": "fp8", "weight_block_size": [0, 128]}), "[0,128]"),
            (json!({"quant_method": "awq", "version": "gemv"}), "`gemv`"),
            (json!({"quant_method": "awq", "bits": 8}), "8 bits"),
            (json!({"quant_method": "gptq", "bits": 3}), "3 bits"),
            (json!({"quant_method": "gptq", "bits": 4, "group_size": "many"}), "many"),
            (json!({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}), "`marlin`"),
            (json!({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down": {"bits": 8}}}), "down"),
            (json!({"quant_method": "compressed-tensors", "config_groups": {}}), "config_groups"),
            (
                json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"format": "nvfp4-pack-quantized", "weights": {"type": "float", "num_bits": 4}}}}),
                "nvfp4",
            ),
        ] {
            let error = Quantization::of(&json!({"quantization_config": section})).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        for (section, named) in
            [(json!({"bits": 4, "group_size": 32, "mode": "mxfp4"}), "`mxfp4`"), (json!({"bits": 4}), "bits")]
        {
            let error = Quantization::of(&json!({"quantization": section})).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
