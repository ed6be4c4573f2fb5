//! The editor of a caption: of a clip of the batch, or of a segment.

use std::path::{Path, PathBuf};

use ratatui::widgets::Padding;

use crate::tui::{
    action::Action,
    effect::{CaptionEdit, Effect},
    key::Key,
    keymap::KeyContext,
    model::{
        Model, Tone,
        batch::Batch,
        prompt::PromptEditor,
        stack::{Screen, Turn},
    },
    text,
    theme::{Role, Theme},
    update::panes,
    widgets::{Frame, dialog, popup},
};
use specreel_batch::rows::Caption;
use specreel_record::{Event, EventKind};

const COLUMNS: u16 = 104;

/// Whose caption it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edited {
    /// The clip under the cursor of the batch.
    Clip,
    /// The segment that this run has captioned.
    Segment(u64),
}

#[derive(Debug)]
pub(crate) struct CaptionEditor {
    editor: PromptEditor,
    edited: Edited,
}

/// A text comes back from the user's editor. False if no caption is edited.
pub(crate) fn returned(model: &mut Model, caption: &str) -> bool {
    let Some(screen) = model.screens.shown_mut::<CaptionEditor>() else { return false };
    screen.editor = PromptEditor::new(caption.trim_end());
    true
}

/// An edited caption was saved, or could not be: then it stays in the editor.
pub(crate) fn saved(
    model: &mut Model,
    video: &Path,
    caption: Caption,
    outcome: Result<Option<PathBuf>, String>,
) {
    let file = match outcome {
        Ok(file) => file,
        Err(problem) => return model.note(Tone::Bad, problem),
    };
    if model.screens.shown::<CaptionEditor>().is_some() {
        model.screens.pop();
    }
    keep(model, video, caption);
    if let Some(file) = file {
        model.note(Tone::Info, format!("saved as {}", file.display()));
    }
}

/// Keep the caption of a clip of the batch.
fn keep(model: &mut Model, video: &Path, caption: Caption) {
    if let Some(clip) = model.batches.last.as_mut().and_then(|batch| batch.clip_mut(video)) {
        clip.caption = Some(caption);
    }
    model.note(Tone::Info, "kept for this session: no files are written (press f)");
}

impl CaptionEditor {
    pub fn of_clip(caption: &str) -> Self {
        Self { editor: PromptEditor::new(caption), edited: Edited::Clip }
    }

    pub fn of_segment(run: u64, caption: &str) -> Self {
        Self { editor: PromptEditor::new(caption), edited: Edited::Segment(run) }
    }

    /// True if the caption in the editor differs from the clip's, or the segment's.
    fn is_changed(&self, model: &Model) -> bool {
        let edited = self.editor.text();
        match self.edited {
            Edited::Segment(run) => {
                let run = model.runs.get(run);
                run.is_some_and(|run| run.log.whole().text().trim() != edited)
            }
            Edited::Clip => {
                let clip = model.batches.last.as_ref().and_then(Batch::selected);
                let caption = clip.and_then(|clip| clip.caption.as_ref());
                caption.map(|caption| caption.text.trim()) != Some(edited.as_str())
            }
        }
    }

    /// Leave the editor; if the caption was changed, if it is asked for twice.
    fn leave(&self, model: &mut Model) -> Turn {
        if self.is_changed(model) && !panes::is_sure(model, Action::Back) {
            panes::ask(model, self.context(), Action::Back, "to discard your changes");
            return Turn::stay();
        }
        Turn::leave()
    }

    fn save(&self, model: &mut Model) -> Turn {
        match self.edited {
            Edited::Clip => self.save_clip(model),
            Edited::Segment(run) => Turn::Leave(self.save_segment(model, run)),
        }
    }

    fn save_clip(&self, model: &mut Model) -> Turn {
        let (sidecar, cues) = (model.batches.sidecar, model.batches.cues);
        let Some(clip) = model.batches.last.as_ref().and_then(Batch::selected) else { return Turn::stay() };
        let Some(caption) = clip.caption.as_ref().map(|caption| caption.edited(&self.editor.text())) else {
            return Turn::stay();
        };
        let clip = clip.clip.clone();
        match sidecar {
            Some(sidecar) if sidecar.is_timed() && caption.pieces.is_empty() => {
                model.note(Tone::Bad, "this caption has no times: choose txt or json for the file");
                Turn::stay()
            }
            Some(sidecar) => {
                let edit = CaptionEdit { clip, sidecar, cues, caption };
                Turn::Stay(vec![Effect::SaveCaption(Box::new(edit))])
            }
            None => {
                keep(model, &clip.path(), caption);
                Turn::leave()
            }
        }
    }

    /// Take the caption in the editor for the segment's, and save it with its run.
    fn save_segment(&self, model: &mut Model, number: u64) -> Vec<Effect> {
        let text = self.editor.text();
        let records = model.config.record && model.sessions.folder.is_some();
        let Some(run) = model.runs.get_mut(number) else { return Vec::new() };
        if run.log.whole().text().trim() == text {
            return Vec::new();
        }
        run.apply(&Event::new(number, EventKind::Edited { text: text.clone() }));
        let (file, saved) = run.saved.clone().unzip();
        let is_saved = file.is_some() || (records && !run.replayed);
        let event = Event::new(saved.unwrap_or(number), EventKind::Edited { text });
        let words = if is_saved { "saved with the run" } else { "kept for this session: runs are not saved" };
        model.note(Tone::Info, words);
        if is_saved { vec![Effect::SaveEdit(Box::new(event), file)] } else { Vec::new() }
    }
}

impl Screen for CaptionEditor {
    fn context(&self) -> KeyContext {
        KeyContext::CaptionEdit
    }

    fn hints(&self, _model: &Model) -> &'static [Action] {
        &[Action::Save, Action::Newline, Action::Back]
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Save => self.save(model),
            Action::Back => self.leave(model),
            Action::Editor => Turn::Stay(vec![Effect::Editor(self.editor.text())]),
            Action::Newline => {
                self.editor.editor.insert_newline();
                Turn::stay()
            }
            _ => Turn::Pass,
        }
    }

    fn key(&mut self, key: Key, model: &mut Model) {
        if !self.editor.input(key) {
            model.note(Tone::Bad, "the caption is full");
        }
    }

    fn paste(&mut self, pasted: &str, model: &mut Model) -> bool {
        if !self.editor.paste(pasted) {
            model.note(Tone::Bad, "the pasted text is too long for a caption and was truncated");
        }
        true
    }

    fn clip(&self, model: &Model) -> Option<(String, PathBuf)> {
        match self.edited {
            Edited::Clip => {
                let clip = model.batches.last.as_ref().and_then(Batch::selected);
                clip.map(|clip| (clip.title.clone(), clip.clip.path()))
            }
            Edited::Segment(run) => {
                let run = model.runs.get(run);
                run.map(|run| (run.subject.name(), run.subject.video.clone()))
            }
        }
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let title = self.clip(model).map(|(title, _)| title).unwrap_or_default();
        let title = format!("Caption of {}", text::fit(&title, 60));
        let rows = (self.editor.editor.lines().len() as u16).clamp(6, 12) + 2;
        let key = |action| model.keymap.keys(self.context(), action).first().map(ToString::to_string);
        let hint = [(Action::Save, "saves"), (Action::Newline, "new line")];
        let hint = hint.iter().filter_map(|(action, word)| Some(format!("{} {word}", key(*action)?)));
        let hint = format!(" {} ", hint.collect::<Vec<_>>().join(" · "));
        let block = dialog(&title, theme)
            .padding(Padding::horizontal(1))
            .title_bottom(theme.line(Role::Dim, hint).right_aligned());
        let inner = popup(frame, theme, COLUMNS, rows, block);
        frame.render_widget(&self.editor.editor, inner);
    }
}
