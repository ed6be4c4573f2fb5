//! Summaries as tables with a row per system, as in the papers.

mod facts;

use std::collections::BTreeSet;

use super::*;
use crate::summary::Ties;
use specreel_client::present::{
    formats::{NOTHING, percent},
    grid::{fitting, grid, stacked},
    statistics::{
        self, Column, DECODE, END_TO_END, LOOSENED, Measures, OUTPUT, Output, PER_STEP, SPEED, TAU,
    },
    wrap::hang,
};
use specreel_record::{Verdict, paired::LEAST};

pub struct Row<'a> {
    pub summary: &'a Summary,
    /// False for methods that may differ from the target.
    pub lossless: bool,
}

/// All tables of the rows, with legends, in this many columns of a terminal; without the columns of facts where none are known.
pub fn tables(rows: &[Row<'_>], with_facts: bool, columns: Option<usize>) -> String {
    let mut out = results(rows, with_facts, columns) + &hang(&(ties(rows) + &predicted(rows)), columns, 0);
    if let Some(facts) = facts::table(rows, with_facts, columns) {
        out += &format!("\n{facts}");
    }
    out += &format!("\n{}", times(rows, columns));
    if let Some(loosened) = loosened(rows, columns) {
        out += &format!("\n{loosened}");
    }
    out
}

/// A table and its legend; on a narrow terminal without the columns of the highest ranks.
pub(super) fn narrow(
    mut cells: Vec<Vec<String>>,
    ranks: &[u8],
    legend: &str,
    columns: Option<usize>,
) -> String {
    let mut legend = legend.to_owned();
    let dropped = fitting(&mut cells, ranks, columns);
    if !dropped.is_empty() {
        legend += &format!(" Columns that do not fit this terminal: {}.", dropped.join(", "));
    }
    grid(&cells) + &hang(&(legend + "\n"), columns, 0)
}

/// How many lossless texts of a method differ from the baseline's through rounding.
fn count_ties(ties: &Ties) -> String {
    let far = match ties.far {
        0 => String::new(),
        n => format!(" ({n} of them not at a near-tie: please report this)"),
    };
    format!(
        "{} by rounding{far}; the two tokens are at most {:.3} nats apart",
        match ties.near + ties.far {
            1 => "1 text differs".to_owned(),
            n => format!("{n} texts differ"),
        },
        ties.widest
    )
}

/// One line for every lossless method with different texts.
fn ties(rows: &[Row<'_>]) -> String {
    let ties = rows.iter().filter_map(|row| Some((name(row), row.summary.ties.as_ref()?)));
    ties.map(|(name, ties)| format!("{name}: {}\n", count_ties(ties))).collect()
}

/// One line for every method that prunes the target.
fn predicted(rows: &[Row<'_>]) -> String {
    let shares = rows.iter().filter_map(|row| Some((name(row), row.summary.accepted_share?)));
    shares
        .map(|(name, share)| {
            format!(
                "{name}: A {}, the share of the pruned target's text that the whole target would have written\n",
                percent(share)
            )
        })
        .collect()
}

/// The columns of the results that other tables also have; the columns of facts are between the two parts.
/// A method over many clips, as the columns of a comparison show it.
fn measures(summary: &Summary, lossless: bool) -> Measures {
    let output = match summary.first_difference {
        Some(index) => Output::DiffersAt(index),
        None if summary.compared > 0 && summary.equal == summary.compared => Output::Identical,
        None => Output::Unknown,
    };
    Measures {
        name: summary.system.clone(),
        lossless,
        tokens_per_second: Some(summary.tokens_per_second),
        decode: summary.decode,
        interval: summary.interval,
        end_to_end: summary.end_to_end,
        tau: Some(summary.tau),
        emitted_per_step: Some(summary.emitted_per_step),
        loosened_share: Some(summary.loosened_share),
        output,
    }
}

const SPEEDS: [Column; 5] = [TAU, PER_STEP, SPEED, DECODE, END_TO_END];
const OUTPUTS: [Column; 2] = [LOOSENED, OUTPUT];

fn results(rows: &[Row<'_>], with_facts: bool, columns: Option<usize>) -> String {
    let titles = |columns: &[Column]| -> Vec<String> { columns.iter().map(|c| c.title.to_owned()).collect() };
    let head = [
        words(&["method"]),
        titles(&SPEEDS),
        if with_facts { words(&["facts", "kept", "precision", "false facts"]) } else { Vec::new() },
        titles(&OUTPUTS),
        words(&["identical"]),
    ];
    let mut cells = vec![head.concat()];
    for row in rows {
        let s = row.summary;
        let measures = measures(s, row.lossless);
        let of =
            |columns: &[Column]| -> Vec<String> { columns.iter().map(|c| (c.cell)(&measures)).collect() };
        let mut facts = vec![
            percent(s.facts_share),
            or_dash(s.retention, percent),
            or_dash(s.precision, percent),
            format!("{:.2}", s.false_per_caption),
        ];
        facts.truncate(if with_facts { facts.len() } else { 0 });
        let identical = vec![format!("{} of {}", s.equal, s.compared)];
        cells.push([vec![name(row)], of(&SPEEDS), facts, of(&OUTPUTS), identical].concat());
    }
    let lossy = rows.iter().any(|row| !row.lossless);
    let mark = if lossy { "~ lossy. " } else { "" };
    let facts = if with_facts { " false facts: per caption." } else { "" };
    let waited = rows.iter().filter_map(|row| row.summary.contention).max_by(f64::total_cmp);
    let busy = statistics::busy(waited).map(|words| format!(" The machine was {words}.")).unwrap_or_default();
    let legend = format!(
        "{mark}decode, end to end: speedup over autoregressive on the same clip, median over {LEAST} clips or \
         more.{facts}{busy}"
    );
    let of = |columns: &[Column]| -> Vec<u8> { columns.iter().map(|c| c.rank).collect() };
    // The name stays; a lossy method is judged by the share of the facts.
    let facts: &[u8] = if with_facts { &[2, 1, 3, 5] } else { &[] };
    let ranks = [&[0][..], &of(&SPEEDS), facts, &of(&OUTPUTS), &[8]].concat();
    narrow(cells, &ranks, &legend, columns)
}

fn times(rows: &[Row<'_>], columns: Option<usize>) -> String {
    let head = ["ms", "shared", "drafter", "draft", "verify", "other", "T(1)", "T(K+1)", "Td", "peak MB"];
    let mut cells = vec![words(&head)];
    for row in rows {
        let t = &row.summary.times;
        let [front, own, draft, verify, other] =
            [t.front_ms, t.drafter_front_ms, t.draft_ms, t.verify_ms, t.other_ms]
                .map(|ms| format!("{ms:.1}"));
        let [t1, tk1, td] = [t.t1_ms, t.tk1_ms, t.td_ms].map(|ms| or_dash(ms, |ms| format!("{ms:.3}")));
        let peak = match row.summary.peak_memory_bytes {
            0 => dash(),
            bytes => format!("{:.0}", bytes as f64 / 1e6),
        };
        cells.push(vec![name(row), front, own, draft, verify, other, t1, tk1, td, peak]);
    }
    let legend = "Medians over clips. shared: video, vision tower and prefill of the target, the same for all methods.";
    narrow(cells, &[0, 2, 3, 0, 0, 4, 5, 6, 7, 1], legend, columns)
}

/// Share of each loosened verdict; `None` if nothing was loosened.
fn loosened(rows: &[Row<'_>], columns: Option<usize>) -> Option<String> {
    let loose = || rows.iter().filter(|row| !row.summary.loosened.is_empty());
    let verdicts: BTreeSet<Verdict> = loose().flat_map(|row| row.summary.loosened.keys().copied()).collect();
    if verdicts.is_empty() {
        return None;
    }
    let mut cells = vec![vec!["share of tokens".to_owned()]];
    cells[0].extend(verdicts.iter().map(ToString::to_string));
    for row in loose() {
        let shares = verdicts.iter().map(|v| or_dash(row.summary.loosened.get(v).copied(), percent));
        cells.push([name(row)].into_iter().chain(shares).collect());
    }
    Some(stacked(&cells, columns))
}

pub(super) fn name(row: &Row<'_>) -> String {
    // Labels may be file names.
    let label = clean(&row.summary.system).into_owned();
    if row.lossless { label } else { label + " ~" }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

fn dash() -> String {
    NOTHING.into()
}

fn or_dash(value: Option<f64>, words: impl Fn(f64) -> String) -> String {
    value.map_or_else(dash, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Spread, Ties, Times};

    #[test]
    fn systems_are_rows_and_unknown_values_are_dashes() {
        let plain = Summary {
            system: "autoregressive".into(),
            clips: 2,
            emitted_per_step: 1.0,
            tokens_per_second: 100.4,
            decode: Some(1.0),
            end_to_end: Some(1.0),
            facts_share: 0.8,
            retention: Some(1.0),
            precision: Some(1.0),
            equal: 2,
            compared: 2,
            ..Summary::default()
        };
        let loose = Summary {
            system: "acceptance.lambda=0.5".into(),
            clips: 2,
            tau: 4.125,
            emitted_per_step: 5.0,
            tokens_per_second: 151.0,
            decode: Some(1.5),
            facts_share: 0.78,
            retention: Some(0.975),
            precision: Some(0.9),
            false_per_caption: 1.5,
            loosened_share: 0.25,
            loosened: [(Verdict::Loosened, 0.2), (Verdict::Shifted, 0.05)].into(),
            compared: 2,
            first_difference: Some(3),
            times: Times { front_ms: 12.0, td_ms: Some(0.03), ..Times::default() },
            peak_memory_bytes: 50_000_000,
            ..Summary::default()
        };
        let rows = [Row { summary: &plain, lossless: true }, Row { summary: &loose, lossless: false }];
        let text = tables(&rows, true, None);
        let lines: Vec<String> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines[1],
            "autoregressive 0.00 1.00 100 1x 1x 80.0 % 100.0 % 100.0 % 0.00 0.0 % identical 2 of 2"
        );
        let loose = "acceptance.lambda=0.5 ~ 4.12 5.00 151 ≈ 1.5x – 78.0 % 97.5 % 90.0 % 1.50 25.0 % differs at token 4 0 of 2";
        assert_eq!(lines[2], loose);
        assert_eq!(lines[7], "acceptance.lambda=0.5 ~ 12.0 0.0 0.0 0.0 0.0 – – 0.030 50");
        // Strict methods have no row in this table.
        assert_eq!(lines[10], "share of tokens loosened shifted");
        assert_eq!(lines[11], "acceptance.lambda=0.5 ~ 20.0 % 5.0 %");
        assert_eq!(lines.len(), 12);
    }

    #[test]
    fn intervals_have_a_table_of_their_own() {
        let spread = Spread {
            retention: Some([0.719, 0.801]),
            precision: Some([0.8, 1.0]),
            false_per_caption: Some([0.5, 1.25]),
            tau: Some([6.0, 6.5]),
            ..Spread::default()
        };
        let loose = Summary { system: "lvspec".into(), spread: Some(spread), ..Summary::default() };
        let plain = Summary { system: "plain".into(), ..Summary::default() };
        let rows = [Row { summary: &plain, lossless: true }, Row { summary: &loose, lossless: false }];
        let text = tables(&rows, true, None);
        let at = text.find("95 % intervals").unwrap();
        let lines: Vec<String> =
            text[at..].lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1], "plain – – – – –");
        assert_eq!(lines[2], "lvspec ~ – 71.9–80.1 % 80.0–100.0 % 0.50–1.25 6.00–6.50");
        assert!(!tables(&rows[..1], true, None).contains("95 %"));
        // The facts of the user's own videos are unknown.
        let text = tables(&rows, false, None);
        assert!(text.contains("95 % intervals") && text.contains("decode"), "{text}");
        assert!(!["facts", "kept", "precision"].iter().any(|title| text.contains(title)), "{text}");
    }

    #[test]
    fn lossless_texts_that_differ_are_reported() {
        let summary = |ties| Summary { system: "naive".into(), ties, ..Summary::default() };
        let text = |summary: &Summary| super::ties(&[Row { summary, lossless: true }]);
        assert_eq!(text(&summary(None)), "");
        let two = Ties { near: 2, far: 0, widest: 0.125 };
        let near = "naive: 2 texts differ by rounding; the two tokens are at most 0.125 nats apart\n";
        assert_eq!(text(&summary(Some(two))), near);
    }

    #[test]
    fn without_loosening_there_is_no_such_table() {
        let plain = Summary { system: "a\x1b[2J".into(), ..Summary::default() };
        let text = tables(&[Row { summary: &plain, lossless: true }], true, None);
        assert!(!text.contains("share of tokens") && !text.contains('~') && !text.contains('\x1b'), "{text}");
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_their_names() {
        let long = Summary { system: "acceptance.lambda=0.5 shape.length=12".into(), ..Summary::default() };
        for columns in [30, 60, 80, 120, 160] {
            let text = tables(&[Row { summary: &long, lossless: false }], true, Some(columns));
            let most = text.lines().map(specreel_client::present::text::width).max().unwrap_or_default();
            assert!(most <= columns, "{columns}: {text}");
            assert!(text.contains("~ lossy") && text.contains("decode"), "{text}");
            assert_eq!(text.contains("do not fit"), columns < 160, "{columns}: {text}");
        }
    }
}
