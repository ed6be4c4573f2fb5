//! The mask of new rows, as a tensor to add to scores.

use crate::{Result, attention::Mask};
use candle_core::{DType, Device, Tensor};

/// `rows × slots`: 0 where a row sees a slot, else minus infinity. `None` if every row sees every slot.
///
/// All rows see the slots up to some point; only the part after it is sent to the device.
pub fn hidden(
    mask: &Mask,
    before: usize,
    rows: usize,
    dtype: DType,
    device: &Device,
) -> Result<Option<Tensor>> {
    let shared = match mask {
        Mask::Causal => before,
        Mask::Paths { shared, .. } => (*shared).min(before + rows),
    };
    let width = before + rows - shared;
    let mut tail = vec![f32::NEG_INFINITY; rows * width];
    for (row, tail) in tail.chunks_exact_mut(width.max(1)).enumerate() {
        match mask {
            Mask::Causal => tail[..=row].fill(0.0),
            Mask::Paths { paths, .. } => {
                for &slot in &paths[row] {
                    match tail.get_mut(slot) {
                        Some(value) => *value = 0.0,
                        None => crate::bail!("a tree path has slot {slot} of {width}"),
                    }
                }
            }
        }
    }
    if tail.iter().all(|value| *value == 0.0) {
        return Ok(None);
    }
    let tail = Tensor::from_vec(tail, (rows, width), device)?.to_dtype(dtype)?;
    let whole = match shared {
        0 => tail,
        _ => Tensor::cat(&[&Tensor::zeros((rows, shared), dtype, device)?, &tail], 1)?,
    };
    Ok(Some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(mask: &Mask, before: usize, rows: usize) -> Option<Vec<Vec<u8>>> {
        let mask = hidden(mask, before, rows, DType::F32, &Device::Cpu).unwrap()?;
        let rows = mask.to_vec2::<f32>().unwrap();
        Some(rows.iter().map(|row| row.iter().map(|v| u8::from(*v == 0.0)).collect()).collect())
    }

    #[test]
    fn masks_of_chains_and_trees() {
        assert_eq!(rows(&Mask::Causal, 2, 3).unwrap(), [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1; 5]]);
        let paths = vec![vec![0], vec![0, 1], vec![0, 2]];
        assert_eq!(
            rows(&Mask::Paths { shared: 1, paths: paths.clone() }, 1, 3).unwrap(),
            [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 0, 1]]
        );
        // The first node was fed earlier: slots are counted from the end of those that all rows see.
        assert_eq!(
            rows(&Mask::Paths { shared: 1, paths: paths[1..].to_vec() }, 2, 2).unwrap(),
            [[1, 1, 1, 0], [1, 1, 0, 1]]
        );
    }

    #[test]
    fn without_hidden_slots_there_is_no_mask() {
        assert_eq!(rows(&Mask::Causal, 9, 1), None);
        assert_eq!(rows(&Mask::Paths { shared: 3, paths: vec![vec![0, 1]] }, 4, 1), None);
        let beyond = Mask::Paths { shared: 3, paths: vec![vec![0, 7]] };
        assert!(hidden(&beyond, 4, 1, DType::F32, &Device::Cpu).is_err());
    }
}
