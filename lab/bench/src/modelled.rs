//! Speed on the hardware of a profile, next to the measured one.

use super::tables::Row;
use super::*;
use specreel_client::present::formats::NOTHING;

/// Decode speedups as measured here and as modelled, in this many columns of a terminal.
pub fn table(profile: &Profile, rows: &[Row<'_>], columns: Option<usize>) -> String {
    let mut cells: Vec<Vec<String>> =
        vec![["method", "measured", "modelled", "modelled / measured - 1"].map(str::to_owned).into()];
    for row in rows {
        let (measured, modelled) = (row.summary.decode, row.summary.modelled);
        let words =
            |ratio: Option<f64>| ratio.map_or_else(|| NOTHING.to_owned(), |ratio| format!("{ratio:.2}x"));
        let off = measured.zip(modelled).filter(|(measured, _)| *measured > 0.0);
        let off = off.map(|(measured, modelled)| format!("{:+.1} %", (modelled / measured - 1.0) * 100.0));
        let off = off.unwrap_or_else(|| NOTHING.to_owned());
        cells.push(vec![tables::name(row), words(measured), words(modelled), off]);
    }
    let about = if profile.about.is_empty() { String::new() } else { format!(" ({})", profile.about) };
    let unknown = rows.iter().filter(|row| row.summary.modelled.is_none());
    let unknown: Vec<&str> = unknown.map(|row| row.summary.system.as_str()).collect();
    let mut legend = format!(
        "Decode speedup, medians over clips. modelled: not measured; the same drafts, charged by profile {}{about}.",
        profile.name
    );
    if !unknown.is_empty() {
        legend += &format!(" The profile has no times of the drafter of {}.", unknown.join(", "));
    }
    tables::narrow(cells, &[0, 1, 0, 2], &legend, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modelled_speedup_stands_beside_the_measured_one() {
        let text = r#"{"event":"rows","role":"target","model":"big","device":"a GPU","slots":10,"passes":[{"rows":1,"ms":1.0},{"rows":9,"ms":1.5}]}"#;
        let profile = Profile::parse("gpu", text, &|_| None).unwrap();
        let known =
            Summary { system: "naive".into(), decode: Some(1.25), modelled: Some(1.5), ..Summary::default() };
        let unknown = Summary { system: "sparrow".into(), decode: Some(1.25), ..Summary::default() };
        let rows = [Row { summary: &known, lossless: true }, Row { summary: &unknown, lossless: true }];
        let text = table(&profile, &rows, None);
        let line = |n: usize| text.lines().nth(n).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line(1).starts_with("naive") && line(1).ends_with("+20.0 %"), "{text}");
        assert!(line(2).ends_with("– –"), "{text}");
        assert!(
            text.contains("not measured") && text.contains("profile gpu (big on a GPU, measured)"),
            "{text}"
        );
        assert!(text.contains("no times of the drafter of sparrow."), "{text}");
    }
}
