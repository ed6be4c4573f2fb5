//! `specreel models pull`: progress with bytes, speed and time left on stderr, the directory or GGUF file on stdout.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::*;
use specreel_checkpoint::hub::{Hub, HubError, ModelId, PullObserver, PullProgress, Pulled, Settings};

/// Download a model. Exit code 130 if it was interrupted; the next pull resumes the download.
pub fn run(id: &str, json: bool, config: &Config) -> Result<i32, End> {
    let id = ModelId::parse(id).map_err(Failure::from)?;
    let hub = Hub::new(Settings::from_env()).map_err(Failure::from)?;
    let Some(pulled) = download(&hub, &id, &listen(|| {})?)? else { return Ok(interrupted()) };
    let mut out = std::io::stdout();
    if json {
        let mut value = json!({
            "id": id.to_string(), "dir": pulled.dir, "commit": pulled.commit, "files": pulled.files,
            "bytes": pulled.bytes, "fetched": pulled.fetched
        });
        if let Some(file) = &pulled.file {
            value["file"] = json!(file);
            value["mmproj"] = json!(pulled.mmproj);
        }
        writeln!(out, "{value}")?;
        return Ok(0);
    }
    let fetched = if pulled.fetched == 0 {
        "already up to date".into()
    } else {
        format!("{} downloaded", bytes(pulled.fetched))
    };
    tell!("{id}: {} files, {}, {fetched}", pulled.files, bytes(pulled.bytes));
    if pulled.file.is_some() && pulled.mmproj.is_none() {
        tell!("note: {} has no mmproj file: pass the model's vision tower with --mmproj", id.repository());
    }
    if let Some(hint) = local::suggestion(pulled.path(), config).or_else(|| known::suggestion(&id)) {
        tell!("hint: {}", color::plain(&hint));
    }
    writeln!(out, "{}", pulled.path().display())?;
    Ok(0)
}

/// Download a model, with progress on a terminal. `None` if it was interrupted, which has been reported.
pub(super) fn download(hub: &Hub, id: &ModelId, interrupt: &Interrupt) -> Result<Option<Pulled>, End> {
    let mut watch = DownloadBar { bar: None, interrupt, started: false };
    let outcome = hub.pull(id, &mut watch);
    watch.clear();
    match outcome {
        Ok(pulled) => Ok(Some(pulled)),
        Err(HubError::Cancelled) => {
            tell!("interrupted; run the same command again to resume");
            Ok(None)
        }
        Err(error) => Err(End::Failed(error.into())),
    }
}

struct DownloadBar<'a> {
    bar: Option<ProgressBar>,
    interrupt: &'a Interrupt,
    started: bool,
}

impl DownloadBar<'_> {
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl PullObserver for DownloadBar<'_> {
    fn progress(&mut self, progress: &PullProgress) -> ControlFlow<()> {
        if self.interrupt.asked() {
            return ControlFlow::Break(());
        }
        if !self.started && std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(progress.total), ProgressDrawTarget::stderr());
            let template =
                "{msg} {bar:20} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            // Bytes of an earlier download do not count for the speed.
            bar.set_position(progress.done);
            bar.reset_eta();
            self.bar = Some(bar);
        }
        self.started = true;
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "{}/{} {}",
                progress.number,
                progress.files,
                color::plain(&progress.file)
            ));
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
        ControlFlow::Continue(())
    }

    fn check(&mut self, path: &Path) -> Result<(), Failure> {
        local::check_pulled(path)
    }
}
