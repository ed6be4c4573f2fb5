//! Loading models while others run; they then replace those.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::mpsc;

use crate::{
    command::Command,
    events::{CancelToken, EventSender, guarded, internal},
    models::{Halves, Kept, memory_check::Footprint},
};
use specreel_model::ModelSpec;
use specreel_record::Failure;

/// Switches that may wait.
const SWITCHES: usize = 8;

/// What reaches the engine's thread.
pub(crate) enum Message {
    /// With what cancels it.
    Command(Box<Command>, CancelToken),
    Switch(Box<Switch>, CancelToken),
}

/// Models to load for a switch, with what cancels that.
pub(crate) type Asked = (Box<ModelSpec>, CancelToken);

/// Models that replace the loaded ones.
pub(crate) struct Switch {
    pub spec: ModelSpec,
    pub footprint: Option<Footprint>,
    /// The new models, and which of the old ones they were loaded to join; `None` if there is no memory for both pairs.
    pub halves: Option<(Kept, Halves)>,
}

/// What the loader needs to know of the engine.
#[derive(Clone, Default)]
pub(crate) struct Standing(Arc<Mutex<Known>>);

#[derive(Default)]
pub(crate) struct Known {
    pub spec: Option<ModelSpec>,
    pub ignore_memory: bool,
    /// Other models are loading, or wait to be installed.
    pub is_loading: bool,
}

impl Standing {
    pub fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Start the loader's thread, which ends with the returned sender.
pub(crate) fn start(
    engine: mpsc::WeakSender<Message>,
    events: EventSender,
    standing: Standing,
    prepare: impl FnOnce() + Send + 'static,
) -> Result<mpsc::Sender<Asked>, Failure> {
    let (sender, mut inbox) = mpsc::channel::<Asked>(SWITCHES);
    let work = move || {
        prepare();
        while let Some((spec, cancel)) = inbox.blocking_recv() {
            standing.lock().is_loading = true;
            let loaded = guarded(&events, || load(&spec, &events, &cancel, &standing));
            let Some((footprint, halves)) = loaded else {
                standing.lock().is_loading = false;
                continue;
            };
            let switch = Switch { spec: *spec, footprint, halves };
            let Some(engine) = engine.upgrade() else { return };
            if engine.blocking_send(Message::Switch(Box::new(switch), cancel)).is_err() {
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("loader".into()).spawn(move || {
        // The models' own panics are reported; this one would be in sending the report.
        drop(catch_unwind(AssertUnwindSafe(work)));
    });
    spawned.map(|_| sender).map_err(|e| internal(format!("cannot start the loader thread: {e}")))
}

type Loaded = (Option<Footprint>, Option<(Kept, Halves)>);

/// Load the models that are not loaded yet, if there is memory for both pairs.
fn load(
    spec: &ModelSpec,
    sender: &EventSender,
    cancel: &CancelToken,
    standing: &Standing,
) -> Result<Loaded, Failure> {
    let (kept, ignore_memory) = {
        let known = standing.lock();
        (known.spec.as_ref().map(|old| Kept::between(old, spec)).unwrap_or_default(), known.ignore_memory)
    };
    // So that a model that cannot be read costs nothing.
    spec.target_files()?;
    spec.drafter_files()?;
    let footprint = Footprint::read(spec);
    let fits_beside = footprint.as_ref().is_some_and(|footprint| footprint.fits_beside(kept));
    if !fits_beside && !ignore_memory {
        return Ok((footprint, None));
    }
    let halves = Halves::load(spec, kept, sender, cancel)?;
    Ok((footprint, Some((kept, halves))))
}
