//! The training loop: rounds of captioning and learning.
//!
//! A round captions some clips and trains on them for a few epochs, each in another order; then they are dropped, so memory
//! stays bounded for any number of clips. All randomness follows from the seed and the number of the step, and a resumed
//! round is captioned again: the result is the same however often the run is interrupted.

use std::{collections::BTreeMap, path::Path, time::Instant};

use candle_core::Var;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{
    AdamW, Blocks, Clips, Options, Rows, TrainError, TrainedBlocks, TrainedEagle, TrainedLayer,
    adamw::Rule,
    sample::{Batch, Sample},
    store::{Account, Point, Stage, Store},
    teacher::Teacher,
};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::rope::Rope,
    draft_head::{DraftHeadConfig, Eagle3Config, Recipe, TargetIdentity, layer_of},
};
use specreel_tensor::ComputeDevice;

/// Steps between two points of the learning curve.
const POINT: usize = 10;
/// Text length that [`Options::noise`] refers to.
const NOISE_LENGTH: f32 = 512.0;

pub struct Job<'a> {
    pub target: &'a Path,
    /// Device and weight type for captioning: preferably those that the head will draft with.
    pub device: &'a ComputeDevice,
    pub clips: &'a Clips,
    pub options: &'a Options,
    pub out: &'a Path,
    /// Seconds between two checkpoints.
    pub save_every: f64,
}

/// Progress messages of a training run.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Everything is loaded; training starts, or resumes after `steps` steps.
    Begun {
        /// Steps before this session.
        steps: usize,
    },
    /// Clips of the round have been captioned.
    Captioned {
        /// Captioned so far.
        done: usize,
        /// Clips in the round.
        of: usize,
    },
    Skipped {
        clip: String,
        why: String,
    },
    /// Some steps have been made.
    Learned(Progress),
    /// A checkpoint has been saved.
    Saved,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Progress {
    pub stage: Stage,
    /// Means over the last steps.
    #[serde(flatten)]
    pub point: Point,
    /// Share of the run, 0 to 1.
    pub progress: f64,
    /// Caption tokens trained on per second, including captioning.
    pub tokens_per_second: f64,
    /// Estimated seconds to the end.
    pub seconds_left: f64,
}

/// How a training run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Finished(Account),
    /// It was stopped and can be resumed.
    Stopped(Account),
}

/// Train to the end, or until `stop` returns true. Checkpoints are saved at intervals and at the end. Saved checkpoints stay if
/// it fails.
pub fn train(
    job: &Job<'_>,
    tell: &mut dyn FnMut(News),
    stop: &dyn Fn() -> bool,
) -> Result<Outcome, TrainError> {
    let options = job.options;
    let mut teacher = Teacher::load(job.target, job.device)?;
    let decoder = teacher.model().decoder().clone();
    let text = decoder.config().clone();
    let mark = TargetIdentity::of(&decoder, teacher.model().name())?;
    let (store, begun) = Store::open(job.out, options, &mark, &job.clips.describe())?;
    let checkpoint = Checkpoint::open(job.target)?;
    let config = match &options.blocks {
        None => DraftHeadConfig::like(&text, mark, options.recipe, options.visual_rows),
        Some(blocks) => blocks.config(&text, mark, teacher.model().visual_token()),
    };
    let config = match options.recipe {
        Recipe::Eagle3 => config.with_eagle3(Eagle3Config::like(&text)),
        _ => config,
    };
    let layer = match config.num_queries {
        _ if config.dflash.is_some() => {
            Trained::Blocks(TrainedBlocks::new(&checkpoint, &text, &config, options.seed)?)
        }
        _ if config.eagle3.is_some() => {
            Trained::Eagle(TrainedEagle::new(&checkpoint, &text, &config, options.seed)?)
        }
        0 => Trained::Layer(TrainedLayer::new(&checkpoint, &text, options.seed)?),
        queries => {
            let layer = TrainedLayer::new(&checkpoint, &text, options.seed)?;
            Trained::Layer(layer.with_adaptor(queries, options.seed)?)
        }
    };
    let (mut adam, mut account) = (AdamW::default(), Account::default());
    match begun {
        Some(_) => account = store.resume(layer.vars(), &mut adam)?,
        None => {
            (account.data, account.clips) = (job.clips.describe(), job.clips.len());
            // A directory that cannot be written is reported before the work, not after it.
            store.save_first(layer.vars(), &config, &adam, &account)?;
        }
    }
    tell(News::Begun { steps: account.steps });
    let rope = Rope::new(&layer_of(&text));
    let (queries, began) = (config.num_queries, Instant::now());
    let mask = config.dflash.as_ref().map_or(0, |block| block.mask_token_id);
    let mut run = Run { job, layer, queries, mask, adam, account, rope, sums: Vec::new(), tokens: 0, began };
    let (before, mut saved) = (run.account.seconds, Instant::now());
    let mut why = String::new();
    loop {
        let at = run.progress(0.0);
        if at >= 1.0 || run.account.clip >= job.clips.len() {
            break;
        }
        if run.account.round_steps == 0 {
            run.account.stage = if at < options.text_share { Stage::Text } else { Stage::Visual };
        }
        let range = run.round();
        let (mut samples, mut broken) = (Vec::new(), 0);
        for index in range.clone() {
            if stop() {
                break;
            }
            match run.caption(&mut teacher, index) {
                Ok(Some(sample)) => samples.push(sample),
                Ok(None) => {
                    if samples.is_empty() && run.account.steps == 0 {
                        return Err(TrainError::NotFinite { clip: job.clips.name(index) });
                    }
                    broken += 1;
                    let why = "the target's states are not finite".to_owned();
                    tell(News::Skipped { clip: job.clips.name(index), why });
                }
                Err(reason) => {
                    broken += 1;
                    why.clone_from(&reason);
                    tell(News::Skipped { clip: job.clips.name(index), why: reason });
                }
            }
            tell(News::Captioned { done: index + 1 - range.start, of: range.len() });
        }
        let steps = run.order(&samples, &range);
        while run.account.round_steps < steps.len() && !stop() && run.progress(0.0) < 1.0 {
            let part = run.account.round_steps as f64 / steps.len() as f64;
            let way = run.progress(part * range.len() as f64 / job.clips.len() as f64);
            run.step(&samples, &steps[run.account.round_steps], way, tell)?;
            run.account.seconds = before + run.began.elapsed().as_secs_f64();
            if saved.elapsed().as_secs_f64() >= job.save_every {
                store.save(run.layer.vars(), &config, &run.adam, &run.account)?;
                tell(News::Saved);
                saved = Instant::now();
            }
        }
        if stop() {
            store.save(run.layer.vars(), &config, &run.adam, &run.account)?;
            tell(News::Saved);
            return Ok(Outcome::Stopped(run.account));
        }
        run.account.skipped += broken;
        (run.account.clip, run.account.round_steps) = (range.end, 0);
        run.account.seconds = before + run.began.elapsed().as_secs_f64();
    }
    if run.account.steps == 0 {
        return Err(TrainError::AllBroken { count: run.account.skipped, why });
    }
    run.point(1.0, tell);
    run.account.finished = true;
    store.save(run.layer.vars(), &config, &run.adam, &run.account)?;
    tell(News::Saved);
    Ok(Outcome::Finished(run.account))
}

/// What is trained.
enum Trained {
    Layer(TrainedLayer),
    Blocks(TrainedBlocks),
    Eagle(TrainedEagle),
}

impl Trained {
    fn vars(&self) -> &BTreeMap<String, Var> {
        match self {
            Trained::Layer(layer) => layer.vars(),
            Trained::Blocks(blocks) => blocks.vars(),
            Trained::Eagle(eagle) => eagle.vars(),
        }
    }
}

struct Run<'a> {
    job: &'a Job<'a>,
    layer: Trained,
    /// Rows to which it compresses a run of visual tokens; 0 if it does not.
    queries: usize,
    /// The token that holds a place in a block.
    mask: u32,
    adam: AdamW,
    account: Account,
    rope: Rope,
    /// Losses since the last point.
    sums: Vec<Point>,
    /// Caption tokens trained on in this session.
    tokens: u64,
    began: Instant,
}

impl Run<'_> {
    /// Share of the run; `more` is the current round's share beyond its first clip.
    fn progress(&self, more: f64) -> f64 {
        let clips = self.account.clip as f64 / self.job.clips.len() as f64 + more;
        let clock = self.job.options.minutes.map_or(0.0, |minutes| self.account.seconds / (minutes * 60.0));
        clips.max(clock)
    }

    /// The clips of the current round. The text stage ends with a round.
    fn round(&self) -> std::ops::Range<usize> {
        let (options, all, from) = (self.job.options, self.job.clips.len(), self.account.clip);
        let mut end = (from + options.keep.max(1)).min(all);
        let text = (all as f64 * options.text_share).round() as usize;
        if self.account.stage == Stage::Text && from < text {
            end = end.min(text);
        }
        from..end
    }

    fn caption(&self, teacher: &mut Teacher, index: usize) -> Result<Option<Sample>, String> {
        let model = teacher.model();
        let clip = self.job.clips.pixels(index, model.family(), model.processor()).map_err(|e| e.error)?;
        teacher.caption(&clip, self.job.options).map_err(|e| e.to_string())
    }

    /// The steps of the round: the samples of each.
    fn order(&self, samples: &[Sample], range: &std::ops::Range<usize>) -> Vec<Vec<usize>> {
        let options = self.job.options;
        let mut steps = Vec::new();
        for epoch in 0..options.epochs {
            let mut order: Vec<usize> = (0..samples.len()).collect();
            order.shuffle(&mut random(options.seed, (range.start * 1000 + epoch) as u64, 1));
            steps.extend(order.chunks(options.batch.max(1)).map(<[usize]>::to_vec));
        }
        steps
    }

    fn step(
        &mut self,
        samples: &[Sample],
        chosen: &[usize],
        way: f64,
        tell: &mut dyn FnMut(News),
    ) -> Result<(), TrainError> {
        let (options, account) = (self.job.options, &mut self.account);
        let mut rng = random(options.seed, account.steps as u64, 2);
        let (losses, rows) = match &self.layer {
            Trained::Blocks(trained) => {
                let sizes = options.blocks.clone().unwrap_or_default();
                let blocks = chosen
                    .iter()
                    .map(|&i| Blocks::new(&samples[i], &sizes, self.mask, &self.rope, &mut rng))
                    .collect::<candle_core::Result<Vec<_>>>()?;
                (trained.losses(&blocks)?, blocks.iter().map(|blocks| blocks.rows).sum())
            }
            Trained::Eagle(trained) => {
                let rows = chosen
                    .iter()
                    .map(|&i| Rows::new(&samples[i], &self.rope, trained.embeddings()))
                    .collect::<candle_core::Result<Vec<_>>>()?;
                let learned = rows.iter().map(|rows| rows.learned).sum();
                (trained.losses(&rows, options.recursions)?, learned)
            }
            Trained::Layer(layer) => {
                let shown = |rng: &mut ChaCha8Rng| {
                    account.stage == Stage::Visual && rng.random::<f64>() >= options.hidden
                };
                let picked: Vec<(&Sample, bool)> =
                    chosen.iter().map(|&i| (&samples[i], shown(&mut rng))).collect();
                let wide = options.noise as f32 * NOISE_LENGTH;
                let mut noise = |rows: usize| match wide {
                    0.0 => 0.0,
                    wide => (rng.random::<f32>() - 0.5) * wide / rows as f32,
                };
                let batch = match self.queries {
                    0 => Batch::new(&picked, &self.rope, &mut noise)?,
                    queries => Batch::compressed(&picked, queries, &self.rope, &mut noise)?,
                };
                let weights = (options.state_weight, options.token_weight);
                (layer.losses(&batch, options.recursions, weights)?, batch.rows)
            }
        };
        let loss = f64::from(losses.total.to_scalar::<f32>()?);
        if !loss.is_finite() {
            return Err(TrainError::Diverged { steps: account.steps });
        }
        let rule = Rule {
            rate: options.rate(account.steps, way),
            betas: options.betas,
            decay: options.weight_decay,
            clip: options.clip,
        };
        self.adam.update(self.layer.vars(), &losses.total.backward()?, rule)?;
        account.steps += 1;
        account.round_steps += 1;
        account.text_steps += usize::from(account.stage == Stage::Text);
        account.tokens += rows as u64;
        self.tokens += rows as u64;
        let agreement = |at: Option<&f32>| at.map_or(f64::NAN, |share| f64::from(*share));
        self.sums.push(Point {
            step: account.steps,
            loss,
            state: losses.state.into(),
            token: losses.token.into(),
            agreement: agreement(losses.agreement.first()),
            own_agreement: agreement(losses.agreement.last()),
        });
        if account.steps.is_multiple_of(POINT) {
            self.point(way, tell);
        }
        Ok(())
    }

    /// Add a point to the curve: the means of the steps since the last one, if there are any.
    fn point(&mut self, way: f64, tell: &mut dyn FnMut(News)) {
        if self.sums.is_empty() {
            return;
        }
        let (account, point) = (&mut self.account, mean(&std::mem::take(&mut self.sums)));
        account.curve.push(point);
        let seconds = self.began.elapsed().as_secs_f64();
        let all = account.seconds.max(seconds);
        tell(News::Learned(Progress {
            stage: account.stage,
            point,
            progress: way,
            tokens_per_second: self.tokens as f64 / seconds.max(1e-9),
            seconds_left: if way > 0.0 { all * (1.0 - way) / way } else { f64::NAN },
        }));
    }
}

/// Random numbers for one purpose at one step.
fn random(seed: u64, number: u64, purpose: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    rng.set_stream(number);
    rng
}

fn mean(points: &[Point]) -> Point {
    let n = points.len().max(1) as f64;
    let of = |value: fn(&Point) -> f64| points.iter().map(value).sum::<f64>() / n;
    Point {
        step: points.last().map_or(0, |p| p.step),
        loss: of(|p| p.loss),
        state: of(|p| p.state),
        token: of(|p| p.token),
        agreement: of(|p| p.agreement),
        own_agreement: of(|p| p.own_agreement),
    }
}
