//! The saved runs: a list, and the prompt and caption of the one under the cursor; replaying and deleting them.

use std::path::PathBuf;

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::Layout;
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Wrap};

use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn, replay};
use crate::tui::widgets::{
    Frame, cell_columns, dialog, filter_line, list, number, popup, rule, sign, wrap, yes_or_no,
};
use crate::tui::{
    archive::SessionEntry, effect::Effect, line::InputLine, pane::Pane, picker::Move, text, update::watch,
};
use specreel_client::present::formats::{ago, bytes, plural};
use specreel_client::present::statistics::{Column, LOOSENED, Measures, SPEED, TAU};
use specreel_os::dirs::HOME;
use specreel_record::{Session, StopReason, log::RunState};

/// The statistics, with their widths; the last one is left out on narrow screens.
const STATISTICS: [(Column, u16); 3] = [(SPEED, 8), (TAU, 5), (LOOSENED, 8)];
/// Columns from which on the loosened share, and the file's size, are shown.
const SHOWS_LOOSENED: u16 = 70;
const SHOWS_SIZE: u16 = 85;

#[derive(Debug, Default)]
pub(crate) struct SessionList {
    /// Asking whether to delete the selected run.
    pub asks: bool,
    /// The filter, while it is typed.
    pub typing: Option<InputLine>,
}

/// Open the list, which is read again.
pub(crate) fn open(model: &mut Model) {
    let Some(folder) = model.sessions.folder.clone() else {
        return model.note(Tone::Bad, format!("no directory for saved runs: {HOME} is not set"));
    };
    model.screens.open(SessionList::default());
    model.emit(Effect::List(folder));
}

pub(crate) fn listed(model: &mut Model, found: Result<Vec<SessionEntry>, String>) {
    match found {
        Ok(entries) => {
            let saved =
                entries.iter().filter(|entry| !entry.text.is_empty()).map(|e| e.started.video.clone());
            let written = model.runs.all.iter().filter(|run| !run.replayed && run.log.is_finished());
            let written = written.map(|run| run.subject.video.clone());
            model.library.captioned = saved.map(Into::into).chain(written).collect();
            let is_same = model.sessions.set(entries);
            if let Some(list) = model.screens.shown_mut::<SessionList>() {
                list.asks &= is_same;
            }
        }
        Err(problem) => {
            model.sessions.entries.get_or_insert_default();
            model.note(Tone::Bad, problem);
        }
    }
}

/// A saved run was read: replay it.
pub(crate) fn loaded(model: &mut Model, session: Result<Session, String>) {
    let session = match session {
        Ok(session) => session,
        Err(problem) => return model.note(Tone::Bad, problem),
    };
    let (first, pace) = (model.runs.next, model.config.pace);
    let file = model.sessions.loading.take();
    let Some(runs) = replay::runs(first, session, file.as_deref(), pace, &model.methods) else {
        return model.note(Tone::Bad, "this saved run has no started event");
    };
    watch::end_replay(model);
    model.runs.next += runs.len() as u64;
    for (i, run) in runs.into_iter().enumerate() {
        model.runs.add(run, i == 0);
    }
    model.sessions.replay = Some(first..model.runs.next);
    model.screens.close();
    model.focus = Pane::Caption;
    model.caption.up = 0;
}

impl SessionList {
    /// Withdraw the question, or the filter; else leave.
    fn back(&mut self, model: &mut Model) -> Turn {
        if std::mem::take(&mut self.asks) {
            return Turn::Stay;
        }
        if self.typing.take().is_none() && model.sessions.filter.is_empty() {
            return Turn::Leave;
        }
        model.sessions.set_filter(String::new());
        Turn::Stay
    }
}

impl Screen for SessionList {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Back, Choose, Delete, FilterSessions, Yes};
        match (self.asks, &self.typing) {
            (true, _) => Keys::new(KeyContext::Confirm, "replay", &[Yes, Back]),
            (false, Some(_)) => Keys::line("keep"),
            (false, None) => {
                Keys::new(KeyContext::Sessions, "replay", &[Choose, FilterSessions, Delete, Back])
            }
        }
    }

    fn word(&self, action: Action, _model: &Model) -> Option<&'static str> {
        (action == Action::Back && self.asks).then_some("no")
    }

    /// Replay the selected run, or end the filter's typing.
    fn choose(&mut self, model: &mut Model) -> Turn {
        if self.typing.take().is_some() {
            return Turn::Stay;
        }
        let path = model.sessions.selected().map(|e| e.path.clone());
        model.sessions.loading.clone_from(&path);
        let Some(path) = path else { return Turn::Stay };
        model.emit(Effect::Load(path));
        Turn::Leave
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        if action == Action::Back {
            return self.back(model);
        }
        // Any other action withdraws the question.
        let asks = std::mem::take(&mut self.asks);
        match action {
            Action::Delete => self.asks = self.typing.is_none() && model.sessions.selected().is_some(),
            Action::Yes => {
                let path = model.sessions.selected().map(|e| e.path.clone()).filter(|_| asks);
                model.effects.extend(path.map(Effect::Delete));
            }
            Action::FilterSessions => self.typing = Some(InputLine::new(&model.sessions.filter)),
            _ => return Turn::Pass,
        }
        Turn::Stay
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        self.asks = false;
        model.sessions.cursor = go.apply(model.sessions.cursor, model.sessions.shown.len(), model.page());
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        self.typing.as_mut()
    }

    fn typed(&mut self, model: &mut Model) {
        model.sessions.set_filter(self.typing.as_ref().map(|line| line.text.clone()).unwrap_or_default());
    }

    fn clip(&self, model: &Model) -> Option<(String, PathBuf)> {
        model.sessions.selected().map(|entry| (entry.name(), PathBuf::from(&entry.started.video)))
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let sessions = &model.sessions;
        let dim = theme.style(Role::Dim);
        let mut block = dialog("Saved runs", theme);
        let Some(entries) = sessions.entries.as_ref().filter(|e| !e.is_empty()) else {
            let words = match (&sessions.entries, &sessions.folder) {
                (None, _) => "reading …".to_owned(),
                (_, folder) => {
                    let folder = folder.as_ref().map(|f| text::clean_line(&f.to_string_lossy()));
                    format!("no saved runs yet: every run is saved in {}", folder.unwrap_or_default())
                }
            };
            let inner = popup(frame, theme, 104, frame.area().height, block);
            frame.render_widget(Paragraph::new(words).style(dim).wrap(Wrap { trim: true }), inner);
            return;
        };
        let total = bytes(entries.iter().map(|e| e.bytes).sum());
        let total = format!(" {}, {total} ", plural(entries.len() as u64, "run"));
        let room = usize::from(frame.area().width.min(104)).saturating_sub(text::width(&total) + 10);
        block = block.title_bottom(Line::styled(total, dim).right_aligned());
        let typed = self.typing.as_ref();
        if typed.is_some() || !sessions.filter.is_empty() {
            block = block.title_bottom(filter_line(&sessions.filter, typed, room, theme));
        }
        let inner = popup(frame, theme, 104, frame.area().height, block);
        let shown: Vec<&SessionEntry> = sessions.shown.iter().filter_map(|i| entries.get(*i)).collect();
        let details_rows = (inner.height / 3).clamp(4, 10);
        let [above, below] = inner.layout(&Layout::vertical([Min(2), Length(details_rows)]));
        let with_size = inner.width >= SHOWS_SIZE;
        let names = [Cell::new(""), Cell::new("clip"), Cell::new("method"), Cell::new("")];
        let statistics = &STATISTICS[..if inner.width < SHOWS_LOOSENED { 2 } else { 3 }];
        let titles = std::iter::once("tokens").chain(statistics.iter().map(|(column, _)| column.title));
        let titles = titles.chain(with_size.then_some("size"));
        let header = Row::new(names.into_iter().chain(titles.map(number)));
        let mut widths = vec![Length(6), Fill(3), Fill(2), Length(1)];
        let numbers = std::iter::once(6).chain(statistics.iter().map(|(_, width)| *width));
        widths.extend(numbers.chain(with_size.then_some(9)).map(Length));
        let columns = cell_columns(above, &widths);
        list(frame, theme, above, (sessions.cursor, shown.len()), (Some(header), &widths), |i| {
            row(shown[i], [columns[1], columns[2]], statistics, with_size, theme)
        });
        if shown.is_empty() {
            let [_, line] = above.layout(&Layout::vertical([Length(1), Length(1)]));
            frame.render_widget(Line::styled("no match", dim), line);
        }
        if let Some(entry) = sessions.selected() {
            let details = match self.asks {
                true => question(model, entry, below.width.into(), theme),
                false => details(entry, below.width.into(), theme),
            };
            frame.render_widget(Paragraph::new(details).block(rule(theme)), below);
        }
    }
}

fn row(
    entry: &SessionEntry,
    [name, method]: [usize; 2],
    statistics: &[(Column, u16)],
    with_size: bool,
    theme: &Theme,
) -> Row<'static> {
    let dim = theme.style(Role::Dim);
    let stats = &entry.stats;
    let mut cells = vec![
        number(ago(entry.age_s)).style(dim),
        Cell::new(text::fit(&entry.name(), name)),
        Cell::new(text::fit(&entry.method, method)),
        Cell::new(sign(entry.started.lossless, theme)),
    ];
    let span = 1 + statistics.len() as u16;
    let ended = |words: &str, role| number(words).style(theme.style(role)).column_span(span);
    match &entry.state {
        RunState::Failed(_) => cells.push(ended("failed", Role::Bad)),
        _ if stats.steps > 0 => {
            let measures = Measures::of_stats(&entry.method, entry.started.lossless, stats);
            cells.push(number(stats.emitted.to_string()));
            cells.extend(statistics.iter().map(|(column, _)| number((column.cell)(&measures))));
        }
        RunState::Done(_) => cells.push(ended("cancelled", Role::Dim)),
        _ => cells.push(ended("cut off", Role::Warn)),
    }
    cells.extend(with_size.then(|| number(bytes(entry.bytes)).style(dim)));
    Row::new(cells)
}

/// The question before a run is deleted.
fn question(model: &Model, entry: &SessionEntry, columns: usize, theme: &Theme) -> Text<'static> {
    let [yes, no] = [Action::Yes, Action::Back].map(|key| model.keymap.shown(KeyContext::Confirm, &[key]));
    let age = match ago(entry.age_s).as_str() {
        "now" => "from just now".to_owned(),
        ago => format!("from {ago} ago"),
    };
    let words = format!("Delete the run {age}: {} with {}?  ", entry.name(), entry.method);
    wrap(yes_or_no((&words, Role::Bad), [&yes, &no], theme), columns).into()
}

/// The prompt and the caption.
fn details(entry: &SessionEntry, columns: usize, theme: &Theme) -> Text<'static> {
    let dim = theme.style(Role::Dim);
    let started = &entry.started;
    let one_line = |prompt: &str| prompt.replace('\n', " ");
    let mut prompt = format!("{}  ", one_line(&started.prompt));
    if let Some(before) = started.before.first() {
        let n = started.before.len() + 1;
        prompt = format!("{} … {prompt}({n} questions)  ", one_line(&before.prompt));
    }
    if let Some((begun, count)) = entry.segments {
        prompt += &format!("{begun} of {count} segments  ");
    }
    let asked = [(prompt.as_str(), theme.style(Role::Title)), (started.target.as_str(), dim)];
    let mut lines = wrap(asked, columns);
    let (words, style) = match &entry.state {
        RunState::Failed(failure) => (format!("✗ {}", failure.error), theme.style(Role::Bad)),
        RunState::CutOff if entry.text.is_empty() => {
            ("the recording ends early: replay it to see its text".to_owned(), dim)
        }
        RunState::Done(StopReason::Cancelled) if entry.text.is_empty() => ("— cancelled".to_owned(), dim),
        _ => (entry.text.clone(), Style::new()),
    };
    lines.extend(wrap([(words.as_str(), style)], columns));
    lines.into()
}
