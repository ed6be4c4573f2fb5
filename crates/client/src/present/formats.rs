//! Numbers as people read them.

use specreel_record::Interval;
pub use specreel_record::units::bytes;

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

/// A speedup with the digits that its interval allows: `1.6x (1.5–1.7)`. Without an interval, or with one that is wider than a
/// quarter of the figure, it is a rough one: `≈ 1.6x`.
pub fn speedup(ratio: f64, interval: Option<&Interval>) -> String {
    let Some(Interval { low, high, .. }) = interval.filter(|i| !i.is_noisy(ratio) && i.low < i.high) else {
        return rough(ratio);
    };
    let digits = match high - low {
        width if width >= 1.0 && ratio >= 10.0 => 0,
        width if width >= 0.1 => 1,
        _ => 2,
    };
    format!("{ratio:.digits$}x ({low:.digits$}–{high:.digits$})")
}

/// A ratio of speeds without an interval: `≈ 1.6x`. Exactly 1 is the baseline against itself: `1x`.
pub fn rough(ratio: f64) -> String {
    let digits = match ratio {
        1.0 => return "1x".into(),
        r if r >= 10.0 => 0,
        r if r >= 0.95 => 1,
        _ => 2,
    };
    format!("≈ {ratio:.digits$}x")
}

/// Tokens per second, with three digits: `38.3`, `8120`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if !r.is_finite() => NOTHING.into(),
        r if r < 99.95 => format!("{r:.1}"),
        r if r < 999.5 => format!("{r:.0}"),
        r => {
            let unit = 10f64.powi(r.log10().floor() as i32 - 2);
            format!("{:.0}", (r / unit).round() * unit)
        }
    }
}

/// A number of things: `1 step`, `3 steps`.
pub fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// The first token that differs, for people: they count from 1. `index` counts from 0.
pub fn differs_at(index: usize) -> String {
    format!("differs at token {}", index + 1)
}

/// A number of parameters: `7.6 B`, `494 M`.
pub fn parameters(n: u64) -> String {
    match n as f64 {
        n if n >= 9.995e9 => format!("{:.0} B", n / 1e9),
        n if n >= 9.995e8 => format!("{:.1} B", n / 1e9),
        n if n >= 9.995e6 => format!("{:.0} M", n / 1e6),
        n if n >= 9.995e5 => format!("{:.1} M", n / 1e6),
        n => format!("{:.0} k", n / 1e3),
    }
}

/// How long ago something was: `now`, `5 min`, `3 h`, `12 d`, `2 y`.
pub fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "now".into(),
        s if s < 3600 => format!("{} min", s / 60),
        s if s < 86_400 => format!("{} h", s / 3600),
        s if s < 730 * 86_400 => format!("{} d", s / 86_400),
        s => format!("{} y", s / (365 * 86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speedup_has_no_more_digits_than_its_interval_allows() {
        let told = |ratio, low, high| speedup(ratio, Some(&Interval { low, high, pairs: 9 }));
        assert_eq!(told(1.634, 1.61, 1.669), "1.63x (1.61–1.67)");
        assert_eq!(told(1.634, 1.52, 1.71), "1.6x (1.5–1.7)");
        assert_eq!(told(14.35, 13.8, 14.9), "14x (14–15)");
        assert_eq!(told(5.04, 4.5, 5.6), "5.0x (4.5–5.6)");
        assert_eq!(told(0.523, 0.51, 0.53), "0.52x (0.51–0.53)");
        assert_eq!(told(1.634, 1.4, 1.9), "≈ 1.6x", "wider than a quarter");
        assert_eq!(
            [1.634, 0.0523, 14.35, 1.0].map(|r| speedup(r, None)),
            ["≈ 1.6x", "≈ 0.05x", "≈ 14x", "1x"]
        );
        assert_eq!(told(1.0, 1.0, 1.0), "1x", "the baseline against itself");
        for broken in [f64::NAN, f64::INFINITY] {
            assert!(told(1.2, broken, broken).starts_with('≈'));
        }
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [0.0, 38.26, 99.94, 99.96, 999.4, 1234.56, 8_128.0, 9_996.0, 123_456.0].map(rate);
        assert_eq!(rates, ["0.0", "38.3", "99.9", "100", "999", "1230", "8130", "10000", "123000"]);
        assert_eq!(rate(f64::INFINITY), NOTHING);
    }

    #[test]
    fn numbers_are_short() {
        let times = [0.0, 0.04, 0.81, 9.94, 9.96, 999.4, 999.6, 61_000.0, f64::NAN].map(duration);
        assert_eq!(times, ["0 ms", "0 ms", "0.8 ms", "9.9 ms", "10 ms", "999 ms", "1.0 s", "61.0 s", "–"]);
        assert_eq!(percent(0.125), "12.5 %");
        assert_eq!((plural(1, "step"), plural(0, "step")), ("1 step".into(), "0 steps".into()));
        assert_eq!(differs_at(12), "differs at token 13");
    }

    #[test]
    fn ages_have_one_unit() {
        assert_eq!([59, 3599, 7200, 200_000, 70_000_000].map(ago), ["now", "59 min", "2 h", "2 d", "2 y"]);
    }

    #[test]
    fn parameters_as_text() {
        let words = [800, 640_000, 1_234_567, 494_000_000, 7_615_000_000, 72_700_000_000].map(parameters);
        assert_eq!(words, ["1 k", "640 k", "1.2 M", "494 M", "7.6 B", "73 B"]);
    }
}
