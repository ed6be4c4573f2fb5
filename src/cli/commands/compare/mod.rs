//! `specreel compare`: the same clip and prompt under several methods, over one prefilled context.
//!
//! The runs go to one engine one after another, so that all but the first start from the kept context. `choose` selects
//! the methods; `follow` and `reporter` watch the runs; the result is [`Comparison`], shown by `text` (table and differences) and
//! [`present::export`](specreel_client::present::export) (HTML).

mod choose;
mod differences;
mod follow;
mod reporter;
mod table;
mod text;

use std::mem;

use super::*;
use crate::cli::{args::compare::CompareArgs, output::session::SESSION, resolve::stdin_video};
use follow::Ending;
use reporter::Reporter;
use specreel_client::present::export::{Compared, comparison_page};
use specreel_record::{Comparison, RowState};
use specreel_speculate::Acceptance;

const PAGE: Named = Named { flag: "--html", what: "the page to ", on_failure: CHECK_DISK, private: false };

pub fn run(args: CompareArgs, config: &Config) -> Result<i32, End> {
    let CompareArgs { video, span, methods, repeat, mut run, output, html } = args;
    if let Some(method) = &run.method {
        let hint = format!("use --methods {method}");
        return Err(Failure::usage("compare takes --methods, not --method", &hint).into());
    }
    if let Some(code) = super::models::offer::missing(&run, config, output.quiet || output.json)? {
        return Ok(code);
    }
    let models = catalog::spec(&Settings::merge(run.layer(), config), run.rope)?;
    let chosen = choose::methods(methods.as_deref(), &mem::take(&mut run.set), &models)?;
    // Every run replaces the method of this request.
    run.method = Some("autoregressive".into());
    let request = resolve::caption(&video, span, &run, config)?.request;
    resolve::suggest_drafter(&models, config, output.quiet || output.json);
    let page = html.as_deref().map(|path| OutputFile::claim(PAGE, path, output.force)).transpose()?;
    let session =
        output.save.as_deref().map(|path| OutputFile::create(SESSION, path, output.force)).transpose()?;
    let quiet = output.quiet || output.json;
    let compared: Vec<&Method> = chosen.methods.iter().collect();
    resolve::tell_unused(&run, &compared, quiet);
    if !quiet {
        chosen.notes.iter().for_each(|note| tell!("note: {note}"));
    }

    let baseline = chosen.labels[0].clone();
    // In alternation, so that a machine whose speed drifts favors no method: A B C, then C B A, and so on.
    let count = chosen.methods.len();
    let in_turn = (0..repeat)
        .flat_map(|round| (0..count).map(move |at| if round % 2 == 0 { at } else { count - 1 - at }));
    let in_turn: Vec<usize> = in_turn.collect();
    let requests: Vec<RunRequest> = (1..)
        .zip(in_turn.iter().map(|at| &chosen.methods[*at]))
        .map(|(run, method)| RunRequest {
            before: Vec::new(),
            run,
            method: method.clone(),
            logprobs: output.logprobs as usize,
            reuse_texts: false,
            // Once each is enough: the engine repeats runs as needed.
            measure: output.measure.measures(true) && run as usize > count * (repeat as usize - 1),
            ..request.clone()
        })
        .collect();
    let mut runs: Vec<RunLog> = requests
        .iter()
        .zip(in_turn.iter().map(|at| &chosen.labels[*at]))
        .map(|(request, label)| RunLog::planned(request.run, label, request.method.lossless()))
        .collect();

    let (mut client, interrupt) = loading(models, run.ignore_memory)?;
    let lines_on_screen = output.json && io::stdout().is_terminal();
    let mut reporter = Reporter {
        out: output.json.then(|| io::stdout().lock()),
        talk: (!quiet).then(io::stderr),
        progress: Progress::new(!output.quiet && !lines_on_screen),
        session,
        limit: request.max_new_tokens,
        noted: Vec::new(),
    };
    let following = follow::all(&mut client, requests, &mut runs, &mut reporter, &interrupt, GRACE);
    let ending = runtime()?.block_on(following)?;
    drop(reporter);

    let draws = |method: &Method| method.acceptance == (Acceptance::Sampled {});
    let sampled = request.text.may_draw() && chosen.methods.iter().any(draws);
    let mut comparison = Comparison::of(&runs, &baseline);
    comparison.rows.extend(chosen.impossible);
    // The page first: the reader of stdout may close it early.
    if let Some(mut page) = page
        && comparison.has_figures()
    {
        // A page is given to others: the file's name says which video it was.
        let video = video.file_name().unwrap_or(video.as_os_str()).to_string_lossy();
        let video = if video == stdin_video::NAME { "a video from stdin".into() } else { video };
        let compared = Compared { video: &video, span: request.span, prompt: &request.prompt, sampled };
        page.replace(comparison_page(&compared, &comparison, &runs).as_bytes())?;
    }
    let mut stdout = io::stdout().lock();
    if output.json {
        let line = serde_json::to_vec(&Summary {
            run: 0,
            event: "comparison",
            passes: repeat,
            comparison: &comparison,
        })
        .map_err(io::Error::from)?;
        stdout.write_all(&[&line[..], b"\n"].concat())?;
    } else if comparison.has_figures() {
        let look = text::Look { width: terminal::columns(), color: terminal::color_stdout(output.color) };
        let whole = text::text(&comparison, &runs, sampled, &look);
        stdout.write_all(whole.as_bytes())?;
    }
    stdout.flush()?;
    let failed = report_failures(&comparison);
    match ending {
        Ending::Broken(failure) => Err(failure.into()),
        Ending::Interrupted => {
            if !quiet {
                tell!("interrupted");
            }
            Ok(interrupted())
        }
        Ending::Whole => Ok(failed.unwrap_or(0)),
    }
}

#[derive(Serialize)]
struct Summary<'a> {
    run: u64,
    event: &'static str,
    passes: u32,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Report why methods failed, each reason once. Returns the exit code of the first failure.
fn report_failures(comparison: &Comparison) -> Option<i32> {
    let mut reported: Vec<&Failure> = Vec::new();
    let mut code = None;
    // A method that these models cannot run was reported at the start.
    let failed = comparison.rows.iter().filter(|row| row.state == RowState::Failed);
    for failure in failed.filter_map(|row| row.failure.as_ref()) {
        if reported.contains(&failure) {
            continue;
        }
        reported.push(failure);
        let same = comparison.rows.iter().filter(|row| row.failure.as_ref() == Some(failure));
        let names: Vec<&str> = same.map(|row| row.method.as_str()).collect();
        let mut failure = failure.clone();
        if names.len() < comparison.rows.len() {
            failure.error = format!("{}: {}", names.join(", "), failure.error);
        }
        // The event itself is a line of --json already.
        let this = report::failure(&failure, false);
        code = code.or(Some(this));
    }
    code
}
