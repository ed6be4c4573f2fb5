//! Performs the studio's effects.

use super::Driver;
use crate::tui::{
    BatchNews, CaptionEdit, Effect, Msg, StudioError, archive, batch_worker::BatchWorker, complete::complete,
    files, recent, scan::scan,
};
use specreel_batch as batch;
use specreel_engine::Command;
use specreel_record::{Event, EventKind};

impl Driver {
    pub(super) fn perform(&mut self, effects: Vec<Effect>) -> Result<(), StudioError> {
        for effect in effects {
            match effect {
                Effect::Run(request) => {
                    self.keeper.remember(&request.prompt);
                    let run = request.run;
                    if let Err(failure) = self.engine.send(Command::Run(request)) {
                        self.take_in(Msg::Engine(Event::new(run, EventKind::Failed(failure))))?;
                    }
                }
                Effect::Cancel(run) => self.engine.cancel(run),
                Effect::Batch(job) => {
                    for prompt in &job.options.prompts {
                        self.keeper.remember(prompt);
                    }
                    match BatchWorker::start(*job, &self.engine) {
                        Ok((batch, news)) => (self.batch, self.batch_news) = (Some(batch), Some(news)),
                        Err(error) => {
                            self.take_in(Msg::Batch(BatchNews::Ended(Err(error.to_string()))))?;
                        }
                    }
                }
                Effect::CancelBatch => {
                    if let Some(batch) = &self.batch {
                        batch.cancel();
                    }
                }
                Effect::SaveCaption(edit) => {
                    let CaptionEdit { clip, sidecar, cues, caption } = *edit;
                    let (video, lost) = (clip.path(), Box::new(caption.clone()));
                    let unsaved = video.clone();
                    let save = move || {
                        let outcome = batch::edit::save(&clip, sidecar, cues, &caption);
                        let outcome = outcome.map(Some).map_err(|failure| failure.error);
                        Msg::CaptionSaved { video, caption: Box::new(caption), outcome }
                    };
                    let lost =
                        |problem| Msg::CaptionSaved { video: unsaved, caption: lost, outcome: Err(problem) };
                    self.workers.run(save, lost);
                }
                Effect::Scan(folder) => {
                    let lost = folder.clone();
                    let lost = |problem| Msg::Scanned { folder: lost, found: Err(problem), note: None };
                    self.workers.run(move || scan(folder), lost);
                }
                Effect::Recent(list) => self.workers.answer(Msg::Recent, move || recent::load(&list)),
                Effect::Remember(list, file) => {
                    self.workers.quietly(move || recent::remember(&list, &file));
                }
                // On this thread: a few bytes, and the order matters.
                Effect::RememberTheme(file, name) => {
                    if let Err(error) = files::write_private(&file, &(name + "\n")) {
                        tracing::warn!(%error, file = %file.display(), "the theme is not remembered");
                    }
                }
                Effect::Open(path) => {
                    self.workers.run(move || files::open(&path), |problem| Msg::Opened(Err(problem)));
                }
                Effect::Complete(typed) => self.workers.answer(Msg::Completed, move || complete(&typed)),
                Effect::Probe(path) => {
                    self.probe_next = Some(path);
                    self.probe_waiting();
                }
                Effect::Frames(request) => {
                    self.frame_loader.request(request);
                    self.read_frames();
                }
                Effect::List(folder) => self.workers.answer(Msg::Listed, move || archive::list(&folder)),
                Effect::Load(path) => self.workers.answer(Msg::Loaded, move || archive::load(&path)),
                Effect::Delete(path) => self.workers.answer(Msg::Listed, move || {
                    archive::delete(&path)?;
                    archive::list(path.parent().unwrap_or(&path))
                }),
                Effect::Cut(path, seconds) => {
                    let cut = self.cut.clone();
                    let cannot = || Err("clips cannot be divided into segments".to_owned());
                    self.workers.answer(Msg::Cut, move || cut.map_or_else(cannot, |cut| cut(&path, seconds)));
                }
                Effect::Editor(text) => self.edit = Some(text),
                Effect::Write(name, text) => {
                    self.workers.answer(Msg::Written, move || files::write_new(&name, &text));
                }
                Effect::Sidecars(captions) => {
                    self.workers.answer(Msg::Sidecars, move || Ok(files::write_sidecars(captions)));
                }
                Effect::SaveMethod(file, method) => {
                    self.workers.answer(Msg::MethodSaved, move || files::save_method(file, *method));
                }
                Effect::Copy(text) => self.screen.copy(&text)?,
                Effect::Notify(words) => self.screen.say(&self.window.notification(&words))?,
                Effect::Play(video) => self.workers.quietly(move || files::play(&video)),
                Effect::Suspend => {
                    self.forget_pictures()?;
                    self.screen.suspend()?;
                    self.frames.want_now();
                }
                Effect::Redraw => {
                    self.painter.forget();
                    self.screen.clear()?;
                    self.frames.want_now();
                }
                Effect::Quit => self.leaving = true,
            }
        }
        Ok(())
    }

    pub(super) fn probe_waiting(&mut self) {
        let Some(probe) = self.probe.clone().filter(|_| !self.probing) else { return };
        let Some(path) = self.probe_next.take() else { return };
        self.probing = true;
        let lost = path.clone();
        self.workers.run(
            move || Msg::Probed { facts: probe(&path), path },
            |problem| Msg::Probed { facts: Err(problem), path: lost },
        );
    }

    pub(super) fn read_frames(&mut self) {
        if let Some((request, work)) = self.frame_loader.work(self.messages.clone()) {
            self.workers.run(work, |problem| Msg::FramesRead(request, Err(problem)));
        }
    }
}
