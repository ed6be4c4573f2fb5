//! What each acceptance rule costs, measured with truth: how much of the facts it keeps for how many accepted drafts.
//!
//! `cargo bench -p specreel-lab --bench loosening [-- --clips N --first-seed S --search --out FILE.json]`, and `-- --help` for more. The question,
//! `docs/lab/loosening.md` explains the method and how to read the tables.

#[path = "../support/clip.rs"]
mod clip;
#[path = "../support/engine.rs"]
#[expect(dead_code, reason = "no engine runs here")]
mod engine;
#[path = "../support/kept.rs"]
mod kept;
#[path = "../support/target_copy.rs"]
mod target_copy;

mod account;
mod grid;
mod judge;
mod lookahead;
mod options;
mod report;
mod signals;
mod systems;
mod words;

use std::{cell::RefCell, time::Instant};

use clap::Parser;
use specreel_demo as assets;
use specreel_speculate::{Acceptance, Method, Shape, accept::Row, method::Length};

use crate::{
    account::OnClip,
    clip::Clip,
    judge::{Judge, Verdicts},
    kept::{Kept, Pair, Problem, Written},
    options::Options,
    report::Report,
    signals::Survey,
    systems::{Rule, System},
    words::Words,
};

/// Slots beyond a text: the last chain, and the sentences that an oracle thinks of.
const ROOM: usize = 256;

fn main() {
    engine::main(|| bench(&Options::parse()).map_err(|e| e.to_string()));
}

fn bench(options: &Options) -> Result<(), Problem> {
    let demo = assets::demo(None)?;
    let pair = Pair::load(&demo.target, if options.weak { &demo.weak_drafter } else { &demo.drafter })?;
    let dir = std::env::temp_dir().join(format!("specreel-loosening-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let report = measure(options, &pair, &dir);
    std::fs::remove_dir_all(&dir)?;
    let report = report?;
    print!("{}", report.text());
    if let Some(path) = &options.out {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if let Some(path) = &options.svg {
        std::fs::write(path, report.svg())?;
    }
    options.markdown.as_ref().map_or(Ok(()), |path| report::paste(path, &report.markdown(), options.weak))
}

fn measure(options: &Options, pair: &Pair, dir: &std::path::Path) -> Result<Report, Problem> {
    let tokenizer = pair.target.tokenizer();
    let words = Words::new(tokenizer);
    let systems = systems(options);
    let context = options.context();
    let shape = Shape::Chain { length: Length::Fixed(options.length as usize), gate: 0.0, confidence: 0.0 };
    let base = Method { context: context.clone(), shape, ..Method::preset("naive")? };
    let limit = options.max_new_tokens;
    let mut survey = Survey::new()?;
    let mut accounts: Vec<Vec<OnClip>> = vec![Vec::new(); systems.len()];
    let started = Instant::now();
    for done in 0..options.clips {
        let seed = options.first_seed + done;
        let clip = Clip::render(seed, dir, pair.target.processor())?;
        let mut kept = pair.read(&clip, &options.prompt, &context, limit + ROOM)?;
        let judge = Judge::new(&kept, &words, &clip.truth, tokenizer.end_ids(), limit + ROOM, seed);
        survey = look(survey, &mut kept, &judge, &base, limit)?;
        for (system, account) in systems.iter().zip(&mut accounts) {
            let written = write(&mut kept, &judge, &system.rule, &base, limit)?;
            let text = tokenizer.decode(&written.ids);
            account.push(OnClip::of(seed, &written, &text, &clip.truth, &words));
        }
        if (done + 1) % 10 == 0 || done + 1 == options.clips {
            let seconds = started.elapsed().as_secs_f64();
            eprintln!("{} of {} clips, {} rules, {seconds:.0} s", done + 1, options.clips, systems.len());
        }
    }
    Ok(Report::new(options, &systems, accounts, &survey))
}

/// Exact acceptance and the oracles first, then the requested rules.
fn systems(options: &Options) -> Vec<System> {
    let mut all = systems::standard();
    if options.search {
        all.extend(systems::search());
    }
    let wanted = |system: &System| options.only.as_ref().is_none_or(|text| system.family.contains(text));
    let always = |system: &System| system.family == "exact" || system.rule.knows_the_truth();
    all.retain(|system| always(system) || wanted(system));
    all
}

/// Generate under one rule.
fn write(
    kept: &mut Kept<'_>,
    judge: &Judge<'_>,
    rule: &Rule,
    base: &Method,
    limit: usize,
) -> Result<Written, Problem> {
    let method = Method { acceptance: rule.signals(), ..base.clone() };
    // What the program has is measured as the program does it.
    if matches!(rule, Rule::Plain(_)) {
        return kept.write(&method, None, limit);
    }
    let verdicts = |text: &[u32], rows: &[Row]| judge.judge(rule, text, rows);
    own(kept, &method, &verdicts, limit)
}

/// Generate with exact acceptance, and let the survey see every draft.
fn look(
    survey: Survey,
    kept: &mut Kept<'_>,
    judge: &Judge<'_>,
    base: &Method,
    limit: usize,
) -> Result<Survey, Problem> {
    let method = Method { acceptance: Survey::asks(), ..base.clone() };
    let survey = RefCell::new(survey);
    let exact = Rule::Plain(Acceptance::Exact {});
    let verdicts = |text: &[u32], rows: &[Row]| {
        survey.borrow_mut().add(judge, text, rows)?;
        judge.judge(&exact, text, rows)
    };
    own(kept, &method, &verdicts, limit)?;
    Ok(survey.into_inner())
}

/// A rule that can fail.
type Judging<'a> = dyn Fn(&[u32], &[Row]) -> Result<Verdicts, Problem> + 'a;

/// Generate under a rule that can fail; the first error is returned.
fn own(
    kept: &mut Kept<'_>,
    method: &Method,
    verdicts: &Judging<'_>,
    limit: usize,
) -> Result<Written, Problem> {
    let problem: RefCell<Option<Problem>> = RefCell::new(None);
    let rule = |text: &[u32], rows: &[Row]| {
        verdicts(text, rows).unwrap_or_else(|error| {
            problem.borrow_mut().get_or_insert(error);
            vec![None; rows.len()]
        })
    };
    let written = kept.write(method, Some(&rule), limit)?;
    problem.into_inner().map_or(Ok(written), Err)
}
