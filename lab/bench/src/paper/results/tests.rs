use super::*;
use crate::paper::{catalog, cells, clip_run::Times, pages::Pages, text};

const TABLE: &str = r#"
name = "p"
title = "P"
paper = "A paper"

[[table]]
number = "1"
title = "Speed"
setting = "a model"
profile = "l40s-llava-ov-72b-7b"
columns = ["tau", "speedup"]
because.tau = "Drafts are easy here."

[[table.row]]
label = "plain"
method = "autoregressive"
figures = { speedup = 1.0 }

[[table.row]]
label = "short"
method = "naive"
set = ["shape.length=2"]
figures = { tau = 3.0, speedup = 1.5 }

[[table.row]]
label = "long"
method = "naive"
figures = { tau = 2.0, speedup = 1.4 }
because.speedup = "Long chains cost more."

[[table.row]]
label = "head"
method = "sparrow"
figures = { tau = 4.0 }

[[table.row]]
label = "other"
missing = "nothing like it exists"
"#;

fn paper() -> &'static Paper {
    Box::leak(Box::new(toml::from_str(TABLE).unwrap()))
}

/// Eight clips: the short chain accepts less and is slower than the long one on each; the paper has it the other way round.
fn results() -> Results {
    let run = |clip: u64, name: &str, accepted: u32, decode: f64| ClipRun {
        clip,
        run: name.into(),
        accepted: vec![accepted; 4],
        drafted: u64::from(accepted) * 5,
        emitted: u64::from(accepted) * 4 + 4,
        decode_ratio: Some(decode + clip as f64 / 100.0),
        ..ClipRun::default()
    };
    let clip = |clip: u64| {
        [
            run(clip, "autoregressive", 0, 1.0),
            run(clip, "naive shape.length=2", 2, 1.2),
            run(clip, "naive", 4, 1.3),
        ]
    };
    let skipped = [("sparrow".to_owned(), "--drafter is missing".to_owned())].into();
    let header = Header {
        target: "t".into(),
        drafter: Some("d".into()),
        device: "cpu".into(),
        dtype: "q8_0".into(),
        clips: 8,
        skipped,
        ..Header::default()
    };
    Results { header, runs: (0..8).flat_map(clip).collect(), ..Results::default() }
}

#[test]
fn rows_stand_beside_the_papers_and_their_order_is_compared() {
    let paper = paper();
    let compared = Compared::of(paper, &paper.tables[0], &results());
    assert_eq!(compared.rows[1].figures[&Measure::Tau].value, 2.0);
    assert_eq!(compared.rows[2].figures[&Measure::TauBonus].value, 5.0);
    // Of the decode speeds, both chains are above autoregressive decoding; the two of them are in the opposite order.
    let orders = compared.orders[&Measure::Speedup].agreement;
    assert_eq!((orders.agree, orders.noise, orders.disagree), (2, 0, 1));
    assert_eq!(compared.order(1, Measure::Speedup).unwrap(), "no: below long");
    assert_eq!(compared.order(2, Measure::Speedup).unwrap(), "yes");
    assert_eq!(compared.order(0, Measure::Speedup), None);
    let differences: Vec<_> =
        compared.differences().iter().map(|d| (d.row, d.measure, d.above.clone(), d.because)).collect();
    let tau = ("short", Measure::Tau, vec!["long"], Some("Drafts are easy here."));
    assert_eq!(differences, [tau, ("short", Measure::Speedup, vec!["long"], None)]);
}

#[test]
fn rows_without_a_run_say_why() {
    let paper = paper();
    let compared = Compared::of(paper, &paper.tables[0], &results());
    assert_eq!(compared.rows[3].why_not.as_deref(), Some("--drafter is missing"));
    assert_eq!(compared.rows[4].why_not.as_deref(), Some("nothing like it exists"));
    assert!(compared.rows[3].figures.is_empty());
    let none = Results::default();
    let empty = Compared::of(paper, &paper.tables[0], &none);
    assert_eq!(empty.rows[0].why_not.as_deref(), Some("not measured"));
    assert_eq!(empty.orders[&Measure::Tau].agreement.kendall, None);
}

#[test]
fn text_and_page_show_the_same_figures_and_flag_what_is_not_explained() {
    let paper = paper();
    let compared = Compared::of(paper, &paper.tables[0], &results());
    let rows = cells::cells(&compared);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
    let shown = text::table(&paper.title, &compared, None);
    for part in ["P, table 1: Speed", "no: below long", "Drafts are easy here.", "nothing like it exists"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let mut both = [results(), results()];
    both[1].header.drafter = Some("e".into());
    both.iter_mut().for_each(|results| charge(results, PROFILE));
    let pages = Pages::of(&vec![(paper, &paper.tables[0])], &both).unwrap();
    let names: Vec<&str> = pages.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["papers.md", "papers/figures.csv", "papers/verdicts.csv", "papers/p.md"]);
    let page = &pages.files[3].1;
    for part in [
        "| row | here | tau: paper | d | e |",
        "* tau: d: of 1 pairs 0 agree, 0 within noise, 1 disagree; Kendall's tau -1.00 (1); e: of 1",
        "\n1. Drafts are easy here.\n",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Each reason once. The measured speed is not compared, so nothing is left to explain.
    assert_eq!((page.matches("Drafts are easy").count(), pages.unexplained.len()), (1, 0));
    let figures = &pages.files[1].1;
    assert!(figures.contains("\np,1,,short,naive shape.length=2,true,tau,3,e,8,2,2,2\n"), "{figures}");
    assert!(
        figures.contains("\np,1,,long,,,speedup_at_paper_acceptance,1.4,,,") && !figures.contains("speedup,")
    );
}

#[test]
fn modelled_speedups_stand_beside_the_papers() {
    let paper = paper();
    let mut modelled = results();
    charge(&mut modelled, PROFILE);
    let tables = vec![(paper, &paper.tables[0])];
    let pages = Pages::of(&tables, &[modelled.clone()]).unwrap();
    let page = &pages.files[3].1;
    for part in [
        "| tau: paper | d | speedup, modelled: paper | d | at the paper's acceptance |",
        "| 1.50x | 3.00x [3.00 to 3.00] |",
        "* speedup, modelled: d: of 3 pairs 3 agree",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Another profile's figures are not the table's, and a table without them is not written.
    charge(&mut modelled, "l20-llava-ov-7b");
    let failure = Pages::of(&tables, &[modelled]).err().unwrap();
    let words = "P, table 1: Speed: plain was measured without the profile l40s-llava-ov-72b-7b";
    assert_eq!(failure.error, words);
}

const PROFILE: &str = "l40s-llava-ov-72b-7b";

/// Times of all runs under this profile: the short chain is three times as fast as autoregressive decoding, the long one twice.
fn charge(results: &mut Results, profile: &str) {
    for run in &mut results.runs {
        let total_ms = match run.run.as_str() {
            "autoregressive" => 6.0,
            "naive" => 3.0,
            _ => 2.0,
        };
        run.modelled = [(profile.to_owned(), Times { plain_ms: 6.0, total_ms })].into();
    }
}

#[test]
fn rows_that_a_run_lacks_come_from_another_one_of_the_same_clips() {
    let mut strong = results();
    let mut head = results();
    head.header.drafter = Some("head".into());
    head.runs.retain(|run| run.run == "naive" && run.clip < 7);
    head.runs.iter_mut().for_each(|run| run.run = "sparrow".into());
    strong.fill(&head).unwrap();
    let paper = paper();
    let compared = Compared::of(paper, &paper.tables[0], &strong);
    assert_eq!((compared.rows[3].clips, compared.rows[3].figures[&Measure::Tau].value), (7, 4.0));
    assert_eq!(compared.rows[3].why_not, None);
    // What the run has itself stays, and its clips are done without the other's.
    assert_eq!((compared.rows[2].clips, strong.clips_done()), (8, 8));
    head.header.first_seed = 5;
    assert!(strong.fill(&head).unwrap_err().error.contains("the clips are not those"));
}

#[test]
fn a_clip_is_done_when_it_has_every_run() {
    let mut results = results();
    assert_eq!(results.clips_done(), 8);
    results.runs.pop();
    assert_eq!(results.clips_done(), 7);
}

#[test]
fn every_table_is_shown_without_results() {
    let tables = catalog::find(catalog::ALL, None).unwrap();
    let pages = Pages::of(&tables, &[Results::default()]).unwrap();
    let page = &pages.files.iter().find(|(name, _)| name == "papers/lvspec.md").unwrap().1;
    assert!(page.contains("## Table 1: a smaller model drafts") && pages.unexplained.is_empty());
    let names: Vec<String> = pages.files.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, crate::paper::pages::names(&tables));
}
