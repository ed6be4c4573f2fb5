//! Times of steps, and playback rates in words.

use specreel_record::Step;

/// Nothing takes no time: a step of an old or a damaged file.
const SHORTEST_STEP_MS: f64 = 0.01;
/// No step of a file takes longer.
const LONGEST_STEP_MS: f64 = 1e9;

/// The time of a step, in milliseconds.
pub(super) fn duration(step: &Step) -> f64 {
    let ms = step.draft_ms + step.verify_ms + step.other_ms;
    if ms.is_finite() { ms.clamp(SHORTEST_STEP_MS, LONGEST_STEP_MS) } else { SHORTEST_STEP_MS }
}

/// A rate in words, if it is not the true speed.
pub(super) fn in_words(rate: f64) -> Option<String> {
    match rate {
        r if r < 0.95 => Some(format!("slowed {}x", two_digits(1.0 / r))),
        r if r > 1.05 => Some(format!("{}x speed", two_digits(r))),
        _ => None,
    }
}

/// A factor with two digits: `1.3`, `40`, `410`.
fn two_digits(factor: f64) -> String {
    if factor < 9.95 {
        return format!("{factor:.1}").trim_end_matches(".0").to_owned();
    }
    let unit = 10f64.powf(factor.log10().floor() - 1.0);
    format!("{:.0}", (factor / unit).round() * unit)
}
