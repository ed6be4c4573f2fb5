//! The inspection as text: figures, then the frames as characters.

use std::fmt::Write;

use super::summary::{Scores, Summary};
use super::{drafter_view::DrafterView, *};

pub fn text(summary: &Summary, view: &DrafterView, width: usize) -> String {
    let [frames, rows, columns] = summary.grid;
    let mut out = format!("{}\n", title(summary));
    // Writing to a string cannot fail.
    let _ = writeln!(out, "context  {}", summary.context);
    let _ = writeln!(out, "grid     {frames} x {rows} x {columns} (time x rows x columns)");
    let least = summary.kept_per_frame.iter().min().copied().unwrap_or(0);
    let most = summary.kept_per_frame.iter().max().copied().unwrap_or(0);
    let mean = summary.kept as f64 / frames.max(1) as f64;
    let _ = writeln!(out, "kept     {least} to {most} per frame, {mean:.1} on average, of {}", view.cells());
    if let Some(dropped) = summary.dropped_stamps {
        let _ = writeln!(out, "stamps   {dropped} of {frames} dropped");
    }
    if let Some(scores) = &summary.scores {
        scored(&mut out, scores);
    }
    let _ = writeln!(out, "\n{}", map::legend(view, width));
    for note in notes(view) {
        let _ = writeln!(out, "{note}");
    }
    out + &map::maps(view, width)
}

pub fn title(summary: &Summary) -> String {
    let Summary { method, drafter, kept, visual_tokens, .. } = summary;
    let share = summary.kept_share * 100.0;
    let line = format!("{method}: {drafter} sees {kept} of {visual_tokens} visual tokens ({share:.1} %)");
    color::plain(&line).into_owned()
}

pub fn notes(view: &DrafterView) -> Vec<String> {
    let mut notes = Vec::new();
    if view.times.len() > view.frames() {
        let each = view.frames_a_place();
        notes.push(format!("each frame covers {each} sampled frames; the first is shown"));
    }
    let drawn = view.drawn().len();
    if drawn < view.frames() {
        notes.push(format!("{drawn} of {} frames are shown, evenly spaced", view.frames()));
    }
    notes
}

fn scored(out: &mut String, scores: &Scores) {
    let mut line = format!("scores   {} to {}", short(scores.least), short(scores.most));
    if let Some(mass) = scores.kept_mass {
        let _ = write!(line, "; the kept tokens hold {:.1} % of their sum", mass * 100.0);
    }
    let means = [("kept", scores.kept_mean), ("dropped", scores.dropped_mean)];
    let means: Vec<String> =
        means.iter().filter_map(|(name, mean)| Some(format!("{name} {}", short((*mean)? as f32)))).collect();
    let _ = writeln!(out, "{line}\nmeans    {}", means.join(", "));
    for (number, best) in scores.best.iter().enumerate() {
        let _ = writeln!(
            out,
            "{}{} at {:.2} s, row {}, column {}, {}",
            if number == 0 { "best     " } else { "         " },
            short(best.score),
            best.time_s,
            best.row + 1,
            best.column + 1,
            if best.kept { "kept" } else { "dropped" }
        );
    }
}

pub fn short(score: f32) -> String {
    match score.abs() {
        0.0 => "0".into(),
        size if size >= 99.95 => format!("{score:.0}"),
        size if size >= 9.995 => format!("{score:.1}"),
        size if size >= 0.9995 => format!("{score:.2}"),
        size if size >= 0.09995 => format!("{score:.3}"),
        size if size >= 0.009995 => format!("{score:.4}"),
        size if size >= 0.0009995 => format!("{score:.5}"),
        _ => format!("{score:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{drafter_view::tests::view, summary::tests::summary},
        *,
    };

    #[test]
    fn figures_come_first_then_the_frames() {
        let text = text(&summary(&view()), &view(), 80);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..7],
            [
                "some: small sees 6 of 12 visual tokens (50.0 %)",
                "context  sees 50 % by attention",
                "grid     3 x 2 x 2 (time x rows x columns)",
                "kept     2 to 2 per frame, 2.0 on average, of 4",
                "scores   0 to 11.0; the kept tokens hold 59.1 % of their sum",
                "means    kept 6.50, dropped 4.50",
                "best     11.0 at 2.00 s, row 2, column 2, kept",
            ]
        );
        assert!(lines.contains(&"each frame covers 2 sampled frames; the first is shown"));
        assert!(lines.iter().all(|line| line.chars().count() <= 80 && *line == line.trim_end()), "{text}");
    }

    #[test]
    fn dropped_stamps_are_counted() {
        let view = DrafterView { dropped_stamps: 2, ..view() };
        let text = text(&summary(&view), &view, 80);
        assert!(text.contains("of 4\nstamps   2 of 3 dropped\nscores "), "{text}");
    }

    #[test]
    fn without_scores_there_is_less_to_say() {
        let view = DrafterView { scores: None, ..view() };
        let text = text(&summary(&view), &view, 80);
        assert!(!text.contains("scores") && !text.contains("best"), "{text}");
    }

    #[test]
    fn frames_left_out_are_told() {
        let view = DrafterView {
            times: vec![0.0; 140],
            grid: [70, 1, 1],
            kept: vec![true; 70],
            scores: None,
            dropped_stamps: 0,
        };
        assert_eq!(notes(&view)[1], "64 of 70 frames are shown, evenly spaced");
        let alone = DrafterView { times: vec![0.0], grid: [1, 1, 1], kept: vec![true], ..view };
        assert!(notes(&alone).is_empty());
    }

    #[test]
    fn three_figures() {
        let shorts = [0.0, 123.4, 12.34, -1.234, 0.1234, 0.01234, 0.001234, 0.0001234].map(short);
        assert_eq!(shorts, ["0", "123", "12.3", "-1.23", "0.123", "0.0123", "0.00123", "1.23e-4"]);
    }
}
