//! The help page, generated from the key map and the verdicts, with a search.

use ratatui::{
    layout::{
        Constraint::{Length, Min},
        Layout, Margin,
    },
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use crate::tui::{
    action::Action,
    keymap::KeyContext,
    model::{
        Model,
        stack::{Screen, Turn},
    },
    picker::Picker,
    text,
    theme::{Role, Theme},
    widgets::{Frame, dialog, hang, mark, popup, scrollbar, typed_after},
};
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
    fn hints(&self, _model: &Model) -> &'static [Action] {
        &[Action::Back, Action::Down, Action::PageDown]
    }

    fn act(&mut self, action: Action, _model: &mut Model) -> Turn {
        match action {
            Action::Choose => return Turn::leave(),
            Action::Help => self.picker = Picker::default(),
            _ => return Turn::Pass,
        }
        Turn::stay()
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
    about: String,
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
    let mut out = Vec::new();
    for (context, actions) in model.keymap.pages(here) {
        for (action, keys) in actions {
            let keys = keys.iter().map(ToString::to_string).collect::<Vec<_>>().join("  ");
            let entry =
                Entry { section: context.title(), name: keys, about: action.about().into(), verdict: None };
            out.push(entry);
        }
    }
    for (name, about) in MOUSE.into_iter().filter(|_| model.config.mouse) {
        out.push(Entry { section: "Mouse", name: name.into(), about: about.into(), verdict: None });
    }
    for verdict in Verdict::ALL {
        let (name, about) = (verdict.name().into(), verdict.why().into());
        out.push(Entry { section: "Verdicts", name, about, verdict: Some(verdict) });
    }
    for lossless in [true, false] {
        let about = match lossless {
            true => "the text is exactly the text of autoregressive decoding",
            false => "the text may differ from autoregressive decoding",
        };
        let name = mark(lossless, model.theme()).content.into_owned();
        out.push(Entry { section: "Words", name, about: about.into(), verdict: None });
    }
    for (name, about) in WORDS {
        out.push(Entry { section: "Words", name: name.into(), about: about.into(), verdict: None });
    }
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
        for mut line in hang(name, 18, (&entry.about, Style::new()), columns.saturating_sub(2)) {
            line.spans.insert(0, Span::raw("  "));
            out.push(line);
        }
    }
    if out.is_empty() {
        out.push(theme.line(Role::Dim, "no match"));
    }
    out
}
