//! Targets that drop visual tokens: what papers compare speculative decoding with. They draft nothing, and are always lossy.
//!
//! | module | owns |
//! |---|---|
//! | `pruner` | [`TargetPruner`]: which tokens stay, after which layers, by which scores |
//! | `method` | [`LabMethod`]: a method and perhaps a pruner, as a file has them, and the built-in ones |
//!
//! A file of the laboratory is a method's with one more key, `pruner`:
//!
//! ```
//! use specreel_pruners::LabMethod;
//!
//! let fastv = LabMethod::find("fastv")?.ok_or("unknown method")?;
//! assert!(fastv.method.is_autoregressive() && !fastv.lossless());
//! let less = fastv.with_sets(["pruner.keep=0.1"])?;
//! assert_eq!(less.target_share(), 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod method;
mod pruner;

pub use method::LabMethod;
pub use pruner::TargetPruner;
