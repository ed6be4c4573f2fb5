//! The functions that gate values.

/// What becomes of a gate before values are multiplied by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// x · sigmoid(x).
    #[default]
    Silu,
    /// GELU, approximated with tanh.
    GeluTanh,
    /// sigmoid(x).
    Sigmoid,
}
