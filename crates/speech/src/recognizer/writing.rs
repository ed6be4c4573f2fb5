//! The text of a window: written again at a higher temperature where it is uncertain or repeats itself.

use miniz_oxide::deflate::core::{
    CompressionStrategy, CompressorOxide, TDEFLFlush, compress_to_output, create_comp_flags_from_zip_params,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specreel_tensor::{Result, logits::RowFacts};

use super::Recognizer;

/// A window is written again at the next of these temperatures where its text fails a check.
const TEMPERATURES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// A text that a compressor makes this many times smaller repeats itself.
const MAX_COMPRESSION: f64 = 2.4;
/// A text whose tokens have a lower mean log-probability is uncertain.
const MIN_LOG_PROBABILITY: f64 = -1.0;
/// An uncertain text of a window that is silent with a higher probability is left out.
const SILENCE: f64 = 0.6;
/// How much likelier a text that repeats itself must be than one that does not: somebody may say the same again and again, and what is
/// made of that at a high temperature is unlikely.
const REPETITION: f64 = 0.5;

/// A text of a window.
pub struct Written {
    pub ids: Vec<u32>,
    /// Mean over its tokens and its end.
    pub(super) log_probability: f64,
    /// Probability that nothing is said.
    pub(super) silence: f64,
    /// False if it has as many tokens as a text may have.
    pub(super) ends: bool,
    pub(super) repeats: bool,
}

impl Written {
    fn is_uncertain(&self) -> bool {
        self.log_probability < MIN_LOG_PROBABILITY
    }

    /// True if it is to be left out.
    pub fn is_silence(&self) -> bool {
        self.silence > SILENCE && self.is_uncertain()
    }
}

impl Recognizer {
    /// The text of the window: the best of those at rising temperatures up to the first that is certain and does not repeat itself.
    pub(super) fn write(&mut self, language: Option<u32>, seed: u64) -> Result<Written> {
        let mut tried = Vec::new();
        for temperature in TEMPERATURES {
            let written = self.write_once(language, temperature, seed)?;
            // At the highest temperature, a text of speech is unlikely too.
            if written.is_silence() && temperature < 1.0 {
                return Ok(written);
            }
            let is_good = !written.is_uncertain() && !written.repeats;
            tried.push(written);
            if is_good {
                break;
            }
        }
        Ok(best(tried))
    }

    pub(super) fn write_once(
        &mut self,
        language: Option<u32>,
        temperature: f64,
        seed: u64,
    ) -> Result<Written> {
        let prompt: Vec<u32> = [Some(self.start), language, self.transcribe].into_iter().flatten().collect();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut written =
            Written { ids: Vec::new(), log_probability: 0.0, silence: 0.0, ends: false, repeats: false };
        let mut sum = 0.0;
        self.model.restart();
        let mut logits = self.model.next(&prompt)?;
        let vocabulary = logits.len() / prompt.len();
        if let Some(silence) = self.silence {
            written.silence = log_probability(&logits[..vocabulary], silence).exp();
        }
        logits.drain(..logits.len() - vocabulary);
        loop {
            self.ids.apply(&written.ids, &mut logits);
            let Some(id) = choose(&logits, temperature, &mut random) else {
                specreel_tensor::bail!("the speech model computed no numbers")
            };
            sum += log_probability(&logits, id);
            written.ends = id == self.ids.end;
            if written.ends || written.ids.len() + 1 >= self.longest {
                break;
            }
            written.ids.push(id);
            logits = self.model.next(&[id])?;
        }
        written.log_probability = sum / (written.ids.len() + 1) as f64;
        written.repeats = compression(&self.text(&written.ids)) > MAX_COMPRESSION;
        Ok(written)
    }
}

/// The likeliest text, with a penalty for texts that repeat themselves. A text that did not end is stuck in a
/// loop, and counts only if none ended.
fn best(mut tried: Vec<Written>) -> Written {
    if tried.iter().any(|written| written.ends) {
        tried.retain(|written| written.ends);
    }
    let value = |text: &Written| text.log_probability - if text.repeats { REPETITION } else { 0.0 };
    // The last of the largest is taken.
    tried.reverse();
    match tried.into_iter().max_by(|a, b| value(a).total_cmp(&value(b))) {
        Some(written) => written,
        None => unreachable!("a text is written at every temperature"),
    }
}

/// The likeliest token, or one that is drawn; `None` if no logit is a number.
fn choose(logits: &[f32], temperature: f64, random: &mut ChaCha8Rng) -> Option<u32> {
    let numbers = || (0..).zip(logits).filter(|(_, logit)| logit.is_finite());
    let (best, largest) = numbers().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    if temperature == 0.0 {
        return Some(best);
    }
    let weight = |logit: f32| ((f64::from(logit) - f64::from(*largest)) / temperature).exp();
    let all: f64 = numbers().map(|(_, logit)| weight(*logit)).sum();
    let mut left = random.random::<f64>() * all;
    for (id, logit) in numbers() {
        left -= weight(*logit);
        if left < 0.0 {
            return Some(id);
        }
    }
    Some(best)
}

fn log_probability(logits: &[f32], id: u32) -> f64 {
    f64::from(RowFacts::of(logits).log_probability(logits[id as usize]))
}

/// How many times smaller zlib makes a text. As zlib does, the smaller of a block with codes of its own and one with the fixed codes
/// counts: of a short text, codes of its own are larger than what they save.
fn compression(text: &str) -> f64 {
    let size = |strategy: CompressionStrategy| {
        let flags = create_comp_flags_from_zip_params(6, 15, strategy as i32);
        let mut bytes = 0;
        compress_to_output(&mut CompressorOxide::new(flags), text.as_bytes(), TDEFLFlush::Finish, |part| {
            bytes += part.len();
            true
        });
        bytes
    };
    let bytes = size(CompressionStrategy::Default).min(size(CompressionStrategy::Fixed));
    text.len() as f64 / bytes.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_much_smaller_as_zlib_makes_them() {
        // By zlib 1.2.13, whose ratios OpenAI's threshold is for.
        for (text, zlib) in [(". ".repeat(27), 4.08), ("Thank you. ".repeat(8), 3.95)] {
            let ratio = compression(text.trim());
            assert!((ratio / zlib - 1.0).abs() < 0.02, "{text}: {ratio}, zlib {zlib}");
        }
    }

    #[test]
    fn the_best_text_is_kept() {
        let chosen = |texts: &[(f64, bool, bool)]| {
            let text = |(at, (log_probability, repeats, ends)): (usize, &(f64, bool, bool))| Written {
                ids: vec![at as u32],
                log_probability: *log_probability,
                silence: 0.0,
                ends: *ends,
                repeats: *repeats,
            };
            best(texts.iter().enumerate().map(text).collect()).ids[0]
        };
        let (says, repeats) = (|value| (value, false, true), |value| (value, true, true));
        assert_eq!(chosen(&[says(-1.4), says(-1.2), says(-3.0)]), 1, "none is certain");
        assert_eq!(chosen(&[says(-1.1), says(-0.9)]), 1);
        assert_eq!(chosen(&[repeats(-0.4), says(-0.6)]), 1, "a loop");
        assert_eq!(chosen(&[repeats(-0.14), repeats(-0.2), says(-0.87)]), 0, "said again and again");
        assert_eq!(chosen(&[repeats(-0.2), repeats(-0.1), says(-4.0)]), 1);
        assert_eq!(chosen(&[(-0.01, true, false), says(-1.5)]), 1, "a loop without an end");
        assert_eq!(chosen(&[(-0.1, true, false), (-0.1, true, false)]), 0, "the first of the best");
    }

    #[test]
    fn tokens_are_the_likeliest_or_drawn() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let logits = [f32::NEG_INFINITY, 1.0, 3.0, f32::NAN, 3.0];
        assert_eq!(choose(&logits, 0.0, &mut random), Some(2), "the first of the largest");
        let drawn: Vec<u32> = (0..200).filter_map(|_| choose(&logits, 1.0, &mut random)).collect();
        assert!([1, 2, 4].iter().all(|id| drawn.contains(id)) && !drawn.contains(&0));
        assert_eq!(choose(&[f32::NAN], 0.0, &mut random), None);
    }

    #[test]
    fn probabilities_are_of_the_tokens_that_are_allowed() {
        let logits = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY, 2.0f32.ln()];
        assert!((log_probability(&logits, 3).exp() - 2.0 / 3.0).abs() < 1e-6);
        assert!((log_probability(&logits, 1).exp() - 1.0 / 3.0).abs() < 1e-6);
    }
}
