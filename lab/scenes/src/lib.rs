//! Synthetic scenes: seeded videos with known facts.
//!
//! A [`Scene`] is plain data made from one seed: shots, backgrounds, moving figures. From it come pixels
//! ([`render`]), captions and the list of true facts ([`facts`]), so a model's text about a rendered scene can
//! be scored automatically. [`stream`] feeds training.
//!
//! Captions come in two wordings that state the same facts. [`caption`] draws every phrase at random; an [`author`] has
//! habits. Together with [lengthened](Scene::lengthened) clips the authors' captions are the *second world*.
//!
//! The module knows nothing about models or methods; everything in it is a pure function of seeds.
//!
//! Seeds below [`world::TRAINING_SEEDS`]`.start` are held out from training.
//!
//! ```
//! use specreel_scenes::{Scene, caption, facts};
//!
//! let scene = Scene::from_seed(7);
//! let truth = facts::of(&scene);
//! let score = facts::score(&truth, &caption::long(&scene, 1));
//! assert_eq!((score.right, score.wrong), (score.total, 0));
//! ```

pub mod author;
pub mod caption;
pub mod encode;
pub mod facts;
mod phrases;
pub mod render;
pub mod stream;
pub mod words;
pub mod world;

pub use world::Scene;
