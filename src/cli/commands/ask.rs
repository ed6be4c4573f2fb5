//! `specreel ask`: a question about a library, answered from the moments that its index has about it.

use super::*;
use crate::cli::args::library::AskArgs;
use crate::cli::args::run::OutputArgs;
use crate::cli::output::printer::Printer;
use crate::cli::resolve::library::file;
use specreel_client::moments::{LibraryQuestion, Meaning, MomentFinder};
use specreel_engine::memory_check;
use specreel_library::IndexFile;
use specreel_record::Cues;

pub fn run(args: &AskArgs, config: &Config) -> Result<i32, End> {
    let AskArgs { paths, question, db, run, json, quiet, .. } = args;
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        let error = format!("{}: no such file or directory", missing.display());
        return Err(
            Failure::usage(error, "put the question into quotation marks, as the last argument").into()
        );
    }
    let is_quiet = *quiet || *json;
    let path = file(db.as_deref())?;
    let finder = IndexFile(path.clone());
    let filter = args.filter.below(paths);
    let about =
        |meaning: Option<&Meaning>| LibraryQuestion::new(question, meaning, &finder, &filter, args.limit);
    // Without meanings it may be that nothing is to be loaded.
    let known = finder.meaning_model()?;
    let found = if known.is_some() { None } else { about(None)? };
    if known.is_none() && found.is_none() {
        return super::library::nothing(&path, is_quiet);
    }
    if let Some(code) = super::models::offer::missing(run, config, is_quiet)? {
        return Ok(code);
    }
    let caption = resolve::stream(Path::new(""), Path::new(""), run, config)?;
    resolve::suggest_drafter(&caption.models, config, is_quiet);
    resolve::tell_unused(run, &[&caption.request.method], is_quiet);
    let (mut client, interrupt) = loading(caption.models.clone(), run.ignore_memory)?;
    let found = match known {
        None => found,
        Some(known) => {
            until_loaded(&mut client, &mut Progress::new(!is_quiet))?;
            let meaning = Meaning::first(client.remote().meanings(vec![question.clone()], Duration::MAX)?);
            let is_other = meaning.as_ref().is_some_and(|meaning| meaning.model != known);
            if is_other && !is_quiet {
                tell!(
                    "note: the index knows what captions are about by {known}: it is searched by words only"
                );
            }
            about(meaning.as_ref().filter(|_| !is_other))?
        }
    };
    let Some(question) = found else { return super::library::nothing(&path, is_quiet) };
    let request = question.request(question.part(), caption.request);
    asked::check_prompt(&request.prompt)?;
    if !run.ignore_memory {
        memory_check::check_request(&caption.models, &request)?;
    }
    let output = OutputArgs { json: *json, quiet: *quiet, ..OutputArgs::default() };
    let style = super::caption::style(&output, Cues::default(), request.on_loop);
    let limit = request.max_new_tokens;
    let mut printer = Printer::new(
        std::io::stdout().lock(),
        std::io::stderr(),
        style,
        Progress::new(!is_quiet),
        None,
        limit,
    );
    let mut log = RunLog::new(request.run);
    let answering =
        super::caption::one(&mut client, request, &mut log, false, &mut printer, &interrupt, GRACE);
    let code = runtime()?.block_on(answering)?;
    drop(printer);
    if *json {
        print(&format!("{}\n", question.event(log.run(), log.text())))?;
    } else {
        print(&format!("\n{}", question.sources(log.text())))?;
    }
    Ok(code)
}

/// Wait until an engine has loaded its models. Fails as the loading.
pub(super) fn until_loaded(client: &mut Client, progress: &mut Progress) -> Result<(), End> {
    while let Some(event) = client.next_blocking() {
        match event.kind {
            EventKind::Stage { stage, done, total, left_ms } => {
                progress.stage_with(stage, done, total, left_ms)
            }
            EventKind::Ready(_) => {
                progress.clear();
                return Ok(());
            }
            EventKind::Failed(failure) => {
                progress.clear();
                return Err(failure.into());
            }
            _ => {}
        }
    }
    Err(Failure::internal("the engine has stopped", "the log has details").into())
}
