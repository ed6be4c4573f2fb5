//! Performs the studio's effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{ops::ControlFlow, path::PathBuf};

use super::Driver;
use crate::look::StudioError;
use crate::tui::effect::{BatchNews, CaptionEdit, Effect, Msg, PullNews, SpeechNews};
use crate::tui::scan::{self, scan};
use crate::tui::{archive, batch_worker::BatchWorker, complete::complete, files, recent};
use specreel_batch as batch;
use specreel_client::catalog::{Pulling, remembered};
use specreel_client::moments::{self, Filter, LibraryQuestion, Reader, question};
use specreel_client::{Transcript, private};
use specreel_engine::Command;
use specreel_record::{Event, EventKind, Failure};

/// How often the progress of a download is reported.
const TOLD: Duration = Duration::from_millis(100);

/// How long a question waits for the engine to say what it is about.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long nothing more is typed before a search by meaning.
const PAUSE: Duration = Duration::from_millis(300);

/// Most moments of a search.
const MOST_MOMENTS: usize = 200;

fn in_words(Failure { error, hint, .. }: Failure) -> String {
    match hint {
        Some(hint) => format!("{error}; {hint}"),
        None => error,
    }
}

fn lost(problem: String) -> Failure {
    Failure::internal(problem, "the log has details")
}

impl Driver {
    pub(super) fn perform(&mut self, effects: Vec<Effect>) -> Result<(), StudioError> {
        for effect in effects {
            match effect {
                Effect::Run(request) => {
                    self.keeper.remember(question::asked(Transcript::asked(&request.prompt)));
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
                Effect::SaveEdit(event, None) => {
                    if let Some(unrecorded) = self.recorder.event(&event) {
                        self.take_in(unrecorded)?;
                    }
                }
                Effect::SaveEdit(event, Some(file)) => self.workers.quietly(move || {
                    archive::append(&file, &event)
                        .map_err(|e| format!("cannot save the caption to {}: {e}", file.display()))
                }),
                Effect::ListModels(about) => {
                    let store = self.config.models.clone();
                    self.workers.answer(Msg::Models, move || {
                        let (loaded, run) = *about;
                        Ok(store.map(|store| store.list(&loaded, &run)).unwrap_or_default())
                    });
                }
                Effect::OpenPair(pair) => {
                    let store = self.config.models.clone();
                    let open = move || match store {
                        Some(store) => Msg::PairOpened(store.open(&pair).map(Box::new)),
                        None => Msg::PairOpened(Err(lost("models cannot be changed here".into()))),
                    };
                    self.workers.run(open, |problem| Msg::PairOpened(Err(lost(problem))));
                }
                Effect::Switch(spec) => {
                    if let Err(failure) = self.engine.send(Command::Switch(spec)) {
                        self.take_in(Msg::Engine(Event::new(0, EventKind::Failed(failure))))?;
                    }
                }
                // On this thread: a few bytes, and the order matters.
                Effect::RememberPair(file, pair) => {
                    if let Err(error) = remembered::write(&file, &pair) {
                        tracing::warn!(%error, file = %file.display(), "the models are not remembered");
                    }
                }
                Effect::Pull(id) => self.pull(id),
                Effect::CancelPull => self.pull_cancelled.store(true, Ordering::Relaxed),
                Effect::RemoveModel(name, path) => {
                    let store = self.config.models.clone();
                    self.workers.answer(Msg::ModelRemoved, move || {
                        let store = store.ok_or("models cannot be changed here")?;
                        let freed = store.remove(&path).map_err(|failure| failure.error)?;
                        Ok((name, freed))
                    });
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
                    if let Err(error) = private::write(&file, (name + "\n").as_bytes()) {
                        tracing::warn!(%error, file = %file.display(), "the theme is not remembered");
                    }
                }
                Effect::Open(path) => {
                    self.workers.run(move || scan::open(&path), |problem| Msg::Opened(Err(problem)));
                }
                Effect::Complete(typed, wanted) => {
                    self.workers.answer(Msg::Completed, move || complete(&typed, wanted));
                }
                Effect::Probe(path) => {
                    self.probe_next = Some(path);
                    self.probe_waiting();
                }
                Effect::Frames(request) => {
                    self.frame_loader.request(request);
                    self.read_frames();
                }
                Effect::Find(words) => {
                    self.searches.fetch_add(1, Ordering::Relaxed);
                    let (finder, lost) = (self.config.finder.clone(), words.clone());
                    let find = move || {
                        let found = finder.map_or_else(
                            || Ok(Vec::new()),
                            |finder| moments::typed(&*finder, &words, MOST_MOMENTS, None),
                        );
                        Msg::Moments(words, found.map_err(in_words))
                    };
                    self.workers.run(find, |problem| Msg::Moments(lost, Err(problem)));
                }
                Effect::FindNear(words) => {
                    let (finder, engine) = (self.config.finder.clone(), self.engine.clone());
                    let searches = self.searches.clone();
                    let this = searches.load(Ordering::Relaxed);
                    self.workers.perhaps(move || {
                        std::thread::sleep(PAUSE);
                        let finder = finder.filter(|_| searches.load(Ordering::Relaxed) == this)?;
                        finder.meaning_models().ok().filter(|models| !models.is_empty())?;
                        let read = |text: &str| Ok(engine.meaning(text, Some(PATIENCE)).ok().flatten());
                        let found = moments::typed(&*finder, &words, MOST_MOMENTS, Some(&read));
                        Some(Msg::Near(words, found.ok()?))
                    });
                }
                Effect::AskLibrary(question, is_idle) => {
                    let finder = self.config.finder.clone();
                    let engine = self.engine.clone();
                    self.workers.answer(Msg::Asked, move || {
                        let Some(finder) = finder else { return Ok(None) };
                        // By words only, if the engine is busy.
                        let read = |text: &str| Ok(engine.meaning(text, Some(PATIENCE)).ok().flatten());
                        let read: Reader<'_> = &read;
                        let (all, read) = (Filter::default(), is_idle.then_some(read));
                        let found = LibraryQuestion::new(&question, &*finder, &all, question::SOME, read);
                        Ok(found.map_err(in_words)?.map(|question| {
                            let part = question.part();
                            (question, part)
                        }))
                    });
                }
                Effect::List(folder) => self.workers.answer(Msg::Listed, move || archive::list(&folder)),
                Effect::Load(path) => self.workers.answer(Msg::Loaded, move || archive::load(&path)),
                Effect::Delete(path) => self.workers.answer(Msg::Listed, move || {
                    archive::delete(&path)?;
                    archive::list(path.parent().unwrap_or(&path))
                }),
                Effect::Cut(path, division) => {
                    let cut = self.config.cut.clone();
                    let cannot = || Err("clips cannot be divided into segments".to_owned());
                    self.workers
                        .answer(Msg::Cut, move || cut.map_or_else(cannot, |cut| cut(&path, division)));
                }
                Effect::Listen(video, named) => self.listen(video, &named),
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

    /// Download a model off this thread, and report its progress ten times per second.
    fn pull(&mut self, id: String) {
        let (store, messages) = (self.config.models.clone(), self.messages.clone());
        let cancelled = Arc::new(AtomicBool::new(false));
        self.pull_cancelled = Arc::clone(&cancelled);
        let work = move || {
            let Some(store) = store else {
                return Msg::Pull(PullNews::Ended(Err(lost("models cannot be downloaded here".into()))));
            };
            let mut begun: Option<(Instant, u64)> = None;
            let mut told: Option<Instant> = None;
            let mut progress = |progress: Pulling| {
                if cancelled.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                // What an earlier download left does not count for the speed.
                let (since, before) = *begun.get_or_insert((Instant::now(), progress.done));
                if told.is_none_or(|told| told.elapsed() > TOLD) {
                    let seconds = since.elapsed().as_secs_f64();
                    let rate = progress.done.saturating_sub(before) as f64 / seconds;
                    let rate = Some(rate).filter(|_| seconds > 1.0);
                    told = Some(Instant::now());
                    messages.try_send(Msg::Pull(PullNews::Progress(Pulling { rate, ..progress }))).ok();
                }
                ControlFlow::Continue(())
            };
            Msg::Pull(PullNews::Ended(store.pull(&id, &mut progress)))
        };
        self.workers.run(work, |problem| Msg::Pull(PullNews::Ended(Err(lost(problem)))));
    }

    /// Find out what is said in a clip off this thread, in place of what was asked before; report the progress ten times per second.
    fn listen(&mut self, video: PathBuf, named: &str) {
        self.listen_cancelled.store(true, Ordering::Relaxed);
        let cancelled = Arc::new(AtomicBool::new(false));
        self.listen_cancelled = Arc::clone(&cancelled);
        let Some(listen) = self.config.listen.clone().filter(|_| !named.is_empty()) else { return };
        let named = files::expand(named, specreel_os::dirs::home());
        let (messages, clip, lost) = (self.messages.clone(), video.clone(), video.clone());
        let work = move || {
            let mut told: Option<Instant> = None;
            let heard = listen(&video, &named, &mut |done, total| {
                if cancelled.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                if told.is_none_or(|told| told.elapsed() > TOLD) {
                    told = Some(Instant::now());
                    let share = if total > 0.0 { (done / total).min(1.0) } else { 0.0 };
                    messages.try_send(Msg::Speech(clip.clone(), SpeechNews::Progress(share))).ok();
                }
                ControlFlow::Continue(())
            });
            let news = match cancelled.load(Ordering::Relaxed) {
                true => SpeechNews::Cancelled,
                false => SpeechNews::Heard(heard.map(Arc::new)),
            };
            Msg::Speech(video, news)
        };
        self.workers.run(work, |problem| Msg::Speech(lost, SpeechNews::Heard(Err(problem))));
    }

    pub(super) fn probe_waiting(&mut self) {
        let Some(probe) = self.config.probe.clone().filter(|_| !self.probing) else { return };
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
