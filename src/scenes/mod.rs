//! The synthetic world: seeded videos whose true facts are known.
//!
//! A [`Scene`] is plain data made from one seed: shots, backgrounds, moving figures. From it come pixels
//! ([`render`]), words ([`caption`]) and the list of what is true ([`facts`]), so a text that a model wrote about
//! a rendered scene can be scored without a judge. [`stream`] feeds training.
//!
//! The room knows nothing of models or methods. It refuses to guess: everything is a pure function of seeds.
//!
//! Seeds below [`world::TRAINING_SEEDS`]`.start` are held out: training never sees them.

pub mod caption;
pub mod encode;
pub mod facts;
mod phrases;
pub mod render;
pub mod stream;
pub mod words;
pub mod world;

pub use world::Scene;
