use super::*;

fn all() -> Vec<(Replayed, &'static Table)> {
    let tables =
        papers().unwrap().iter().flat_map(|paper| paper.tables.iter().map(move |table| (paper, table)));
    tables.filter_map(|(paper, table)| Some((Replayed::of(paper, table).unwrap()?, table))).collect()
}

#[test]
fn every_speedup_is_close_or_explained() {
    let mut held_out = 0;
    for (replayed, table) in all() {
        for row in &replayed.rows {
            let place = format!("{} {} {} {}", replayed.paper, table.number, table.part, row.label);
            assert!(row.is_close() || row.because.is_some(), "{place}: {:+.0} %", row.off() * 100.0);
            // What a profile is calibrated with is what it gives.
            assert!(!row.calibrates || row.off().abs() < 0.03, "{place}: {:+.1} %", row.off() * 100.0);
            held_out += usize::from(!row.calibrates);
        }
    }
    assert!(held_out > 60, "{held_out}");
}

#[test]
fn a_reason_stands_only_where_a_figure_is_off() {
    for (replayed, table) in all() {
        let own = |row: &&ReplayedRow| {
            let row = table.rows.iter().find(|r| r.label == row.label).unwrap();
            row.because.contains_key(&Measure::Replayed)
        };
        for row in replayed.rows.iter().filter(own) {
            assert!(!row.is_close(), "{} {}: {}", replayed.paper, table.number, row.label);
        }
    }
}

#[test]
fn the_page_counts_what_says_something_of_the_model() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/profiles.md");
    let page = std::fs::read_to_string(page).unwrap();
    let words: Vec<&str> = page.split_whitespace().collect();
    let held_out = HeldOut::of_all().unwrap();
    assert!(words.join(" ").contains(&held_out.words()), "{}", held_out.words());
    assert!(held_out.seen.len() + held_out.restated + held_out.repeated == held_out.all);
    assert!(held_out.restated > 10 && held_out.seen.len() > 30, "{}", held_out.words());
}
