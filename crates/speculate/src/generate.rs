//! One generation under any method.

use std::ops::ControlFlow;

use specreel_tensor::Result;

use super::{
    generation::{Finished, GenerationConfig, GenerationInputs, Hooks},
    method::Schedule,
    overlap,
    session::Session,
};
use specreel_record::Step;

/// Generate to an end token or the length limit, under the method's schedule. `on` receives every finished step and may stop the
/// generation. The sequences hold the new tokens afterwards: truncate them to reuse them. Steps that `on` received before an
/// error remain valid.
pub fn generate<'a>(
    config: GenerationConfig<'a>,
    inputs: GenerationInputs<'a>,
    on: &mut dyn FnMut(Step) -> ControlFlow<()>,
) -> Result<Finished> {
    generate_with(config, inputs, Hooks::default(), on)
}

/// As [`generate`], with the hooks of a measurement.
pub fn generate_with<'a>(
    config: GenerationConfig<'a>,
    mut inputs: GenerationInputs<'a>,
    hooks: Hooks<'a>,
    on: &mut dyn FnMut(Step) -> ControlFlow<()>,
) -> Result<Finished> {
    // Both sequences return to the prompt; a drafter that has drafted already was marked when it read it.
    inputs.target.mark();
    if let Some(drafter) = inputs.drafter.as_mut().filter(|_| inputs.prefetched.is_none()) {
        drafter.mark();
    }
    if let Schedule::Parallel { .. } = config.method.schedule {
        return overlap::generate(config, inputs, on);
    }
    let mut session = Session::new(config, inputs, hooks);
    while let Some(step) = session.step()? {
        if on(step).is_break() {
            break;
        }
    }
    Ok(Finished {
        reason: session.finished(),
        relevance_ms: session.relevance_ms,
        further: session.further(),
        drafters: session.into_drafted(),
        tally: None,
        forced: 0,
    })
}
