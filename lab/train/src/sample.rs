//! Training data: the target's own captions with its states, and batches of them as tensors.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};

use specreel_model::decoder::{Positions, rope::Rope};

/// A clip that the target captioned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Text tokens: the prompt without its visual tokens, then the caption.
    pub ids: Vec<u32>,
    /// Positions of the text rows.
    pub positions: Positions,
    /// The target's final states at the text rows, `rows × width`.
    pub states: Vec<f32>,
    /// Where the video is, between the text rows.
    pub breaks: Vec<Break>,
    /// The target's state before the first text row after each break, `breaks × width`.
    pub before_breaks: Vec<f32>,
    /// Text rows whose next token is of the caption.
    pub answer: Range<usize>,
    /// Inputs at the visual rows, `rows × width`.
    pub visual: Vec<f32>,
    pub visual_positions: Positions,
    /// Embeddings of the prompt's rows, `rows × width`, for a head that reads them all like text (EAGLE-3); else empty.
    pub embeddings: Vec<f32>,
    /// The target's states at all rows after the layers that an EAGLE-3 or DFlash head reads, concatenated, `rows × layers · width`;
    /// else empty.
    pub context: Vec<f32>,
    pub context_positions: Positions,
}

/// Visual tokens between two text rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The text row after them.
    pub text: usize,
    /// Visual tokens up to there: those that the text row and all later ones see.
    pub visual: usize,
}

impl Sample {
    pub fn width(&self) -> usize {
        self.states.len().checked_div(self.ids.len()).unwrap_or(0)
    }

    /// The state before a text row.
    fn before(&self, row: usize) -> Option<&[f32]> {
        let width = self.width();
        if let Some(at) = self.breaks.iter().position(|at| at.text == row) {
            return self.before_breaks.get(at * width..(at + 1) * width);
        }
        self.states.get(row.checked_sub(1)? * width..row * width)
    }

    fn visual_before(&self, row: usize) -> usize {
        self.breaks.iter().rfind(|at| at.text <= row).map_or(0, |at| at.visual)
    }
}

/// Some samples, padded to one length. `B` samples of `T` text rows and `V` visual rows, `R` answer rows in all.
pub struct Batch {
    /// Token ids, `B · T`.
    pub ids: Tensor,
    /// The target's states before the rows, `B × T × width`.
    pub before: Tensor,
    /// 1 where a recursion takes its own output in place of the state before, `B × T × 1`.
    pub own: Tensor,
    /// Which of the `B · T` rows are answer rows, `R`.
    pub answer: Tensor,
    /// The target's states there, `R × width`.
    pub states: Tensor,
    /// Visual rows, `B × V × width`; `None` if no sample shows any.
    pub visual: Option<Tensor>,
    /// The visual embeddings of each run of visual tokens, `rows × width`, for a head that compresses them; else `None`.
    pub runs: Vec<Tensor>,
    /// The compressed row in each place of the samples, `B · V`: 0 = none, then the runs' rows in turn. `None` if there are
    /// no runs.
    pub(crate) compressed: Option<Tensor>,
    /// The compressed row that sums up the visual tokens before each text row, `B · T`; 0 = there are none.
    pub(crate) vectors: Tensor,
    /// Cosines and sines, `B × 1 × (V + T) × head_dim / 2`.
    pub(crate) rotation: (Tensor, Tensor),
    /// Added to scores, `B × 1 × T × (V + T)`: 0 where a row sees another, far below otherwise.
    pub mask: Tensor,
    pub rows: usize,
}

/// What hides a slot.
const HIDDEN: f32 = -1e9;

impl Batch {
    /// Put samples together; `shown` says of each whether its visual rows are there. `noise` is asked for the noise on every
    /// value of the states before a sample's rows. Fails if the samples are of different widths.
    pub fn new(
        samples: &[(&Sample, bool)],
        rope: &Rope,
        noise: &mut dyn FnMut(usize) -> f32,
    ) -> Result<Self> {
        let width = samples.first().map_or(0, |(s, _)| s.width());
        let t = samples.iter().map(|(s, _)| s.ids.len()).max().unwrap_or(0);
        let seen = |(s, shown): &(&Sample, bool)| if *shown { s.visual_positions.len() } else { 0 };
        let v = samples.iter().map(seen).max().unwrap_or(0);
        let (b, half) = (samples.len(), rope.tables(&Positions::text(0, 1)).0.len());
        let mut ids = vec![0u32; b * t];
        let mut before = vec![0f32; b * t * width];
        let mut own = vec![0f32; b * t];
        let mut visual = vec![0f32; b * v * width];
        let mut mask = vec![HIDDEN; b * t * (v + t)];
        let (mut cos, mut sin) = (vec![1f32; b * (v + t) * half], vec![0f32; b * (v + t) * half]);
        let (mut answer, mut states) = (Vec::new(), Vec::new());
        for (i, (sample, _)) in samples.iter().enumerate() {
            let (rows, shown) = (sample.ids.len(), seen(&samples[i]));
            ids[i * t..i * t + rows].copy_from_slice(&sample.ids);
            for row in 0..rows {
                let at = (i * t + row) * width;
                if let Some(state) = sample.before(row) {
                    let noisy = state.iter().map(|value| value + noise(rows));
                    before[at..at + width].iter_mut().zip(noisy).for_each(|(to, value)| *to = value);
                }
                // Only rows that are learned have outputs worth going on from.
                let learned = row.checked_sub(1).is_some_and(|last| sample.answer.contains(&last));
                own[i * t + row] = if learned { 1.0 } else { 0.0 };
            }
            for (slots, positions) in
                [(0, (shown > 0).then_some(&sample.visual_positions)), (v, Some(&sample.positions))]
            {
                let Some(positions) = positions else { continue };
                let (c, s) = rope.tables(positions);
                let at = (i * (v + t) + slots) * half;
                cos[at..at + c.len()].copy_from_slice(&c);
                sin[at..at + s.len()].copy_from_slice(&s);
            }
            visual[i * v * width..][..shown * width].copy_from_slice(&sample.visual[..shown * width]);
            for row in 0..t {
                let line = &mut mask[(i * t + row) * (v + t)..][..v + t];
                line[..shown.min(sample.visual_before(row))].fill(0.0);
                line[v..=v + row].fill(0.0);
            }
            answer.extend(sample.answer.clone().map(|row| (i * t + row) as u32));
            states.extend_from_slice(&sample.states[sample.answer.start * width..sample.answer.end * width]);
        }
        let (cpu, rows) = (&Device::Cpu, answer.len());
        let table = |values| Tensor::from_vec(values, (b, 1, v + t, half), cpu);
        Ok(Self {
            ids: Tensor::from_vec(ids, b * t, cpu)?,
            before: Tensor::from_vec(before, (b, t, width), cpu)?,
            own: Tensor::from_vec(own, (b, t, 1), cpu)?,
            answer: Tensor::from_vec(answer, rows, cpu)?,
            states: Tensor::from_vec(states, (rows, width), cpu)?,
            runs: Vec::new(),
            compressed: None,
            vectors: Tensor::zeros(b * t, DType::U32, cpu)?,
            visual: (v > 0).then(|| Tensor::from_vec(visual, (b, v, width), cpu)).transpose()?,
            rotation: (table(cos)?, table(sin)?),
            mask: Tensor::from_vec(mask, (b, 1, t, v + t), cpu)?,
            rows,
        })
    }

    /// As [`Batch::new`], for a head that compresses each run of visual tokens to `queries` rows: all but the last take the place of
    /// the run, at its last positions; the last sums the run up.
    pub fn compressed(
        samples: &[(&Sample, bool)],
        queries: usize,
        rope: &Rope,
        noise: &mut dyn FnMut(usize) -> f32,
    ) -> Result<Self> {
        let t = samples.iter().map(|(s, _)| s.ids.len()).max().unwrap_or(0);
        let (mut runs, mut rows, mut vectors) = (Vec::new(), Vec::new(), vec![0u32; samples.len() * t]);
        let mut short = Vec::with_capacity(samples.len());
        for (i, (sample, shown)) in samples.iter().enumerate() {
            let (width, mut kept, mut own) = (sample.width(), Vec::new(), Vec::new());
            let (mut from, mut breaks) = (0, sample.breaks.clone());
            for at in &mut breaks {
                let run = from..at.visual;
                if *shown && !run.is_empty() {
                    // Row 0 stands for no visual tokens.
                    let first = 1 + runs.len() * queries;
                    let count = (queries - 1).min(run.len());
                    own.extend((first..first + count).map(|row| row as u32));
                    kept.extend(run.end - count..run.end);
                    let summed_up = (first + queries - 1) as u32;
                    vectors[i * t + at.text..i * t + sample.ids.len()].fill(summed_up);
                    let values = sample.visual[run.start * width..run.end * width].to_vec();
                    runs.push(Tensor::from_vec(values, (run.len(), width), &Device::Cpu)?);
                }
                from = run.end;
                at.visual = kept.len();
            }
            short.push(Sample {
                breaks,
                visual: vec![0.0; kept.len() * width],
                visual_positions: sample.visual_positions.select(&kept),
                ..(*sample).clone()
            });
            rows.push(own);
        }
        let v = rows.iter().map(Vec::len).max().unwrap_or(0);
        rows.iter_mut().for_each(|own| own.resize(v, 0));
        let pairs: Vec<(&Sample, bool)> =
            short.iter().zip(samples).map(|(short, (_, shown))| (short, *shown)).collect();
        let whole = Self::new(&pairs, rope, noise)?;
        let index = rows.concat();
        Ok(Self {
            runs,
            compressed: (v > 0)
                .then(|| Tensor::from_vec(index, samples.len() * v, &Device::Cpu))
                .transpose()?,
            vectors: Tensor::from_vec(vectors, samples.len() * t, &Device::Cpu)?,
            visual: None,
            ..whole
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_model::config::TextConfig;

    fn rope() -> Rope {
        let tiny = specreel_model::shapes::find("tiny").unwrap();
        Rope::new(&TextConfig { head_dim: 4, mrope_section: None, ..tiny })
    }

    fn sample(front: usize, visual: usize, rows: usize) -> Sample {
        Sample {
            ids: (0..rows as u32).collect(),
            positions: Positions::text(0, rows),
            states: (0..rows * 2).map(|i| i as f32).collect(),
            before_breaks: vec![-1.0, -2.0],
            breaks: vec![Break { text: front, visual }],
            answer: rows - 2..rows,
            visual: vec![7.0; visual * 2],
            visual_positions: Positions::text(0, visual),
            ..Sample::default()
        }
    }

    #[test]
    fn rows_see_what_they_may_and_follow_the_right_states() {
        let (a, b) = (sample(1, 3, 4), sample(2, 2, 5));
        let rope = rope();
        let batch = Batch::new(&[(&a, true), (&b, false)], &rope, &mut |_| 0.0).unwrap();
        let before = batch.before.to_vec3::<f32>().unwrap();
        assert_eq!(before[0][..4], [[0.0, 0.0], [-1.0, -2.0], [2.0, 3.0], [4.0, 5.0]]);
        assert_eq!(before[1][2..], [[-1.0, -2.0], [4.0, 5.0], [6.0, 7.0]]);
        let mask = batch.mask.squeeze(1).unwrap().to_vec3::<f32>().unwrap();
        let sees = |i: usize, row: usize| -> Vec<usize> {
            mask[i][row].iter().enumerate().filter(|(_, m)| **m == 0.0).map(|(at, _)| at).collect()
        };
        assert_eq!(sees(0, 0), [3]);
        assert_eq!(sees(0, 2), [0, 1, 2, 3, 4, 5]);
        assert_eq!(sees(1, 3), [3, 4, 5, 6], "hidden visual rows are seen by nobody");
        assert_eq!(batch.answer.to_vec1::<u32>().unwrap(), [2, 3, 8, 9]);
        let own = batch.own.squeeze(2).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(own, [[0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]);
        assert_eq!(batch.rows, 4);
    }

    #[test]
    fn runs_are_compressed_to_rows_at_their_last_positions() {
        let breaks = vec![Break { text: 1, visual: 2 }, Break { text: 3, visual: 5 }];
        let two = Sample { breaks, before_breaks: vec![-1.0, -2.0, -3.0, -4.0], ..sample(1, 5, 5) };
        let one = sample(2, 4, 4);
        let all = [(&two, true), (&one, false), (&one, true)];
        let batch = Batch::compressed(&all, 2, &rope(), &mut |_| 0.0).unwrap();
        assert_eq!(
            batch.runs.iter().map(|run| run.dims().to_vec()).collect::<Vec<_>>(),
            [[2, 2], [3, 2], [4, 2]]
        );
        // Row 0 is none; each run has a row and a vector.
        assert_eq!(batch.compressed.unwrap().to_vec1::<u32>().unwrap(), [1, 3, 0, 0, 5, 0]);
        let vectors = batch.vectors.to_vec1::<u32>().unwrap();
        assert_eq!(vectors, [0, 2, 2, 4, 4, 0, 0, 0, 0, 0, 0, 0, 6, 6, 0]);
        let mask = batch.mask.squeeze(1).unwrap().to_vec3::<f32>().unwrap();
        let visual =
            |i: usize| mask[i].iter().map(|row| row[..2].iter().filter(|m| **m == 0.0).count()).collect();
        let counts: [Vec<usize>; 3] = [0, 1, 2].map(visual);
        assert_eq!(counts[0], [0, 1, 1, 2, 2]);
        assert_eq!((&counts[1][..4], &counts[2][..4]), (&[0; 4][..], &[0, 0, 1, 1][..]));
        let (cos, _) = rope().tables(&Positions { axes: [vec![1, 4], vec![1, 4], vec![1, 4]] });
        let table = batch.rotation.0.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(table[..cos.len()], cos, "positions of the last tokens of the runs");
        let before = batch.before.to_vec3::<f32>().unwrap();
        assert_eq!(before[0], [[0.0, 0.0], [-1.0, -2.0], [2.0, 3.0], [-3.0, -4.0], [6.0, 7.0]]);
    }

    #[test]
    fn text_between_two_spans_sees_the_first() {
        let breaks = vec![Break { text: 1, visual: 2 }, Break { text: 3, visual: 5 }];
        let sample = Sample { breaks, before_breaks: vec![-1.0, -2.0, -3.0, -4.0], ..sample(1, 5, 5) };
        let batch = Batch::new(&[(&sample, true)], &rope(), &mut |_| 0.0).unwrap();
        let before = batch.before.to_vec3::<f32>().unwrap();
        assert_eq!(before[0], [[0.0, 0.0], [-1.0, -2.0], [2.0, 3.0], [-3.0, -4.0], [6.0, 7.0]]);
        let mask = batch.mask.squeeze(1).unwrap().to_vec3::<f32>().unwrap();
        let visual = |row: usize| mask[0][row][..5].iter().filter(|m| **m == 0.0).count();
        assert_eq!([0, 1, 2, 3, 4].map(visual), [0, 2, 2, 5, 5]);
    }
}
