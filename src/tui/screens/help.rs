//! The help page, generated from the key map and the verdicts, with a search.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Margin};
use ratatui::text::{Line, Span};
use ratatui::{style::Style, widgets::Paragraph};

use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::widgets::{Frame, dialog, hang, mark, popup, scrollbar, typed_after};
use crate::tui::{picker::Picker, text};
use specreel_record::Verdict;

/// The page with its search, opened in a context; the cursor is at the first line.
#[derive(Debug)]
pub(crate) struct HelpPage {
    from: KeyContext,
    pub picker: Picker,
}

/// Open the page over the box that is open.
pub(crate) fn open(model: &mut Model) {
    let from = model.key_context();
    model.screens.push(HelpPage { from, picker: Picker::default() });
}

impl Screen for HelpPage {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::new(KeyContext::Entry, "keep", &[Action::Back, Action::Down, Action::PageDown])
    }

    fn act(&mut self, action: Action, _model: &mut Model) -> Turn {
        if action != Action::Help {
            return Turn::Pass;
        }
        self.picker = Picker::default();
        Turn::Stay
    }

    fn picker(&mut self) -> Option<&mut Picker> {
        Some(&mut self.picker)
    }

    fn rows(&self, model: &Model) -> usize {
        let columns = usize::from(model.size.0.min(COLUMNS + 2)).saturating_sub(6);
        lines(model, self.from, self.picker.query(), model.theme(), columns).len()
    }

    fn restarts_search(&self) -> bool {
        true
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let inner = popup(frame, theme, COLUMNS, frame.area().height, dialog("Help", theme));
        let [line, _, body] = inner.layout(&Layout::vertical([Length(1), Length(1), Min(0)]));
        typed_after("search ", &self.picker.line, theme, frame, line);
        let lines = lines(model, self.from, self.picker.query(), theme, inner.width.into());
        let (n, rows) = (lines.len(), usize::from(body.height));
        let top = self.picker.cursor.min(n.saturating_sub(rows));
        frame.render_widget(Paragraph::new(lines).scroll((top as u16, 0)), body);
        scrollbar(frame, theme, body.outer(Margin::new(2, 0)), (top, n, rows));
    }
}

const COLUMNS: u16 = 84;

/// One line of the page: a name and its meaning.
struct Entry {
    section: &'static str,
    name: String,
    about: &'static str,
    verdict: Option<Verdict>,
}

const WORDS: [(&str, &str); 6] = [
    ("tau", "accepted draft tokens per step, without the target's own token"),
    ("emitted", "tokens per step, with the target's own token"),
    ("step", "one draft and the target's pass that verifies it"),
    ("speedup", "decoding speed relative to the target alone, measured in pairs while the engine is idle"),
    ("end to end", "the same from the video file on: the first caption of a clip reads it with both models"),
    ("visual", "tokens that represent parts of the frames"),
];

const MOUSE: [(&str, &str); 5] = [
    ("click", "focus a pane, select a row, or press a key that the first or last line names"),
    ("double click", "run the row, as enter does; inspect a step"),
    ("click outside", "close the box"),
    ("wheel", "scroll the pane under the pointer"),
    ("shift-drag", "select text in the terminal (in some with alt or fn instead)"),
];

fn entries(model: &Model, here: KeyContext) -> Vec<Entry> {
    let entry = |section, name: &str, about, verdict| Entry { section, name: name.into(), about, verdict };
    let mut out = Vec::new();
    for (context, actions) in model.keymap.pages(here) {
        for (action, keys) in actions {
            let keys = keys.iter().map(ToString::to_string).collect::<Vec<_>>().join("  ");
            out.push(entry(context.title(), &keys, action.about(), None));
        }
    }
    let mouse = MOUSE.into_iter().filter(|_| model.config.mouse);
    out.extend(mouse.map(|(name, about)| entry("Mouse", name, about, None)));
    out.extend(Verdict::ALL.map(|verdict| entry("Verdicts", verdict.name(), verdict.why(), Some(verdict))));
    let marks = [
        (true, "the text is exactly the text of autoregressive decoding"),
        (false, "the text may differ from autoregressive decoding"),
    ];
    let name = |lossless| mark(lossless, model.theme()).content;
    out.extend(marks.map(|(lossless, about)| entry("Words", &name(lossless), about, None)));
    out.extend(WORDS.map(|(name, about)| entry("Words", name, about, None)));
    out
}

/// The entries that hold every word of the search.
fn matching(model: &Model, here: KeyContext, query: &str) -> Vec<Entry> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut found = entries(model, here);
    found.retain(|e| {
        let line = format!("{} {} {}", e.section, e.name, e.about).to_lowercase();
        words.iter().all(|w| line.contains(w))
    });
    found
}

fn lines(model: &Model, here: KeyContext, query: &str, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let mut out: Vec<Line<'static>> = Vec::new();
    let mut section = "";
    for entry in matching(model, here, query) {
        if entry.section != section {
            if !section.is_empty() {
                out.push(Line::default());
            }
            section = entry.section;
            out.push(theme.line(Role::Title, section));
        }
        let style = entry.verdict.map_or(theme.style(Role::Key), |v| theme.verdict(v));
        let name = Span::styled(text::fit(&entry.name, 16), style);
        for mut line in hang(name, 18, (entry.about, Style::new()), columns.saturating_sub(2)) {
            line.spans.insert(0, Span::raw("  "));
            out.push(line);
        }
    }
    if out.is_empty() {
        out.push(theme.line(Role::Dim, "no match"));
    }
    out
}
