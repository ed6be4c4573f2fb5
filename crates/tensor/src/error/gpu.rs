//! What can go wrong on a GPU.

use specreel_record::units::bytes;

/// An error of the device, or of work recorded for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The device is gone (reset, unplugged, its driver updated). Open it again for further work.
    #[error("the GPU was lost: {0}")]
    Lost(String),
    #[error("out of memory on the GPU: {} more were needed", bytes(*.needed))]
    OutOfMemory {
        /// The bytes that could not be allocated.
        needed: u64,
    },
    /// More than a limit of the adapter allows.
    #[error("{what} is too large for this GPU: {size}, at most {limit}")]
    TooLarge { what: String, size: u64, limit: u64 },
    /// A kernel that the driver, or the compiler in front of it, refuses.
    #[error("the GPU refuses kernel `{kernel}`: {why}")]
    Shader { kernel: String, why: String },
    /// A use of buffers or kernels that the interface forbids.
    #[error("invalid GPU command: {0}")]
    Invalid(String),
}

pub type Result<T> = std::result::Result<T, GpuError>;
