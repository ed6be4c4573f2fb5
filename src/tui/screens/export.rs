//! Exporting the shown run, or all segments of its clip; or the captions of all clips, next to them.

use ratatui::layout::Constraint::{Fill, Length};

use crate::tui::{
    action::Action,
    effect::Effect,
    keymap::KeyContext,
    model::{
        Model, Tone,
        stack::{Screen, Turn},
    },
    theme::Theme,
    update::export::{formats, sidecars, write},
    widgets::{Frame, around, cell_columns, dialog, list, named, popup, widest},
};
use specreel_client::present::{export::file_name, formats::plural};

#[derive(Debug, Default)]
pub(crate) struct ExportList {
    cursor: usize,
}

pub(crate) fn open(model: &mut Model) {
    let runs = model.runs.shown().map(|run| model.runs.together(run)).unwrap_or_default();
    match runs.iter().any(|r| !r.log.whole().chunks().is_empty()) {
        true => model.screens.open(ExportList::default()),
        false => model.note(Tone::Info, "no caption to export yet"),
    }
}

impl ExportList {
    /// The effects of the row under the cursor.
    fn export(&self, model: &Model) -> Vec<Effect> {
        let (Some(run), Some(format)) = (model.runs.shown(), formats(model).get(self.cursor)) else {
            let captions = sidecars(model);
            return if captions.is_empty() { Vec::new() } else { vec![Effect::Sidecars(captions)] };
        };
        let method = run.method.as_ref().map_or(run.label.as_str(), |method| &method.name);
        let name = format!("{}.{}", file_name(&run.subject.video, method), format.ending());
        vec![Effect::Write(name, write(model, *format))]
    }
}

impl Screen for ExportList {
    fn context(&self) -> KeyContext {
        KeyContext::List
    }

    fn hints(&self, _model: &Model) -> &'static [Action] {
        &[Action::Choose, Action::Back]
    }

    fn verb(&self) -> &'static str {
        "save"
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        Turn::Leave(self.export(model))
    }

    fn cursor(&mut self) -> Option<&mut usize> {
        Some(&mut self.cursor)
    }

    fn rows(&self, model: &Model) -> usize {
        formats(model).len() + usize::from(!sidecars(model).is_empty())
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let (formats, sidecars) = (formats(model), sidecars(model).len());
        let n = formats.len() + usize::from(sidecars > 0);
        let columns = around(12 + widest("", formats.iter().map(|format| format.about())), 84);
        let inner = popup(frame, theme, columns, n as u16 + 2, dialog("Export run as", theme));
        let widths = [Length(10), Fill(1)];
        let columns = cell_columns(inner, &widths);
        list(frame, theme, inner, (self.cursor, n), (None, &widths), |i| match formats.get(i) {
            Some(format) => named(format.name(), format.about(), &columns, theme),
            None => {
                let clips = plural(sidecars as u64, "clip");
                let about = format!("captions of {clips} of this session, a .txt next to each");
                named("sidecars", &about, &columns, theme)
            }
        });
    }
}
