//! The texts that models predict, token by token.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, Write},
};

use super::*;
use specreel_model::{
    decoder::{Sequence, States, Taps, argmax},
    family::{Prompt, VideoLlm},
};

/// Tokens of a window of text, as `llama-perplexity` cuts a text: a model reads the first half and predicts the second.
const WINDOW: usize = 512;
/// Rows of a pass.
const ROWS: usize = 64;

/// Ids to predict one after the other.
pub(super) struct Passage {
    /// What comes before them; without a prompt the first ids are only read.
    prompt: Option<Prompt>,
    ids: Vec<u32>,
    /// The first id that counts.
    first: usize,
}

/// Passages, and the reference's logits before each id that counts.
pub(super) struct Text {
    /// `real` or `own`.
    pub(super) name: &'static str,
    passages: Vec<Passage>,
    logits: Recording,
}

/// Rows of logits in a file that is removed when it is dropped: 2,000 rows are too large for the memory.
struct Recording {
    file: File,
    vocab: usize,
    rows: usize,
    buffer: Vec<u8>,
}

impl Recording {
    fn create(vocab: usize) -> Result<Self, Failure> {
        let file = tempfile::tempfile().map_err(|e| failed(&e))?;
        Ok(Self { file, vocab, rows: 0, buffer: Vec::new() })
    }

    fn push(&mut self, logits: &[f32]) -> Result<(), Failure> {
        self.buffer.clear();
        self.buffer.extend(logits.iter().flat_map(|logit| logit.to_le_bytes()));
        self.file.write_all(&self.buffer).map_err(|e| failed(&e))?;
        self.rows += 1;
        Ok(())
    }

    /// Reads the rows from the first one.
    fn read(&mut self) -> Result<impl FnMut(&mut Vec<f32>) -> Result<(), Failure>, Failure> {
        self.file.rewind().map_err(|e| failed(&e))?;
        let mut reader = BufReader::new(&mut self.file);
        let mut bytes = vec![0; self.vocab * size_of::<f32>()];
        Ok(move |row: &mut Vec<f32>| {
            reader.read_exact(&mut bytes).map_err(|e| failed(&e))?;
            row.clear();
            row.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            Ok(())
        })
    }
}

fn failed(error: &io::Error) -> Failure {
    let dir = std::env::temp_dir();
    Failure::new(
        if specreel_batch::is_full(error) { FailureClass::Internal } else { FailureClass::Input },
        format!("cannot keep logits in {}: {error}", dir.display()),
        "free some space there, or set TMPDIR to another directory",
    )
}

/// Gets the logits before each id that counts, and the id.
type See<'a> = &'a mut dyn FnMut(&[f32], u32) -> Result<(), Failure>;

/// What predicts: a decoder, and the embeddings of the clip that prompts are about.
pub(super) struct Predictor<'m> {
    pub(super) decoder: &'m Arc<Decoder>,
    pub(super) visual: &'m States,
    /// Lays out prompts; its tokenizer's ids are those that count.
    pub(super) reference: &'m VideoLlm,
    pub(super) interrupt: &'m Interrupt,
}

impl Predictor<'_> {
    fn vocab(&self) -> usize {
        self.reference.tokenizer().vocabulary()
    }

    /// A sequence that has read a prompt and has room for `more` tokens, and the logits after it. `None` if interrupted.
    fn read(&self, prompt: &Prompt, more: usize) -> Result<Option<(Sequence, Vec<f32>)>, ModelError> {
        let rows: Vec<usize> = (0..prompt.ids.len()).collect();
        let input = self.reference.embed_with(self.decoder, prompt, Some(self.visual), &rows)?;
        let mut sequence = Sequence::new(self.decoder.clone(), rows.len() + more);
        let (mut last, width) = (Vec::new(), self.decoder.config().hidden);
        let keep = &mut |_, states: &[f32]| last = states[states.len() - width..].to_vec();
        let go = &mut |_, _| match self.interrupt.asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        if !sequence.prefill(&input, &prompt.positions, prompt.next, keep, go)? {
            return Ok(None);
        }
        let logits = sequence.logits(&States::new(last, width)?)?.to_vec()?;
        Ok(Some((sequence, logits)))
    }

    /// Predict a passage. False if interrupted. On batch-invariant devices, passes of many rows give the logits that
    /// decoding gives.
    fn predict(&self, passage: &Passage, see: See<'_>) -> Result<bool, Failure> {
        let Passage { prompt, ids, first } = passage;
        let mut sequence = match prompt {
            None => Sequence::new(self.decoder.clone(), ids.len()),
            Some(prompt) => {
                let Some((sequence, logits)) = self.read(prompt, ids.len())? else { return Ok(false) };
                see(&logits[..self.vocab()], ids[0])?;
                sequence
            }
        };
        for start in (0..ids.len() - 1).step_by(ROWS) {
            if self.interrupt.asked() {
                return Ok(false);
            }
            let chunk = start..(start + ROWS).min(ids.len() - 1);
            let pass = sequence.feed(&ids[chunk.clone()], &Taps::default()).map_err(ModelError::from)?;
            // The row of an id predicts the next one.
            let counted = start.max(first.saturating_sub(1))..chunk.end;
            if counted.is_empty() {
                continue;
            }
            let states = pass.states.narrow(counted.start - start, counted.len());
            let logits = states.and_then(|states| sequence.logits(&states)?.to_vec2());
            for (row, logits) in counted.zip(logits.map_err(ModelError::from)?) {
                see(&logits[..self.vocab()], ids[row + 1])?;
            }
        }
        Ok(true)
    }

    /// Answer a question in at most `most` tokens, the most likely one each time. `None` if interrupted.
    fn answer(&self, prompt: Prompt, most: usize, see: See<'_>) -> Result<Option<Passage>, Failure> {
        let Some((mut sequence, mut logits)) = self.read(&prompt, most)? else { return Ok(None) };
        let mut ids = Vec::new();
        loop {
            let id = argmax(&logits[..self.vocab()]);
            see(&logits[..self.vocab()], id)?;
            ids.push(id);
            if self.reference.tokenizer().is_end(id) || ids.len() == most {
                return Ok(Some(Passage { prompt: Some(prompt), ids, first: 0 }));
            }
            if self.interrupt.asked() {
                return Ok(None);
            }
            let pass = sequence.feed(&[id], &Taps::default());
            let next = pass.and_then(|pass| sequence.logits(&pass.states)?.to_vec());
            logits = next.map_err(ModelError::from)?;
        }
    }

    /// A real text in windows, of which at least `tokens` count if it is long enough. `None` if interrupted. Fails if it is shorter
    /// than one window.
    pub(super) fn real_text(
        &self,
        text: &str,
        tokens: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Option<Text>, Failure> {
        let window = WINDOW.min(self.decoder.config().max_positions);
        let first = window / 2 + 1;
        let windows = tokens.div_ceil(window - first).max(1);
        // No token is a longer text on average; a long file is not encoded as a whole.
        let enough: String = text.chars().take(windows * window * 16).collect();
        let ids = self.reference.tokenizer().encode_plain(&enough)?;
        if ids.len() < window {
            return Err(Failure::input(
                format!("the text has {} tokens, expected at least {window}", ids.len()),
                "pass a longer text to --text, or omit it for the built-in one",
            ));
        }
        let mut logits = Recording::create(self.vocab())?;
        let mut passages = Vec::new();
        for ids in ids.chunks_exact(window).take(windows) {
            progress(logits.rows, tokens);
            let passage = Passage { prompt: None, ids: ids.to_vec(), first };
            if !self.predict(&passage, &mut |row, _| logits.push(row))? {
                return Ok(None);
            }
            passages.push(passage);
        }
        Ok(Some(Text { name: "real", passages, logits }))
    }

    /// The model's own answers, until they have `tokens` tokens or the prompts end. `None` if interrupted.
    pub(super) fn own_text(
        &self,
        prompts: Vec<Prompt>,
        answer: usize,
        tokens: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Option<Text>, Failure> {
        let mut logits = Recording::create(self.vocab())?;
        let mut passages = Vec::new();
        for prompt in prompts {
            let most = answer.min(tokens - logits.rows);
            if most == 0 {
                break;
            }
            let see = &mut |row: &[f32], _| {
                progress(logits.rows, tokens);
                logits.push(row)
            };
            let Some(passage) = self.answer(prompt, most, see)? else { return Ok(None) };
            passages.push(passage);
        }
        Ok(Some(Text { name: "own", passages, logits }))
    }

    /// Predict a text and compare with the reference. `None` if interrupted.
    pub(super) fn compare(
        &self,
        text: &mut Text,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Option<Vec<Prediction>>, Failure> {
        let (mut predictions, total) = (Vec::new(), text.logits.rows);
        let mut reference = Vec::new();
        let mut read = text.logits.read()?;
        for passage in &text.passages {
            let see = &mut |logits: &[f32], next| {
                read(&mut reference)?;
                predictions.push(Prediction::of(&reference, logits, next));
                progress(predictions.len(), total);
                Ok(())
            };
            if !self.predict(passage, see)? {
                return Ok(None);
            }
        }
        Ok(Some(predictions))
    }
}
