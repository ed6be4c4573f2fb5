//! Requests and commands to the engine.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Instant,
};

use specreel_model::{ModelSpec, processor::FrameLimits, template::Question};
pub use specreel_model::{grammar::Constraint, template::Turn};
use specreel_record::{Failure, OnLoop, Segment, Span};
use specreel_speculate::{Method, SamplingControls, context::Pruner};
use specreel_video::{HeldFrames, Sampling};

#[derive(Clone, Debug, PartialEq)]
pub struct RunRequest {
    /// Number of the run, chosen by the caller, from 1; every event carries it.
    pub run: u64,
    pub video: PathBuf,
    /// The part of the video to sample; none is all of it. The models see it as a clip that begins at 0; reported time stamps
    /// refer to the whole video.
    pub span: Option<Span>,
    /// The frames of that part, if it cannot be read from a file: it is a segment of a stream, which `video` names.
    pub held: Option<Arc<HeldFrames>>,
    /// Which piece that is, if a video is captioned piece by piece; only reported.
    pub segment: Option<Segment>,
    /// The first piece's run, if this run sums up the captions of the pieces; only reported.
    pub summary_of: Option<u64>,
    /// Earlier questions about the same clip, with their answers.
    pub before: Vec<Turn>,
    /// The user's prompt, without template.
    pub prompt: String,
    /// The system message; none leaves the templates' own.
    pub system: Option<String>,
    /// The name of the preset that prompt and system message come from; only reported.
    pub preset: Option<String>,
    /// Think before the answer, which only some models can.
    pub thinking: bool,
    /// How much to think, in the words of the target's template; none is its default.
    pub effort: Option<String>,
    pub method: Method,
    /// Drops visual tokens while the target reads the prompt, for measurements of methods without a drafter; none is the whole target.
    pub pruner: Option<Arc<dyn Pruner>>,
    pub sampling: Sampling,
    /// Upper limit of pixels per frame; none is the checkpoint's own limit.
    pub max_pixels: Option<usize>,
    /// Upper limit of the video's visual tokens; none is no limit.
    pub max_visual_tokens: Option<usize>,
    /// Stop after this many tokens.
    pub max_new_tokens: usize,
    /// Stop earlier where the context window ends; otherwise a request whose tokens may not fit is refused.
    pub cut_to_window: bool,
    /// The caption ends before the first of these texts that is written, and its tokens with the one in which that text ends. What
    /// the model thinks may hold them.
    pub stop: Vec<String>,
    /// What becomes of a caption that repeats itself without end.
    pub on_loop: OnLoop,
    /// What the answer has to be; none is any text. What the model thinks before it is free.
    pub constraint: Option<Constraint>,
    /// Sampling of the text.
    pub text: SamplingControls,
    /// How many of the target's most likely tokens to report with each token.
    pub logprobs: usize,
    /// Prompt lookup also searches the texts of earlier requests that allow it, which are for other clips, as this one's text will be.
    pub reuse_texts: bool,
    /// Measure the speed of this run in pairs while the engine is idle afterwards ([`EventKind::Speed`]). Any command or
    /// cancel ends that at once.
    ///
    /// [`EventKind::Speed`]: specreel_record::EventKind::Speed
    pub measure: bool,
    /// The finished run that this one, which is autoregressive, verifies: it is compared with it, and reported with its number
    /// ([`EventKind::Verified`]) just before the end.
    ///
    /// [`EventKind::Verified`]: specreel_record::EventKind::Verified
    pub verifies: Option<Verifies>,
    /// Only report time and memory of the run ([`EventKind::Estimate`]); it then ends as if it were cancelled.
    ///
    /// [`EventKind::Estimate`]: specreel_record::EventKind::Estimate
    pub estimate_only: bool,
}

impl Default for RunRequest {
    /// Greedy decoding of up to 256 tokens by the target alone, regardless of the sampling that its
    /// checkpoint asks for, without measurements. Video and prompt are missing.
    fn default() -> Self {
        Self {
            run: 1,
            video: PathBuf::new(),
            span: None,
            held: None,
            segment: None,
            summary_of: None,
            before: Vec::new(),
            prompt: String::new(),
            system: None,
            preset: None,
            thinking: false,
            effort: None,
            method: Method::default(),
            pruner: None,
            sampling: Sampling::Auto,
            max_pixels: None,
            max_visual_tokens: None,
            max_new_tokens: 256,
            cut_to_window: false,
            stop: Vec::new(),
            on_loop: OnLoop::Keep,
            constraint: None,
            text: SamplingControls::greedy(),
            logprobs: 0,
            reuse_texts: false,
            measure: false,
            verifies: None,
            estimate_only: false,
        }
    }
}

impl RunRequest {
    /// True if it is what other runs are compared with: the target decodes alone, and reads everything.
    pub fn is_baseline(&self) -> bool {
        self.method.is_autoregressive() && self.pruner.is_none()
    }

    /// True if its text is certain to be the baseline's: a pruned target may lack what it needs.
    pub fn is_lossless(&self) -> bool {
        self.method.lossless() && self.pruner.is_none()
    }

    /// True if its `done` event is followed by `speed` events: it asks for them, and is no baseline itself.
    pub fn is_measured(&self) -> bool {
        self.measure && !self.is_baseline()
    }

    /// The run of this number that verifies this one, which has written these tokens.
    pub fn verifying(&self, run: u64, ids: &[u32]) -> Self {
        let method = self.is_lossless().then(|| self.method.clone());
        let verifies = Some(Verifies { run: self.run, ids: ids.to_vec(), method });
        let plain = Self { run, method: Method::default(), pruner: None, ..self.clone() };
        Self { logprobs: 0, measure: false, verifies, ..plain }
    }

    pub(crate) fn limits(&self) -> FrameLimits {
        FrameLimits { pixels: self.max_pixels, tokens: self.max_visual_tokens }
    }

    /// What the target reads, and how.
    pub(crate) fn reading(&self) -> Reading {
        Reading { pruner: self.pruner.clone(), ..self.conversation() }
    }

    /// What a target reads that is not pruned.
    pub(crate) fn conversation(&self) -> Reading {
        Reading {
            before: self.before.clone(),
            prompt: self.prompt.clone(),
            system: self.system.clone(),
            thinking: self.thinking,
            effort: self.effort.clone(),
            pruner: None,
        }
    }

    /// What the models are asked.
    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            before: &self.before,
            text: &self.prompt,
            system: self.system.as_deref(),
            thinking: self.thinking,
            effort: self.effort.as_deref(),
        }
    }
}

/// A finished run that is compared with autoregressive decoding.
#[derive(Clone, Debug, PartialEq)]
pub struct Verifies {
    pub run: u64,
    pub ids: Vec<u32>,
    /// Its method, if it promises something about the text.
    pub method: Option<Method>,
}

/// The target's input besides the clip.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Earlier questions, with their answers.
    pub before: Vec<Turn>,
    pub prompt: String,
    pub system: Option<String>,
    pub thinking: bool,
    /// How much.
    pub effort: Option<String>,
    /// What drops visual tokens of it, if anything does: a pruned target's reading is no other method's.
    pub pruner: Option<Arc<dyn Pruner>>,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// From now on load and run even if the available memory seems too small.
    IgnoreMemory,
    /// Keep measured speeds in this file, and estimate runs by those that it has.
    KeepSpeeds(PathBuf),
    /// Load the models, replacing any that are loaded; answered by `ready` or `failed` with run 0.
    Load(ModelSpec),
    /// Replace the loaded models with these. They load while the active run continues, and are used from the next run on. Where
    /// both pairs do not fit into memory, the old one is dropped before the new one is loaded. Answered by `ready` or `failed`
    /// with run 0; after a failure the old models are there, loaded again if they were dropped.
    Switch(Box<ModelSpec>),
    /// While the next run is active, read the clip of this later one; nothing answers it.
    ReadNext(Box<RunRequest>),
    Run(Box<RunRequest>),
    /// Say what texts are about; answered on a channel of its own.
    Meanings(MeaningRequest),
}

/// A request for the meanings of texts.
#[derive(Clone, Debug)]
pub struct MeaningRequest {
    pub texts: Vec<String>,
    /// When nobody waits any more; then nothing is read.
    pub until: Option<Instant>,
    pub reply: mpsc::SyncSender<Result<Meanings, Failure>>,
}

/// What texts are about, by [`VideoLlm::meaning`](specreel_model::family::VideoLlm::meaning).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meanings {
    /// The target. Vectors of another model are not to be compared with these.
    pub model: String,
    /// One of length 1 for each text, in their order.
    pub vectors: Vec<Vec<f32>>,
}
