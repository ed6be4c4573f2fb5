//! Video-LLMs: reading checkpoints, and computing captions from frames and text.
//!
//! [`family::VideoLlm`] is a loaded model of any family. A caption passes these parts of it:
//!
//! 1. [`processor`] resizes frames and cuts them into patches.
//! 2. [`vision`] encodes the patches to visual embeddings.
//! 3. [`template`] and [`text`] write the question as ids; [`family::Prompt`] says where among them the visual tokens are, and the
//!    positions of all rows.
//! 4. [`decoder`] reads the rows: a [`decoder::Sequence`] holds keys and values, is fed, and goes back to any earlier length.
//!
//! [`grammar`] restricts what is written, as a mask over the ids for every place of the text.
//!
//! [`draft_head`] has the layers that draft from a decoder's states. [`config`] is below all of these, [`family`] above: a family is
//! a folder and a line of [`family::Family::ALL`]. [`inspect`], [`mac_count`], [`shapes`] and [`known`] answer without weights what
//! a model is and costs.
//!
//! Two contracts hold on the CPU and on a GPU of this workspace's own kernels, and speculative decoding builds on them: a row's result
//! has the same bits among any other rows, and a sequence that was rolled back continues as if it had never been fed
//! more. Operations come from `specreel-tensor`, files from `specreel-checkpoint`.
//!
//! ```
//! use specreel_model::{
//!     decoder::{Sequence, Taps, argmax},
//!     family::VideoLlm,
//! };
//! use specreel_tensor::WeightType;
//!
//! let demo = specreel_demo::demo(None)?;
//! let model = VideoLlm::load(&demo.target, WeightType::F32, &mut |_layer, _layers| {})?;
//! assert_eq!(model.family().name, "Qwen2.5-VL");
//!
//! let ids = model.tokenizer().encode("A red ball")?;
//! let mut sequence = Sequence::new(model.decoder().clone(), ids.len());
//! let pass = sequence.feed(&ids, &Taps::default())?;
//! let logits = sequence.logits(&pass.states)?.to_vec2()?;
//! let next = argmax(&logits[ids.len() - 1]);
//! println!("A red ball{}", model.tokenizer().token_text(next));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod config;
pub mod decoder;
pub mod draft_head;
pub mod family;
pub mod grammar;
pub mod inspect;
pub mod known;
pub mod mac_count;
pub mod processor;
pub mod shapes;
mod spec;
pub mod template;
#[cfg(test)]
mod testing;
pub mod text;
pub mod vision;

pub use self::{family::ReadModel, spec::ModelSpec};
