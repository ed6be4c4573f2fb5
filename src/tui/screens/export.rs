//! Exporting the shown run, or all segments of its clip; or the captions of all clips, next to them.

use ratatui::layout::Constraint::{Fill, Length};

use crate::look::Theme;
use crate::tui::effect::Effect;
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::update::export::{formats, sidecars, write};
use crate::tui::widgets::{Frame, around, cell_columns, dialog, list, named, popup, widest};
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
    /// What the row under the cursor writes.
    fn export(&self, model: &Model) -> Option<Effect> {
        let (Some(run), Some(format)) = (model.runs.shown(), formats(model).get(self.cursor)) else {
            let captions = sidecars(model);
            return (!captions.is_empty()).then_some(Effect::Sidecars(captions));
        };
        let method = run.method.as_ref().map_or(run.label.as_str(), |method| &method.name);
        let name = format!("{}.{}", file_name(&run.subject.video, method), format.ending());
        Some(Effect::Write(name, write(model, *format)))
    }
}

impl Screen for ExportList {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::list("save")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        model.effects.extend(self.export(model));
        Turn::Leave
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
