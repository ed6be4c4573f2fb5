//! The models screen: local models, models to download, the download, and the change to another pair.

use nucleo_matcher::Config;

use super::search::fuzzy;
use specreel_checkpoint::hub::ModelId;
use specreel_client::catalog::{
    DrafterChoice, ModelList, ModelPair, OpenedPair, PublishedModel, Pulling, StoredModel,
};
use specreel_record::{Failure, Ready, Stage};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    #[default]
    Target,
    Drafter,
    Published,
}

impl Tab {
    pub const ALL: [Tab; 3] = [Tab::Target, Tab::Drafter, Tab::Published];

    pub fn name(self) -> &'static str {
        match self {
            Tab::Target => "target",
            Tab::Drafter => "drafter",
            Tab::Published => "download",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Row<'a> {
    NoDrafter,
    Stored(&'a StoredModel),
    Published(&'a PublishedModel),
    /// A model that nobody has listed, by its id.
    Named(&'a str),
}

impl Row<'_> {
    pub fn name(&self) -> &str {
        match self {
            Row::NoDrafter => "no drafter",
            Row::Stored(model) => &model.name,
            Row::Published(model) => &model.id,
            Row::Named(id) => id,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub id: String,
    pub progress: Option<Pulling>,
    pub cancelling: bool,
    pub runs: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub pair: ModelPair,
    /// None while its files are looked for.
    pub opened: Option<OpenedPair>,
    /// Bytes read, of all, and the milliseconds left if they are known.
    pub progress: Option<(u64, u64, Option<f64>)>,
    pub cancelling: bool,
    /// Caption the selected clip then.
    pub runs: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EngineState {
    Loading { stage: Stage, done: u64, total: u64 },
    Ready(Ready),
    Failed(Failure),
}

impl Default for EngineState {
    fn default() -> Self {
        Self::Loading { stage: Stage::Load, done: 0, total: 0 }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Models {
    /// Those in use.
    pub engine: EngineState,
    /// None before they were listed.
    pub list: Option<ModelList>,
    pub tab: Tab,
    pub pull: Option<Pull>,
    pub change: Option<Change>,
    /// The model for people who have none is offered once the models are listed.
    pub offers_first: bool,
    pub loaded: ModelPair,
}

impl Models {
    /// The rows of the tab that match, in order of fit: all without a query.
    pub fn rows<'a>(&'a self, query: &'a str) -> Vec<Row<'a>> {
        let Some(list) = &self.list else { return Vec::new() };
        let is_head = |model: &StoredModel| model.facts.as_ref().is_ok_and(|facts| facts.is_head);
        let stored = list.stored.iter();
        let rows: Vec<Row<'a>> = match self.tab {
            Tab::Target => stored.filter(|model| !is_head(model)).map(Row::Stored).collect(),
            Tab::Drafter => [Row::NoDrafter].into_iter().chain(stored.map(Row::Stored)).collect(),
            Tab::Published => list.published.iter().map(Row::Published).collect(),
        };
        match query.trim() {
            "" => rows,
            query => {
                let found = fuzzy(query, Config::DEFAULT.match_paths(), 0..rows.len(), |i| {
                    rows[*i].name().to_owned()
                });
                let mut found: Vec<Row<'a>> = found.into_iter().map(|i| rows[i]).collect();
                let is_listed = found.iter().any(|row| row.name().eq_ignore_ascii_case(query));
                if self.tab == Tab::Published && !is_listed && ModelId::parse(query).is_ok() {
                    found.insert(0, Row::Named(query));
                }
                found
            }
        }
    }

    /// True for the row of a loaded model.
    pub fn is_loaded(&self, row: Row<'_>, embedded: bool) -> bool {
        self.is_loaded_as(self.tab, row, embedded)
    }

    /// True for a model that is the target or the drafter.
    pub fn is_in_use(&self, model: &StoredModel, embedded: bool) -> bool {
        [Tab::Target, Tab::Drafter]
            .into_iter()
            .any(|tab| self.is_loaded_as(tab, Row::Stored(model), embedded))
    }

    fn is_loaded_as(&self, tab: Tab, row: Row<'_>, embedded: bool) -> bool {
        match (tab, row) {
            (Tab::Target, Row::Stored(model)) => match &self.loaded.target {
                Some(target) => *target == model.path,
                None => embedded && model.name == "embedded target",
            },
            (Tab::Drafter, Row::Stored(model)) => {
                let own = embedded && self.loaded.drafter == DrafterChoice::Best;
                own && model.name == "embedded drafter"
                    || self.loaded.drafter == DrafterChoice::Of(model.path.clone())
            }
            (Tab::Drafter, Row::NoDrafter) => self.loaded.drafter == DrafterChoice::None,
            _ => false,
        }
    }

    /// Why the row cannot be chosen, if it cannot.
    pub fn obstacle(&self, row: Row<'_>) -> Option<String> {
        match (self.tab, row) {
            (Tab::Drafter, Row::Stored(model)) => model.no_drafter.clone(),
            (_, Row::Stored(model)) => model.facts.as_ref().err().cloned(),
            _ => None,
        }
    }

    /// Whether a row fits into memory now; `None` if that is not known.
    pub fn fits(&self, row: Row<'_>) -> Option<bool> {
        let memory = self.list.as_ref()?.memory?;
        match row {
            Row::NoDrafter | Row::Named(_) => None,
            Row::Stored(model) => Some(model.facts.as_ref().ok()?.needs? <= memory),
            Row::Published(model) => Some(model.needs <= memory),
        }
    }

    /// True while other models are loaded than those in use.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }
}
