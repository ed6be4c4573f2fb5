//! Tables as cells of text, for the terminal and for a page.

use super::{
    figure::Figure,
    measures::Measure,
    order::Agreement,
    results::{Compared, ComparedRow, Difference, Header},
};
use specreel_client::present::formats::NOTHING;

pub fn cells(compared: &Compared) -> Vec<Vec<String>> {
    let table = compared.table();
    let extras = compared.extras();
    let mut head = vec!["row".to_owned()];
    for measure in &table.columns {
        if table.rows.iter().any(|row| row.figures.contains_key(measure)) {
            head.push(format!("paper: {}", measure.title()));
        }
        head.push(measure.title().to_owned());
        if table.compared().contains(measure) {
            head.push("order".to_owned());
        }
    }
    for measure in &extras {
        head.push(measure.title().to_owned());
        if compared.orders.contains_key(measure) {
            head.push("order".to_owned());
        }
    }
    let width = head.len();
    let mut cells = vec![head];
    for (index, (row, ours)) in table.rows.iter().zip(&compared.rows).enumerate() {
        let lossy = if ours.lossless == Some(false) { " ~" } else { "" };
        let mut line = vec![format!("{}{lossy}", row.label)];
        for &measure in &table.columns {
            if table.rows.iter().any(|row| row.figures.contains_key(&measure)) {
                line.push(row.figures.get(&measure).map_or_else(dash, |value| measure.text(*value)));
            }
            line.push(ours.figures.get(&measure).map_or_else(dash, |figure| figure_text(measure, figure)));
            if table.compared().contains(&measure) {
                line.push(compared.order(index, measure).unwrap_or_else(dash));
            }
        }
        for &measure in &extras {
            line.push(ours.figures.get(&measure).map_or_else(dash, |figure| measure.text(figure.value)));
            if compared.orders.contains_key(&measure) {
                line.push(compared.order(index, measure).unwrap_or_else(dash));
            }
        }
        debug_assert_eq!(line.len(), width);
        cells.push(line);
    }
    cells
}

pub(super) fn figure_text(measure: Measure, figure: &Figure) -> String {
    let value = measure.text(figure.value);
    match figure.interval {
        Some((low, high)) => {
            let (low, high) = (measure.text(low), measure.text(high));
            // The value already has its unit.
            let number = |text: &str| text.trim_end_matches([' ', '%', 'x', 'm', 's']).to_owned();
            format!("{value} [{} to {}]", number(&low), number(&high))
        }
        None => value,
    }
}

/// What a cell without a figure shows.
pub(super) fn dash() -> String {
    NOTHING.into()
}

/// The method that stands for each row, why none does, and how it deviates.
pub fn methods(compared: &Compared) -> Vec<(String, String)> {
    let deviates = compared.table().rows.iter().map(|row| &row.deviates);
    let line = |(row, deviates): (&ComparedRow, &String)| {
        let why = row.why_not.as_ref().or(Some(deviates).filter(|text| !text.is_empty()));
        match (&row.run, why) {
            (Some(run), None) => (row.label.to_owned(), format!("`{run}`")),
            (Some(run), Some(why)) => (row.label.to_owned(), format!("`{run}`: {why}")),
            (None, why) => (row.label.to_owned(), why.cloned().unwrap_or_else(dash)),
        }
    };
    compared.rows.iter().zip(deviates).map(line).collect()
}

/// `LVSpec, table 1: title (part)`.
pub fn title(paper: &str, compared: &Compared) -> String {
    let table = compared.table();
    let part = if table.part.is_empty() { String::new() } else { format!(" ({})", table.part) };
    format!("{paper}, {}: {}{part}", table.place(), table.title)
}

/// `of 10 pairs 7 agree, 2 within noise, 1 disagree; Kendall's tau 0.80`.
pub fn agreement(agreement: &Agreement) -> String {
    let Agreement { agree, noise, disagree, kendall } = *agreement;
    let Some(kendall) = kendall else { return "no pairs of rows to compare".into() };
    let of = agreement.pairs();
    format!(
        "of {of} pairs {agree} agree, {noise} within noise, {disagree} disagree; Kendall's tau {kendall:.2}"
    )
}

pub fn difference(difference: &Difference<'_>) -> String {
    format!("{}, {}: below {}", difference.row, difference.measure.title(), difference.above.join(", "))
}

/// `20 clips (seeds 1000 to 1019); TARGET with DRAFTER on DEVICE, DTYPE`.
pub fn heading(header: &Header, clips_done: usize) -> String {
    let Header { target, drafter, device, dtype, .. } = header;
    let drafter = drafter.as_ref().map(|name| format!(" with {name}")).unwrap_or_default();
    format!("{}; {target}{drafter} on {device}, {dtype}", clips(header, clips_done))
}

/// `20 clips (seeds 1000 to 1019)`.
pub fn clips(header: &Header, clips_done: usize) -> String {
    let Header { first_seed, clips, seconds, .. } = header;
    let length = seconds.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
    let stopped =
        if (clips_done as u64) < *clips { format!("stopped after {clips_done} of ") } else { String::new() };
    let clips = match clips {
        0 => "no clips".to_owned(),
        1 => format!("1 clip{length} (seed {first_seed})"),
        n => format!("{n} clips{length} (seeds {first_seed} to {})", first_seed + n - 1),
    };
    format!("{stopped}{clips}")
}
