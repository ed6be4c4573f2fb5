//! Numbers as people read them.

pub use crate::record::units::bytes;

/// Shown in a table instead of an unknown value.
pub const NOTHING: &str = "–";

/// A duration given in milliseconds: `0.8 ms`, `120 ms`, `3.4 s`.
pub fn duration(ms: f64) -> String {
    match ms {
        ms if !ms.is_finite() => NOTHING.into(),
        ms if ms < 0.05 || (9.95..999.5).contains(&ms) => format!("{:.0} ms", ms.max(0.0)),
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

/// A share from 0 to 1 as a percentage: `12.5 %`.
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
        let times = [0.0, 0.04, 0.81, 9.94, 9.96, 999.4, 999.6, 61_000.0, f64::NAN].map(duration);
        assert_eq!(times, ["0 ms", "0 ms", "0.8 ms", "9.9 ms", "10 ms", "999 ms", "1.0 s", "61.0 s", "–"]);
        assert_eq!((percent(0.125), ratio(1.294)), ("12.5 %".into(), "1.29x".into()));
        assert_eq!((plural(1, "step"), plural(0, "step")), ("1 step".into(), "0 steps".into()));
        assert_eq!(differs_at(12), "differs at token 13");
    }
}
