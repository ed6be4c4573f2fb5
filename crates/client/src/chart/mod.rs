//! Charts: points on two axes with their Pareto front ([`Plot`]), lines over two axes ([`Curve`]), and the axes' [`Scale`].

mod curve;
mod plot;
pub mod scale;

pub use curve::{Curve, escaped};
pub use plot::{Plot, Point, symbol};
pub use scale::Scale;
