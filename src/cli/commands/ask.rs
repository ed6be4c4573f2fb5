//! `specreel ask`: a question about a library, answered from the moments that its index has about it.

use super::*;
use crate::cli::args::library::AskArgs;
use crate::cli::args::run::OutputArgs;
use crate::cli::output::printer::Printer;
use crate::cli::resolve::library::file;
use specreel_client::moments::LibraryQuestion;
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
    let found =
        LibraryQuestion::new(question, &IndexFile(path.clone()), &args.filter.below(paths), args.limit)?;
    let Some(question) = found else { return super::library::nothing(&path, is_quiet) };
    if let Some(code) = super::models::offer::missing(run, config, is_quiet)? {
        return Ok(code);
    }
    let mut caption = resolve::whole_video(&question.shown().path, run, config)?;
    resolve::suggest_drafter(&caption.models, config, is_quiet);
    resolve::tell_unused(run, &[&caption.request.method], is_quiet);
    caption.request = question.request(question.part(), caption.request);
    asked::check_prompt(&caption.request.prompt)?;
    if !run.ignore_memory {
        memory_check::check_request(&caption.models, &caption.request)?;
    }
    let (mut client, interrupt) = loading(caption.models, run.ignore_memory)?;
    let output = OutputArgs { json: *json, quiet: *quiet, ..OutputArgs::default() };
    let style = super::caption::style(&output, Cues::default(), caption.request.on_loop);
    let limit = caption.request.max_new_tokens;
    let mut printer = Printer::new(
        std::io::stdout().lock(),
        std::io::stderr(),
        style,
        Progress::new(!is_quiet),
        None,
        limit,
    );
    let mut log = RunLog::new(caption.request.run);
    let answering =
        super::caption::one(&mut client, caption.request, &mut log, false, &mut printer, &interrupt, GRACE);
    let code = runtime()?.block_on(answering)?;
    drop(printer);
    if *json {
        print(&format!("{}\n", question.event(log.run(), log.text())))?;
    } else {
        print(&format!("\n{}", question.sources(log.text())))?;
    }
    Ok(code)
}
