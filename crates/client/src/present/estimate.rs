//! What a run takes, in words.

use super::formats::{bytes, plural};
use specreel_record::{Basis, Estimate, clock};

/// A run that takes less is not worth a line, in milliseconds.
const WORTH_MS: f64 = 5000.0;

/// A duration as one would say it: `about 25 s`, `about 3 min`, `about 1 h 20 min`.
pub fn about(ms: f64) -> String {
    let seconds = (ms / 1000.0).max(0.0);
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        s if s < 1.0 => "under a second".into(),
        s if s < 10.0 => format!("about {s:.0} s"),
        s if s < 57.5 => format!("about {:.0} s", (s / 5.0).round() * 5.0),
        s if s < 3570.0 => format!("about {} min", (s / 60.0).round().max(1.0)),
        _ => match (minutes / 60, minutes % 60 / 10 * 10) {
            (hours, 0) => format!("about {hours} h"),
            (hours, rest) => format!("about {hours} h {rest} min"),
        },
    }
}

/// The same as a limit: `up to 25 s`, `under a second`.
pub fn up_to(ms: f64) -> String {
    let told = about(ms);
    told.strip_prefix("about ").map(|time| format!("up to {time}")).unwrap_or(told)
}

/// A time left, as a clock: `0:40`, `1:02:03`.
pub fn left(ms: f64) -> String {
    clock((ms / 1000.0).max(0.0).ceil())
}

/// The expected time of a run that takes long enough to report.
pub fn expected(estimate: &Estimate) -> Option<String> {
    estimate.total_ms().filter(|ms| *ms >= WORTH_MS).map(about)
}

/// An estimate as one line: `about 3 min: tower 2:10, prompt 0:40, writing up to 0:12; peak memory 5.1 GB`. `None` for a run that
/// is over soon, or whose time is not known.
pub fn line(estimate: &Estimate) -> Option<String> {
    let peak = estimate.peak_bytes.map(|peak| format!("; peak memory {}", bytes(peak))).unwrap_or_default();
    Some(format!("{}: {}{peak}", expected(estimate)?, parts(estimate)?))
}

fn parts(estimate: &Estimate) -> Option<String> {
    let [tower, prompt, writing] = [estimate.tower_ms?, estimate.prompt_ms?, estimate.writing_ms?]
        .map(|ms| clock((ms / 1000.0).round()));
    Some(format!("tower {tower}, prompt {prompt}, writing up to {writing}"))
}

/// Estimates of runs one after another, as named values: layout and memory of the largest, times added up.
pub fn rows(estimates: &[Estimate]) -> Vec<(&'static str, String)> {
    let Some(most) = estimates.iter().max_by_key(|estimate| estimate.visual_tokens) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    let each = if estimates.len() > 1 { " at most, each" } else { "" };
    if estimates.len() > 1 {
        rows.push(("segments", estimates.len().to_string()));
    }
    let frames = plural(most.frames as u64, "frame");
    rows.push(("frames", format!("{frames} of {}x{}{each}", most.width, most.height)));
    rows.push((
        "tokens",
        format!("{} visual, {} in the prompt{each}", most.visual_tokens, most.prompt_tokens),
    ));
    if let Some(peak) = estimates.iter().filter_map(|estimate| estimate.peak_bytes).max() {
        rows.push(("memory", format!("{} at the peak", bytes(peak))));
    }
    let sum = |part: fn(&Estimate) -> Option<f64>| estimates.iter().map(part).sum::<Option<f64>>();
    let all = Estimate {
        tower_ms: sum(|estimate| estimate.tower_ms),
        prompt_ms: sum(|estimate| estimate.prompt_ms),
        writing_ms: sum(|estimate| estimate.writing_ms),
        ..Estimate::default()
    };
    if let (Some(total), Some(parts)) = (all.total_ms(), parts(&all)) {
        let tokens = plural(most.max_new_tokens as u64, "token");
        rows.push(("time", format!("{}: {parts} ({tokens}{each})", about(total))));
    }
    rows.extend(estimates.iter().filter_map(|estimate| estimate.basis).max().map(|basis| {
        let words = match basis {
            Basis::Measured => "speeds measured in earlier runs",
            Basis::Probed => "short passes of the models, timed just now",
        };
        ("basis", words.to_owned())
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate() -> Estimate {
        Estimate {
            frames: 16,
            width: 448,
            height: 336,
            visual_tokens: 1536,
            prompt_tokens: 1560,
            max_new_tokens: 256,
            tower_ms: Some(130_000.0),
            prompt_ms: Some(40_000.0),
            writing_ms: Some(12_300.0),
            basis: Some(Basis::Measured),
            peak_bytes: Some(5_100_000_000),
            notes: Vec::new(),
        }
    }

    #[test]
    fn durations_are_rounded_as_people_do() {
        let told = [
            0.0,
            900.0,
            1400.0,
            12_400.0,
            57_400.0,
            57_600.0,
            89_000.0,
            182_300.0,
            3_560_000.0,
            3_600_000.0,
            4_900_000.0,
        ]
        .map(about);
        let want = [
            "under a second",
            "under a second",
            "about 1 s",
            "about 10 s",
            "about 55 s",
            "about 1 min",
            "about 1 min",
            "about 3 min",
            "about 59 min",
            "about 1 h",
            "about 1 h 20 min",
        ];
        assert_eq!(told, want);
        assert_eq!([900.0, 12_400.0].map(up_to), ["under a second", "up to 10 s"]);
        assert_eq!([0.0, 39_200.0, 3_723_000.0].map(left), ["0:00", "0:40", "1:02:03"]);
    }

    #[test]
    fn a_long_run_has_a_line() {
        let told = line(&estimate()).unwrap();
        assert_eq!(told, "about 3 min: tower 2:10, prompt 0:40, writing up to 0:12; peak memory 5.1 GB");
        let short =
            Estimate { tower_ms: Some(100.0), prompt_ms: Some(9.0), writing_ms: Some(40.0), ..estimate() };
        assert_eq!((line(&short), expected(&short)), (None, None));
        assert_eq!(line(&Estimate { prompt_ms: None, ..estimate() }), None);
        assert!(line(&Estimate { peak_bytes: None, ..estimate() }).unwrap().ends_with("up to 0:12"));
    }

    #[test]
    fn rows_add_the_pieces_of_a_video_up() {
        let one = rows(&[estimate()]);
        let value = |rows: &[(&str, String)], name: &str| {
            rows.iter().find(|row| row.0 == name).map(|row| row.1.clone()).unwrap_or_default()
        };
        assert_eq!(value(&one, "frames"), "16 frames of 448x336");
        assert_eq!(value(&one, "tokens"), "1536 visual, 1560 in the prompt");
        let time = "about 3 min: tower 2:10, prompt 0:40, writing up to 0:12 (256 tokens)";
        assert_eq!(
            (value(&one, "time").as_str(), value(&one, "memory").as_str()),
            (time, "5.1 GB at the peak")
        );
        let probed = Estimate { basis: Some(Basis::Probed), ..estimate() };
        let two = rows(&[estimate(), probed]);
        assert_eq!(value(&two, "segments"), "2");
        assert!(value(&two, "time").starts_with("about 6 min: tower 4:20"), "{two:?}");
        assert!(value(&two, "basis").starts_with("short passes"));
        let unknown = Estimate { tower_ms: None, basis: None, ..estimate() };
        assert!(rows(&[unknown]).iter().all(|row| row.0 != "time" && row.0 != "basis"));
        assert!(rows(&[]).is_empty());
    }
}
