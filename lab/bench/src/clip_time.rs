//! Time to the first token of a clip's caption, and of the tokens after it, for a model of a known shape with random weights.
//!
//! The cost of a pass depends on shapes alone, so this is the published model's cost, without a download. Decoding the video and
//! resizing its frames are not included.

use std::time::Instant;

use super::*;
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Sequence, States, Taps},
    family::{ClipFacts, Family, ModelError, Prompt, VlConfig},
    processor::{
        FrameSize, Patches, VideoProcessor,
        layout::{self, VisualRope},
    },
    template::ChatTemplate,
    vision::{Tower, TowerConfig, VisionError},
};
use specreel_record::median;

const QUESTION: &str = "Describe this video.";

/// Placeholders of a video in templates.
const PADS: [&str; 3] = ["<|video_pad|>", "<image>", "<video>"];

pub struct ShapeModel {
    config: VlConfig,
    tower_config: TowerConfig,
    tower: Tower,
    processor: VideoProcessor,
    decoder: Arc<Decoder>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClipWork {
    /// Of the resized frames.
    pub size: FrameSize,
    /// Times of the sampled frames in seconds.
    pub timestamps_s: Vec<f64>,
    /// Length of the clip in seconds.
    pub duration_s: f64,
    /// Tokens after the first.
    pub tokens: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClipTimes {
    pub visual: usize,
    /// Rows of the prompt, visual tokens included. A word of text counts as a token.
    pub rows: usize,
    pub tower_ms: f64,
    pub prefill_ms: f64,
    /// Both, and the logits that the first token is chosen from.
    pub first_ms: f64,
    /// A token after the first: the median.
    pub token_ms: f64,
}

/// Reports (done, total) of a stage and may stop the measurement.
pub type ClipProgress<'a> = dyn FnMut(Stage, usize, usize) -> ControlFlow<()> + 'a;

impl ShapeModel {
    /// Make random weights for this configuration. Fails if the sizes do not fit together, or the device is out of memory.
    pub fn load(
        config: VlConfig,
        place: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, ModelError> {
        let (tower_config, checkpoint) = (config.tower()?, Checkpoint::random());
        let tower = Tower::load(&checkpoint, &tower_config, place)?;
        let decoder = Arc::new(Decoder::load(&checkpoint, &config.text, place, progress)?);
        Ok(Self {
            processor: VideoProcessor::new(tower_config.frames())?,
            config,
            tower_config,
            tower,
            decoder,
        })
    }

    pub fn family(&self) -> &'static Family {
        self.config.family
    }

    /// The frame processor, with the family's settings.
    pub fn processor(&self) -> &VideoProcessor {
        &self.processor
    }

    /// The language model.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// Measure a clip from its patches to its tokens; `None` if `progress` breaks.
    pub fn time(
        &self,
        work: &ClipWork,
        progress: &mut ClipProgress<'_>,
    ) -> Result<Option<ClipTimes>, ModelError> {
        let patches = self.patches(work);
        let visual_grid = self.processor.visual_grid(patches.grid)?;
        let clip = ClipFacts {
            grid: visual_grid,
            sample_fps: work.timestamps_s.len() as f64 / work.duration_s.max(f64::MIN_POSITIVE),
            timestamps_s: work.timestamps_s.clone(),
            duration_s: work.duration_s,
        };
        let prompt = self.prompt(&clip)?;
        let started = Instant::now();
        let encoded = self.tower.encode(&patches, &mut |done, total| progress(Stage::Encode, done, total));
        let visual = match encoded {
            Err(VisionError::Cancelled) => return Ok(None),
            encoded => encoded?,
        };
        let mut sequence = Sequence::new(self.decoder.clone(), prompt.ids.len() + work.tokens + 1);
        // What the device still has to do is part of the tower's time.
        sequence.synchronize()?;
        let tower_ms = started.elapsed().as_secs_f64() * 1e3;
        let input = self.embed(&prompt, &visual)?;
        drop(visual);
        let (mut last, width) = (Vec::new(), self.decoder.config().hidden);
        let mut go = |done, total| progress(Stage::Prefill, done, total);
        let keep = &mut |_, states: &[f32]| last = states[states.len() - width..].to_vec();
        if !sequence.prefill(&input, &prompt.positions, prompt.next, keep, &mut go)? {
            return Ok(None);
        }
        sequence.synchronize()?;
        let prefill_ms = started.elapsed().as_secs_f64() * 1e3 - tower_ms;
        sequence.logits(&States::new(last, width)?)?;
        sequence.synchronize()?;
        let first_ms = started.elapsed().as_secs_f64() * 1e3;
        let mut times = Vec::new();
        for token in 0..work.tokens {
            if progress(Stage::Generate, token, work.tokens).is_break() {
                return Ok(None);
            }
            let started = Instant::now();
            let id = (token * 97 + 1) % self.config.text.vocab;
            let pass = sequence.feed(&[id as u32], &Taps::default())?;
            sequence.logits(&pass.states)?;
            sequence.synchronize()?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        let token_ms = median(times).unwrap_or_default();
        let (visual, rows) = (prompt.visual.len(), prompt.ids.len());
        Ok(Some(ClipTimes { visual, rows, tower_ms, prefill_ms, first_ms, token_ms }))
    }

    fn patches(&self, work: &ClipWork) -> Patches {
        let c = self.processor.config();
        let frames = work.timestamps_s.len();
        let grid = c.grid(work.size, frames);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let value = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
        };
        Patches { data: (0..grid.t * grid.h * grid.w * c.row()).map(value).collect(), grid, row: c.row() }
    }

    /// The family's prompt with a token for each word.
    fn prompt(&self, clip: &ClipFacts) -> Result<Prompt, ModelError> {
        let rules = self.config.family;
        let temporal = self.processor.config().temporal;
        let rendered = ChatTemplate::new(rules.template, "the built-in family").render(QUESTION)?;
        let video = rules.video_text.map(|write| write(clip, temporal));
        let text = video.as_ref().map_or(rendered.clone(), |video| video.replace(&rendered));
        let ids: Vec<u32> = pieces(&text).into_iter().map(|piece| self.id(piece)).collect();
        let seconds = layout::seconds_per_grid(temporal, clip.sample_fps);
        let axes = self.config.text.mrope_section;
        let rope = axes.map_or(VisualRope::Sequential, |_| (rules.positions)(&self.tower_config, seconds));
        let per_span = if video.is_some() { 1 } else { clip.grid.t };
        let newline = self.tower.newline().is_some();
        Ok(Prompt::lay_out(&ids, self.config.video_token, clip.grid, per_span, newline, rope)?)
    }

    /// An id for a word; placeholders have the video's.
    fn id(&self, piece: &str) -> u32 {
        let pad = self.config.video_token;
        if PADS.contains(&piece) {
            return pad;
        }
        let hash = piece.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let id = hash % self.config.text.vocab as u32;
        // Not a placeholder, regardless of its hash.
        if id == pad { (id + 1) % self.config.text.vocab as u32 } else { id }
    }

    fn embed(&self, prompt: &Prompt, visual: &States) -> Result<States, ModelError> {
        let width = self.tower_config.width();
        let rows: Vec<usize> = (0..prompt.ids.len()).collect();
        let is_visual = |row: usize| prompt.visual.contains(row);
        let mut parts = Vec::new();
        for run in rows.chunk_by(|&a, &b| is_visual(a) == is_visual(b)) {
            parts.push(match prompt.visual.token(run[0]) {
                Some(first) => visual.narrow(first, run.len())?,
                // The newline costs as much as a word.
                None => self.decoder.embed(&prompt.ids[run[0]..run[0] + run.len()])?.widened(width)?,
            });
        }
        Ok(States::cat(&parts)?)
    }
}

/// A text in pieces of about a token each: special tokens, words and punctuation with the space before, digits, blanks.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let special = rest.starts_with('<').then(|| rest.find('>')).flatten().map(|at| at + 1);
        let special = special.filter(|end| !rest[..*end].contains(char::is_whitespace));
        let end = special.unwrap_or_else(|| {
            let blank = if first == ' ' { 1 } else { 0 };
            let kind = |c: char| match c {
                c if c.is_alphabetic() => 0,
                c if c.is_whitespace() => 1,
                c if c.is_numeric() => 2,
                '<' => 3,
                _ => 4,
            };
            match rest[blank..].chars().next() {
                Some(c) if matches!(kind(c), 0 | 4) => {
                    let run = rest[blank..].find(|other| kind(other) != kind(c));
                    run.map_or(rest.len(), |run| blank + run)
                }
                _ if kind(first) == 1 => rest.find(|c| kind(c) != 1).unwrap_or(rest.len()),
                _ => first.len_utf8(),
            }
        });
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_model::shapes;
    use specreel_tensor::WeightType;

    #[test]
    fn a_word_a_digit_and_a_mark_are_a_piece_each() {
        let text = "Frame from 00:12:<image><0.2 seconds>\n\nWhat, then?";
        let want = [
            "Frame", " from", " ", "0", "0", ":", "1", "2", ":", "<image>", "<", "0", ".", "2", " seconds",
            ">", "\n\n", "What", ",", " then", "?",
        ];
        assert_eq!(pieces(text), want);
        assert_eq!(pieces("").len(), 0);
        assert_eq!(pieces("né <").concat(), "né <");
    }

    #[test]
    fn a_clip_is_measured_from_patches_to_tokens() {
        let place = ComputeDevice::cpu(WeightType::F32);
        let model = ShapeModel::load(shapes::config("tiny").unwrap(), &place, &mut |_, _| {}).unwrap();
        let work = ClipWork {
            size: model.processor().config().fixed.unwrap(),
            timestamps_s: vec![0.0, 1.0, 2.0],
            duration_s: 3.0,
            tokens: 2,
        };
        let mut stages = Vec::new();
        let times = model.time(&work, &mut |stage, _, _| {
            stages.push(stage);
            ControlFlow::Continue(())
        });
        let times = times.unwrap().unwrap();
        // 4 x 4 patches of a picture are pooled to 2 x 2; the text is around them.
        assert_eq!(times.visual, 12);
        assert!(
            times.rows > 12 && times.first_ms >= times.tower_ms + times.prefill_ms && times.token_ms > 0.0
        );
        for stage in [Stage::Encode, Stage::Prefill, Stage::Generate] {
            assert!(stages.contains(&stage), "{stage:?}");
            let stopped = model.time(&work, &mut |now, _, _| match now == stage {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            assert_eq!(stopped.unwrap(), None, "{stage:?}");
        }
    }
}
