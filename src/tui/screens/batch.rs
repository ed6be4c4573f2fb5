//! The batch: its clips and what became of them, its progress, and the caption of the clip under the cursor.

use std::path::PathBuf;

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row};

use super::caption_editor::{self, Edited};
use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::batch::{Batch, BatchClip, ClipState, Phase};
use crate::tui::model::library::{Entry, Kind};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::update::{batch, runs};
use crate::tui::widgets::{Frame, SPINNER, cell_columns, dialog, list, mark, popup, rule, track, wrap};
use crate::tui::{pane::Pane, picker::Move, text};
use specreel_batch::{Clip, Existing, Progress};
use specreel_client::present::{estimate, formats::plural};

const COLUMNS: u16 = 104;

#[derive(Debug, Default)]
pub(crate) struct BatchScreen {
    /// The batch that is about to start; without one, the last batch is shown.
    pub next: Option<Batch>,
}

/// Caption the marked clips together, or else the selected one; while another clip is captioned, it is queued.
pub(crate) fn run(model: &mut Model) {
    if model.library.marked.is_empty() { runs::run_selected(model) } else { choose_marked(model) }
}

/// Run the shown clip and prompt again; if there are none, what is selected.
pub(crate) fn run_again(model: &mut Model) {
    if model.runs.shown().is_some() { runs::again(model) } else { run(model) }
}

/// Run the method that was picked: on the selected clip, and if that is the shown one, on all that the shown run is about.
pub(crate) fn run_with_method(model: &mut Model) {
    let selected = model.library.selected().map(|entry| &entry.path);
    let is_another =
        selected.is_some_and(|path| model.runs.shown().is_some_and(|run| run.subject.video != *path));
    if is_another { runs::run_selected(model) } else { run_again(model) }
}

/// Open the box with the marked clips, to be started from there; during a batch, with that batch.
fn choose_marked(model: &mut Model) {
    if model.batches.active().is_some() {
        model.note(Tone::Info, "a batch is running: the marks stay until it is over");
        return model.screens.open(BatchScreen::default());
    }
    let library = &model.library;
    let entry = |path: &PathBuf| library.entries.iter().find(|entry| entry.path == *path);
    let clips: Vec<BatchClip> = library.marked.iter().filter_map(entry).map(clip_of).collect();
    let Some(method) = runs::method_to_run(model) else { return };
    let Some(prompt) = runs::prompt_to_run(model) else { return };
    let next = Batch {
        clips,
        cursor: 0,
        phase: Phase::Chosen,
        prompt,
        method,
        sampling: model.sampling.clone(),
        runs: 0..0,
        progress: Progress::default(),
        retries: false,
        problem: None,
    };
    model.screens.open(BatchScreen { next: Some(next) });
}

/// A clip as a batch names it: its sidecar is next to the file; an embedded clip's is in the working directory.
fn clip_of(entry: &Entry) -> BatchClip {
    let clip = match entry.kind {
        Kind::Clip => Clip {
            root: PathBuf::new().into(),
            relative: entry.path.file_name().unwrap_or_default().into(),
            file: Some(entry.path.clone()),
        },
        _ => Clip::of_file(&entry.path),
    };
    BatchClip::new(&entry.title, clip)
}

/// Open the box with the last batch.
pub(crate) fn open(model: &mut Model) {
    match model.batches.last {
        Some(_) => model.screens.open(BatchScreen::default()),
        None => {
            let key = model.keymap.shown(model.key_context(), &[Action::Mark]);
            model.note(Tone::Info, format!("no batch yet: mark clips in the library ({key}), then run"));
        }
    }
}

impl BatchScreen {
    fn shown<'a>(&'a self, model: &'a Model) -> Option<&'a Batch> {
        self.next.as_ref().or(model.batches.last.as_ref())
    }

    fn start(&mut self, model: &mut Model, batch: Batch) -> Turn {
        self.next = batch::start(model, batch);
        Turn::Stay
    }

    /// Caption the clips that failed, or that a cancelled batch did not come to.
    fn retry(&mut self, model: &mut Model) -> Turn {
        let Some(last) = model.batches.last.take_if(|batch| !batch.is_active()) else { return Turn::Stay };
        let lacks = |clip: &BatchClip| {
            matches!(clip.state, ClipState::Failed(_) | ClipState::Waiting | ClipState::Busy)
        };
        if self.next.is_some() || !last.clips.iter().any(lacks) {
            model.batches.last = Some(last);
            model.note(Tone::Info, "no clip failed or was left");
            return Turn::Stay;
        }
        self.start(model, Batch { retries: true, ..last })
    }

    fn edit(&self, model: &mut Model) -> Turn {
        let clip = self.shown(model).and_then(Batch::selected);
        match clip.and_then(|clip| clip.caption.as_ref()).map(|caption| caption.text.clone()) {
            Some(caption) => return caption_editor::open(model, Edited::Clip, &caption),
            None => model.note(Tone::Info, "this clip has no caption that can be edited here"),
        }
        Turn::Stay
    }

    fn files(&self, model: &Model, columns: usize, theme: &Theme) -> Line<'static> {
        let dim = theme.style(Role::Dim);
        let key = |action| match self.next {
            Some(_) => {
                theme.span(Role::Key, format!("{} ", model.keymap.shown(KeyContext::Batch, &[action])))
            }
            None => Span::raw(""),
        };
        let file = match model.batches.sidecar {
            Some(sidecar) => format!("a .{} file next to each clip", sidecar.extension()),
            None => "no files are written".to_owned(),
        };
        let mut spans = vec![key(Action::SidecarForm), Span::styled(file, dim)];
        if model.batches.sidecar.is_some() {
            let existing = match model.batches.existing {
                Existing::Skip => "clips that have one are skipped",
                Existing::Overwrite => "existing ones are overwritten",
                Existing::Append => "added after the text of existing ones",
                Existing::Prepend => "added before the text of existing ones",
            };
            spans.extend([Span::raw("   "), key(Action::Existing)]);
            let used: usize = spans.iter().map(Span::width).sum();
            spans.push(Span::styled(text::fit(existing, columns.saturating_sub(used)), dim));
        }
        Line::from(spans)
    }
}

impl Screen for BatchScreen {
    fn keys(&self, model: &Model) -> Keys {
        use Action::{Back, Choose, Down, EditCaption, Existing, Interrupt, Retry, SidecarForm};
        let hints: &[_] = match self.shown(model).map(|batch| batch.phase) {
            Some(Phase::Chosen) => &[Choose, SidecarForm, Existing, Back],
            Some(Phase::Ended) => &[Choose, EditCaption, Retry, Down, Back],
            _ => &[Choose, Interrupt, EditCaption, Down, Back],
        };
        Keys::new(KeyContext::Batch, if self.next.is_some() { "start" } else { "show" }, hints)
    }

    fn word(&self, action: Action, _model: &Model) -> Option<&'static str> {
        (action == Action::Down).then_some("clip")
    }

    /// Start the batch, or show the run of the clip under the cursor.
    fn choose(&mut self, model: &mut Model) -> Turn {
        if let Some(next) = self.next.take() {
            model.prompt.remember(&next.prompt);
            model.library.marked.clear();
            return self.start(model, next);
        }
        let run = model.batches.last.as_ref().and_then(Batch::selected).map_or(0, |clip| clip.run);
        let Some(at) = model.runs.place(run) else {
            model.note(Tone::Info, "no run of this clip to show");
            return Turn::Stay;
        };
        model.runs.shown = at;
        (model.focus, model.caption.up) = (Pane::Caption, 0);
        Turn::Leave
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Retry => return self.retry(model),
            Action::EditCaption => return self.edit(model),
            Action::SidecarForm => model.batches.next_sidecar(),
            Action::Existing => model.batches.next_existing(),
            _ => return Turn::Pass,
        }
        Turn::Stay
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        let page = model.page();
        if let Some(batch) = self.next.as_mut().or(model.batches.last.as_mut()) {
            batch.cursor = go.apply(batch.cursor, batch.clips.len(), page);
        }
    }

    fn clip(&self, model: &Model) -> Option<(String, PathBuf)> {
        let clip = self.shown(model).and_then(Batch::selected);
        clip.map(|clip| (clip.title.clone(), clip.clip.path()))
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let Some(batch) = self.shown(model) else { return };
        let title = format!("Batch of {}", plural(batch.clips.len() as u64, "clip"));
        let inner = popup(frame, theme, COLUMNS, frame.area().height, dialog(&title, theme));
        let details_rows = (inner.height / 3).clamp(4, 10);
        let [above, middle, below] =
            inner.layout(&Layout::vertical([Length(3), Min(2), Length(details_rows)]));
        let columns = usize::from(inner.width);
        let head =
            [progress(model, batch, columns, theme), speeds(batch, theme), self.files(model, columns, theme)];
        frame.render_widget(Text::from(head.to_vec()), above);
        let widths = [Length(12), Fill(2), Fill(3)];
        let columns = cell_columns(middle, &widths);
        list(frame, theme, middle, (batch.cursor, batch.clips.len()), (None, &widths), |at| {
            row(model, &batch.clips[at], [columns[1], columns[2]], theme)
        });
        let details = batch.selected().map(|clip| details(model, clip, below, theme)).unwrap_or_default();
        frame.render_widget(Paragraph::new(details).block(rule(theme)), below);
    }
}

/// `━━━━──── 3/10, 1 failed, 0:40 left`, or the batch that is about to start.
fn progress(model: &Model, batch: &Batch, columns: usize, theme: &Theme) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    if batch.phase == Phase::Chosen {
        let key = model.keymap.shown(KeyContext::Batch, &[Action::Choose]);
        return Line::from(vec![
            theme.span(Role::Key, key),
            Span::raw(format!(
                " captions {} with {} ",
                plural(batch.clips.len() as u64, "clip"),
                batch.method.name
            )),
            mark(batch.method.lossless(), theme),
            Span::styled(format!("  {}", batch.prompt.replace('\n', " ")), dim),
        ]);
    }
    let (over, total, failed) = (batch.over(), batch.clips.len(), batch.failed());
    let mut line =
        Line::from(track(over as f64 / total.max(1) as f64, (columns / 4).clamp(8, 24), theme).to_vec());
    line.push_span(Span::raw(format!(" {over}/{total}")));
    if failed > 0 {
        line.push_span(theme.span(Role::Bad, format!(", {failed} failed")));
    }
    let words = match batch.phase {
        Phase::Waiting => ", waiting for the engine".to_owned(),
        Phase::Cancelling => ", cancelling".to_owned(),
        Phase::Ended if batch.problem.is_some() => ", stopped".to_owned(),
        Phase::Ended if over < total => ", cancelled".to_owned(),
        Phase::Ended | Phase::Chosen => String::new(),
        Phase::Running => {
            let left = batch.progress.left().map(|left| estimate::left(left.as_secs_f64() * 1e3));
            left.map_or_else(String::new, |left| format!(", {left} left"))
        }
    };
    line.push_span(Span::styled(words, dim));
    line
}

fn speeds(batch: &Batch, theme: &Theme) -> Line<'static> {
    match &batch.problem {
        Some(problem) => theme.line(Role::Bad, problem.clone()),
        None if batch.progress.written() > 0 => Line::raw(batch.progress.speeds()),
        None => Line::default(),
    }
}

fn state(model: &Model, clip: &BatchClip) -> (String, Role) {
    let (sign, word, role) = match &clip.state {
        ClipState::Waiting => (" ", "waiting", Role::Dim),
        ClipState::Running => (SPINNER[model.look.tick % SPINNER.len()], "running", Role::Accent),
        ClipState::Done if is_edited(clip) => ("✓", "edited", Role::Good),
        ClipState::Skipped | ClipState::Empty if is_edited(clip) => ("✓", "edited", Role::Good),
        ClipState::Empty => ("-", "empty", Role::Warn),
        ClipState::Done => ("✓", "done", Role::Good),
        ClipState::Skipped => ("=", "skipped", Role::Dim),
        ClipState::Busy => ("-", "elsewhere", Role::Warn),
        ClipState::Failed(_) => ("✗", "failed", Role::Bad),
    };
    (format!("{sign} {word}"), role)
}

fn is_edited(clip: &BatchClip) -> bool {
    clip.caption.as_ref().is_some_and(|caption| caption.is_edited())
}

/// A clip's caption, the part written so far, or the reason for its absence.
fn words(model: &Model, clip: &BatchClip) -> (String, Role) {
    match &clip.state {
        ClipState::Failed(error) => (error.clone(), Role::Bad),
        ClipState::Running => {
            let run = model.runs.get(clip.run);
            (run.map(|run| run.log.whole().shown()).unwrap_or_default(), Role::Text)
        }
        ClipState::Busy => ("another process captions it".to_owned(), Role::Dim),
        ClipState::Empty if !is_edited(clip) => ("the model wrote nothing".to_owned(), Role::Dim),
        ClipState::Skipped if clip.caption.is_none() => ("it had a caption".to_owned(), Role::Dim),
        _ => {
            (clip.caption.as_ref().map(|caption| text::clean(&caption.text)).unwrap_or_default(), Role::Text)
        }
    }
}

fn row(model: &Model, clip: &BatchClip, [title, caption]: [usize; 2], theme: &Theme) -> Row<'static> {
    let (state, role) = state(model, clip);
    let (words, tone) = words(model, clip);
    Row::new([
        Cell::new(state).style(theme.style(role)),
        Cell::new(text::fit(&clip.title, title)),
        Cell::new(text::fit(&text::clean_line(&words), caption)).style(theme.style(tone)),
    ])
}

fn details(model: &Model, clip: &BatchClip, area: Rect, theme: &Theme) -> Text<'static> {
    let (words, role) = words(model, clip);
    let style = if role == Role::Text { Style::new() } else { theme.style(role) };
    let mut lines: Vec<Line<'static>> = Vec::new();
    for part in words.split('\n') {
        lines.extend(wrap([(part, style)], area.width.into()));
    }
    let rows = usize::from(area.height).saturating_sub(1);
    if clip.state == ClipState::Running && lines.len() > rows {
        lines.drain(..lines.len() - rows);
    }
    lines.into()
}
