//! specreel
fn main() {}
