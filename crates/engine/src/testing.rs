//! Prompts whose runs fail, for tests.

use crate::{events::Stop, models::Models};
use specreel_record::Stage;
use specreel_tensor::gpu::Gpu;

/// A prompt whose run loses the GPU.
pub(crate) const LOSES: &str = "lose the GPU";

/// A prompt that makes its run panic while it generates.
pub(crate) const PANICS: &str = "panic while generating";

/// A prompt whose run is fine, but not its measurement.
pub(crate) const PANICS_LATER: &str = "panic while measuring";

/// A prompt whose repetition is cancelled before it decodes.
pub(crate) const CANCELLED_LATER: &str = "cancel while measuring";

/// A prompt whose steps take at least 200 ms.
pub(crate) const SLOW: &str = "slowly";

/// A prompt in whose run all that may draft take turns.
pub(crate) const TURNS: &str = "take turns";

/// Called when a run is repeated; `ends` is true once the measurement has to end.
pub(crate) fn repeat_point(prompt: &str, ends: &(dyn Fn() -> bool + Sync)) -> Result<(), Stop> {
    assert!(prompt != PANICS_LATER, "out of luck again");
    if prompt == CANCELLED_LATER {
        while !ends() {
            std::thread::yield_now();
        }
        return Err(Stop::Cancelled);
    }
    Ok(())
}

/// Called at every progress report of a run.
pub(crate) fn fail_point(prompt: &str, models: &Models, stage: Stage) {
    if prompt == SLOW && stage == Stage::Generate {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    if prompt == LOSES && stage == Stage::Generate {
        models.gpus().for_each(Gpu::lose);
    }
    assert!(!(prompt == PANICS && stage == Stage::Generate), "out of luck");
}
