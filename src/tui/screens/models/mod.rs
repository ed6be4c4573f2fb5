//! The models screen: targets, drafters and models to download, with size and memory; loads and downloads in progress.

mod draw;

use std::path::PathBuf;

use super::tower::TowerLine;
use crate::look::{Action, KeyContext, Theme};
use crate::tui::model::models::{Pull, Row, Tab};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::picker::{Picker, cycle};
use crate::tui::{effect::Effect, update::models, widgets::Frame};
use specreel_client::catalog::{DrafterChoice, ModelList, ModelPair};

/// What is asked before it is done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Confirm {
    /// Download a model, then use it, and caption the selected clip where that was the aim.
    Pull {
        id: String,
        bytes: Option<u64>,
        runs: bool,
    },
    Remove {
        name: String,
        path: PathBuf,
        bytes: u64,
    },
}

#[derive(Debug, Default)]
pub(crate) struct ModelPicker {
    pub picker: Picker,
    pub confirm: Option<Confirm>,
}

/// Open the screen.
pub(crate) fn open(model: &mut Model) {
    if model.config.models.is_none() {
        return model.note(Tone::Info, "models cannot be changed here");
    }
    model.screens.open(ModelPicker { picker: Picker::at(loaded_row(model)), confirm: None });
    models::list(model)
}

/// Offer the model for people who have none, then use it and caption the selected clip.
pub(crate) fn offer_first(model: &mut Model) {
    if model.library.selected().is_none() {
        return model.note(Tone::Bad, "no clip selected: paste a path, or press o to open one");
    }
    if model.models.pull.is_some() || model.models.is_changing() {
        return model.screens.open(ModelPicker::default());
    }
    open(model);
    model.models.offers_first = model.screens.shown::<ModelPicker>().is_some();
}

pub(crate) fn listed(model: &mut Model, found: Result<ModelList, String>) {
    let is_first = model.models.list.is_none();
    match found {
        Ok(list) => model.models.list = Some(list),
        Err(problem) => {
            model.models.list.get_or_insert_default();
            model.note(Tone::Bad, problem);
        }
    }
    if !std::mem::take(&mut model.models.offers_first) {
        let loaded = loaded_row(model);
        if let Some(screen) = model.screens.shown_mut::<ModelPicker>().filter(|_| is_first) {
            screen.go_to(loaded);
        }
        return;
    }
    model.models.tab = Tab::Published;
    let Some(first) = model.models.list.as_ref().and_then(ModelList::first).cloned() else {
        return model.note(Tone::Bad, "no published model fits the memory and the disk of this machine");
    };
    let at = model.models.rows("").iter().position(|row| row.name() == first.id);
    let bytes = Some(first.bytes);
    let pull = Confirm::Pull { id: first.id.clone(), bytes, runs: true };
    let confirm = (!first.stored).then_some(pull);
    model.screens.open(ModelPicker { picker: Picker::at(at.unwrap_or(0)), confirm });
    if first.stored {
        models::use_published(model, &first.id, true);
    }
}

/// The row of the loaded model, or the first one.
fn loaded_row(model: &Model) -> usize {
    let mut rows = model.models.rows("").into_iter();
    rows.position(|row| model.models.is_loaded(row, model.config.embedded)).unwrap_or(0)
}

/// What a row chooses, without the borrow of the list.
enum Chosen {
    NoDrafter,
    Stored { path: PathBuf, lacks_tower: bool },
    Published { id: String, bytes: Option<u64>, stored: bool },
}

impl Chosen {
    fn of(row: Row<'_>) -> Self {
        match row {
            Row::NoDrafter => Self::NoDrafter,
            Row::Stored(model) => Self::Stored {
                path: model.path.clone(),
                lacks_tower: model.facts.as_ref().is_ok_and(|facts| facts.lacks_tower),
            },
            Row::Published(model) => {
                Self::Published { id: model.id.clone(), bytes: Some(model.bytes), stored: model.stored }
            }
            Row::Named(id) => Self::Published { id: id.to_owned(), bytes: None, stored: false },
        }
    }
}

impl ModelPicker {
    /// Go to a row. With a filter or a question the cursor stays.
    fn go_to(&mut self, row: usize) {
        if self.confirm.is_none() && self.picker.query().is_empty() {
            self.picker.cursor = row;
        }
    }

    fn turn(&mut self, model: &mut Model, by: isize) {
        model.models.tab = cycle(&Tab::ALL, model.models.tab, by);
        self.confirm = None;
        self.go_to(loaded_row(model));
    }

    /// Ask whether the model under the cursor is removed.
    fn ask_remove(&mut self, model: &mut Model) {
        let rows = model.models.rows(self.picker.query());
        let Some(Row::Stored(stored)) = rows.get(self.picker.cursor).copied() else { return };
        let is_loaded = model.models.is_in_use(stored, model.config.embedded);
        let problem = match stored {
            _ if is_loaded => Some(format!("{} is in use: change to another model first", stored.name)),
            stored if !stored.removable => Some(format!(
                "only models in the cache are removed here; the files of this one are in {}",
                stored.path.display()
            )),
            _ => None,
        };
        let (name, path) = (stored.name.clone(), stored.path.clone());
        let bytes = stored.facts.as_ref().map_or(0, |facts| facts.bytes);
        match problem {
            Some(problem) => model.note(Tone::Bad, problem),
            None => self.confirm = Some(Confirm::Remove { name, path, bytes }),
        }
    }

    /// Go back one level: withdraw a question, cancel a loading or a download, clear the filter, leave.
    fn back(&mut self, model: &mut Model) -> Turn {
        if self.confirm.take().is_some() || models::cancel(model) {
            return Turn::Stay;
        }
        if self.picker.query().is_empty() {
            return Turn::Leave;
        }
        self.picker = Picker::default();
        Turn::Stay
    }
}

/// Do the work that was confirmed.
fn confirmed(model: &mut Model, confirm: Confirm) {
    match confirm {
        Confirm::Remove { name, path, .. } => model.emit(Effect::RemoveModel(name, path)),
        Confirm::Pull { .. } if model.models.pull.is_some() => {
            model.note(Tone::Info, "another model is being downloaded: wait for it, or cancel it with Esc");
        }
        Confirm::Pull { id, runs, .. } => {
            model.models.pull = Some(Pull { id: id.clone(), progress: None, cancelling: false, runs });
            model.emit(Effect::Pull(id));
        }
    }
}

impl Screen for ModelPicker {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Back, Choose, ClearLine, Delete, NextPane};
        match self.confirm {
            Some(_) => Keys::new(KeyContext::Models, "yes", &[Choose, Back]),
            None => Keys::new(KeyContext::Models, "use", &[Choose, NextPane, Delete, Back, ClearLine]),
        }
    }

    fn word(&self, action: Action, model: &Model) -> Option<&'static str> {
        let works = model.models.is_changing() || model.models.pull.is_some();
        match action {
            Action::Back if self.confirm.is_some() => Some("no"),
            Action::Back if works => Some("cancel"),
            Action::Back => Some("back"),
            Action::NextPane => Some("list"),
            Action::Delete => Some("remove"),
            _ => None,
        }
    }

    /// Use the row under the cursor, or ask about its download.
    fn choose(&mut self, model: &mut Model) -> Turn {
        let row = model.models.rows(self.picker.query()).get(self.picker.cursor).copied();
        let chosen = row.map(|row| (model.models.obstacle(row), Chosen::of(row)));
        let Some((obstacle, chosen)) = chosen else { return Turn::Stay };
        if let Some(obstacle) = obstacle {
            model.note(Tone::Bad, obstacle);
            return Turn::Stay;
        }
        let loaded = model.models.loaded.clone();
        let pair = match (model.models.tab, chosen) {
            (_, Chosen::Published { id, stored: true, .. }) => {
                models::use_published(model, &id, false);
                return Turn::Stay;
            }
            (_, Chosen::Published { id, bytes, stored: false }) => {
                self.confirm = Some(Confirm::Pull { id, bytes, runs: false });
                return Turn::Stay;
            }
            (Tab::Drafter, Chosen::NoDrafter) => ModelPair { drafter: DrafterChoice::None, ..loaded },
            (Tab::Drafter, Chosen::Stored { path, .. }) => {
                ModelPair { drafter: DrafterChoice::Of(path), ..loaded }
            }
            (_, Chosen::Stored { path, lacks_tower: true }) => {
                self.picker = Picker::default();
                return Turn::over(TowerLine::new(path));
            }
            (_, Chosen::Stored { path, .. }) => ModelPair { target: Some(path), ..ModelPair::default() },
            (_, Chosen::NoDrafter) => return Turn::Stay,
        };
        models::change(model, pair, false);
        Turn::Stay
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        if action == Action::Back {
            return self.back(model);
        }
        // Any other action withdraws the question.
        let confirm = self.confirm.take();
        match (action, confirm) {
            (Action::NextPane, _) => self.turn(model, 1),
            (Action::PreviousPane, _) => self.turn(model, -1),
            (Action::Choose, Some(confirm)) => confirmed(model, confirm),
            (Action::Delete, _) => self.ask_remove(model),
            (Action::Models, _) => return Turn::Leave,
            (Action::FirstModel, _) if model.library.selected().is_some() => {
                if model.models.pull.is_some() || model.models.is_changing() {
                    self.picker = Picker::default();
                }
            }
            _ => return Turn::Pass,
        }
        Turn::Stay
    }

    fn picker(&mut self) -> Option<&mut Picker> {
        Some(&mut self.picker)
    }

    fn rows(&self, model: &Model) -> usize {
        model.models.rows(self.picker.query()).len()
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        draw::draw(self, model, theme, frame);
    }
}
