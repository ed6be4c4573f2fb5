//! Checks of the values of a `vision_config`.

use super::VisionError;

/// Upper bound of every dimension, far above any tower, so that products of them do not overflow.
pub(crate) const LARGEST: usize = 1 << 20;

/// A value from 1 to `largest`.
pub(crate) fn within(name: &'static str, value: usize, largest: usize) -> Result<usize, VisionError> {
    if (1..=largest).contains(&value) {
        Ok(value)
    } else {
        Err(VisionError::Config { name, problem: format!("is {value}; expected 1 to {largest}") })
    }
}

/// As [`within`]; a missing value is refused.
pub(crate) fn required(
    name: &'static str,
    value: Option<usize>,
    largest: usize,
) -> Result<usize, VisionError> {
    let missing = || VisionError::Config { name, problem: "is missing".into() };
    within(name, value.ok_or_else(missing)?, largest)
}
