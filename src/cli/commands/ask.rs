//! `specreel ask`: answers a question about a library from the moments that its index finds for it.

use super::*;
use crate::cli::args::library::AskArgs;
use crate::cli::args::run::OutputArgs;
use crate::cli::output::printer::Printer;
use crate::cli::resolve::library::file;
use specreel_client::moments::{LibraryQuestion, MomentFinder, Reader};
use specreel_engine::memory_check;
use specreel_library::IndexFile;
use specreel_record::Cues;

pub fn run(args: &AskArgs, config: &Config) -> Result<i32, End> {
    let AskArgs { paths, question, db, run, json, quiet, .. } = args;
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        let error = format!("{}: no such file or directory", missing.display());
        return Err(Failure::usage(error, "put the question in quotation marks, as the last argument").into());
    }
    let is_quiet = *quiet || *json;
    let path = file(db.as_deref())?;
    let finder = IndexFile(path.clone());
    let filter = args.filter.below(paths);
    let about = |read: Option<Reader<'_>>| LibraryQuestion::new(question, &finder, &filter, args.limit, read);
    // Search by words before models are loaded: that rejects invalid questions, and needs no models if
    // nothing is found.
    let by_words = about(None)?;
    let models = finder.meaning_models()?;
    if by_words.is_none() && models.is_empty() {
        return super::library::nothing(&path, is_quiet);
    }
    if let Some(code) = super::models::offer::missing(run, config, is_quiet)? {
        return Ok(code);
    }
    let (_, target) = super::library::target_alone(&Settings::merge(run.layer(), config), run)?;
    let has_meanings = models.contains(&target);
    if by_words.is_none() && !has_meanings {
        return super::library::nothing(&path, is_quiet);
    }
    let caption = resolve::stream(Path::new(""), Path::new(""), run, config)?;
    resolve::suggest_drafter(&caption.models, config, is_quiet);
    resolve::tell_unused(run, &[&caption.request.method], is_quiet);
    let Some((mut client, interrupt)) = super::library::loaded(caption.models.clone(), run, !is_quiet)?
    else {
        return Ok(interrupted());
    };
    let found = if has_meanings {
        let remote = client.remote();
        about(Some(&|text| remote.meaning(text, None)))?
    } else {
        by_words
    };
    if let (false, [known, ..], false) = (has_meanings, &models[..], is_quiet) {
        tell!("note: the index has meanings of {known}, not of {target}; searching by words only");
    }
    if interrupt.asked() {
        return Ok(interrupted());
    }
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
    if code != 0 && code != super::caption::INCOMPLETE {
        return Ok(code);
    }
    if *json {
        print(&format!("{}\n", question.event(log.run(), log.text())))?;
    } else {
        print(&format!("\n{}", question.sources(log.text())))?;
    }
    Ok(code)
}
