//! Reading the next clip while the current one is captioned.
//!
//! Its vision tower is not run ahead: decoding keeps all processors busy, and sharing them costs more than the remaining work
//! (docs/scale.md has the measurement).

use crate::{
    cache::{Clip, ClipKey, PrefixCache},
    command::RunRequest,
    events::{CancelToken, EventSender, Stop},
    models::Models,
    stages::Runner,
};
use specreel_os::memory;

/// The next clip may take the available memory divided by this.
const SHARE: u64 = 8;

/// The next clip: first the request, then the read clip.
#[derive(Default)]
pub(crate) struct NextClip {
    request: Option<(Box<RunRequest>, CancelToken)>,
    clip: Option<(ClipKey, Clip)>,
}

impl NextClip {
    /// Read the clip of this request during the next run.
    pub fn ask(&mut self, request: Box<RunRequest>, cancel: CancelToken) {
        self.request = Some((request, cancel));
    }

    /// Forget everything: the models are replaced.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Hand over the clip that was read.
    pub(crate) fn give(&mut self, cache: &mut PrefixCache) {
        if let Some((key, clip)) = self.clip.take()
            && cache.clips.touch(&key).is_none()
        {
            cache.clips.insert(key, clip);
        }
    }

    /// Do `run`, and meanwhile read the clip that was asked for. A clip that cannot be read is left to its own run, which says
    /// why; nothing of this is reported.
    pub(crate) fn during<T>(
        &mut self,
        models: &Models,
        sender: &EventSender,
        current: &CancelToken,
        run: impl FnOnce() -> T,
    ) -> T {
        let Some((request, cancel)) = self.request.take() else { return run() };
        let ends = || current.is_cancelled() || cancel.is_cancelled();
        let runner = Runner {
            request: &request,
            models,
            sender,
            cancel: &cancel,
            ignore_memory: false,
            rates: None,
            idle: Some(&ends),
            observer: None,
        };
        let (done, clip) = std::thread::scope(|scope| {
            let reading =
                std::thread::Builder::new().name("reader".into()).spawn_scoped(scope, || read(&runner));
            let done = run();
            // A panic of a decoder is found again, and reported, by the clip's own run.
            (done, reading.ok().and_then(|reading| reading.join().ok()).flatten())
        });
        self.clip = clip;
        done
    }
}

fn read(runner: &Runner<'_>) -> Option<(ClipKey, Clip)> {
    let key = runner.clip_key();
    let clip = runner.read_clip(&mut |size, plan, _| {
        let bytes = (plan.indices.len() * size.pixels() * 3 * size_of::<f32>()) as u64;
        // What is in memory already would be missing for the clip that is captioned.
        let fits = memory::available().is_none_or(|free| bytes < free / SHARE);
        if fits { Ok(()) } else { Err(Stop::Cancelled) }
    });
    clip.ok().map(|clip| (key, clip))
}
