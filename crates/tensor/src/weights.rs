//! Where weights come from.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{
    CheckpointError,
    cpu::{
        kernels::HalfKind,
        linear::Weight,
        table::Values,
        thread_pool::{DisjointSliceMut, ThreadPool},
    },
    kept::{Keep, KeptMatrix},
};

/// Values that one thread generates at a time.
const CHUNK: usize = 1 << 16;

/// Takes the index of the first row of some rows of a matrix, and their values.
pub type TakeRows<'a> = &'a (dyn Fn(usize, &[f32]) -> Result<(), String> + Sync);

/// A source of tensors by name: the weight files of a model, usually. A source of f32 values needs [`Weights::f32`] only; the other
/// methods spare conversions.
///
/// Every method that reads or checks a tensor fails if the tensor is missing, has another shape or a type that is not supported,
/// and if the loading was stopped.
pub trait Weights: Sync {
    /// A tensor's values as f32, row-major. Fails for values that are not finite.
    fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError>;

    /// Check that a tensor exists with this shape, without reading its values.
    fn verify(&self, _name: &str, _shape: &[usize]) -> Result<(), CheckpointError> {
        Ok(())
    }

    /// Call `take` for all rows of a matrix, from several threads. Returns a hash of the tensor's bytes; 0 if the source has none.
    /// Errors: see [`Weights`]; values that are not finite, and the errors of `take`.
    fn rows_parallel(
        &self,
        name: &str,
        shape: [usize; 2],
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        take(0, &self.f32(name, &shape)?).map_err(|e| CheckpointError::tensor(name, &e))?;
        Ok(0)
    }

    /// A matrix in the source's own types, where they are used without conversion: its parts, each with its number of rows.
    /// `None` if this source's matrices are to be converted.
    fn matrix(
        &self,
        _name: &str,
        _shape: [usize; 2],
    ) -> Result<Option<Vec<(Weight, usize)>>, CheckpointError> {
        Ok(None)
    }

    /// A tensor's values in the source's type, and a hash of its bytes. Fails for values that are not finite.
    fn native(&self, name: &str, shape: [usize; 2]) -> Result<(Values, u64), CheckpointError> {
        Ok((Values::F32(self.f32(name, &shape)?.into()), 0))
    }

    /// The type of a tensor's values if they are 16-bit floats to be converted.
    fn half_kind(&self, _name: &str, _shape: &[usize]) -> Result<Option<HalfKind>, CheckpointError> {
        Ok(None)
    }

    /// True if matrices are used in the source's own types.
    fn keeps_types(&self) -> bool {
        false
    }

    /// A matrix of `[outputs, inputs]` that an earlier loading converted and kept.
    fn kept(&self, _key: &str, _shape: [usize; 2]) -> Option<KeptMatrix> {
        None
    }

    /// True if this loading keeps what it converts.
    fn keeps(&self) -> bool {
        false
    }

    /// Keep a converted matrix of `[outputs, inputs]`, made from tensors with these hashes, for later loadings.
    fn keep(&self, _key: &str, _matrix: Box<dyn Keep>, _shape: [usize; 2], _sources: Vec<(String, u64)>) {}
}

/// Random values of a tensor, deterministic by name: norms are one, biases zero, matrices uniform within bounds that preserve
/// the variance of their inputs.
pub fn random_values(name: &str, shape: &[usize]) -> Vec<f32> {
    let count = shape.iter().product();
    let inputs: usize = match shape {
        // Norms and biases.
        [] | [_] => return vec![if name.ends_with(".weight") { 1.0 } else { 0.0 }; count],
        [_, inputs @ ..] => inputs.iter().product(),
    };
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let seed = hasher.finish();
    let bound = (3.0 / inputs.max(1) as f32).sqrt();
    let mut values = vec![0f32; count];
    let place = DisjointSliceMut::new(&mut values);
    ThreadPool::global().run(count.div_ceil(CHUNK), &|index| {
        let mut state = (seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1;
        let start = index * CHUNK;
        // SAFETY: each chunk has values of its own.
        for value in unsafe { place.slice(start, CHUNK.min(count - start)) } {
            // xorshift (Marsaglia, 2003); the upper 24 bits are scaled to -1 to 1.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *value = ((state >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * bound;
        }
    });
    values
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cpu::builder::Builder;

    #[test]
    fn weights_are_uniform_and_deterministic() {
        let shape = [300, 700];
        let w = random_values("a.weight", &shape);
        assert_eq!(w, random_values("a.weight", &shape));
        assert_ne!(w, random_values("b.weight", &shape));
        let mean = w.iter().sum::<f32>() / w.len() as f32;
        let variance = w.iter().map(|v| v * v).sum::<f32>() / w.len() as f32;
        assert!(mean.abs() < 1e-3 && (variance * 700.0 - 1.0).abs() < 0.02, "{mean} {variance}");
        assert_eq!(random_values("x.norm.weight", &[3]), [1.0; 3]);
        assert_eq!(random_values("q_proj.bias", &[2]), [0.0; 2]);
    }

    /// Random weights as a source has them that stores f32, 16-bit floats, or blocks.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Random {
        /// The type of 16-bit floats.
        pub half: Option<HalfKind>,
        /// The type of matrices that are used without conversion.
        pub stored: Option<crate::WeightType>,
    }

    impl Random {
        fn converted(&self, name: &str, [rows, inputs]: [usize; 2]) -> Option<Weight> {
            let mut builder = Builder::new(rows, inputs, self.stored?);
            builder.push(&random_values(name, &[rows, inputs])).unwrap();
            Some(builder.into_weight())
        }
    }

    impl Weights for Random {
        fn verify(&self, name: &str, _: &[usize]) -> Result<(), CheckpointError> {
            if name.contains("missing") { Err(CheckpointError::tensor(name, "missing")) } else { Ok(()) }
        }

        fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
            Ok(random_values(name, shape))
        }

        fn matrix(
            &self,
            name: &str,
            shape: [usize; 2],
        ) -> Result<Option<Vec<(Weight, usize)>>, CheckpointError> {
            Ok(self.converted(name, shape).map(|weight| vec![(weight, shape[0])]))
        }

        fn native(&self, name: &str, shape: [usize; 2]) -> Result<(Values, u64), CheckpointError> {
            if let Some(values) = self.converted(name, shape).and_then(Weight::stored) {
                return Ok((values, 0));
            }
            let values = random_values(name, &shape);
            Ok((
                match self.half {
                    None => Values::F32(values.into()),
                    Some(kind) => {
                        let bits: Vec<u16> = values.iter().map(|value| kind.narrow(*value)).collect();
                        Values::Half(kind, bits.into())
                    }
                },
                0,
            ))
        }

        fn half_kind(&self, _: &str, _: &[usize]) -> Result<Option<HalfKind>, CheckpointError> {
            Ok(self.half)
        }

        fn keeps_types(&self) -> bool {
            self.stored.is_some()
        }
    }
}
