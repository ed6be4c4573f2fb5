//! `specreel inspect`: the visual tokens that the drafter sees, as a picture, as text or as JSON.
//!
//! A run is followed (`watch`) until its `prompt` event says which visual tokens the drafter sees and the scores of all
//! (`drafter_view`, `summary`). Text is `text` and `map`. For the picture, the frames are decoded once more (`stills`);
//! `picture` draws it, with `panel` for a frame, `layout` for positions, and `colors` and `font`.

mod colors;
mod drafter_view;
mod font;
mod layout;
mod map;
mod panel;
mod picture;
mod stills;
mod summary;
mod text;
mod watch;

use image::{Rgb, RgbImage};

use super::*;
use crate::cli::{args::inspect::InspectArgs, interrupt::interrupted as code};
use drafter_view::DrafterView;
use picture::Picture;
use summary::{Drawn, Summary};

const PICTURE: Named =
    Named { flag: "--png", what: "the picture to ", on_failure: CHECK_DISK, private: false };

/// Extensions of other picture formats.
const OTHERS: [&str; 9] = ["jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "svg", "avif"];

/// Columns of text that goes to no terminal.
const COLUMNS: usize = 100;

pub fn run(args: &InspectArgs, config: &Config) -> Result<i32, End> {
    let resolve::Caption { models, mut request } =
        resolve::caption(&args.video, args.span, &args.run, config)?;
    drafter_view::check_method(&request.method, &models)?;
    resolve::tell_unused(&args.run, &[&request.method], args.quiet || args.json);
    request.max_new_tokens = 1;
    let file = args.png.as_deref().map(|path| picture_file(path, args.force)).transpose()?;

    let others = drafter_view::others(&models);
    let (mut client, interrupt) = loading(models, args.run.ignore_memory)?;
    let id = request.run;
    let lines_on_screen = args.json && io::stdout().is_terminal();
    let mut progress = Progress::new(!lines_on_screen && !args.quiet);
    let watching = watch::watch(&mut client, request.clone(), &mut progress, &interrupt, GRACE);
    let watched = runtime()?.block_on(watching);
    progress.clear();
    let Some(watched) = watched?.filter(|_| !interrupt.asked()) else { return Ok(interrupted(args)) };
    if !args.quiet && !args.json {
        watched.log.notes().iter().for_each(|note| tell!("note: {}", color::plain(note)));
    }
    let (Some(started), Some(prompt)) = (watched.log.started(), watched.log.prompt()) else {
        return Err(internal("the engine did not report the prompt".into()).into());
    };
    let mut view = DrafterView::of(prompt);

    // What an automatic method chose.
    let method = serde_json::from_value(started.method.clone()).unwrap_or_else(|_| request.method.clone());
    let mut context = method.context.describe();
    if let Some(blind) = drafter_view::blind(&method.drafter) {
        view.kept.fill(false);
        context = blind.to_owned();
        if !args.quiet && !args.json {
            tell!("note: {others}");
        }
    }
    let mut summary =
        Summary::of(id, &request.method.name, started.drafter.as_deref().unwrap_or_default(), context, &view);
    if let (Some(file), Some(path)) = (file, &args.png) {
        let Some(picture) = write(file, path, &summary, &view, &request, &interrupt, &mut progress)? else {
            return Ok(interrupted(args));
        };
        if !args.quiet && !args.json {
            let (frames, summary::Picture { width, height, .. }) = (picture.frames.len(), &picture);
            tell!("wrote {}: {width} x {height} pixels, {frames} frames", path.display());
        }
        summary.picture = Some(picture);
    }
    let mut stdout = io::stdout().lock();
    if args.json {
        let event = serde_json::to_string(&watched.prompt).map_err(io::Error::from)?;
        let figures = serde_json::to_string(&summary).map_err(io::Error::from)?;
        stdout.write_all(format!("{event}\n{figures}\n").as_bytes())?;
    } else if args.png.is_none() {
        let width = terminal::columns().unwrap_or(COLUMNS);
        stdout.write_all(text::text(&summary, &view, width).as_bytes())?;
    }
    stdout.flush()?;
    Ok(0)
}

fn picture_file(path: &Path, force: bool) -> Result<OutputFile, Failure> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_lowercase();
    if OTHERS.contains(&extension.as_str()) {
        return Err(Failure::usage(
            format!("--png writes PNG, but the extension of {} is of another format", path.display()),
            format!("use --png {}", path.with_extension("png").display()),
        ));
    }
    OutputFile::claim(PICTURE, path, force)
}

/// Draw and write the picture. `None` if interrupted; then nothing is written.
fn write(
    mut file: OutputFile,
    path: &Path,
    summary: &Summary,
    view: &DrafterView,
    request: &RunRequest,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<summary::Picture>, Failure> {
    let picture = Picture::new(summary, view);
    let layout = picture.layout;
    let Some(stills) =
        stills::stills(request, view, &picture.drawn, layout.panel_size(), interrupt, progress)?
    else {
        return Ok(None);
    };
    let image = picture.draw(&stills);
    let bytes = picture::png(&image).map_err(|e| internal(format!("cannot encode the picture: {e}")))?;
    file.replace(&bytes)?;
    let frames = picture.drawn.iter().zip(&stills).enumerate().map(|(tile, (&frame, still))| {
        let (x, y) = layout.panel(tile, 0);
        Drawn { frame, time_s: still.as_ref().map_or_else(|| view.time(frame), |still| still.time_s), x, y }
    });
    Ok(Some(summary::Picture {
        file: path.display().to_string(),
        width: image.width(),
        height: image.height(),
        cell: layout.cell,
        frames: frames.collect(),
    }))
}

fn interrupted(args: &InspectArgs) -> i32 {
    if !args.quiet && !args.json {
        tell!("interrupted");
    }
    code()
}

fn internal(error: String) -> Failure {
    Failure { class: FailureClass::Internal, error, hint: None }
}
