//! The editor of a caption: of a clip of the batch, or of a segment.

use std::path::{Path, PathBuf};

use ratatui::widgets::Padding;

use crate::look::{Action, Key, KeyContext, Role, Theme};
use crate::tui::effect::{CaptionEdit, Effect};
use crate::tui::model::prompt::{MAX_PROMPT_BYTES, PromptEditor};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn, batch::Batch};
use crate::tui::widgets::{Frame, dialog, popup};
use crate::tui::{text, update::panes};
use specreel_batch::rows::Caption;
use specreel_record::{Event, EventKind};

const COLUMNS: u16 = 104;

/// Whose caption it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edited {
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

/// Open the editor over the screen, unless the caption is too long.
pub(super) fn open(model: &mut Model, edited: Edited, caption: &str) -> Turn {
    if caption.len() > MAX_PROMPT_BYTES {
        model.note(Tone::Bad, "the caption is too long to edit here");
        return Turn::Stay;
    }
    Turn::over(CaptionEditor { editor: PromptEditor::new(caption), edited })
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
        if self.is_changed(model) && model.input.asked != Some(Action::Back) {
            panes::ask(model, KeyContext::CaptionEdit, Action::Back, "to discard your changes");
            return Turn::Stay;
        }
        Turn::Leave
    }

    fn save_clip(&self, model: &mut Model) -> Turn {
        let (sidecar, cues) = (model.batches.sidecar, model.batches.cues);
        let Some(clip) = model.batches.last.as_ref().and_then(Batch::selected) else { return Turn::Stay };
        let Some(caption) = clip.caption.as_ref().map(|caption| caption.edited(&self.editor.text())) else {
            return Turn::Stay;
        };
        let clip = clip.clip.clone();
        match sidecar {
            Some(sidecar) if sidecar.is_timed() && caption.pieces.is_empty() => {
                model.note(Tone::Bad, "this caption has no times: choose txt or json for the file");
            }
            Some(sidecar) => {
                let edit = CaptionEdit { clip, sidecar, cues, caption };
                model.emit(Effect::SaveCaption(Box::new(edit)));
            }
            None => {
                keep(model, &clip.path(), caption);
                return Turn::Leave;
            }
        }
        Turn::Stay
    }

    /// Take the caption in the editor for the segment's, and save it with its run.
    fn save_segment(&self, model: &mut Model, number: u64) {
        let text = self.editor.text();
        let records = model.config.record && model.sessions.folder.is_some();
        let Some(run) = model.runs.get_mut(number) else { return };
        if run.log.whole().text().trim() == text {
            return;
        }
        run.apply(&Event::new(number, EventKind::Edited { text: text.clone() }));
        let (file, saved) = run.saved.clone().unzip();
        let is_saved = file.is_some() || (records && !run.replayed);
        let event = Event::new(saved.unwrap_or(number), EventKind::Edited { text });
        let words = if is_saved { "saved with the run" } else { "kept for this session: runs are not saved" };
        model.note(Tone::Info, words);
        if is_saved {
            model.emit(Effect::SaveEdit(Box::new(event), file));
        }
    }
}

impl Screen for CaptionEditor {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::new(KeyContext::CaptionEdit, "keep", &[Action::Save, Action::Newline, Action::Back])
    }

    /// A caption is saved, not chosen.
    fn choose(&mut self, _model: &mut Model) -> Turn {
        Turn::Stay
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match (action, self.edited) {
            (Action::Save, Edited::Clip) => return self.save_clip(model),
            (Action::Save, Edited::Segment(run)) => {
                self.save_segment(model, run);
                return Turn::Leave;
            }
            (Action::Back, _) => return self.leave(model),
            (Action::Editor, _) => model.emit(Effect::Editor(self.editor.text())),
            (Action::Newline, _) => self.editor.editor.insert_newline(),
            _ => return Turn::Pass,
        }
        Turn::Stay
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
        let key = |action| model.keymap.first(KeyContext::CaptionEdit, action);
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
