//! A quantized matrix of a checkpoint: the tensors that it is stored in.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype, TensorInfo};
use specreel_tensor::{CheckpointError, cpu::kernels::HalfKind};

use super::{
    Quantization,
    unpack::{Codes, E4M3, Groups, INT8, Offsets, Unpack, transposed, words},
};
use crate::shard::Shard;

/// A tensor of a weight file.
#[derive(Clone, Debug)]
pub(crate) struct FileTensor {
    /// As in the file.
    pub name: String,
    pub shard: usize,
    pub info: TensorInfo,
}

/// A quantized matrix, without its values.
#[derive(Clone, Debug)]
pub(crate) struct QuantizedMatrix {
    quantization: Quantization,
    /// Its name without `.weight`.
    stem: String,
    /// Outputs and inputs; the shape in the file if that is no matrix.
    pub shape: Vec<usize>,
    pub codes: FileTensor,
    scales: Option<FileTensor>,
    /// Zeros, or biases.
    offsets: Option<FileTensor>,
    /// The group of each input.
    order: Option<FileTensor>,
    /// Scales of activations, which are not used.
    pub unused: bool,
}

/// Suffixes of a matrix's name in the names of its tensors: codes, scales, offsets, order, unused ones.
type Suffixes = (
    &'static str,
    &'static [&'static str],
    Option<&'static str>,
    Option<&'static str>,
    &'static [&'static str],
);

impl Quantization {
    fn suffixes(&self) -> Suffixes {
        match self {
            Self::Scaled { .. } => (
                "weight",
                &["weight_scale_inv", "weight_scale"],
                Some("weight_zero_point"),
                None,
                &["input_scale", "output_scale", "k_scale", "v_scale"],
            ),
            Self::Awq { .. } => ("qweight", &["scales"], Some("qzeros"), None, &[]),
            Self::Gptq { .. } => ("qweight", &["scales"], Some("qzeros"), Some("g_idx"), &[]),
            Self::Packed { .. } => (
                "weight_packed",
                &["weight_scale"],
                Some("weight_zero_point"),
                Some("weight_g_idx"),
                &["weight_shape", "input_scale", "output_scale"],
            ),
            Self::Mlx { .. } => ("weight", &["scales"], Some("biases"), None, &[]),
        }
    }

    /// True for the type of a quantized matrix's codes.
    fn holds(&self, dtype: Dtype) -> bool {
        match self {
            Self::Scaled { integers: false, .. } => dtype == Dtype::F8_E4M3,
            Self::Scaled { integers: true, .. } => dtype == Dtype::I8,
            _ => matches!(dtype, Dtype::I32 | Dtype::U32),
        }
    }

    /// Move what quantized matrices are stored in out of `names` (of tensors, with their shards). Returns the matrices by the
    /// names that they would have as one tensor.
    pub fn matrices(
        &self,
        names: &mut HashMap<String, usize>,
        shards: &[Shard],
    ) -> BTreeMap<String, QuantizedMatrix> {
        let (codes, scales, offsets, order, unused) = self.suffixes();
        let dtype = |name: &str, shard: usize| shards[shard].tensors.get(name).map(|info| info.dtype);
        let stems: Vec<String> = names
            .iter()
            .filter(|(name, shard)| dtype(name, **shard).is_some_and(|dtype| self.holds(dtype)))
            .filter_map(|(name, _)| name.strip_suffix(codes)?.strip_suffix('.').map(str::to_owned))
            .collect();
        let mut matrices = BTreeMap::new();
        for stem in stems {
            let mut take = |suffix: &str| {
                let (name, shard) = names.remove_entry(&format!("{stem}.{suffix}"))?;
                let info = shards[shard].tensors.get(&name)?.clone();
                Some(FileTensor { name, shard, info })
            };
            let Some(codes) = take(codes) else { continue };
            let mut all = scales.iter().filter_map(|suffix| take(suffix));
            let scales = all.next();
            drop(all);
            let (offsets, order) = (offsets.and_then(&mut take), order.and_then(&mut take));
            let unused: Vec<bool> =
                unused.iter().map(|suffix| take(suffix).is_some() && *suffix != "weight_shape").collect();
            let unused = unused.contains(&true);
            let shape = self.shape(&stem, &codes.info.shape);
            let quantization = self.clone();
            let matrix = QuantizedMatrix {
                quantization,
                shape,
                codes,
                scales,
                offsets,
                order,
                unused,
                stem: stem.clone(),
            };
            matrices.insert(format!("{stem}.weight"), matrix);
        }
        matrices
    }

    /// Bits of a module's codes, and inputs of a group; `None` for all inputs.
    fn sizes(&self, module: &str) -> (usize, Option<usize>) {
        match self {
            Self::Scaled { .. } => (8, None),
            Self::Awq { group } => (4, *group),
            Self::Gptq { bits, group, .. } | Self::Packed { bits, group } => (*bits, *group),
            Self::Mlx { bits, group, modules } => {
                let (bits, group) = modules.get(module).copied().unwrap_or((*bits, *group));
                (bits, Some(group))
            }
        }
    }

    /// Outputs and inputs of a module whose codes have this shape.
    fn shape(&self, module: &str, codes: &[usize]) -> Vec<usize> {
        let &[first, second] = codes else { return codes.to_vec() };
        let (bits, _) = self.sizes(module);
        match self {
            Self::Scaled { .. } => vec![first, second],
            // A tensor without values may claim any size.
            Self::Awq { .. } => vec![second.saturating_mul(8), first],
            Self::Gptq { .. } => vec![second, first.saturating_mul(32) / bits],
            Self::Packed { .. } | Self::Mlx { .. } => vec![first, second.saturating_mul(32) / bits],
        }
    }
}

impl QuantizedMatrix {
    /// Its type, as the type of a tensor.
    pub fn dtype(&self) -> String {
        self.quantization.name()
    }

    pub fn parts(&self) -> impl Iterator<Item = &FileTensor> {
        std::iter::once(&self.codes).chain(self.others())
    }

    /// Scales, offsets and order.
    fn others(&self) -> impl Iterator<Item = &FileTensor> {
        self.scales.iter().chain(&self.offsets).chain(&self.order)
    }

    pub fn bytes(&self) -> u64 {
        self.parts().map(|part| (part.info.data_offsets.1 - part.info.data_offsets.0) as u64).sum()
    }

    /// The type of its scales, if they are 16-bit floats.
    pub fn half_kind(&self) -> Option<HalfKind> {
        match self.scales.as_ref()?.info.dtype {
            Dtype::F16 => Some(HalfKind::F16),
            Dtype::BF16 => Some(HalfKind::Bf16),
            _ => None,
        }
    }

    pub fn layout(&self) -> Codes {
        let (bits, _) = self.quantization.sizes(&self.stem);
        match &self.quantization {
            Quantization::Scaled { integers: false, .. } => Codes::Bytes(&E4M3),
            Quantization::Scaled { integers: true, .. } => Codes::Bytes(&INT8),
            Quantization::Awq { .. } => Codes::Outputs,
            Quantization::Gptq { .. } => Codes::Inputs { bits },
            Quantization::Packed { .. } | Quantization::Mlx { .. } => Codes::Rows { bits },
        }
    }

    pub fn check(&self) -> Result<(), String> {
        self.groups(self.dimensions()?).map(|_| ())
    }

    fn dimensions(&self) -> Result<[usize; 2], String> {
        match (&self.codes.info.shape[..], &self.shape[..]) {
            ([_, _], &[rows, inputs]) if rows.min(inputs) > 0 => Ok([rows, inputs]),
            (found, _) => {
                Err(format!("`{}` has shape {found:?}, expected two sizes above 0", self.codes.name))
            }
        }
    }

    /// Scales of a row, and rows and inputs that share one. Fails if a tensor is missing or has another shape.
    fn groups(&self, [rows, inputs]: [usize; 2]) -> Result<(usize, [usize; 2]), String> {
        let missing = |what: &str| format!("its {what} are missing ({} weights)", self.dtype());
        let scales = self.scales.as_ref().ok_or_else(|| missing("scales"))?;
        let found = &scales.info.shape;
        let refuse = |part: &FileTensor, expected: &[&[usize]]| {
            let expected: Vec<String> = expected.iter().map(|shape| format!("{shape:?}")).collect();
            format!("`{}` has shape {:?}, expected {}", part.name, part.info.shape, expected.join(" or "))
        };
        let (bits, group) = self.quantization.sizes(&self.stem);
        let per_word = 32 / bits;
        let group = group.unwrap_or(inputs).min(inputs);
        let columns = inputs.div_ceil(group);
        let fits = |part: &Option<FileTensor>, expected: &[&[usize]]| match part {
            Some(part) if !expected.contains(&&part.info.shape[..]) => Err(refuse(part, expected)),
            _ => Ok(()),
        };
        match &self.quantization {
            Quantization::Scaled { block, .. } => {
                if let Some(zeros) = &self.offsets {
                    return Err(format!("zero points (`{}`) of 8-bit weights are not supported", zeros.name));
                }
                let block =
                    block.map(|[high, wide]| ([rows.div_ceil(high), inputs.div_ceil(wide)], [high, wide]));
                return match &found[..] {
                    shape if block.is_some_and(|(blocks, _)| shape == blocks) => {
                        Ok(block.map_or((1, [1, inputs]), |([_, columns], size)| (columns, size)))
                    }
                    [] | [1] | [1, 1] => Ok((1, [rows, inputs])),
                    [all] | [all, 1] if *all == rows => Ok((1, [1, inputs])),
                    _ => Err(match &block {
                        Some((blocks, _)) => refuse(scales, &[blocks]),
                        None => refuse(scales, &[&[], &[rows], &[rows, 1]]),
                    }),
                };
            }
            Quantization::Awq { .. } | Quantization::Gptq { .. } => {
                fits(&self.scales, &[&[columns, rows]])?;
                fits(&self.offsets, &[&[columns, rows.div_ceil(per_word)]])?;
                if self.offsets.is_none() {
                    return Err(missing("zeros (`qzeros`)"));
                }
            }
            Quantization::Packed { .. } => {
                fits(&self.scales, &[&[rows, columns]])?;
                fits(&self.offsets, &[&[rows.div_ceil(per_word), columns]])?;
            }
            Quantization::Mlx { .. } => {
                fits(&self.scales, &[&[rows, columns]])?;
                fits(&self.offsets, &[&[rows, columns]])?;
                if self.offsets.is_none() {
                    return Err(missing("biases (`biases`)"));
                }
            }
        }
        fits(&self.order, &[&[inputs]])?;
        Ok((columns, [1, group]))
    }

    /// What unpacks it; `read` reads a tensor. Fails for scales and zeros that are missing, of other shapes or types, or not
    /// finite, and groups that do not exist.
    pub fn unpack(
        &self,
        mut read: impl FnMut(&FileTensor) -> Result<Vec<u8>, CheckpointError>,
    ) -> Result<Unpack, CheckpointError> {
        self.check().map_err(|problem| self.refuse(&problem))?;
        let mut bytes = |part: &Option<FileTensor>| -> Result<Option<Bytes>, CheckpointError> {
            part.as_ref().map(|part| Ok((part.clone(), read(part)?))).transpose()
        };
        let parts = [bytes(&self.scales)?, bytes(&self.offsets)?, bytes(&self.order)?];
        self.unpack_parts(parts).map_err(|problem| self.refuse(&problem))
    }

    fn refuse(&self, problem: &str) -> CheckpointError {
        CheckpointError::tensor(&format!("{}.weight", self.stem), problem)
    }

    fn unpack_parts(&self, [scales, offsets, order]: [Option<Bytes>; 3]) -> Result<Unpack, String> {
        let [rows, inputs] = self.dimensions()?;
        let (columns, [block, group]) = self.groups([rows, inputs])?;
        let (bits, _) = self.quantization.sizes(&self.stem);
        let mut scales = scales.map(floats).transpose()?.unwrap_or_default();
        let offsets = match (&self.quantization, offsets) {
            (Quantization::Scaled { .. }, _) | (Quantization::Mlx { .. }, None) => Offsets::None,
            (Quantization::Mlx { .. }, Some(biases)) => Offsets::Biases(floats(biases)?),
            (Quantization::Packed { .. }, None) => {
                Offsets::Zeros(vec![(1 << (bits - 1)) as f32; scales.len()])
            }
            (Quantization::Packed { .. }, Some(zeros)) => {
                // A word holds the zeros of several rows, for one group.
                let zeros = transposed(integers(&zeros)?, columns);
                Offsets::Zeros(transposed(&words(&zeros, bits, rows, false), rows))
            }
            (quantization, zeros) => {
                let zeros = zeros.as_ref().map(integers).transpose()?.unwrap_or_default();
                let awq = matches!(quantization, Quantization::Awq { .. });
                let offset = if let Quantization::Gptq { offset, .. } = quantization { *offset } else { 0 };
                let mut zeros = transposed(&words(zeros, bits, rows, awq), rows);
                zeros.iter_mut().for_each(|zero| *zero += f32::from(offset));
                scales = transposed(&scales, rows);
                Offsets::Zeros(zeros)
            }
        };
        let groups = match order {
            None => Groups::Blocks { rows: block, inputs: group },
            Some(order) => {
                let groups: Vec<u32> =
                    integers(&order)?.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
                if let Some(input) = groups.iter().position(|group| *group as usize >= columns) {
                    let (name, group) = (&order.0.name, groups[input].cast_signed());
                    return Err(format!(
                        "value {input} of `{name}` is {group}, expected a group below {columns}"
                    ));
                }
                Groups::Order(groups)
            }
        };
        Ok(Unpack { rows, inputs, codes: self.layout(), scales, columns, offsets, groups })
    }
}

/// A tensor with its bytes.
type Bytes = (FileTensor, Vec<u8>);

/// The values of a tensor of floats. Fails for those that are not finite, and other types.
fn floats((part, bytes): Bytes) -> Result<Vec<f32>, String> {
    let half =
        |kind: HalfKind| bytes.as_chunks().0.iter().map(|b| kind.widen(u16::from_le_bytes(*b))).collect();
    let values: Vec<f32> = match part.info.dtype {
        Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F16 => half(HalfKind::F16),
        Dtype::BF16 => half(HalfKind::Bf16),
        other => return Err(format!("expected type F32, F16 or BF16 of `{}`, got {other:?}", part.name)),
    };
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(format!("value {at} of `{}` is {}", part.name, values[at])),
        None => Ok(values),
    }
}

/// The words of a tensor of integers.
fn integers((part, bytes): &Bytes) -> Result<&[[u8; 4]], String> {
    match part.info.dtype {
        Dtype::I32 | Dtype::U32 => Ok(bytes.as_chunks().0),
        other => Err(format!("expected type I32 of `{}`, got {other:?}", part.name)),
    }
}
