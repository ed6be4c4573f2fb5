//! Numbers as people read them.

pub use crate::record::units::bytes;

/// Stands in a table where there is nothing to show.
pub const NOTHING: &str = "–";

/// A time span in milliseconds, short: `12 ms`, `1.0 s`.
pub fn seconds(ms: f64) -> String {
    if ms < 999.5 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

/// A share of one as a percentage: `12.5 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A ratio of speeds: `1.29x`.
pub fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

/// A number of things: `1 step`, `3 steps`.
pub fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// The first token that differs, for people: they count from 1. `index` counts from 0.
pub fn differs_at(index: usize) -> String {
    format!("differs at token {}", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.4, 999.4, 999.6, 61_000.0].map(seconds), ["0 ms", "999 ms", "1.0 s", "61.0 s"]);
        assert_eq!((percent(0.125), ratio(1.294)), ("12.5 %".into(), "1.29x".into()));
        assert_eq!((plural(1, "step"), plural(0, "step")), ("1 step".into(), "0 steps".into()));
        assert_eq!(differs_at(12), "differs at token 13");
    }
}
