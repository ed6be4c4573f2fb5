//! `specreel serve`: models behind the APIs of OpenAI and Anthropic.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::cli::args::serve::{MB, ServeArgs};
use crate::cli::args::{part::SpeechModelArgs, run::RunArgs};
use specreel_client::present::text::clean;
use specreel_client::speech::{Between, Ear};
use specreel_engine::memory_check;
use specreel_record::Ready;
use specreel_server::{Defaults, Listen, NAME, Options, Served, Server};

/// Threads that answer connections; the engines have their own.
const THREADS: usize = 2;
/// How long the runtime waits for its threads at the end.
const LAST: Duration = Duration::from_secs(1);

pub fn run(args: &ServeArgs, config: &Config) -> Result<i32, End> {
    if args.models.is_none()
        && let Some(code) = super::models::offer::missing(&args.run, config, false)?
    {
        return Ok(code);
    }
    let models = match &args.models {
        None => vec![(None, config.clone())],
        Some(file) => named(file, config)?,
    };
    #[cfg_attr(not(feature = "find"), expect(unused_mut, reason = "there is no index"))]
    let mut defaults = prepare(&args.run, &args.speech, models)?;
    #[cfg(feature = "find")]
    {
        // Without a home directory, a server that nobody searches starts all the same.
        defaults.find = match &args.db {
            Some(db) => Some(resolve::library::finder(Some(db))?),
            None => resolve::library::finder(None).ok(),
        };
    }
    let interrupt = listen(|| {})?;
    runtime(async {
        let server = Server::bind(options(args), defaults).await?;
        let address = server.address()?;
        if !address.ip().is_loopback() && args.api_key.is_none() {
            tell!("warning: everyone who reaches {address} can use this server; set a key with --api-key");
        }
        let mut ready = |ready: &Ready| {
            tell!("{} on {}, {}; model id `{NAME}`", names(ready), ready.device, ready.dtype);
            // Programs wait for this line.
            let _ = writeln!(io::stdout(), "http://{address}").and_then(|()| io::stdout().flush());
        };
        let mut loading = Progress::new(true);
        let mut on = |event: &EventKind| {
            if let EventKind::Stage { stage, done, total, left_ms } = event {
                loading.stage_with(*stage, *done, *total, *left_ms);
            }
            if let EventKind::Ready(_) | EventKind::Failed(_) = event {
                loading.clear();
            }
        };
        server.run(&mut on, &mut ready, &interrupt).await
    })?;
    Ok(0)
}

/// The models of a file by their names. Fails if it cannot be used (class input).
fn named(file: &Path, config: &Config) -> Result<Vec<(Option<String>, Config)>, Failure> {
    let sections = config.sections(file)?;
    if sections.iter().any(|(name, _)| name == NAME) {
        let error = format!("file of models {}: `{NAME}` always means the first model", file.display());
        return Err(Failure::input(error, format!("give [{NAME}] another name")));
    }
    Ok(sections.into_iter().map(|(name, config)| (Some(name), config)).collect())
}

/// Find the models, each by its name and its configuration, and the defaults for requests. Warns about unused options and unusable
/// files.
pub fn prepare(
    run: &RunArgs,
    speech: &SpeechModelArgs,
    models: Vec<(Option<String>, Config)>,
) -> Result<Defaults, Failure> {
    let ear = Ear::open(&speech.named())?;
    let served = models.into_iter().map(|(name, config)| served(name, run, &config));
    Ok(Defaults {
        served: served.collect::<Result<_, _>>()?,
        speeds: Dirs::speeds(),
        cache: Dirs::find().map(|dirs| dirs.cache),
        listen: ear.map(listener),
        find: None,
    })
}

fn served(name: Option<String>, run: &RunArgs, config: &Config) -> Result<Served, Failure> {
    let resolve::Served { models, target, request, methods, problems } = resolve::served(run, config)?;
    for problem in &problems {
        tell!("warning: {}", clean(&problem.error));
    }
    resolve::suggest_drafter(&models, config, false);
    resolve::tell_unused(run, &[&request.method], false);
    let context_window = memory_check::context_window(&models);
    // Without a video: what they take before a request.
    let memory_bytes = memory_check::request_bytes(&models, &request);
    let ignore_memory = run.ignore_memory;
    Ok(Served { name, ignore_memory, models, request, methods, target, context_window, memory_bytes })
}

/// Hears what is said in a part of a video.
fn listener(ear: Ear) -> Listen {
    Arc::new(move |video, span, listener| {
        let part = Between { start: span.map(|span| span.start), end: span.map(|span| span.end) };
        ear.hear(video, part, &mut |done, total| {
            (listener.heard)(done, total);
            if (listener.gone)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    })
}

/// Run a server on threads of its own.
pub fn runtime(server: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("server")
        .enable_all()
        .build()
        .map_err(|e| Failure::internal(format!("cannot start the server's threads: {e}"), "see ulimit -a"))?;
    let outcome = runtime.block_on(server);
    runtime.shutdown_timeout(LAST);
    outcome
}

fn options(args: &ServeArgs) -> Options {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let megabytes = |count: u32| u64::from(count) * MB;
    Options {
        host: args.host.clone(),
        port: args.port,
        api_key: args.api_key.clone(),
        allow_dirs: args.allow_dir.clone(),
        allow_url: args.allow_url,
        allow_follow: args.allow_follow,
        queue: args.queue as usize,
        parallel: args.parallel as usize,
        timeout: (args.timeout > 0).then(|| seconds(args.timeout)),
        grace: seconds(args.grace),
        max_body: megabytes(args.max_body),
        max_file: megabytes(args.max_file),
        max_storage: megabytes(args.max_storage),
        max_duration: args.max_duration.map(f64::from),
        cors: args.cors.clone(),
    }
}

fn names(ready: &Ready) -> String {
    match &ready.drafter {
        Some(drafter) => format!("{} with {drafter}", ready.target),
        None => ready.target.clone(),
    }
}
