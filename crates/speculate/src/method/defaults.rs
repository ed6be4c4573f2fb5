//! Values of keys that a file leaves out, as serde asks for them.

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(super) fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(super) fn is_one_token(count: &usize) -> bool {
    *count == 1
}

pub(super) fn one_token() -> usize {
    1
}

pub(super) fn all() -> f64 {
    1.0
}

pub(super) fn twenty() -> usize {
    20
}

pub(super) fn half() -> f64 {
    0.5
}

pub(super) fn one() -> f32 {
    1.0
}

pub(super) fn three_tenths() -> f32 {
    0.3
}
