//! The models that requests may name.
//!
//! Each engine has one of them loaded. The first ones are loaded when the server starts; another one is loaded when a request names
//! it, in the place of the one whose engine has been idle the longest.

use std::sync::OnceLock;

use crate::{NAME, options::Served};
use specreel_client::{Client, Interrupt};
use specreel_record::{EventKind, Failure, Ready};

/// A model that requests may name.
pub struct Model {
    pub served: Served,
    /// What is known of it once it was loaded.
    ready: OnceLock<Ready>,
}

impl Model {
    pub fn ready(&self) -> Option<&Ready> {
        self.ready.get()
    }

    /// Its id in answers: its own name if it has one, else that of its target once it has been loaded.
    pub fn id(&self) -> &str {
        let target = || self.ready().map_or(NAME, |ready| &ready.target);
        self.served.name.as_deref().unwrap_or_else(target)
    }

    /// Whether this is the name of its target, or the path or id that was given for it.
    fn has_target(&self, name: &str) -> bool {
        let given = self.served.target.as_deref().map(|given| given.trim_end_matches('/'));
        given == Some(name) || self.ready().is_some_and(|ready| ready.target == name)
    }
}

/// All models, of which the first is that of requests without a name. There is at least one.
pub struct Models(Vec<Model>);

impl Models {
    pub fn new(mut served: Vec<Served>) -> Self {
        if served.is_empty() {
            served.push(Served::default());
        }
        Self(served.into_iter().map(|served| Model { served, ready: OnceLock::new() }).collect())
    }

    pub fn first(&self) -> &Model {
        &self.0[0]
    }

    pub fn all(&self) -> &[Model] {
        &self.0
    }

    /// What is known of the first model once it is loaded: the server is ready then.
    pub fn ready(&self) -> Option<&Ready> {
        self.first().ready()
    }

    /// The number of a model, by a name of its own or the one that always means the first.
    pub fn find(&self, name: Option<&str>) -> Option<usize> {
        let name = name.map_or(NAME, |name| name.trim_end_matches('/'));
        let is_named = |model: &Model| model.id() == name;
        let named = (name == NAME).then_some(0).or_else(|| self.0.iter().position(is_named));
        named.or_else(|| self.0.iter().position(|model| model.has_target(name)))
    }

    /// Load a model into an engine, in the place of the one that it has. `None` if interrupted.
    pub async fn load(
        &self,
        number: usize,
        client: &mut Client,
        on: &mut (impl FnMut(&EventKind) + ?Sized),
        interrupt: &Interrupt,
    ) -> Result<Option<Ready>, Failure> {
        let Model { served, ready } = &self.0[number];
        let (models, ignore_memory) = (served.models.clone(), served.ignore_memory);
        let loaded = client.load_and_wait(models, ignore_memory, on, interrupt).await?;
        if let Some(loaded) = &loaded {
            ready.get_or_init(|| loaded.clone());
        }
        Ok(loaded)
    }
}
