//! A build without candle: nothing here can exist.

use std::convert::Infallible;

/// As in [`Gpu`](crate::Gpu), the private field hides from other modules that there is no value.
#[derive(Clone, Debug)]
pub struct Device(Infallible);

impl Device {
    pub(crate) fn never(&self) -> ! {
        match self.0 {}
    }

    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.never()
    }
}

pub(crate) fn cpu() -> Option<Device> {
    None
}

#[derive(Debug)]
pub struct Error(Infallible);

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {}
    }
}

pub(crate) fn message(error: &Error) -> String {
    match error.0 {}
}

pub mod states {
    use std::{convert::Infallible, ops::Range};

    use crate::Result;

    #[derive(Clone, Debug)]
    pub struct CandleRows(Infallible);

    impl CandleRows {
        pub(crate) fn upload(&self, _: &[f32], _: usize) -> Result<Self> {
            match self.0 {}
        }

        pub fn shape(&self) -> (usize, usize) {
            match self.0 {}
        }

        pub fn narrow(&self, _: usize, _: usize) -> Result<Self> {
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

        pub(crate) fn below(parts: &[Self]) -> Result<Self> {
            match parts.first() {
                Some(rows) => match rows.0 {},
                None => crate::bail!("no rows to put together"),
            }
        }

        pub fn with_values<T>(&self, _: impl FnOnce(&[f32]) -> T) -> Result<T> {
            match self.0 {}
        }
    }
}
