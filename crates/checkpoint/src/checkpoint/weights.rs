//! A checkpoint as the source of weights for a device.

use specreel_tensor::{
    Weights,
    cpu::{kernels::HalfKind, linear::Weight, table::Values},
    weights::TakeRows,
};

use super::*;

impl Weights for Checkpoint {
    fn verify(&self, name: &str, shape: &[usize]) -> Result<(), CheckpointError> {
        self.verify(name, shape)
    }

    fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        self.f32(name, shape)
    }

    fn rows_parallel(
        &self,
        name: &str,
        shape: [usize; 2],
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        self.rows_parallel(name, shape, take)
    }

    fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Option<Vec<(Weight, usize)>>, CheckpointError> {
        self.matrix(name, shape)
    }

    fn native(&self, name: &str, shape: [usize; 2]) -> Result<(Values, u64), CheckpointError> {
        self.native(name, shape)
    }

    fn half_kind(&self, name: &str, shape: &[usize]) -> Result<Option<HalfKind>, CheckpointError> {
        self.half_kind(name, shape)
    }

    fn keeps_types(&self) -> bool {
        self.files.gguf().is_some()
    }

    fn kept(&self, key: &str, outputs: usize, inputs: usize) -> Option<Weight> {
        self.kept.get(key, outputs, inputs)
    }

    fn keep(&self, key: &str, weight: &Weight, shape: [usize; 2], sources: Vec<(String, u64)>) {
        self.kept.put(key, weight, shape, sources);
    }
}
