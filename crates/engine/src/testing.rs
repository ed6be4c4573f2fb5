//! Prompts whose runs fail, for tests.

use crate::{
    command::RunRequest,
    events::Stop,
    models::Models,
    observer::{Observer, Turns},
};
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

/// Does to each run what its prompt says.
pub(crate) struct ByPrompt;

impl Observer for ByPrompt {
    fn progress(&self, request: &RunRequest, models: &Models, stage: Stage) {
        match &*request.prompt {
            _ if stage != Stage::Generate => {}
            SLOW => std::thread::sleep(std::time::Duration::from_millis(200)),
            LOSES => models.gpus().for_each(Gpu::lose),
            PANICS => panic!("out of luck"),
            _ => {}
        }
    }

    fn repeats(&self, request: &RunRequest, ends: &(dyn Fn() -> bool + Sync)) -> Result<(), Stop> {
        assert!(request.prompt != PANICS_LATER, "out of luck again");
        if request.prompt == CANCELLED_LATER {
            while !ends() {
                std::thread::yield_now();
            }
            return Err(Stop::Cancelled);
        }
        Ok(())
    }

    fn turns(&self, request: &RunRequest, count: usize) -> Option<Box<Turns>> {
        (request.prompt == TURNS).then(|| Box::new(move |step| step % count.max(1)) as Box<Turns>)
    }
}
