//! What the studio needs of models, on disk and on the hub.

pub use specreel_client::catalog::{
    DrafterChoice, ModelList, ModelPair, ModelStore, OpenedPair, PublishedModel, Pulling, StoredFacts,
    StoredModel,
};
