//! A build without GPUs: none is found, and nothing here can exist.

#[cfg(test)]
mod noise;

use std::convert::Infallible;

use specreel_record::{Failure, FailureClass, Traffic};

use self::adapter::Adapter;
pub use crate::error::gpu::{GpuError, Result};

/// The private field keeps other modules from seeing that it has no value: their code about GPUs is not unreachable to the compiler.
#[derive(Clone, Debug)]
pub struct Gpu(Infallible);

impl Gpu {
    pub(crate) fn never(&self) -> ! {
        match self.0 {}
    }

    /// Fails (class usage).
    pub fn open(_: Option<usize>) -> std::result::Result<Self, Failure> {
        Err(Failure {
            class: FailureClass::Usage,
            error: "this build lacks the feature `gpu`".into(),
            hint: Some("build it with `--features gpu` (see docs/devices.md), or use --device cpu".into()),
        })
    }

    pub(crate) fn open_real() -> Option<Self> {
        None
    }

    pub fn adapter(&self) -> &Adapter {
        self.never()
    }

    pub fn is_software(&self) -> bool {
        self.never()
    }

    pub fn is_batch_invariant(&self) -> bool {
        self.never()
    }

    pub fn doubt(&self) {
        self.never()
    }

    pub fn notes(&self) -> Vec<String> {
        self.never()
    }

    pub fn traffic(&self) -> Traffic {
        self.never()
    }

    pub fn check(&self) -> Result<()> {
        self.never()
    }
}

pub mod adapter {
    mod kind;

    use std::convert::Infallible;

    pub use kind::AdapterKind;

    #[derive(Clone, Debug)]
    pub struct Adapter {
        pub number: usize,
        pub kind: AdapterKind,
        pub memory: Option<u64>,
        pub problem: Option<String>,
        raw: Infallible,
    }

    impl Adapter {
        pub fn label(&self) -> String {
            match self.raw {}
        }

        pub fn about(&self) -> String {
            match self.raw {}
        }

        pub(crate) fn is_real(&self) -> bool {
            match self.raw {}
        }
    }

    pub const NONE: &str = "not in this build";

    pub fn adapters() -> Vec<Adapter> {
        Vec::new()
    }
}

pub mod attention {
    pub fn computes(_: usize) -> bool {
        false
    }
}

pub mod relevance {
    use std::convert::Infallible;

    use super::{Result, states::GpuRows};

    #[derive(Debug)]
    pub struct VisualStates(Infallible);

    impl VisualStates {
        pub fn beside(first: &GpuRows, _: &[f32], _: usize) -> Result<Self> {
            match first.0 {}
        }

        pub fn nearest_to(&mut self, _: &GpuRows, _: usize) -> Result<Vec<Vec<(u32, f32)>>> {
            match self.0 {}
        }

        pub fn bytes(&self) -> usize {
            match self.0 {}
        }
    }
}

pub mod states {
    use std::{convert::Infallible, ops::Range};

    use super::Result;

    #[derive(Debug)]
    pub struct SharedStream(Infallible);

    #[derive(Clone, Debug)]
    pub struct GpuRows(pub(super) Infallible);

    impl GpuRows {
        pub fn shape(&self) -> (usize, usize) {
            match self.0 {}
        }

        pub fn stream(&self) -> &SharedStream {
            match self.0 {}
        }

        #[must_use]
        pub fn narrow(&self, _: usize, _: usize) -> Self {
            match self.0 {}
        }

        pub fn select(&self, _: &[usize]) -> Result<Self> {
            match self.0 {}
        }

        pub fn columns(&self, _: Range<usize>) -> Result<Self> {
            match self.0 {}
        }

        pub fn widened(&self, _: usize) -> Result<Self> {
            match self.0 {}
        }

        pub fn read(&self) -> Result<Vec<f32>> {
            match self.0 {}
        }
    }

    pub enum RowSource<'a> {
        Device(&'a GpuRows),
        Host(&'a [f32]),
    }

    pub fn below(stream: &SharedStream, _: &[RowSource<'_>], _: usize) -> Result<GpuRows> {
        match stream.0 {}
    }
}

#[cfg(test)]
pub mod testing {
    pub use super::noise::noise;

    pub fn gpu_or_skip() -> Option<super::Gpu> {
        None
    }
}
